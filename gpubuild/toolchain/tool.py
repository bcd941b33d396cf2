"""Tool: one external program or library, with the identity that goes into keys."""

from __future__ import annotations

from pathlib import Path

from gpubuild.support.frozen import field, frozen


@frozen
class Tool:
    """A tool that was found.

    ``command`` starts its command line (``("/…/ziglang/zig", "ld.lld")``); for a library or a
    folder it is its path alone. ``fingerprint`` is a digest of content, never of a version string.
    ``source`` says why this one was taken: ``PyPI package ziglang``, ``GPUBUILD_CC``, ``system``.
    """

    name: str
    command: tuple[str, ...]
    version: str
    fingerprint: str
    source: str = field(default="", compare=False)

    @property
    def path(self) -> Path:
        """The file or folder itself."""
        return Path(self.command[0])
