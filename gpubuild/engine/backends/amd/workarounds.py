"""Workarounds of errors in LLVM's code generator for AMD GPUs.

Implicit arguments: LLVM's optimiser infers which of them a kernel needs. Without it, at level 0, a code
object asks for all. HIP then prepares a buffer for calls of the host and a heap for device code before the
launch, and refuses it where it cannot (clr, `rocclr/device/rocm/rocvirtual.cpp`).

Traps on GFX 11.0: these chips ignore `s_trap 2`, and LLVM writes a halting loop instead. Where the trap ends
a block, LLVM skips the blocks after it, and then stops with "Unsupported instruction"
(llvm/llvm-project#208912; fixed after 22.1.8). A function of one block has no others to skip.
"""

from __future__ import annotations

import re

from llvmlite import binding

from gpubuild.engine.ir import llvm
from gpubuild.engine.ir.workarounds import Workaround
from gpubuild.targets.amd import gfx_version

_CALL = re.compile(r"\bcall void @llvm\.trap\(\)(?: #\d+)?")
_FUNCTION = "gpubuild_trap"
_DEFINITION = f"""
define internal void @{_FUNCTION}() cold noinline norecurse noreturn nounwind {{
  call void @llvm.trap()
  unreachable
}}
"""


def move_traps(module: binding.ModuleRef, chip: str) -> binding.ModuleRef:
    """Return ``module`` with its traps in a function of their own where ``chip`` needs that."""
    text = str(module)
    if gfx_version(chip)[:2] != (11, 0) or not _CALL.search(text):
        return module
    text = _CALL.sub(f"call void @{_FUNCTION}()", text) + _DEFINITION
    return llvm.parse_assembly(text, llvm.new_context(module.triple), name="LLVM IR with traps moved")


_READS = "llvm.amdgcn.implicitarg.ptr"
_UNUSED = ("hostcall-ptr", "heap-ptr", "multigrid-sync-arg", "default-queue", "completion-action")
_ATTRIBUTES = " ".join(f'"amdgpu-no-{name}"' for name in _UNUSED)
_KERNEL = re.compile(r"^(define .*\bamdgpu_kernel .*\))(?= (?:[^()\n]* )?\{$)", re.MULTILINE)


def reads_implicit_arguments(module: binding.ModuleRef) -> bool:
    """Return whether ``module``, before libraries are linked, reads implicit arguments itself."""
    return any(function.name == _READS for function in module.functions)


def mark_unused_arguments(module: binding.ModuleRef) -> binding.ModuleRef:
    """Return ``module``, whose libraries are gpubuild's, with its kernels marked."""
    text = _KERNEL.sub(lambda found: f"{found[1]} {_ATTRIBUTES}", str(module))
    return llvm.parse_assembly(text, llvm.new_context(module.triple), name="LLVM IR with kernels marked")


WORKAROUNDS = (
    Workaround(
        name="move_traps",
        bug="blocks after a trap are lost on GFX 11.0",
        seen="llvm/llvm-project#208912, fixed after 22.1.8",
        package="llvmlite",
        remove_when="0.51",
    ),
    Workaround(
        name="mark_unused_arguments",
        bug="at level 0 a kernel asks for all implicit arguments",
        seen="LLVM 22.1.8",
        package="llvmlite",
        remove_when="0.51",
    ),
)
