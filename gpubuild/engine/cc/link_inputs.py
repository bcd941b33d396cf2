"""Link reads: files that a linker reads beside its inputs: libraries, and what flags name.

No key covers them, because only the linker knows where it finds ``-lfoo``. It lists them in a
dependency file, as a preprocessor does headers; a result holds while they are as they were.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from gpubuild.engine.cc.driver import run_driver
from gpubuild.engine.cc.preprocess import parse_depfile
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import InputChangedError, StepError
from gpubuild.model.digest import digest_file
from gpubuild.model.step import LinkParams
from gpubuild.plan.library_search import OF_COMPILER, SYSTEM_FOLDERS
from gpubuild.settings import closed_environment

_LIST = "reads.d"
# What is whole in itself; other inputs are linker scripts.
_THIN = b"!<thin>\n"
_WHOLE = (b"\x7fELF", b"!<arch>\n", b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
_START_FILE = re.compile(r"\w*crt\w*\.o")
_SYSTEM_FILE = re.compile(
    r"lib(gcc\w*|c|c_nonshared|m|m-[\d.]+|mvec|dl|pthread|rt|stdc\+\+|c\+\+)\.(a|so[\d.]*)"
)
_LOADER = re.compile(r"ld[\w-]*\.so[\d.]*")


class LinkReads:
    """Finds out what one link reads. Make it before the linker starts; ``flags`` are for the linker."""

    def __init__(self, params: LinkParams, io: StepIO) -> None:
        self._params = params
        self._io = io
        self._referring = _referring(io)
        libraries = any(name not in OF_COMPILER for name in params.libraries)
        reads_more = bool(params.flags) or libraries or bool(self._referring)
        self.flags = (f"-Wl,--dependency-file={_LIST}",) if reads_more else ()
        if reads_more:
            list_file = io.scratch / _LIST
            list_file.write_bytes(b"")
            self._began_ns = list_file.stat().st_ctime_ns

    def is_refused(self, message: str) -> bool:
        """Whether the linker knows no dependency files: gold, and GNU's before 2.35."""
        return bool(self.flags) and "dependency-file" in message

    def discover(self) -> None:
        """Record what was read. Raises ``InputChangedError`` when a file changed meanwhile."""
        if not self.flags:
            return
        listed = self._listed()
        if self._referring and not listed:
            raise StepError(
                f"{self._referring} names other files, and this linker does not tell which of them it reads",
                hint="list those files under `sources:`, or link with GNU ld or ld.lld",
            )
        files = dict.fromkeys(self._guessed() if listed is None else listed)
        for named in (*self._named_by_flags(), *self._chosen_linker()):
            # What a flag names may as well be written: a map of the program, say.
            if named not in files and named.is_file() and named.stat().st_ctime_ns < self._began_ns:
                files[named] = None
        for named in files:
            file = named
            try:
                digest = digest_file(file)
                changed = file.stat().st_ctime_ns > self._began_ns
            except OSError:
                changed = True
            if changed:
                raise InputChangedError(
                    f"{file} changed while it was linked", hint="build again; nothing was stored"
                )
            if ".." in file.parts:  # the compiler's way to the system's folders
                file = Path(os.path.realpath(file.parent), file.name)
            self._io.discover(file, digest)

    def _listed(self) -> list[Path] | None:
        """What the linker lists besides what is known; ``None`` when it has made no list."""
        text = (self._io.scratch / _LIST).read_text(errors="surrogateescape")
        files = [self._io.scratch / name for name in parse_depfile(text)] if text else []
        system = {os.path.realpath(f.parent) for f in files if _START_FILE.fullmatch(f.name)}
        if not system:
            return None  # of another kind: `zig cc` has its compiler write one
        return [file for file in files if not self._is_known(file, system)]

    def _is_known(self, file: Path, system: set[str]) -> bool:
        """Whether a file is the step's own, the compiler's, or was the driver's and is gone (``-flto``)."""
        if file.is_relative_to(self._io.scratch) or not file.exists():
            return True
        in_system = os.path.realpath(file.parent) in system
        name = file.name
        return bool(_LOADER.fullmatch(name)) or (
            in_system and bool(_START_FILE.fullmatch(name) or _SYSTEM_FILE.fullmatch(name))
        )

    def _words(self) -> list[str]:
        return [word for flag in self._params.flags for word in re.split(r"[,=]", flag)]

    def _named_by_flags(self) -> list[Path]:
        """Plugins and specs are in no linker's list."""
        return [Path(word) for word in self._words() if word.startswith("/")]

    def _chosen_linker(self) -> Iterator[Path]:
        """The program that ``-fuse-ld`` names: the compiler's fingerprint has the one it takes by itself."""
        chosen = next((f[9:] for f in reversed(self._params.flags) if f.startswith("-fuse-ld=")), "")
        if chosen and not chosen.startswith("/"):
            folders = [flag for flag in self._params.flags if flag.startswith("-B")]
            tool = "cxx" if self._params.cxx else "cc"
            made = run_driver(self._io, tool, [*folders, f"-print-prog-name=ld.{chosen}"])
            found = shutil.which(made.stdout.decode().strip(), path=closed_environment()["PATH"])
            if found:
                yield Path(found)

    def _guessed(self) -> Iterator[Path]:
        """Where a linker that keeps no list finds files: what flags name, libraries in the usual folders."""
        words = self._words()
        folders = [Path(word.removeprefix("-L")) for word in words if word.startswith("-L/")]
        folders += [folder for name in SYSTEM_FOLDERS for folder in sorted(Path("/").glob(name[1:]))]
        libraries = [*self._params.libraries, *(w.removeprefix("-l") for w in words if w.startswith("-l"))]
        candidates = [
            folder / f"lib{name}.{suffix}"
            for name in libraries
            if name not in OF_COMPILER
            for folder in folders
            for suffix in ("so", "a")
        ]
        yield from (file for file in dict.fromkeys(candidates) if file.is_file())


def _referring(io: StepIO) -> Path | None:
    """An input, copied to the scratch folder already, that names other files for the linker to read.

    Raises ``StepError`` for a thin archive: no linker lists its members, and names relative to it are lost.
    """
    copies = {name.replace(".", ""): name for name in io.input_names}
    for file in sorted(io.scratch.glob("*.[oa]")):
        with file.open("rb") as stream:
            head = stream.read(len(_THIN))
        if file.stem not in copies or head.startswith(_WHOLE):
            continue
        if head == _THIN:
            raise StepError(
                f"{io.path(copies[file.stem])} is a thin archive, which only names its members",
                hint="make it with `ar` without T, or list the members under `sources:`",
            )
        return io.path(copies[file.stem])
    return None
