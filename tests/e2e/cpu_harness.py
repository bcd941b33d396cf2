"""Compile kernels for the CPU and launch them through the runtime's own C code, by ctypes."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from unit.engine.device_steps import in_child, tools
from unit.engine.steps import run_step
from unit.runtime import programs

from gpubuild.engine.ir import contexts
from gpubuild.model.step import CompileParams, StepKind
from gpubuild.targets.target import Target, cpu_triple

OUTPUTS = ("llvm", "asm", "object", "info")


def linker() -> dict[str, tuple[str, ...]]:
    """The tool that a compile step for CPUs needs."""
    return tools(without=("ptxas", "libdevice"))


def compile_module(
    text: str,
    folder: Path,
    *,
    chip: str = "x86-64-v3",
    located: bool = True,
    libraries=(),
    warnings: list[str] | None = None,
    **options,
) -> Path:
    """Run the compile step on the gpu.module in ``text``; the folder of its outputs."""
    with contexts.context():
        plain = contexts.parse(text)
        name = contexts.gpu_modules(plain)[0].attributes["sym_name"].value
        named = contexts.located_text(contexts.parse(text, source_name="user.mlir").operation)
        canonical = named if options.get("debug") else contexts.canonical_text(plain.operation)
    texts = {"module": canonical, **({"located": named} if located else {})}
    texts.update({f"lib.{i}": library for i, library in enumerate(libraries)})
    target = Target(name="cpu", kind="cpu", triple=cpu_triple("x86_64"), chip=chip, **options)
    params = CompileParams(module=name, target=target)
    ran = run_step(folder, StepKind.COMPILE, params, texts, OUTPUTS, linker())
    if warnings is not None:
        warnings += ran.result.result.warnings
    return folder / "job" / "out"


def compile_in_child(text: str, folder: Path, **options) -> Path:
    """The same in a process of its own, which may crash."""
    linker()  # found here: what a child finds is found again in the next
    return in_child(compile_module, text, folder, **options)


def functions_of(out: Path) -> dict[str, str]:
    """LLVM IR of the functions of what was compiled, by name."""
    text = (out / "llvm").read_text()
    return {m[1]: m[0] for m in re.finditer(r"^define [^\n]*@([\w.]+)\(.*?^}$", text, re.M | re.S)}


_COMPILED: dict[tuple[str, str], Path] = {}


def compile_once(text: str, folder: Path, **options) -> Path:
    """Like :func:`compile_module`; what this process has compiled before it need not compile again.

    For a test that runs several times, with different devices say.
    """
    key = (text, repr(sorted(options.items())))
    if key not in _COMPILED:
        _COMPILED[key] = compile_module(text, folder, **options)
    return _COMPILED[key]


def load(text: str, folder: Path, **options) -> Module:
    """Compile the gpu.module in ``text`` and load it, on a CPU device of its own."""
    return Device(build_runtime(folder)).load(compile_module(text, folder / "compiled", **options))


def elementwise(name: str, given: Sequence[str], body: str, result: str) -> str:
    """A kernel: ``body`` makes %r, of type ``result``, of each work-item's %a, %b, …, of types ``given``."""
    names = "abcdefgh"[: len(given)]
    arrays = [f"%{n.upper()}: memref<?x{kind}>" for n, kind in zip(names, given, strict=True)]
    loads = [
        f"%{n} = memref.load %{n.upper()}[%i] : memref<?x{k}>" for n, k in zip(names, given, strict=True)
    ]
    return "\n    ".join(
        [
            f"\n  gpu.func @{name}({', '.join([*arrays, f'%R: memref<?x{result}>'])}) kernel {{",
            "%i = gpu.global_id x",
            *loads,
            body,
            f"memref.store %r, %R[%i] : memref<?x{result}>",
            "gpu.return\n  }",
        ]
    )


def build_runtime(folder: Path) -> Path:
    """libgpubuild_rt as a shared object.

    A copy, as a library that is loaded twice from one file is one library with one set of settings.
    """
    return Path(shutil.copy(programs.built_once(folder).library, folder))


class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint32), ("y", ctypes.c_uint32), ("z", ctypes.c_uint32)]


class KernelRecord(ctypes.Structure):
    """gb_cpu_kernel of runtime/cpu/cpu_image.h."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("run", ctypes.c_void_p),
        ("item", ctypes.c_void_p),
        ("tier", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("shared_bytes", ctypes.c_uint64),
        ("param_count", ctypes.c_uint64),
        ("param_bytes", ctypes.c_void_p),
        ("required_block", ctypes.c_uint32 * 3),
        ("max_items", ctypes.c_uint32),
        ("context_bytes", ctypes.c_uint64),
    ]


class LaunchRecord(ctypes.Structure):
    """`gb_launch` of core/device.h."""

    _fields_ = [
        ("cluster", Dim3),
        ("grid", Dim3),
        ("block", Dim3),
        ("shared_bytes", ctypes.c_uint32),
        ("params", ctypes.c_void_p),
        ("param_count", ctypes.c_size_t),
        ("extra", ctypes.c_void_p),
    ]


def dim(sizes) -> Dim3:
    sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    return Dim3(*(*sizes, 1, 1)[:3])


class Device:
    """The CPU device out of ``library``."""

    def __init__(self, library: Path) -> None:
        self._c = ctypes.CDLL(str(library))
        self._c.gb_cpu_module_load.restype = ctypes.c_void_p
        self._c.gb_cpu_module_load.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p]
        self._c.gb_cpu_module_unload.argtypes = [ctypes.c_void_p]
        self._c.gb_cpu_module_kernel.restype = ctypes.POINTER(KernelRecord)
        self._c.gb_cpu_module_kernel.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        for function in (self._c.gb_cpu_launch_check, self._c.gb_cpu_launch):
            function.argtypes = [ctypes.POINTER(KernelRecord), ctypes.POINTER(LaunchRecord)]
            function.restype = None
        self._c.gb_cpu_supports.argtypes = [ctypes.c_char_p, ctypes.c_char_p]

    def supports(self, chip: str, features: str | None = None) -> bool:
        return bool(self._c.gb_cpu_supports(chip.encode(), features.encode() if features else None))

    def load(self, out: Path, name: str = "k") -> Module:
        data = (out / "object").read_bytes()
        handle = self._c.gb_cpu_module_load(data, len(data), name.encode())
        return Module(device=self, handle=handle, info=json.loads((out / "info").read_text()))


@dataclass(frozen=True, kw_only=True)
class Module:
    device: Device
    handle: int
    info: dict

    def kernel(self, name: str):
        return self.device._c.gb_cpu_module_kernel(self.handle, name.encode())

    def unload(self) -> None:
        self.device._c.gb_cpu_module_unload(self.handle)

    def tier(self, name: str) -> str:
        return next(k["tier"] for k in self.info["kernels"] if k["name"] == name)

    def launch(self, name: str, grid, block, *args, dynamic=0, cluster=1, fibers=False) -> None:
        """Launch; arrays become memref descriptors. ``fibers`` forces that tier."""
        kernel = self.kernel(name)
        assert kernel, name
        if fibers:
            record = KernelRecord.from_buffer_copy(kernel.contents)
            record.run = None
            kernel = ctypes.pointer(record)
        values = []
        for arg in args:
            values.extend(_descriptor(arg) if isinstance(arg, np.ndarray) else [np.array([arg])])
        pointers = (ctypes.c_void_p * len(values))(*(v.ctypes.data for v in values))
        launch = LaunchRecord(
            dim(cluster), dim(grid), dim(block), dynamic, ctypes.addressof(pointers), len(values)
        )
        self.device._c.gb_cpu_launch_check(kernel, launch)
        self.device._c.gb_cpu_launch(kernel, launch)


def _descriptor(array: np.ndarray) -> list[np.ndarray]:
    strides = [s // array.itemsize for s in array.strides]
    return [
        np.array([v], np.int64) for v in (array.ctypes.data, array.ctypes.data, 0, *array.shape, *strides)
    ]
