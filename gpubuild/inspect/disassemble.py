"""Disassemble: machine code as text, by whichever disassembler of the machine knows it.

None is needed to build, so none comes with gpubuild: LLVM's objdump for AMD and CPU code (older
ones do not know newer chips, so several are tried), NVIDIA's nvdisasm or cuobjdump for cubins. PTX
is text already.
"""

from __future__ import annotations

import re
import site
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from gpubuild.errors import GpubuildError, ToolNotFoundError
from gpubuild.inspect.records import Object
from gpubuild.settings import Settings
from gpubuild.targets.registry import vendor
from gpubuild.toolchain.run import run_tool

_NUMBERED = re.compile(r"llvm-objdump-(\d+)$")


def disassemble(item: Object, settings: Settings) -> str:
    """The code of one object. Raises ``ToolNotFoundError`` when nothing here can read it."""
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
    """Every llvm-objdump, newest first as far as names tell."""
    numbered = [
        path for folder in settings.search_path for path in folder.glob("llvm-objdump-*") if path.is_file()
    ]
    versions = {path: int(m[1]) for path in numbered if (m := _NUMBERED.search(path.name))}
    rocm = settings.rocm_path / "llvm" / "bin" / "llvm-objdump" if settings.rocm_path else None
    return [
        *([rocm] if rocm and rocm.is_file() else []),
        *sorted(versions, key=lambda path: -versions[path]),
        *_find("llvm-objdump", settings),
    ]


def _find(name: str, settings: Settings) -> list[Path]:
    """Programs of that name: in wheels beside us, in this Python's scripts, on PATH."""
    roots = [Path(sysconfig.get_path("purelib")), *map(Path, site.getsitepackages())]
    places = [path for root in roots for path in sorted(root.glob(f"nvidia/*/bin/{name}"), reverse=True)]
    places += [root / "llvm" / "bin" / name for root in roots]
    places += [folder / name for folder in (Path(sysconfig.get_path("scripts")), *settings.search_path)]
    return [path for path in dict.fromkeys(p.absolute() for p in places) if path.is_file()]
