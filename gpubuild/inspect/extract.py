"""Extract: write the images of an inspection into a folder."""

from __future__ import annotations

from pathlib import Path

from gpubuild.errors import UsageError
from gpubuild.inspect.records import Inspection, Object
from gpubuild.support.atomic_write import write_atomically
from gpubuild.targets.registry import vendor

_LONGEST_PART = 100


def extract(inspection: Inspection, directory: Path) -> list[Path]:
    """Write every image as ``<module>.<target>.<suffix>`` and return the paths, in file order.

    Names come from a file of unknown origin: they are reduced to letters, digits, ``_``, ``-`` and
    ``+`` and never leave ``directory``. Files of these names are replaced.
    Raises ``UsageError`` when the folder cannot be written.
    """
    written: list[Path] = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for module in inspection.modules:
            for item in module.objects:
                stem = f"{_plain(module.name or 'module')}.{_plain(item.target or item.chip or 'object')}"
                path = _unused(directory, stem, _suffix(item), written)
                # This replaces a link, and never writes through it.
                write_atomically(path, item.data.rstrip(b"\0") if item.format == "assembly" else item.data)
                written.append(path)
    except OSError as error:
        raise UsageError(f"cannot extract into {directory}: {error.strerror}") from error
    return written


def _unused(directory: Path, stem: str, suffix: str, taken: list[Path]) -> Path:
    path, number = directory / f"{stem}.{suffix}", 1
    while path in taken:
        number += 1
        path = directory / f"{stem}.{number}.{suffix}"
    return path


def _plain(name: str) -> str:
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_-+") else "_" for c in name)
    return kept[:_LONGEST_PART] or "_"


def _suffix(item: Object) -> str:
    if item.format == "assembly":
        return vendor(item.kind).asm_suffix if item.kind else "s"
    if item.format == "bin" and item.kind:
        return vendor(item.kind).object_suffix
    return {"fatbin": "fatbin", "offload": "bc"}.get(item.format, "bin")
