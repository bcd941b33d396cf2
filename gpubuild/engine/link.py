"""Link: host objects, archives and the runtime into one executable."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpubuild.engine import clang_link, undefined
from gpubuild.engine.driver import first_lines, run_driver
from gpubuild.engine.io import StepIO
from gpubuild.engine.link_reads import LinkReads
from gpubuild.errors import StepError
from gpubuild.model.params import LinkParams
from gpubuild.toolchain.run import ToolRun

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
            if params.wrapper_triple and (error := clang_link.explain(output)) is not None:
                error.output = first_lines(made.stderr)
                raise error
            raise _refused(output, first_lines(made.stderr), params.flags)
        if made.stderr.strip():
            io.warn("the linker says: " + first_lines(made.stderr))
        reads.discover()
        io.write("executable", (io.scratch / _OUTPUT).read_bytes())


def _run(params: LinkParams, io: StepIO, driver: str, arguments: list[str]) -> ToolRun:
    if params.wrapper_triple:
        return clang_link.run_wrapper(params, io, driver, arguments)
    return run_driver(io, driver, arguments)


def _refused(output: str, shown: str, flags: Sequence[str]) -> StepError:
    if symbols := undefined.undefined_symbols(output):
        message, hint = undefined.describe(symbols), undefined.hint(symbols)
    elif symbols := undefined.duplicate_symbols(output):
        message, hint = undefined.describe_duplicates(symbols), undefined.duplicate_hint(symbols)
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
