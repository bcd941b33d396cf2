"""Runtime library: compile ``libgpubuild_rt.a`` from the package's own C files."""

from __future__ import annotations

from gpubuild.engine.cc.driver import first_lines, run_driver
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import StepError
from gpubuild.model.step import RuntimeParams

_SOURCE_SUFFIXES = (".c", ".S")
_FLAGS = ("-I.", "-std=c11", "-pthread", "-fPIC", "-g0", "-frandom-seed=0", "-fno-sanitize=undefined")
_ARCHIVE = "libgpubuild_rt.a"
# What runs once, waits for a driver or prints: optimised in full, a seventh of the library's compile time.
_NEVER_HOT = (
    "core/", "cpu/cpu_chip.c", "cpu/cpu_module.c", "cuda/", "hip/", "mlir_utils/",
    "sanitizer/report.c",
)  # fmt: skip


def run(params: RuntimeParams, io: StepIO) -> None:
    """Compile every ``.c`` and ``.S`` input and put the objects into ``archive``. Raises ``StepError``.

    Inputs are named relative to the runtime's folder; files include each other by these names.
    """
    folder = io.scratch / "runtime"
    for name in io.input_names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        io.copy_in(name, f"runtime/{name}")
    objects = []
    with io.stage("compile runtime"):
        for name in sorted(n for n in io.input_names if n.endswith(_SOURCE_SUFFIXES)):
            made = run_driver(
                io,
                "cc",
                [
                    "-c", f"-O{_level(name, params)}", *_FLAGS, f"-ffile-prefix-map={folder}=.",
                    "-o", f"{name}.o", name,
                ],
                cwd=folder,
            )  # fmt: skip
            if made.returncode < 0:
                made.check(f"compiling gpubuild's runtime ({name})")
            if made.returncode:
                raise StepError(
                    f"cannot compile gpubuild's runtime ({name})",
                    output=first_lines(made.stderr),
                    hint="gpubuild needs a C11 compiler for Linux; `gpubuild doctor` shows which one it uses",
                )
            objects.append(f"{name}.o")
        if not objects:
            raise StepError("gpubuild's runtime has no sources: the installation is damaged")
    with io.stage("archive runtime"):
        # s: an index; D: no times, owners or modes, so that equal objects give equal archives.
        run_driver(io, "ar", ["rcsD", _ARCHIVE, *objects], cwd=folder).check("archive gpubuild's runtime")
        io.write("archive", (folder / _ARCHIVE).read_bytes())


def _level(name: str, params: RuntimeParams) -> int:
    return min(params.opt_level, 1) if name.startswith(_NEVER_HOT) else params.opt_level
