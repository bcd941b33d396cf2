"""Inline assembly for AMD GPUs: llvmlite has no assembler for them, and the linker has.

A module with inline assembly goes to ld.lld as bitcode, whose link-time code generation then does
what llvmlite does for other modules. ROCm's printf needs this too.
"""

from __future__ import annotations

import re

from llvmlite import binding

from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import StepError
from gpubuild.toolchain.run import run_tool

_ASM = re.compile(r'(?:^|\s)asm (?:[a-z]+ )*"', re.MULTILINE)  # quotes inside strings are escaped
_BITCODE_FILE, _ASSEMBLY_FILE = "module.bc", "module.s"


def uses_inline_assembly(module: binding.ModuleRef) -> bool:
    """Whether any is left in ``module``, in its functions or of its own."""
    return _ASM.search(str(module)) is not None


def emit_assembly(
    module: binding.ModuleRef, io: StepIO, *, chip: str, features: str, opt_level: int, what: str
) -> tuple[str, list[str]]:
    """Assembly text, and the linker's arguments that make the same code into an object.

    ``what`` is for messages. Raises ``StepError`` with the assembler's complaint.
    """
    (io.scratch / _BITCODE_FILE).write_bytes(module.as_bitcode())
    # The module is optimised already, so that only code generation is left to the linker.
    arguments = [f"-plugin-opt=mcpu={chip}", "--lto-O0", f"--lto-CGO{opt_level}", _BITCODE_FILE]
    if features:
        arguments.insert(1, f"-plugin-opt=-mattr={features}")
    command = [*io.tool("ld.lld"), "-shared", *arguments, "--lto-emit-asm", "-o", _ASSEMBLY_FILE]
    run_tool(command, cwd=io.scratch).check(what)
    # Versions of the linker differ in what they append to the name.
    written = sorted(io.scratch.glob(f"{_ASSEMBLY_FILE}*"))
    if not written:
        raise StepError(
            f"{what}: ld.lld wrote no assembly",
            hint="inline assembly for AMD GPUs needs an ld.lld with LLVM's AMDGPU target, such as ziglang's",
        )
    return written[0].read_text(encoding="utf-8"), arguments
