"""The functions, kernels and streams of a library: the second part of its Python module."""
# ruff: noqa: ANN401 - arguments have the types of the library's functions

from __future__ import annotations

import ctypes
import inspect
import operator
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gpubuild.engine.host.library_arrays import (
    DLPACK_DEVICES,
    ELEMENTS,
    HOST_DEVICE,
    SCALARS,
    View,
    describe,
    from_storage,
    memref_struct,
    scalar,
)

_STATIC_DATA = 0xDEADBEEF  # what MLIR stores as the allocation of a memref.global
_free = ctypes.CDLL(None).free  # of the C library, as MLIR's allocations
_free.restype, _free.argtypes = None, (ctypes.c_void_p,)


class LibraryError(RuntimeError):
    """The library reported a failure, such as a launch that its device refuses."""


class _Memory:
    """Memory that a function returned; it is released with the last array that uses it."""

    def __init__(self, allocated: int, interface: dict[str, Any], owner: object, *, free: bool) -> None:
        self.__array_interface__ = interface
        self._allocated = allocated if free else 0
        self._owner = owner

    def __del__(self) -> None:
        if self._allocated:
            _free(self._allocated)


class Function:
    """A function of the library. Arrays are passed without copies; the GIL is released."""

    def __init__(self, library: Library, record: dict[str, Any], packed: int) -> None:
        self.__name__ = self.__qualname__ = record["name"]
        self._library, self._packed = library, packed
        self.arguments: list[dict[str, Any]] = record["arguments"]
        self.results: list[dict[str, Any]] = record["results"]
        lines = [
            f"{item['name']}: {item['type']['text']}{', written' if item['written'] else ''}"
            for item in self.arguments
        ]
        self.__doc__ = "\n".join([f"{record['name']}: {record['text']}", *lines])
        self._names = [item["name"] for item in self.arguments]
        by_name = len(set(self._names)) == len(self._names) and all(map(str.isidentifier, self._names))
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if by_name else inspect.Parameter.POSITIONAL_ONLY
        names = self._names if by_name else [f"argument{n}" for n in range(len(self._names))]
        try:
            self.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])
        except ValueError:  # a name is a keyword of Python
            self.__signature__ = inspect.Signature(
                [inspect.Parameter(f"argument{n}", kind) for n in range(len(names))]
            )
        fields = [(f"r{n}", self._storage(item["type"])) for n, item in enumerate(self.results)]
        self._result: Any = type("Results", (ctypes.Structure,), {"_fields_": fields}) if fields else None

    @staticmethod
    def _storage(kind: dict[str, Any]) -> Any:
        return SCALARS[kind["element"]] if kind["sizes"] is None else memref_struct(len(kind["sizes"]))

    def __repr__(self) -> str:
        return f"<{self.__doc__.splitlines()[0] if self.__doc__ else self.__name__}>"

    def __call__(self, *values: Any, **named: Any) -> Any:
        """Call the function. Raises ``TypeError``, ``ValueError`` and :class:`LibraryError`."""
        if named:
            try:
                values = self.__signature__.bind(*values, **named).args
            except TypeError as error:
                raise TypeError(f"{self.__name__}(): {error}") from None
        if len(values) != len(self.arguments):
            raise TypeError(f"{self.__name__}() takes {len(self.arguments)} arguments, got {len(values)}")
        return self._call(values, None)

    def _call(self, values: Sequence[Any], stream: int | None) -> Any:
        passed: list[Any] = []
        views: list[View] = []
        for item, value in zip(self.arguments, values, strict=True):
            where = f"{self.__name__}(): argument {item['name']}"
            kind = item["type"]
            if kind["sizes"] is None:
                passed.append(scalar(kind["element"], value, where))
                continue
            view = (
                value
                if isinstance(value, View)
                else View.of(value, self._library.producer_stream(stream, value))
            )
            if view is None:
                raise TypeError(f"{where}: expected an array for {kind['text']}, got {type(value).__name__}")
            self._library.check_device(view, kind, where)
            passed.append(describe(view, kind, item["written"], where))
            views.append(view)
        result = self._result() if self._result is not None else None
        slots = (ctypes.c_void_p * (len(passed) + 1))(
            ctypes.addressof(result) if result is not None else None, *map(ctypes.addressof, passed)
        )
        self._library.run(self._packed, slots)
        if result is None:
            return None
        memory: dict[int, Any] = {view.pointer: view.owner for view in views}
        for view, made in zip(views, (p for p in passed if hasattr(p, "aligned")), strict=True):
            memory[made.allocated or 0] = view.owner
        returned = [
            self._result_of(item, getattr(result, f"r{n}"), memory) for n, item in enumerate(self.results)
        ]
        return returned[0] if len(returned) == 1 else tuple(returned)

    def _result_of(self, item: dict[str, Any], stored: Any, memory: dict[int, Any]) -> Any:
        kind = item["type"]
        if kind["sizes"] is None:
            return from_storage(kind["element"], stored)
        allocated = stored.allocated or 0
        letter, size = ELEMENTS[kind["element"]][0]
        rank = len(kind["sizes"])
        shape = tuple(stored.sizes[:]) if rank else ()
        interface = {
            "version": 3,
            "typestr": f"{'|' if size == 1 else '<'}{letter}{size}",
            "shape": shape,
            "strides": tuple(step * size for step in stored.strides) if rank else (),
            "data": ((stored.aligned or 0) + stored.offset * size, allocated == _STATIC_DATA),
        }
        if 0 in shape:
            interface["strides"] = None
        owned = item["owner"] == "caller" and allocated not in (0, _STATIC_DATA) and allocated not in memory
        holder = _Memory(allocated, interface, (self._library, memory.get(allocated)), free=owned)
        memory.setdefault(allocated, holder)  # the same memory may be returned twice
        return np.asarray(holder)


class Stream:
    """A queue of launches; its work is done in order, and the host goes on meanwhile.

    It keeps the arrays of its launches alive, and copies results back on GPUs, until ``synchronize``.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self.handle = library.create_stream()
        self.pending: list[Any] = []

    def synchronize(self) -> None:
        """Wait until all work is done and results are in the arrays."""
        self._library.synchronize(self.handle)
        staged, self.pending = self.pending, []
        for item in staged:
            if isinstance(item, _Staged | _Registered):
                item.release()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.synchronize()

    def __del__(self) -> None:
        if getattr(self, "handle", 0):
            self.synchronize()
            self._library.destroy_stream(self.handle)


class _Staged:
    """A copy of host memory on the device."""

    def __init__(self, library: Library, low: int, size: int, stream: int | None) -> None:
        self._library, self.low, self.size, self.written = library, low, size, False
        self.address = library.allocate(size, stream)
        library.copy(self.address, low, size, stream)

    def copy_back(self, stream: int | None) -> None:
        """Start to copy the memory back if a kernel writes it."""
        if self.written:
            self._library.copy(self.low, self.address, self.size, stream)

    def release(self) -> None:
        """Free the memory."""
        self._library.release(self.address)


class _Registered:
    """Arrays of the host that a launch on the CPU uses in place, for its checks and its profile."""

    def __init__(self, library: Library, spans: Sequence[tuple[int, int]]) -> None:
        self._library = library
        self._pairs = (ctypes.c_uint64 * (2 * len(spans)))(*(number for span in spans for number in span))
        library.register(self._pairs)

    def release(self) -> None:
        """Forget the arrays."""
        self._library.unregister(self._pairs)


class Kernel:
    """A kernel: ``kernel[grid, block](arguments, shared=0, stream=None)`` launches it.

    ``grid`` and ``block`` are numbers or tuples of up to three. Arrays of the host are copied to a GPU and
    back; the CPU uses them directly. Without ``stream`` the call returns when the kernel has ended.
    """

    def __init__(self, module: Module, record: dict[str, Any]) -> None:
        self.module, self.name = module, record["name"]
        self.arguments: list[dict[str, Any]] = record["arguments"]
        self.__doc__ = f"{record['module']}::{record['name']}: {record['text']}\n{type(self).__doc__}"

    def __repr__(self) -> str:
        return f"<kernel {self.__doc__.splitlines()[0]}>" if self.__doc__ else self.name

    def __getitem__(self, sizes: Any) -> Any:
        """Return what launches the kernel with this grid and this workgroup."""
        if not isinstance(sizes, tuple) or len(sizes) != 2:
            raise TypeError(f"{self.name}: write {self.name}[grid, block](...)")
        dimensions = [*_extents(sizes[0], self.name, "grid"), *_extents(sizes[1], self.name, "block")]

        def launch(*values: Any, shared: int = 0, stream: Any = None) -> None:
            self._launch(dimensions, values, shared, stream)

        launch.__qualname__ = f"{self.name}[...]"
        return launch

    def __call__(self, *_: Any, **__: Any) -> None:
        """Say how a kernel is launched."""
        raise TypeError(f"{self.name}: write {self.name}[grid, block](...)")

    def _launch(self, sizes: list[int], values: Sequence[Any], shared: int, stream: Any) -> None:
        if len(values) != len(self.arguments):
            raise TypeError(f"{self.name}[...]() takes {len(self.arguments)} arguments, got {len(values)}")
        library, arguments = self.module.library, _Arguments(self.module.library, stream)
        used: list[_Registered] = []
        try:
            for item, value in zip(self.arguments, values, strict=True):
                arguments.add(item, value, f"{self.name}[...](): argument {item['name']}")
            handle = arguments.stream
            size = scalar("i32", shared, f"{self.name}[...](): shared").value
            if arguments.in_place:
                used.append(_Registered(library, list(arguments.in_place)))
            library.launch(self.module.handle(), self.name, sizes, size, handle, arguments.parameters)
            for copy in arguments.staged.values():
                copy.copy_back(handle)
            if isinstance(stream, Stream):
                stream.pending += [*arguments.kept, *arguments.staged.values(), *used]
                arguments.staged, used = {}, []
            elif handle is None:
                library.synchronize(None)
        finally:
            for copy in arguments.staged.values():
                copy.release()
            for arrays in used:
                arrays.release()


class _Arguments:
    """The parameters of a launch, and what must live until it is done."""

    def __init__(self, library: Library, stream: Any) -> None:
        self._library = library
        self.stream = _stream_handle(stream)
        self._keeps = isinstance(stream, Stream) or stream is None
        self.parameters: list[Any] = []
        self.kept: list[Any] = []
        self.staged: dict[tuple[int, int], _Staged] = {}
        self.in_place: set[tuple[int, int]] = set()  # addresses and sizes

    def add(self, item: dict[str, Any], value: Any, where: str) -> None:
        """Add an argument. Raises ``TypeError`` and ``ValueError``."""
        kind = item["type"]
        if kind["sizes"] is None:
            self.parameters.append(_padded(scalar(kind["element"], value, where)))
            return
        view = View.of(value, self._library.producer_stream(self.stream, value))
        if view is None:
            raise TypeError(f"{where}: expected an array for {kind['text']}, got {type(value).__name__}")
        if view.device == HOST_DEVICE and not self._keeps:
            raise TypeError(f"{where}: an array of the host needs a stream of `library.stream()`")
        made = describe(view, kind, item["written"], where)
        if view.device != HOST_DEVICE:
            self._library.check_device(view, kind, where)
        elif 0 in view.shape:
            pass
        elif self._on_host:
            self.in_place.add(_span(view))
        else:
            copy = self._stage(view, item["written"], where)
            made.allocated = made.aligned = made.aligned + copy.address - copy.low
        self.kept.append(view.owner)
        fields = [made.allocated, made.aligned, made.offset]
        fields += [*made.sizes, *made.strides] if kind["sizes"] else []
        self.parameters += [ctypes.c_int64(field or 0) for field in fields]

    @cached_property
    def _on_host(self) -> bool:
        return self._library.device == HOST_DEVICE

    def _stage(self, view: View, written: bool, where: str) -> _Staged:
        """Copy the memory of an array to the device."""
        low, size = _span(view)
        copy = self.staged.get((low, size))
        for other in self.staged.values():
            overlaps = other is not copy and low < other.low + other.size and other.low < low + size
            if overlaps and (written or other.written):
                raise ValueError(f"{where}: the array overlaps another one; pass one of the two as a copy")
        if copy is None:
            copy = self.staged[low, size] = _Staged(self._library, low, size, self.stream)
        copy.written |= written
        return copy


def _span(view: View) -> tuple[int, int]:
    """Return the address and the size of the memory of an array that has elements."""
    reach = [(size - 1) * step for size, step in zip(view.shape, view.strides, strict=True)]
    return view.pointer + sum(min(step, 0) for step in reach), sum(map(abs, reach)) + view.item


def _extents(value: Any, name: str, what: str) -> list[int]:
    try:
        numbers = [operator.index(n) for n in (value if isinstance(value, tuple | list) else (value,))]
    except TypeError as error:
        raise TypeError(f"{name}: {what} must be whole numbers, got {value!r}") from error
    if not 1 <= len(numbers) <= 3 or not all(0 <= n < 1 << 63 for n in numbers):
        raise ValueError(f"{name}: {what} must be one to three numbers, got {value!r}")
    return [*numbers, *[1] * (3 - len(numbers))]


def _stream_handle(stream: Any) -> int | None:
    """Return the driver's stream of a ``Stream``, a number, or a stream of CuPy or PyTorch."""
    for name in ("handle", "ptr", "cuda_stream"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    return None if stream is None else operator.index(stream)


def _padded(value: Any) -> Any:
    """Return a copy of a scalar in at least 8 bytes."""
    made = (ctypes.c_uint8 * max(8, ctypes.sizeof(value)))()
    ctypes.memmove(made, ctypes.addressof(value), ctypes.sizeof(value))
    return made


class Module:
    """The kernels of a gpu.module, as attributes."""

    def __init__(
        self, library: Library, name: str, images: int, size: int, kernels: Sequence[dict[str, Any]]
    ) -> None:
        self.library, self.name = library, name
        self._images, self._size, self._handle = images, size, 0
        self.kernels = {record["name"]: Kernel(self, record) for record in kernels}

    def __getattr__(self, name: str) -> Kernel:
        kernels = self.__dict__.get("kernels", {})
        if name in kernels:
            return kernels[name]  # type: ignore[no-any-return]
        raise AttributeError(f"gpu.module {self.__dict__.get('name')} has no kernel {name!r}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.kernels]

    def handle(self) -> int:
        """Return the module as loaded, at the first launch."""
        if not self._handle:
            self._handle = self.library.load_images(self._images, self._size)
        return self._handle


class Library:
    """The shared library beside a module, and its functions. Raises ``ImportError`` if it is another."""

    def __init__(
        self,
        module: str,
        program: str,
        table: str,
        records: Sequence[dict[str, Any]],
        kernels: Sequence[dict[str, Any]],
    ) -> None:
        path = Path(module).resolve().with_name(f"lib{Path(module).stem}.so")
        self.path = path
        try:
            self._handle = ctypes.CDLL(str(path))
        except OSError as error:
            raise ImportError(f"cannot load the library of {program}: {error}", path=str(path)) from error
        try:
            names = list(dict.fromkeys(kernel["module"] for kernel in kernels))
            pointers = (ctypes.c_void_p * (1 + len(records) + 2 * len(names))).in_dll(self._handle, table)
        except ValueError as error:
            raise ImportError(
                f"{path.name} has other functions than {Path(module).name} describes: "
                "they are of different builds, or this process has loaded an earlier build of the library",
                path=str(path),
            ) from error
        calls = (ctypes.c_void_p * 12).from_address(pointers[0] or 0)
        self._try = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p)(calls[0] or 0)
        self._calls = calls
        self.functions = {
            record["name"]: Function(self, record, pointers[1 + n] or 0) for n, record in enumerate(records)
        }
        images = iter(pointers[1 + len(records) :])
        self.modules = {
            name: Module(
                self, name, next(images) or 0, next(images) or 0, [k for k in kernels if k["module"] == name]
            )
            for name in names
        }

    @property
    def device(self) -> str:
        """The device that the library runs on, such as ``cpu`` or ``cuda:0``."""
        return str(self.device_name().partition(" ")[0])

    def device_name(self) -> str:
        """Return the device with its model."""
        name = ctypes.c_char_p()
        self._runtime(1, name)
        return (name.value or b"").decode()

    def allocate(self, size: int, stream: int | None = None) -> int:
        """Return memory of the device."""
        address = ctypes.c_void_p()
        self._runtime(2, address, ctypes.c_uint64(size), ctypes.c_void_p(stream))
        return address.value or 0

    def release(self, address: int, stream: int | None = None) -> None:
        """Free memory of :meth:`allocate`."""
        self._runtime(3, None, ctypes.c_void_p(address), ctypes.c_void_p(stream))

    def copy(self, to: int, source: int, size: int, stream: int | None = None) -> None:
        """Start to copy memory between host and device."""
        pointers = ctypes.c_void_p(to), ctypes.c_void_p(source)
        self._runtime(4, None, *pointers, ctypes.c_size_t(size), ctypes.c_void_p(stream))

    def register(self, pairs: Any) -> None:
        """Make known which memory of the host launches use: addresses and sizes."""
        self._runtime(10, None, pairs, ctypes.c_size_t(len(pairs) // 2))

    def unregister(self, pairs: Any) -> None:
        """Undo :meth:`register`."""
        self._runtime(11, None, pairs, ctypes.c_size_t(len(pairs) // 2))

    def stream(self) -> Stream:
        """Return a new stream for launches."""
        return Stream(self)

    def create_stream(self) -> int:
        """Return the handle of a new stream."""
        handle = ctypes.c_void_p()
        self._runtime(5, handle)
        return handle.value or 0

    def destroy_stream(self, handle: int) -> None:
        """Destroy a stream, whose work ends as usual."""
        self._runtime(6, None, ctypes.c_void_p(handle))

    def synchronize(self, handle: int | None = None) -> None:
        """Wait for a stream, by default the device's default stream."""
        self._runtime(7, None, ctypes.c_void_p(handle))

    def load_images(self, images: int, size: int) -> int:
        """Return a handle of the images of a gpu.module."""
        handle = ctypes.c_void_p()
        slots = (ctypes.c_void_p * 3)(ctypes.addressof(handle), images, size)
        self.run(self._calls[8] or 0, slots)
        return handle.value or 0

    def launch(
        self, module: int, kernel: str, sizes: Any, shared: int, stream: int | None, values: Sequence[Any]
    ) -> None:
        """Start a kernel. ``values`` are its parameters, of 8 bytes or more each."""
        pointers = (ctypes.c_void_p * max(len(values), 1))(*map(ctypes.addressof, values))
        name = ctypes.c_char_p(kernel.encode())
        numbers = (ctypes.c_int64 * 6)(*sizes)
        given = (
            ctypes.c_void_p(module), name, numbers, ctypes.c_int32(shared), ctypes.c_void_p(stream), pointers,
            ctypes.c_size_t(len(values)),
        )  # fmt: skip
        self._runtime(9, None, *given)

    def _runtime(self, number: int, result: Any, *values: Any) -> None:
        pointers = (ctypes.addressof(item) if item is not None else None for item in (result, *values))
        self.run(self._calls[number] or 0, (ctypes.c_void_p * (1 + len(values)))(*pointers))

    def run(self, packed: int, slots: Any) -> None:
        """Call an entry of the call table. Raises :class:`LibraryError`."""
        message = self._try(packed, slots)
        if message is not None:
            raise LibraryError(message.decode(errors="replace").strip())

    def producer_stream(self, stream: int | None, value: Any) -> int | None:
        """Return the stream whose work must see what the producer of an array has done."""
        if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__"):
            return None
        kind = DLPACK_DEVICES.get(int(value.__dlpack_device__()[0]), "")
        # DLPack's number of the default stream is 1 for CUDA and 0 for ROCm.
        return stream or {"cuda": 1, "hip": 0}.get(kind)

    def check_device(self, view: View, kind: dict[str, Any], where: str) -> None:
        """Raise ``TypeError`` for memory that is not of the library's device."""
        if view.device == HOST_DEVICE:
            if kind["space"] and self.device != HOST_DEVICE:
                raise TypeError(
                    f"{where}: {kind['text']} is memory of {self.device}, got an array of the host"
                )
            return
        if view.device != self.device:
            raise TypeError(f"{where}: the array is on {view.device}, and the library runs on {self.device}")
        self.synchronize(None)  # the producer has ordered its work before that of the default stream
