"""Assembly of AMD GPUs: what its metadata says about kernels, and inline assembly.

What the metadata in AMD assembly says about kernels: registers, spills and workgroup memory.

Inline assembly for AMD GPUs: llvmlite has no assembler for them, and the linker has.

A module with inline assembly goes to ld.lld as bitcode, whose link-time code generation then does
what llvmlite does for other modules. ROCm's printf needs this too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from llvmlite import binding

from gpubuild.engine.backends.gpu_compile import KernelInfo
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import StepError
from gpubuild.toolchain.run import run_tool


def parse_assembly(text: str, names: Sequence[str]) -> list[KernelInfo]:
    """What the ``amdhsa.kernels`` metadata at the end of LLVM's assembly says of ``names``."""
    _, _, metadata = text.partition(".amdgpu_metadata")
    found: dict[str, dict[str, str]] = {}
    entry: dict[str, str] = {}
    for line in metadata.partition(".end_amdgpu_metadata")[0].splitlines():
        # A kernel's own fields are indented by four; its arguments' fields by more.
        if line.startswith("  - "):
            entry = {}
        if match := re.match(r"(?:  - |    )\.(\w+): +(.*)$", line):
            entry[match[1]] = match[2].strip("'\"")
            if match[1] == "name":
                found[entry["name"]] = entry
    return [_kernel(name, found.get(name, {})) for name in names]


def _kernel(name: str, fields: dict[str, str]) -> KernelInfo:
    def number(field: str) -> int | None:
        value = fields.get(field, "")
        return int(value) if value.isdigit() else None

    spills = number("vgpr_spill_count")
    return KernelInfo(
        name=name,
        registers=number("vgpr_count"),
        shared_bytes=number("group_segment_fixed_size"),
        spill_bytes=None if spills is None else 4 * spills,  # a register of a lane has 4 bytes
    )


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
