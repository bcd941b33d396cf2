"""Implicit arguments of AMD kernels that code of ours never reads, said where LLVM does not find out.

LLVM's optimiser infers which of them a kernel needs; without it, at level 0, a code object asks for all.
HIP then gets a buffer for calls of the host and a heap for device code ready before the launch, and
refuses the launch where it cannot (clr, `rocclr/device/rocm/rocvirtual.cpp`).
"""

from __future__ import annotations

import re

from llvmlite import binding

from gpubuild.engine import llvm

_READS = "llvm.amdgcn.implicitarg.ptr"
_UNUSED = ("hostcall-ptr", "heap-ptr", "multigrid-sync-arg", "default-queue", "completion-action")
_ATTRIBUTES = " ".join(f'"amdgpu-no-{name}"' for name in _UNUSED)
_KERNEL = re.compile(r"^(define .*\bamdgpu_kernel .*\))(?= (?:[^()\n]* )?\{$)", re.MULTILINE)


def reads_its_own(module: binding.ModuleRef) -> bool:
    """Whether ``module``, to which no library has been linked yet, looks at implicit arguments itself."""
    return any(function.name == _READS for function in module.functions)


def say_unused(module: binding.ModuleRef) -> binding.ModuleRef:
    """``module``, whose kernels and libraries are ours, its kernels marked."""
    text = _KERNEL.sub(lambda found: f"{found[1]} {_ATTRIBUTES}", str(module))
    return llvm.parse_assembly(text, llvm.new_context(), name="LLVM IR with kernels marked")
