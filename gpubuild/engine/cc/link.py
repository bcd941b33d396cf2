"""Link host objects, archives and the runtime into one executable.

With ``offload: clang``, clang-linker-wrapper runs in front of the compiler that links.

Undefined: what linkers say about symbols that nobody defines, or two files do, and what to do.

Link reads: files that a linker reads beside its inputs: libraries, and what flags name.

No key covers them, because only the linker knows where it finds ``-lfoo``. It lists them in a
dependency file, as a preprocessor does headers; a result holds while they are as they were.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gpubuild.engine.cc.driver import first_lines, run_driver
from gpubuild.engine.cc.preprocess import parse_depfile
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import InputChangedError, StepError
from gpubuild.model.digest import digest_file
from gpubuild.model.step import LinkParams
from gpubuild.plan.library_search import OF_COMPILER, SYSTEM_FOLDERS
from gpubuild.settings import closed_environment
from gpubuild.toolchain.clang_linker_wrapper import CUDA, WRAPPER, hidden, wrapper_options
from gpubuild.toolchain.run import ToolRun, run_tool

# GNU ld, gold and mold · lld (and zig, which runs lld or prints in its manner)
_PATTERNS = (
    re.compile(r"undefined reference to [`'](?P<symbol>.+)'"),
    re.compile(r"undefined symbol: (?P<symbol>.+)"),
)
_DUPLICATE_PATTERNS = (
    re.compile(r"multiple definition of [`'](?P<symbol>.+?)'"),
    re.compile(r"duplicate symbol: (?P<symbol>.+)"),
)
_ENTRY_POINTS = ("main", "_main")
_MAX_NAMED = 8
_WRAPPERS = "mgpu"  # of all such functions, these alone are not in the runtime library
_OF_FLAGS = ("__asan_", "__ubsan_", "__tsan_", "__lsan_", "__msan_", "GOMP_", "__kmpc_", "omp_")
NO_SPARSE = "belongs to upstream's cuSPARSE wrappers, which the runtime library does not have"


def undefined_symbols(output: str) -> list[str]:
    """Names of the symbols a linker found no definition of, sorted, each once."""
    return _named_by(_PATTERNS, output)


def duplicate_symbols(output: str) -> list[str]:
    """Names of the symbols a linker found more than one definition of, sorted, each once."""
    return _named_by(_DUPLICATE_PATTERNS, output)


def describe(symbols: list[str]) -> str:
    """The sentence that names those that are undefined."""
    return f"nothing defines {_listed(symbols)}"


def describe_duplicates(symbols: list[str]) -> str:
    """The sentence that names those that are defined more than once."""
    return f"{_listed(symbols)} {'is' if len(symbols) == 1 else 'are'} defined more than once"


def duplicate_hint(symbols: list[str]) -> str:
    """What to do about symbols that are defined more than once."""
    if any(symbol in _ENTRY_POINTS for symbol in symbols):
        return "a program has one main: list one of the files only, or make a program of each"
    return "rename one of them, make it `static` in C, or list one of the files only"


def _named_by(patterns: Iterable[re.Pattern[str]], output: str) -> list[str]:
    found = set()
    for line in output.splitlines():
        for pattern in patterns:
            if match := pattern.search(line):
                found.add(match["symbol"].strip())
                break
    return sorted(found)


def _listed(symbols: list[str]) -> str:
    more = f" and {len(symbols) - _MAX_NAMED} more" if len(symbols) > _MAX_NAMED else ""
    return ", ".join(symbols[:_MAX_NAMED]) + more


def undefined_hint(symbols: list[str]) -> str:
    """What to do about the first of them that there is special advice for."""
    for symbol in symbols:
        if symbol in _ENTRY_POINTS:
            return (
                "a program needs a main: add a C source with `int main(void)`, or `func.func @main` in MLIR"
            )
        if symbol.startswith(_OF_FLAGS):
            return (
                "an option such as -fsanitize=… or -fopenmp under `host: flags:` calls for a library: "
                "give it under `link: flags:`, too"
            )
        if symbol.startswith(_WRAPPERS):
            return (
                f"{symbol} {NO_SPARSE}: operations on sparse matrices and their vectors cannot be linked. "
                "Write kernels for them, or add a library that defines it under link: {libraries: […]}"
            )
        if symbol.startswith("_mlir_ciface_"):
            name = symbol.removeprefix("_mlir_ciface_")
            return (
                f"define {symbol} in a C source, or, if @{name} is MLIR, "
                f"give it the attribute llvm.emit_c_interface"
            )
    return (
        "did you forget a source under sources:, or a library under link: {libraries: […]}? "
        "A function that C calls from MLIR must be public there and may need llvm.emit_c_interface"
    )


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


_OUTPUT = "program"
# GNU ld, LLVM's, and zig's own words.
_NO_LIBRARY = re.compile(r"(?:cannot find|unable to find \w* ?(?:system )?library) '?(?:-l)?([\w.+-]+)")
_SYSTEM_LIBRARIES = ("-lm", "-ldl", "-lpthread")
# No build id: it is made of everything else and says nothing more.
_REPRODUCIBLE = ("-Wl,--build-id=none",)


def run(params: LinkParams, io: StepIO) -> None:
    """Write ``executable``: the same bytes wherever and by whomever it is linked.

    Every input is copied to a fixed name in the scratch folder first, because names of objects
    reach symbol tables. Raises ``StepError`` that names undefined symbols and says what to do.
    """
    with io.stage("link"):
        objects, archives = [], []
        for name in io.input_names:
            role, _, number = name.partition(".")
            if role == "object":
                objects.append(io.copy_in(name, f"object{number}.o").name)
            elif role in ("archive", "runtime"):
                archives.append(io.copy_in(name, f"{role}{number}.a").name)
        # Archives may need each other and the runtime, in any order.
        grouped = ("-Wl,--start-group", *archives, "-Wl,--end-group") if archives else ()
        if params.shared:
            grouped = ("-shared", "-Wl,--whole-archive", *archives, "-Wl,--no-whole-archive")
        driver = "cxx" if params.cxx else "cc"
        arguments = [
            "-o", _OUTPUT, *objects, *grouped, *_REPRODUCIBLE, *strip_flags(params),
            *params.flags, *(library_flag(name) for name in params.libraries), *_SYSTEM_LIBRARIES,
        ]  # fmt: skip
        reads = LinkReads(params, io)
        made = _run(params, io, driver, [*arguments, *reads.flags])
        if made.returncode and reads.is_refused(made.stderr.decode(errors="replace")):
            made = _run(params, io, driver, arguments)
        if made.returncode < 0:
            made.check("linking")
        if made.returncode:
            output = made.stderr.decode(errors="replace")
            if params.wrapper_triple and (error := explain(output)) is not None:
                raise error.with_(output=first_lines(made.stderr))
            raise _refused(output, first_lines(made.stderr), params.flags)
        if made.stderr.strip():
            io.warn("the linker says: " + first_lines(made.stderr))
        reads.discover()
        io.write("executable", (io.scratch / _OUTPUT).read_bytes())


def _run(params: LinkParams, io: StepIO, driver: str, arguments: list[str]) -> ToolRun:
    if params.wrapper_triple:
        return run_wrapper(params, io, driver, arguments)
    return run_driver(io, driver, arguments)


def _refused(output: str, shown: str, flags: Sequence[str]) -> StepError:
    if symbols := undefined_symbols(output):
        message, hint = describe(symbols), undefined_hint(symbols)
    elif symbols := duplicate_symbols(output):
        message, hint = (
            describe_duplicates(symbols),
            duplicate_hint(symbols),
        )
    else:
        return StepError("cannot link", output=shown, hint=library_or_flag_hint(output, flags))
    return StepError(f"cannot link: {message}", output=shown, hint=hint)


def library_or_flag_hint(output: str, flags: Sequence[str] = ()) -> str:
    """What to do about a linker's complaint that is not about symbols."""
    if missing := _NO_LIBRARY.search(output):
        folder = next((flag[2:] for flag in flags if re.match(r"-L[^/]", flag)), "")
        if folder:
            return (
                f"programs are linked in a folder of their own, where {folder} means nothing: list "
                f"{folder}/lib{missing[1]}.a under sources:, or give -L the whole path"
            )
        return f"install the library {missing[1]}, or correct `link: libraries:` in targets.yaml"
    if "unrecognized" in output or "unknown argument" in output or "unsupported linker" in output:
        return "correct `link: flags:` in targets.yaml: they are given to the C compiler as they are"
    return ""


def strip_flags(params: LinkParams) -> tuple[str, ...]:
    """Without ``debug`` no debug information: the C library's parts that zig compiles name its folders."""
    return () if params.debug else ("-Wl,--strip-debug",)


def library_flag(name: str) -> str:
    """``m`` is what the linker calls ``-lm``; a path stays one."""
    return name if "/" in name or name.startswith("-") else f"-l{name}"


_UNKNOWN_CHIP = re.compile(r"nvlink fatal +: Value '(sm_\w+)' is not defined for option 'arch'")
_DUPLICATES = re.compile(r"duplicate symbol: (.+)|Multiple definition of '(.+?)'")


def run_wrapper(params: LinkParams, io: StepIO, driver: str, arguments: Sequence[str | Path]) -> ToolRun:
    """Have the wrapper link device code and then run tool ``driver`` with ``arguments`` and the result.

    Raises ``StepError`` when the driver is not one program.
    """
    linker = io.tool(driver)
    if len(linker) != 1:
        raise StepError(
            f"offload: clang cannot link with {' '.join(linker)}: {WRAPPER} runs a command of one word only",
            hint="install gcc or clang with the C library's development files, or set GPUBUILD_CC",
        )
    cuda = [f"--cuda-path={io.tool(CUDA)[0]}"] if io.has_tool(CUDA) else []
    command = [
        *io.tool(WRAPPER),
        *wrapper_options(params.wrapper_triple),
        *cuda,
        f"--linker-path={linker[0]}",
        *(hidden(str(argument)) for argument in arguments),
    ]
    # Its intermediate files lie where the step's own do, and go with them.
    environment = {"TMPDIR": str(io.scratch), "SOURCE_DATE_EPOCH": "0"}
    return run_tool(command, cwd=io.scratch, environment=environment)


def explain(output: str) -> StepError | None:
    """What to tell about a failed link of device code; ``None`` where that is not what failed."""
    names = sorted({one or other for one, other in _DUPLICATES.findall(output)})
    if unknown := _UNKNOWN_CHIP.search(output):
        return StepError(
            f"cannot link: the nvlink found does not know {unknown[1]}",
            hint="set CUDA_PATH to a CUDA that has the chip, or leave the target out of this program",
        )
    if not names:
        return None
    return StepError(
        f"cannot link: {', '.join(names)} is defined more than once",
        hint="offload: clang links the kernels of all gpu.modules for a chip into one image, so their names "
        "must differ: rename one, or use offload: dispatch",
    )
