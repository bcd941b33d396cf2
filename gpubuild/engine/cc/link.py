"""Link host objects, archives and the runtime into an executable or, for ``library``, another product.

With ``offload: clang``, clang-linker-wrapper links device code and then runs the compiler that links.
Linkers also read files beside the inputs: libraries, and files named in flags. No key covers them,
because only the linker knows where it finds ``-lfoo``. It lists them in a dependency file, and a result
is valid while they are unchanged, as with C headers.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gpubuild.engine.cc.driver import first_lines, run_driver
from gpubuild.engine.cc.preprocess import parse_depfile
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import NOTHING_DEFINES, InputChangedError, StepError
from gpubuild.model.digest import digest_file
from gpubuild.model.step import LinkParams
from gpubuild.plan.library_search import OF_COMPILER
from gpubuild.settings import closed_environment
from gpubuild.toolchain import runtime_library
from gpubuild.toolchain.clang_linker_wrapper import CUDA, WRAPPER, hidden, wrapper_options
from gpubuild.toolchain.run import ToolRun, run_tool

# GNU ld, gold and mold · lld, and zig, which runs lld or prints like it
_UNDEFINED = re.compile(r"undefined (?:reference to [`'](.+)'|symbol: (.+))")
_DUPLICATE = re.compile(r"multiple definition of [`'](.+?)'|duplicate symbol: (.+)")
_ENTRY_POINTS = ("main", "_main")
_MAX_NAMED = 8
_OF_FLAGS = ("__asan_", "__ubsan_", "__tsan_", "__lsan_", "__msan_", "GOMP_", "__kmpc_", "omp_")
# GNU ld · LLVM's linker and zig
_NO_LIBRARY = re.compile(r"(?:cannot find|unable to find \w* ?(?:system )?library) '?(?:-l)?([\w.+-]+)")


def link_error(output: str, shown: str, flags: Sequence[str] = ()) -> StepError:
    """Return the error for a link that failed with ``output``, of which the message shows ``shown``."""
    if symbols := _symbols(_UNDEFINED, output):
        message, hint = f"{NOTHING_DEFINES}{_listed(symbols)}", undefined_hint(symbols)
    elif symbols := _symbols(_DUPLICATE, output):
        verb = "is" if len(symbols) == 1 else "are"
        message = f"cannot link: {_listed(symbols)} {verb} defined more than once"
        hint = "rename one of them, make it `static` in C, or list one of the files only"
        if any(symbol in _ENTRY_POINTS for symbol in symbols):
            hint = "a program has one main: list one of the files only, or make a program of each"
    else:
        message, hint = "cannot link", _library_or_flag_hint(output, flags)
    return StepError(message, output=shown, hint=hint)


def _symbols(pattern: re.Pattern[str], output: str) -> list[str]:
    found = map(pattern.search, output.splitlines())
    return sorted({(match[1] or match[2]).strip() for match in found if match})


def _listed(symbols: list[str]) -> str:
    more = f" and {len(symbols) - _MAX_NAMED} more" if len(symbols) > _MAX_NAMED else ""
    return ", ".join(symbols[:_MAX_NAMED]) + more


def undefined_hint(symbols: list[str]) -> str:
    """Return what to do about the first of ``symbols`` for which there is special advice."""
    for symbol in symbols:
        if symbol in _ENTRY_POINTS:
            return (
                "a program needs a main: add a C source with `int main(void)`, or `func.func @main` in MLIR"
            )
        if symbol.startswith(_OF_FLAGS):
            return (
                "an option such as -fsanitize=… or -fopenmp under `host: flags:` needs a library: "
                "write it under `link: flags:`, too"
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


def _library_or_flag_hint(output: str, flags: Sequence[str]) -> str:
    if missing := _NO_LIBRARY.search(output):
        folder = next((flag[2:] for flag in flags if re.match(r"-L[^/]", flag)), "")
        if folder:
            return (
                f"programs are linked in a folder of their own, where {folder} means nothing: list "
                f"{folder}/lib{missing[1]}.a under sources:, or give -L the whole path"
            )
        return f"install the library {missing[1]}, or correct `link: libraries:` in targets.yaml"
    if "unrecognized" in output or "unknown argument" in output or "unsupported linker" in output:
        return "correct `link: flags:` in targets.yaml, which the C compiler gets unchanged"
    return ""


_LIST = "reads.d"
# Files of other kinds are linker scripts, which name more files.
_THIN = b"!<thin>\n"
_WHOLE = (b"\x7fELF", b"!<arch>\n", b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
_START_FILE = re.compile(r"\w*crt\w*\.o")
_SYSTEM_FILE = re.compile(
    r"lib(gcc\w*|c|c_nonshared|m|m-[\d.]+|mvec|dl|pthread|rt|stdc\+\+|c\+\+)\.(a|so[\d.]*)"
)
_LOADER = re.compile(r"ld[\w-]*\.so[\d.]*")


class LinkReads:
    """Find the files that a link reads. Created before the linker starts, which gets ``flags``."""

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
        """Return whether the linker has no dependency files: gold, and GNU ld before 2.35."""
        return bool(self.flags) and "dependency-file" in message

    def discover(self) -> None:
        """Record the files that were read. Raises ``InputChangedError`` when one changed meanwhile."""
        if not self.flags:
            return
        listed = self._listed()
        if self._referring and not listed:
            raise StepError(
                f"{self._referring} names other files, and this linker does not list which of them it reads",
                hint="list those files under `sources:`, or link with GNU ld or ld.lld",
            )
        if listed is None:
            listed = [Path(name) for name in self._params.present]
        files = dict.fromkeys(listed)
        for named in (*self._named_by_flags(), *self._chosen_linker()):
            # A flag may also name an output, such as a map of the program.
            if named not in files and named.is_file() and named.stat().st_ctime_ns < self._began_ns:
                files[named] = None
        for file in files:
            try:
                digest = digest_file(file)
                changed = file.stat().st_ctime_ns > self._began_ns
            except OSError:
                changed = True
            if changed:
                raise InputChangedError(
                    f"{file} changed while it was linked", hint="build again; nothing was stored"
                )
            dotted = ".." in file.parts  # how compilers spell the system's folders
            self._io.discover(Path(os.path.realpath(file.parent), file.name) if dotted else file, digest)

    def _listed(self) -> list[Path] | None:
        """Return what the linker listed, without known files; ``None`` if it wrote no list."""
        text = (self._io.scratch / _LIST).read_text(errors="surrogateescape")
        files = [self._io.scratch / name for name in parse_depfile(text)] if text else []
        system = {os.path.realpath(f.parent) for f in files if _START_FILE.fullmatch(f.name)}
        if not system:
            return None  # with `zig cc` the compiler writes a dependency file, not the linker
        return [file for file in files if not self._is_known(file, system)]

    def _is_known(self, file: Path, system: set[str]) -> bool:
        """Return whether a file is the step's own, the compiler's, or was temporary (``-flto``)."""
        if file.is_relative_to(self._io.scratch) or not file.exists():
            return True
        in_system = os.path.realpath(file.parent) in system
        name = file.name
        return bool(_LOADER.fullmatch(name)) or (
            in_system and bool(_START_FILE.fullmatch(name) or _SYSTEM_FILE.fullmatch(name))
        )

    def _named_by_flags(self) -> list[Path]:
        """Return absolute paths in flags, such as plugins and specs, which linkers do not list."""
        words = [word for flag in self._params.flags for word in re.split(r"[,=]", flag)]
        return [Path(word) for word in words if word.startswith("/")]

    def _chosen_linker(self) -> Iterator[Path]:
        """Yield the linker that ``-fuse-ld`` names: the compiler's fingerprint covers its default only."""
        chosen = next((f[9:] for f in reversed(self._params.flags) if f.startswith("-fuse-ld=")), "")
        if chosen and not chosen.startswith("/"):
            folders = [flag for flag in self._params.flags if flag.startswith("-B")]
            tool = "cxx" if self._params.cxx else "cc"
            made = run_driver(self._io, tool, [*folders, f"-print-prog-name=ld.{chosen}"])
            found = shutil.which(made.stdout.decode().strip(), path=closed_environment()["PATH"])
            if found:
                yield Path(found)


def _referring(io: StepIO) -> Path | None:
    """Return an input that names other files for the linker to read, if there is one.

    Inputs are in the scratch folder already. Raises ``StepError`` for a thin archive: linkers do not list
    its members, and names relative to it are lost.
    """
    copies = {name.replace(".", ""): name for name in io.input_names}
    for file in sorted(io.scratch.glob("*.[oa]")):
        with file.open("rb") as stream:
            head = stream.read(len(_THIN))
        if file.stem not in copies or head.startswith(_WHOLE):
            continue
        if head == _THIN:
            raise StepError(
                f"{io.path(copies[file.stem])} is a thin archive, which contains only names of its members",
                hint="create it with `ar` without T, or list the members under `sources:`",
            )
        return io.path(copies[file.stem])
    return None


_OUTPUT = "program"
_NO_BUILD_ID = "-Wl,--build-id=none"  # a digest of everything else


def run(params: LinkParams, io: StepIO) -> None:
    """Write ``executable``, whose bytes do not depend on who links it and where.

    Raises ``StepError`` that names undefined symbols and what to do about them.
    """
    with io.stage("link"):
        io.move_out("executable", link(params, io, copy_inputs(io)))


def copy_inputs(io: StepIO) -> dict[str, Path]:
    """Copy or link all inputs into the scratch folder and return the files by role.

    Their names are fixed, because symbol tables contain names of objects.
    """
    files = {}
    for name in io.input_names:
        role, _, number = name.partition(".")
        suffix = "a" if role in ("archive", "runtime") else "o"
        files[name] = io.link_in(name, f"{role}{number}.{suffix}")
    return files


def link(
    params: LinkParams,
    io: StepIO,
    files: Mapping[str, Path],
    mode: Sequence[str] = (),
    libraries: Sequence[str] = runtime_library.LIBRARIES,
) -> Path:
    """Return the file that the inputs in ``files`` are linked into, by flags ``mode`` of the compiler."""
    objects = [file.name for file in files.values() if file.suffix == ".o"]
    archives = [file.name for file in files.values() if file.suffix == ".a"]
    # Archives may need each other and the runtime, in any order.
    grouped = ("-Wl,--start-group", *archives, "-Wl,--end-group") if archives else ()
    driver = "cxx" if params.cxx else "cc"
    # Parts of the C library that zig compiles have debug information with names of folders.
    strip = () if params.debug else ("-Wl,--strip-debug",)
    arguments = [
        *mode, "-o", _OUTPUT, *objects, *grouped, _NO_BUILD_ID, *strip,
        *params.flags, *(f"-l{name}" for name in (*params.libraries, *libraries)),
    ]  # fmt: skip
    reads = LinkReads(params, io)
    made = _run(params, io, driver, [*arguments, *reads.flags])
    if made.returncode and reads.is_refused(made.stderr.decode(errors="replace")):
        made = _run(params, io, driver, arguments)
    if made.returncode < 0:
        made.check("linking")
    if made.returncode:
        output = made.stderr.decode(errors="replace")
        if params.wrapper_triple and (error := device_error(output)) is not None:
            raise error.with_(output=first_lines(made.stderr))
        raise link_error(output, first_lines(made.stderr), params.flags)
    if made.stderr.strip():
        io.warn("the linker printed: " + first_lines(made.stderr))
    reads.discover()
    return io.scratch / _OUTPUT


def _run(params: LinkParams, io: StepIO, driver: str, arguments: list[str]) -> ToolRun:
    if params.wrapper_triple:
        return _run_wrapper(params, io, driver, arguments)
    return run_driver(io, driver, arguments)


_UNKNOWN_CHIP = re.compile(r"nvlink fatal +: Value '(sm_\w+)' is not defined for option 'arch'")
_DUPLICATES = re.compile(r"duplicate symbol: (.+)|Multiple definition of '(.+?)'")


def _run_wrapper(params: LinkParams, io: StepIO, driver: str, arguments: Sequence[str | Path]) -> ToolRun:
    """Link device code by the wrapper, which then runs ``driver`` with ``arguments`` and the result.

    Raises ``StepError`` when the driver is a command of several words.
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
    environment = {"TMPDIR": str(io.scratch), "SOURCE_DATE_EPOCH": "0"}
    return run_tool(command, cwd=io.scratch, environment=environment)


def device_error(output: str) -> StepError | None:
    """Return the error for a failed link of device code, ``None`` if another part failed."""
    names = sorted({one or other for one, other in _DUPLICATES.findall(output)})
    if unknown := _UNKNOWN_CHIP.search(output):
        return StepError(
            f"cannot link: this nvlink does not support {unknown[1]}",
            hint="set CUDA_PATH to a CUDA that has the chip, or leave the target out of this program",
        )
    if not names:
        return None
    return StepError(
        f"cannot link: {', '.join(names)} is defined more than once",
        hint="offload: clang links the kernels of all gpu.modules for a chip into one image, so their names "
        "must differ: rename one, or use offload: dispatch",
    )
