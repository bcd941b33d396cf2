"""Compile device LLVM IR for this machine and launch its kernels, one work-item at a time.

This tests gpubuild's lowering and LLVM's optimiser, with lanes that work together as the vendor documents.
It does not test code generators, assemblers and hardware.
"""

from __future__ import annotations

import ctypes
import faulthandler
import functools
import itertools
import mmap
import os
import pickle
import re
import resource
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import binding
from once import once
from shared_library import STRICT, shared_library
from simulators.device_ir import amd
from simulators.device_ir.host_form import DYNAMIC, DYNAMIC_BYTES, HostForm, Vendor, translate
from simulators.device_ir.nvidia import NVIDIA

import gpubuild
from gpubuild.engine.backends.cpu import compiler_rt
from gpubuild.engine.backends.cpu.workarounds import keep_odd_halves
from gpubuild.engine.ir import llvm
from gpubuild.targets.amd import AMD

RUNTIME = Path(gpubuild.__file__).parent / "runtime"
HERE = Path(__file__).parent
LIBRARY = "libdevice_ir.so"
CPU_SECONDS = 120  # of one child, which else counts as hanging
_NUMBERS = itertools.count()  # of the modules loaded; LLJIT wants a name for each
_CODE_OPT_LEVEL = 0  # the IR is optimised; more would only hide where it comes from
_PARTS = ("cpu/cpu_fiber.c", "core/message.c", "core/environment.c")


class WrongUseError(Exception):
    """Undefined behaviour of a GPU, a failed assertion, or something unknown here.

    ``said`` is the output before it.
    """

    def __init__(self, message: str, said: str = "") -> None:
        super().__init__(message)
        self.said = said


class _Dim3(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("bytes", ctypes.c_uint64)]


class _Launch(ctypes.Structure):
    """emu_launch of core.h."""

    _fields_ = [
        ("kernel", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("cluster", ctypes.c_uint32 * 3),
        ("subgroup_size", ctypes.c_uint32),
        ("backwards", ctypes.c_uint32),
        ("dynamic_bytes", ctypes.c_uint32),
        ("shared_count", ctypes.c_uint32),
        ("dynamic", _Dim3),
        ("shared", ctypes.c_void_p),
    ]


def build_library(folder: Path) -> None:
    """Compile the core and the vendors' functions."""
    sources = [*sorted(HERE.glob("*.c")), *(RUNTIME / name for name in _PARTS), *RUNTIME.glob("cpu/*.S")]
    flags = (*STRICT, "-std=c11", "-O2", "-g", "-frounding-math", "-pthread", f"-I{RUNTIME}")
    shared_library(folder / LIBRARY, sources, *flags)


@functools.cache
def _library() -> ctypes.CDLL:
    path = str(once("device-ir", build_library) / LIBRARY)
    binding.load_library_permanently(path)
    library = ctypes.CDLL(path)
    library.emu_run.argtypes = [ctypes.POINTER(_Launch)]
    library.emu_message.restype = ctypes.c_char_p
    library.emu_take_output.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    library.emu_take_output.restype = ctypes.c_size_t
    return library


def vendor_of(chip: str) -> Vendor:
    """Return the rules for ``chip``."""
    if chip.startswith("sm_"):
        return NVIDIA
    if chip.startswith("gfx"):
        return amd.vendor(AMD.subgroup_size(chip, ""))
    raise NotImplementedError(f"nothing is known here of {chip}")


def three(sizes: int | Sequence[int]) -> tuple[int, int, int]:
    """Return a size for each axis; missing ones are 1."""
    sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def host_module(
    text: str, level: int, change: Callable[[llvm.Module], None] = lambda module: None
) -> tuple[llvm.Module, llvm.Machine]:
    """Make LLVM IR in the host form ready for code generation on this machine; ``change`` it at first."""
    module = llvm.parse_assembly(text, llvm.new_context(), name="host form")
    change(module)
    machine = llvm.target_machine(binding.get_process_triple(), *llvm.host_cpu(), level)
    llvm.set_target(module, machine)
    compiler_rt.link_half_conversions(module, machine.triple)
    module = keep_odd_halves(module, machine)
    module.verify()
    return module, machine


@functools.cache
def _jit() -> binding.LLJIT:
    """Return a linker of code in this process.

    JITLink reserves one block for each object. MCJIT maps its sections one by one, and ends the process where
    two of them lie more than 2 GB apart.
    """
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.create_lljit_compiler(use_jit_link=True)


@dataclass(frozen=True, kw_only=True)
class DeviceModule:
    """The kernels of a module. Use it in a child: wrong IR may end the process."""

    chip: str
    form: HostForm
    code: binding.ResourceTracker  # has the addresses of what a launch needs
    vendor: Vendor
    sizes: Mapping[str, int]
    formats: Mapping[int, str]  # of messages

    @classmethod
    def load(cls, text: str, chip: str) -> DeviceModule:
        """``text`` is the LLVM IR that the code generator for ``chip`` got."""
        vendor = vendor_of(chip)
        _library()
        form = translate(text, vendor)
        module, machine = host_module(form.text, _CODE_OPT_LEVEL)
        variables = binding.parse_bitcode(module.as_bitcode()).global_variables
        data = _jit().target_data
        sizes = {
            v.name: data.get_abi_size(v.global_value_type)
            for v in variables
            if v.linkage == binding.Linkage.external and not v.is_declaration
        }
        builder = binding.JITLibraryBuilder().add_current_process()
        builder.add_object_img(llvm.emit_object(module, machine))
        for name in (*sizes, *(f"emu.kernel.{kernel}" for kernel in form.kernels)):
            builder.export_symbol(name)
        code = builder.link(_jit(), f"module {next(_NUMBERS)}")
        return cls(chip=chip, form=form, code=code, vendor=vendor, sizes=sizes, formats=amd.formats_of(text))

    def launch(
        self,
        name: str,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        *values: Any,
        dynamic: int = 0,
        cluster: int | Sequence[int] = 1,
        backwards: bool = False,
    ) -> str:
        """Run kernel ``name`` and return its output. Arrays become memref descriptors and get the results.

        Raises :class:`WrongUseError`. ``backwards``: the last work-item runs first.
        """
        library = _library()
        assert dynamic <= DYNAMIC_BYTES
        memory = Guarded([v for v in values if isinstance(v, np.ndarray)])
        arguments = memory.arguments(values)
        assert len(arguments) == len(self.form.kernels[name]), (name, self.form.kernels[name], len(arguments))
        pointers = (ctypes.c_void_p * max(len(arguments), 1))(*(a.ctypes.data for a in arguments))
        shared = [n for n in self.form.shared[name] if n in self.sizes]
        memories = (_Dim3 * max(len(shared), 1))(*(_Dim3(self.code[n], self.sizes[n]) for n in shared))
        uses_dynamic = len(shared) < len(self.form.shared[name])
        launch = _Launch(
            kernel=self.code[f"emu.kernel.{name}"],
            arguments=ctypes.cast(pointers, ctypes.c_void_p),
            grid=three(grid),
            block=three(block),
            cluster=three(cluster),
            subgroup_size=self.vendor.subgroup_size,
            backwards=backwards,
            dynamic_bytes=dynamic,
            shared_count=len(shared),
            dynamic=_Dim3(self.code[DYNAMIC], DYNAMIC_BYTES) if uses_dynamic else _Dim3(),
            shared=ctypes.cast(memories, ctypes.c_void_p),
        )
        if self.chip.startswith("sm_"):
            library.nv_set_chip(int(self.chip.removeprefix("sm_").rstrip("abf")))
        if self.chip.startswith("gfx"):
            library.amd_begin(amd.MESSAGE_ROOM)
        failed = library.emu_run(ctypes.byref(launch))
        printed = self._printed()
        if failed:
            raise WrongUseError(self._explained(library.emu_message().decode(errors="replace")), printed)
        memory.copy_back()
        return printed

    def _printed(self) -> str:
        text = ctypes.create_string_buffer(1 << 16)
        if self.chip.startswith("gfx"):
            used = _library().amd_take_messages(text, amd.MESSAGE_ROOM)
            return "".join(amd.read_messages(text.raw[:used], self.formats))
        _library().emu_take_output(text, len(text))
        return text.value.decode()

    def _explained(self, message: str) -> str:
        """``message`` with the IR of the sites that it names."""
        sites = {int(n) for n in re.findall(r"at site (\d+)", message)}
        return "\n".join([message, *(f"  site {n}: {self.form.sites.texts[n]}" for n in sorted(sites)
                                      if n in self.form.sites.texts)])  # fmt: skip


def descriptor(array: np.ndarray) -> list[np.ndarray]:
    """The values of a memref."""
    strides = [s // array.itemsize for s in array.strides]
    address = array.ctypes.data
    return [np.array([v], np.int64) for v in (address, address, 0, *array.shape, *strides)]


class Guarded:
    """Copies of arrays, each directly before a protected page, aligned as a GPU's allocations are."""

    def __init__(self, given: Sequence[np.ndarray]) -> None:
        page = mmap.PAGESIZE
        self._given = given
        self.arrays: list[np.ndarray] = []
        self._maps = []
        copies: dict[int, np.ndarray] = {}
        c = ctypes.CDLL(None, use_errno=True)
        for array in given:
            if id(array) in copies:  # one array passed twice is one array
                self.arrays.append(copies[id(array)])
                continue
            size = -(-max(array.nbytes, 1) // page) * page
            memory = mmap.mmap(-1, size + page)
            self._maps.append(memory)
            address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            assert c.mprotect(ctypes.c_void_p(address + size), ctypes.c_size_t(page), 0) == 0
            start = (size - array.nbytes) // 64 * 64
            copy = np.frombuffer(memory, array.dtype, array.size, start).reshape(array.shape)
            copy[...] = array
            copies[id(array)] = copy
            self.arrays.append(copy)

    def arguments(self, values: Sequence[Any]) -> list[np.ndarray]:
        """Return the values of a kernel's parameters; arrays become memref descriptors."""
        arrays = iter(self.arrays)
        found: list[np.ndarray] = []
        for value in values:
            found += descriptor(next(arrays)) if isinstance(value, np.ndarray) else [np.array([value])]
        return found

    def copy_back(self) -> None:
        """Copy the kernel's results into the given arrays."""
        for given, copy in zip(self._given, self.arrays, strict=True):
            given[...] = copy


def each_in_child(
    work: Callable[[Sequence[Any]], Iterator[Any]], items: Sequence[Any], *, cpu_seconds: int = CPU_SECONDS
) -> Iterator[tuple[Any, Any]]:
    """Yield each item with the result that ``work`` yields for it, or a text if it ended the child.

    ``work`` runs in a forked child, and after an item that ended it in another one with the rest.
    """
    left = list(items)
    while left:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                faulthandler.disable()  # the parent reports the item
                resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                with os.fdopen(writer, "wb") as stream:
                    for answer in work(left):
                        pickle.dump(answer, stream)
                        stream.flush()
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        os.close(writer)
        done = 0
        with os.fdopen(reader, "rb") as stream:
            while True:
                try:
                    answer = pickle.load(stream)
                except EOFError:
                    break
                yield left[done], answer
                done += 1
        status = os.waitpid(child, 0)[1]
        if done < len(left):
            yield left[done], f"the child ended with status {status}"
            done += 1
        left = left[done:]
