"""Link host objects, archives and the runtime into one executable.

With ``offload: clang``, clang-linker-wrapper runs in front of the compiler that links.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from gpubuild.engine.cc import undefined_symbols
from gpubuild.engine.cc.driver import first_lines, run_driver
from gpubuild.engine.cc.link_inputs import LinkReads
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import StepError
from gpubuild.model.step import LinkParams
from gpubuild.toolchain.clang_linker_wrapper import CUDA, WRAPPER, hidden, wrapper_options
from gpubuild.toolchain.run import ToolRun, run_tool

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
    if symbols := undefined_symbols.undefined_symbols(output):
        message, hint = undefined_symbols.describe(symbols), undefined_symbols.hint(symbols)
    elif symbols := undefined_symbols.duplicate_symbols(output):
        message, hint = (
            undefined_symbols.describe_duplicates(symbols),
            undefined_symbols.duplicate_hint(symbols),
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
