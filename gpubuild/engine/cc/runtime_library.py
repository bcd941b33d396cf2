"""Runtime library: compile ``libgpubuild_rt.a`` from the package's own C files."""

from __future__ import annotations

from gpubuild.engine.cc.driver import first_lines, run_driver
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import StepError
from gpubuild.model.step import RuntimeParams

_SOURCE_SUFFIXES = (".c", ".S")
_FLAGS = ("-std=c11", "-pthread", "-fPIC", "-g0", "-frandom-seed=0", "-fno-sanitize=undefined")
_ARCHIVE = "libgpubuild_rt.a"
# What runs once, waits for a driver or prints: optimised in full, a seventh of the library's compile time.
_NEVER_HOT = frozenset(
    {
        "choose.c", "cpu_check_report.c", "cpu_check_text.c", "cpu_chip.c", "cpu_module.c", "cuda_open.c",
        "decide.c", "device_cuda.c", "device_hip.c", "device_hip_assert.c", "env.c", "image.c", "library.c",
        "message.c", "print.c", "print_memref.c", "profile.c", "tensor_map.c",
    }
)  # fmt: skip


def run(params: RuntimeParams, io: StepIO) -> None:
    """Compile every ``.c`` and ``.S`` input beside the headers, and put the objects into ``archive``.

    Inputs keep their file names, which is how they include each other. Raises ``StepError``.
    """
    folder = io.scratch / "runtime"
    folder.mkdir()
    for name in io.input_names:
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
    return min(params.opt_level, 1) if name in _NEVER_HOT else params.opt_level
