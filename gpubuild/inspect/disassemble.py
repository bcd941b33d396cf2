"""Disassemble: machine code as text, by whichever disassembler of the machine knows it.

None is needed to build, so none comes with gpubuild: LLVM's objdump for AMD and CPU code (older
ones do not know newer chips, so several are tried), NVIDIA's nvdisasm or cuobjdump for cubins. PTX
is text already.

Extract: write the images of an inspection into a folder.
"""

from __future__ import annotations

import re
import site
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from gpubuild.errors import GpubuildError, ToolNotFoundError, UsageError
from gpubuild.inspect.records import Inspection, Object
from gpubuild.settings import Settings
from gpubuild.support.files import write_atomically
from gpubuild.targets.registry import vendor
from gpubuild.toolchain.run import run_tool

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


_NUMBERED = re.compile(r"llvm-objdump-(\d+)$")


def disassemble(item: Object, settings: Settings) -> str:
    """Return the code of one object as text. Raises ``ToolNotFoundError`` without a disassembler for it."""
    if item.format == "assembly":
        return item.data.rstrip(b"\0").decode(errors="replace")
    if item.format != "bin" or item.kind is None:
        raise ToolNotFoundError(f"there is no disassembler for {item.format} images")
    tried = []
    with TemporaryDirectory(prefix="gpubuild-inspect-") as folder:
        path = Path(folder) / "object"
        path.write_bytes(item.data)
        for command in _commands(item.kind, item.chip or "", settings):
            try:
                done = run_tool([*command, path], cwd=Path(folder), timeout_seconds=60)
            except GpubuildError as error:
                tried.append(error.message)
                continue
            text = done.stdout.decode(errors="replace")
            if done.returncode == 0 and text.strip():
                return text.replace(str(path), "object").lstrip("\n")
            tried.append(f"{command[0]}: {(done.output.strip() or 'no output').splitlines()[0]}")
    raise ToolNotFoundError(
        f"no disassembler here reads {item.chip or item.kind} code"
        + "".join(f"\n  {reason}" for reason in tried),
        hint=vendor(item.kind).disassembler_fix,
    )


def _commands(kind: str, chip: str, settings: Settings) -> Iterable[list[Path | str]]:
    for program, *arguments in vendor(kind).disassemblers(chip):
        for path in _objdumps(settings) if program == "llvm-objdump" else _find(program, settings):
            yield [path, *arguments]


def _objdumps(settings: Settings) -> list[Path]:
    """Return all programs llvm-objdump, newest first by their names."""
    numbered = [
        path for folder in settings.search_path for path in folder.glob("llvm-objdump-*") if path.is_file()
    ]
    versions = {path: int(m[1]) for path in numbered if (m := _NUMBERED.search(path.name))}
    return [
        *sorted(versions, key=lambda path: -versions[path]),
        *_find("llvm-objdump", settings),
    ]


def _find(name: str, settings: Settings) -> list[Path]:
    """Return programs of a name: in installed wheels, in this Python's scripts, on PATH."""
    roots = [Path(sysconfig.get_path("purelib")), *map(Path, site.getsitepackages())]
    places = [path for root in roots for path in sorted(root.glob(f"nvidia/*/bin/{name}"), reverse=True)]
    places += [root / "llvm" / "bin" / name for root in roots]
    places += [folder / name for folder in (Path(sysconfig.get_path("scripts")), *settings.search_path)]
    return [path for path in dict.fromkeys(p.absolute() for p in places) if path.is_file()]
