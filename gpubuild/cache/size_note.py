"""Size note: about how large a cache is, so that a build need not count thousands of files.

An estimate: builds that end at once may lose each other's additions, and what eviction or another
program removes is seen only when somebody counts. Losing the file costs one count.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_NAME = "size"
_MAX_TEXT = 20


def read_note(directory: Path) -> int | None:
    """Bytes in the blobs of the cache ``directory``; ``None`` when nobody has counted."""
    try:
        text = (directory / _NAME).read_bytes()
    except OSError:
        return None
    digits, end = text[:-1], text[-1:]  # without its end a number may have lost digits
    return int(digits) if end == b"\n" and len(digits) <= _MAX_TEXT and digits.isdigit() else None


def write_note(directory: Path, size_bytes: int) -> None:
    """Set the note; failing to is no harm."""
    temporary = directory / "tmp" / f"size-{os.getpid()}-{os.urandom(4).hex()}"
    with suppress(OSError):
        try:
            temporary.write_text(f"{max(0, size_bytes)}\n")
            temporary.replace(directory / _NAME)
        finally:
            temporary.unlink(missing_ok=True)
