"""Arrays and numbers as the functions of a library take them: the first part of its Python module."""
# ruff: noqa: ANN401 - arguments have the types of the library's functions

from __future__ import annotations

import ctypes
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

SCALARS: dict[str, Any] = {
    "i1": ctypes.c_uint8,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "index": ctypes.c_int64,
    "f16": ctypes.c_uint16,  # as bits
    "bf16": ctypes.c_uint16,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
    "complex<f32>": ctypes.c_float * 2,
    "complex<f64>": ctypes.c_double * 2,
}
# Kind and bytes of the elements that arrays may have. The first is that of arrays that are returned.
ELEMENTS: dict[str, tuple[tuple[str, int], ...]] = {
    "i1": (("b", 1),),
    "i8": (("i", 1), ("u", 1)),
    "i16": (("i", 2), ("u", 2)),
    "i32": (("i", 4), ("u", 4)),
    "i64": (("i", 8), ("u", 8)),
    "index": (("i", 8), ("u", 8)),
    "f16": (("f", 2),),
    "bf16": (("u", 2), ("bfloat16", 2)),
    "f32": (("f", 4),),
    "f64": (("f", 8),),
    "complex<f32>": (("c", 8),),
    "complex<f64>": (("c", 16),),
    "f8E5M2": (("u", 1), ("float8_e5m2", 1)),
    "f8E4M3": (("u", 1), ("float8_e4m3", 1)),
    "f8E3M4": (("u", 1), ("float8_e3m4", 1)),
    "f8E4M3FN": (("u", 1), ("float8_e4m3fn", 1)),
    "f8E5M2FNUZ": (("u", 1), ("float8_e5m2fnuz", 1)),
    "f8E4M3FNUZ": (("u", 1), ("float8_e4m3fnuz", 1)),
    "f8E4M3B11FNUZ": (("u", 1), ("float8_e4m3b11fnuz", 1)),
    "f8E8M0FNU": (("u", 1), ("float8_e8m0fnu", 1)),
}
_DLPACK_KINDS = {
    0: "i", 1: "u", 2: "f", 4: "bfloat16", 5: "c", 6: "b", 7: "float8_e3m4", 8: "float8_e4m3",
    9: "float8_e4m3b11fnuz", 10: "float8_e4m3fn", 11: "float8_e4m3fnuz", 12: "float8_e5m2",
    13: "float8_e5m2fnuz", 14: "float8_e8m0fnu",
}  # fmt: skip
HOST_DEVICE = "cpu"  # in the words of GPUBUILD_DEVICE
DLPACK_DEVICES = {1: "cpu", 2: "cuda", 3: "cpu", 10: "hip", 11: "cpu", 13: "cpu"}
_OF_OTHERS = 2  # what `isbuiltin` of a dtype is that another library than NumPy defines
_READ_ONLY = 1  # of the flags of a DLPack tensor


class _Dtype(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("rank", ctypes.c_int32),
        ("dtype", _Dtype),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_char_p, (ctypes.py_object,)


class View:
    """Memory of an array: where it is, and what is in it. ``strides`` are in bytes."""

    __slots__ = ("device", "item", "kind", "owner", "pointer", "shape", "strides", "text", "writable")

    pointer: int
    kind: str
    item: int  # bytes of an element
    text: object  # the dtype, as messages show it: its name takes 10 µs
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    writable: bool
    device: str  # such as "cuda:0"
    owner: object

    @classmethod
    def of(cls, value: Any, stream: int | None = None) -> View | None:
        """Return the memory of an array, ``None`` for values that are no arrays. Copies no array."""
        if isinstance(value, np.ndarray) or hasattr(value, "__array_interface__"):
            view = cls._of_numpy(np.asarray(value))
            # NumPy copies its scalars, such as numpy.float32(1): what is written there would be lost.
            view.writable &= not isinstance(value, np.generic)
            return view
        if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
            return cls._of_dlpack(value, stream)
        try:
            return cls._of_numpy(np.asarray(memoryview(value)))
        except TypeError:
            return None

    @classmethod
    def _of_numpy(cls, array: np.ndarray[Any, Any]) -> View:
        view = cls()
        dtype = array.dtype
        view.pointer = array.__array_interface__["data"][0]
        named = dtype.kind == "V" or dtype.isbuiltin == _OF_OTHERS  # some types of ml_dtypes are of kind "f"
        view.kind = (dtype.name if named else dtype.kind) if dtype.isnative else "swapped"
        view.item, view.text = dtype.itemsize, dtype
        view.shape, view.strides = array.shape, array.strides
        view.writable, view.device, view.owner = array.flags.writeable, HOST_DEVICE, array
        return view

    @classmethod
    def _of_dlpack(cls, value: Any, stream: int | None) -> View:
        kind, number = (int(part) for part in value.__dlpack_device__())
        device = DLPACK_DEVICES.get(kind, f"DLPack device {kind}")
        given = {"stream": stream} if device in ("cuda", "hip") else {}
        try:
            capsule = value.__dlpack__(max_version=(1, 0), **given)
        except TypeError:  # producers of DLPack 0.x do not have the argument
            capsule = value.__dlpack__(**given)
        name = _capsule_name(capsule)
        address = _capsule_pointer(capsule, name)
        writable = True
        if name == b"dltensor_versioned":
            versioned = _Versioned.from_address(address)
            tensor, writable = versioned.tensor, not versioned.flags & _READ_ONLY
        else:
            tensor = _Tensor.from_address(address)
        view = cls()
        rank, dtype = tensor.rank, tensor.dtype
        view.pointer = (tensor.data or 0) + tensor.byte_offset
        view.item = dtype.bits * dtype.lanes // 8
        view.kind = _DLPACK_KINDS.get(dtype.code, f"code {dtype.code}") if dtype.lanes == 1 else "lanes"
        view.text = f"{view.kind}{dtype.bits}"
        view.shape = tuple(tensor.shape[:rank])
        steps = tensor.strides[:rank] if tensor.strides else _contiguous(view.shape)
        view.strides = tuple(step * view.item for step in steps)
        view.writable, view.owner = writable, capsule
        view.device = device if device == HOST_DEVICE else f"{device}:{number}"
        return view


def _contiguous(shape: Sequence[int]) -> list[int]:
    """Return the strides, in elements, of an array in row-major order."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return strides


def memref_struct(rank: int, known: dict[int, Any] = {}) -> Any:  # noqa: B006 - a cache
    """Return the C struct of memrefs of a rank."""
    if rank not in known:
        fields: list[tuple[str, Any]] = [
            ("allocated", ctypes.c_void_p),
            ("aligned", ctypes.c_void_p),
            ("offset", ctypes.c_int64),
        ]
        if rank:
            fields += [("sizes", ctypes.c_int64 * rank), ("strides", ctypes.c_int64 * rank)]
        known[rank] = type(f"Memref{rank}", (ctypes.Structure,), {"_fields_": fields})
    return known[rank]


def _float_bits(element: str, value: float) -> int:
    if element == "f16":
        return int(np.float16(value).view(np.uint16))
    bits = int(np.float32(value).view(np.uint32))
    if value != value:  # noqa: PLR0124 - NaN, which rounding could make infinite
        return bits >> 16 | 0x40
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def _float_of(element: str, bits: int) -> float:
    if element == "f16":
        return float(np.uint16(bits).view(np.float16))
    return float(np.uint32(bits << 16).view(np.float32))


def scalar(element: str, value: Any, where: str) -> Any:
    """Return ``value`` as a function takes it. Raises ``TypeError`` and ``OverflowError``."""
    kind = SCALARS[element]
    if isinstance(value, str | bytes):
        raise TypeError(f"{where}: expected {element}, got {type(value).__name__}")
    try:
        if element.startswith("complex"):
            number = complex(value)
            return kind(number.real, number.imag)
        if element in ("f16", "bf16"):
            return kind(_float_bits(element, float(value)))
        if element.startswith("f"):
            return kind(float(value))
        if element == "i1" and isinstance(value, bool | np.bool_):
            return kind(bool(value))
        integer = operator.index(value)
    except TypeError as error:
        raise TypeError(f"{where}: expected {element}, got {type(value).__name__}") from error
    except OverflowError as error:  # an integer that is larger than every float
        raise OverflowError(f"{where}: the number does not fit into {element}") from error
    bits = 1 if element == "i1" else 8 * ctypes.sizeof(kind)
    if not -(1 << bits - 1) <= integer < 1 << bits:
        raise OverflowError(f"{where}: {integer} does not fit into {element}")
    return kind(integer & 1 if element == "i1" else integer)


def from_storage(element: str, stored: Any) -> Any:
    """Return the number that a function stored."""
    if element.startswith("complex"):
        return complex(*stored)
    if element in ("f16", "bf16"):
        return _float_of(element, stored)
    return bool(stored) if element == "i1" else stored


def describe(view: View, kind: dict[str, Any], written: bool, where: str) -> Any:
    """Return the memref descriptor of an array. Raises ``TypeError`` and ``ValueError``."""
    allowed, sizes = ELEMENTS[kind["element"]], kind["sizes"]
    if (view.kind, view.item) not in allowed:
        names = " or ".join(
            f"{np.dtype(f'{k}{n}').name}" if len(k) == 1 and k != "b" else "bool" if k == "b" else k
            for k, n in allowed
        )
        raise TypeError(f"{where}: expected an array of {names} for {kind['text']}, got {view.text}")
    shape, item = view.shape, view.item
    if len(shape) != len(sizes):
        rank = "1 dimension" if len(sizes) == 1 else f"{len(sizes)} dimensions"
        raise ValueError(f"{where}: expected {rank} for {kind['text']}, got {len(shape)}")
    for axis, size in enumerate(sizes):
        if size is not None and shape[axis] != size:
            raise ValueError(
                f"{where}: expected size {size} in dimension {axis} for {kind['text']}, got {shape[axis]}"
            )
    if written and not view.writable:
        raise ValueError(f"{where}: the array is read-only, and {where.partition('(')[0]} writes to it")
    alignment = item // 2 if kind["element"].startswith("complex") else item
    if view.pointer % alignment:
        raise ValueError(f"{where}: the array is not aligned to {alignment} bytes")
    wanted = _contiguous(shape) if kind["contiguous"] else kind["strides"]
    steps = []
    matters = 0 not in shape
    for axis, (step, need) in enumerate(zip(view.strides, wanted, strict=True)):
        if not (matters and shape[axis] > 1):  # then no element is reached by it
            steps.append(1 if need is None else need)
            continue
        if need is not None and step != need * item:
            if kind["contiguous"]:
                raise ValueError(
                    f"{where}: expected a contiguous array for {kind['text']}; "
                    "numpy.ascontiguousarray makes a copy that is"
                )
            raise ValueError(
                f"{where}: expected stride {need} in dimension {axis} for {kind['text']}, got {step / item:g}"
            )
        if step % item:
            raise ValueError(f"{where}: a stride of {step} bytes is not a multiple of {item}")
        steps.append(step // item)
    made = memref_struct(len(sizes))()
    start = kind["offset"] or 0
    made.allocated = made.aligned = view.pointer - start * item
    made.offset = start
    if sizes:
        made.sizes[:] = shape
        made.strides[:] = steps
    return made
