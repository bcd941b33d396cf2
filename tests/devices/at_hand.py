"""Devices at hand: asked in a child, as children of a process that has called a driver cannot call it."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from unit.engine.device_steps import in_child

CUDA, HIP, OPENCL, CPU = "cuda", "hip", "opencl", "cpu"
_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR = 75, 76  # CUdevice_attribute
_HIP_CHIP_AT, _HIP_NAME_BYTES = 1160, 256  # of hipDeviceProp_tR0600, which has 1472 bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device as ``GPUBUILD_DEVICE`` calls it (``kind``), its name, and the chip to compile for."""

    kind: str
    name: str
    chip: str


@cache
def cuda() -> Device | None:
    """The first NVIDIA GPU."""
    return in_child(_cuda) if _is_installed("libcuda.so.1") else None


@cache
def hip() -> Device | None:
    """The first AMD GPU."""
    return in_child(_hip) if _is_installed("libamdhip64.so") else None


@cache
def opencl() -> dict[str, str] | None:
    """Variables with which programs find Intel's OpenCL runtime for CPUs (PyPI: intel-opencl-rt)."""
    for prefix in filter(None, (os.environ.get("GPUBUILD_TEST_OPENCL"), sys.prefix)):
        folder = Path(prefix) / "lib"
        if (folder / "libintelocl.so").exists() and (folder / "libOpenCL.so.1").exists():
            found = os.pathsep.join(filter(None, (str(folder), os.environ.get("LD_LIBRARY_PATH"))))
            return {"LD_LIBRARY_PATH": found, "OCL_ICD_FILENAMES": str(folder / "libintelocl.so")}
    return None


NEEDS_OPENCL = pytest.mark.skipif(
    opencl() is None, reason="needs Intel's OpenCL runtime (PyPI: intel-opencl-rt)"
)


def cpu() -> Device:
    """Always there; the least chip that this project's processors have."""
    return Device(kind=CPU, name="CPU", chip="x86-64-v2")


def _is_installed(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _driver(library: str, init: str, count: str) -> ctypes.CDLL | None:
    driver = ctypes.CDLL(library)
    devices = ctypes.c_int()
    if getattr(driver, init)(0) or getattr(driver, count)(ctypes.byref(devices)):
        return None
    return driver if devices.value > 0 else None


def _cuda() -> Device | None:
    driver = _driver("libcuda.so.1", "cuInit", "cuDeviceGetCount")
    if driver is None:
        return None
    name = ctypes.create_string_buffer(256)
    driver.cuDeviceGetName(name, len(name), 0)
    version = []
    for attribute in (_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR):
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, 0)
        version.append(value.value)
    return Device(kind=CUDA, name=name.value.decode(), chip="sm_{}{}".format(*version))


def _hip() -> Device | None:
    driver = _driver("libamdhip64.so", "hipInit", "hipGetDeviceCount")
    if driver is None:
        return None
    properties = ctypes.create_string_buffer(4096)
    if driver.hipGetDevicePropertiesR0600(properties, 0):
        return None
    name = properties.raw[:_HIP_NAME_BYTES].partition(b"\0")[0].decode()
    chip = properties.raw[_HIP_CHIP_AT : _HIP_CHIP_AT + 256].partition(b"\0")[0].decode()
    return Device(kind=HIP, name=name, chip=chip.partition(":")[0])
