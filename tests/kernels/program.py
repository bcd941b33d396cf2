"""Program: one kernel that uses one op, its input, and what NumPy says must come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

NVIDIA_OLD, NVIDIA, AMD_OLD, AMD, CPU = "sm_60", "sm_90", "gfx90a", "gfx942", "cpu"
TARGETS = (NVIDIA_OLD, NVIDIA, AMD_OLD, AMD, CPU)
NVIDIA_CHIPS = (NVIDIA_OLD, NVIDIA)
AMD_CHIPS = (AMD_OLD, AMD)
GPUS = (*NVIDIA_CHIPS, *AMD_CHIPS)

WORKGROUP = "#gpu.address_space<workgroup>"
PRIVATE = "#gpu.address_space<private>"
BLOCK = 32
COUNT = 64  # work-items of an element-wise program

_NAMES = {
    "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "i8",
    "uint16": "i16", "uint32": "i32", "uint64": "index", "float16": "f16", "float32": "f32",
    "float64": "f64", "complex64": "complex<f32>", "complex128": "complex<f64>",
}  # fmt: skip
_PROLOGUE = """
    %i = gpu.global_id x
    %t = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A kernel of ``body`` with ``args`` as parameters; ``expect`` is what arrays hold afterwards.

    ``element`` names element types that NumPy lacks, by parameter. ``refused`` gives the message for
    each target that cannot compile the op. ``breaks`` is a change of the text that must change the
    result, which shows that the comparison can fail. ``tolerance_ulp`` is in units in the last
    place of the result's type.
    """

    name: str
    op: str
    body: str
    args: Mapping[str, np.ndarray | np.generic]
    expect: Mapping[str, np.ndarray]
    types: Mapping[str, str] = field(default_factory=dict)
    attributes: str = ""
    module: str = ""
    grid: int | tuple[int, ...] = 1
    block: int | tuple[int, ...] = BLOCK
    cluster: int | tuple[int, ...] = 1
    dynamic_bytes: int = 0
    tolerance_ulp: float = 0
    refused: Mapping[str, str] = field(default_factory=dict)
    breaks: tuple[str, str] | None = None
    prints: str = ""
    runs: bool = True
    chips: Mapping[str, str] = field(default_factory=dict)

    def text(self, *, broken: bool = False) -> str:
        """The ``gpu.func`` and what it needs in its module."""
        body = self.body
        if broken and self.breaks:
            assert self.breaks[0] in body, self.name
            body = body.replace(*self.breaks)
        parameters = ", ".join(f"%{name}: {self.parameter_type(name)}" for name in self.args)
        return (
            f"{self.module}\n  gpu.func @{self.name}({parameters}) {self.attributes.split('|')[0]} kernel"
            f" {self.attributes.partition('|')[2]} {{{_PROLOGUE}{body}\n    gpu.return\n  }}\n"
        )

    def parameter_type(self, name: str) -> str:
        value = self.args[name]
        element = self.types.get(name) or _NAMES[value.dtype.name]
        if element.startswith("memref") or not isinstance(value, np.ndarray):
            return element
        shape = "?x" if value.ndim == 1 else "".join(f"{n}x" for n in value.shape)
        return f"memref<{shape}{element}>"


def module_text(programs: Sequence[Program], *, broken: bool = False) -> str:
    """One gpu.module of many kernels: one compile serves them all."""
    return "gpu.module @k {\n" + "".join(p.text(broken=broken) for p in programs) + "}\n"


def each(
    name: str,
    op: str,
    line: str,
    inputs: Sequence[np.ndarray],
    output: np.ndarray,
    *,
    kinds: Sequence[str] = (),
    kind: str = "",
    stored: type | None = None,
    **more,
) -> Program:
    """``out[i] = line(x[i], y[i], z[i])``; ``line`` sets ``%r`` from ``%x %y %z``.

    ``output`` may be wider than what is ``stored``, to measure the error against.
    """
    letters = "xyz"[: len(inputs)]
    args = {f"{c}s": a for c, a in zip(letters, inputs, strict=True)}
    types = {f"{c}s": k for c, k in zip(letters, kinds, strict=False) if k}
    args["out"] = np.zeros(output.shape, stored or output.dtype)
    if kind:
        types["out"] = kind
    program = Program(name=name, op=op, body="", args=args, expect={"out": output}, types=types)
    loads = "".join(
        f"    %{c} = memref.load %{c}s[%i] : {program.parameter_type(c + 's')}\n" for c in letters
    )
    return Program(
        name=name,
        op=op,
        args=args,
        expect={"out": output},
        types=types,
        body=f"{loads}    {line}\n    memref.store %r, %out[%i] : {program.parameter_type('out')}",
        **{"grid": -(-len(output) // BLOCK), "block": BLOCK, **more},
    )


class Programs(list[Program]):
    """The programs of a group, in their order."""

    def add(self, *, args: Mapping | None = None, expect: Mapping, **given) -> None:
        """Add a program; arrays of results that ``args`` lacks begin as zeros."""
        args = dict(args or {})
        results = {key: np.zeros(want.shape, want.dtype) for key, want in expect.items() if key not in args}
        self.append(Program(args=args | results, expect=expect, **given))

    def each(self, *given, **more) -> None:
        """Add ``each(*given, **more)``."""
        self.append(each(*given, **more))

    def one(self, name: str, op: str, body: str, args: dict, expect: dict, *, block: int = 1, **more) -> None:
        """Add a program of one work-item, unless ``block`` says otherwise."""
        body = "    " + body.strip()
        self.add(name=name, op=op, body=body, args=args, expect=expect, block=block, **more)

    def unrun(self, name: str, op: str, body: str, args: Mapping[str, str], **more) -> None:
        """Add a program that is compiled only; ``args`` are types of parameters."""
        given = dict.fromkeys(args, np.float32(0))
        body = "\n    " + body.strip()
        self.add(name=name, op=op, body=body, args=given, types=args, expect={}, runs=False, **more)


def to_bf16(values: np.ndarray) -> np.ndarray:
    """Bits of the nearest bf16, ties to even; NaNs stay NaNs."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """How far ``got`` is from ``want``, given in higher precision, in units of ``got``'s last place."""
    good = np.isfinite(want)
    exact = want.astype(np.longdouble)
    spacing = np.spacing(np.abs(np.where(good, want, 1)).astype(got.dtype)).astype(np.longdouble)
    far = np.abs(got.astype(np.longdouble) - exact) / spacing
    same = np.array_equal(got[~good], want[~good].astype(got.dtype), equal_nan=True)
    return np.where(good, far, 0 if same else np.inf)


RANDOM = np.random.default_rng(7)


def integers(dtype, low=-100, high=100, count=COUNT) -> np.ndarray:
    return RANDOM.integers(low, high, count).astype(dtype)


def floats(dtype, low=-4.0, high=4.0, count=COUNT) -> np.ndarray:
    return RANDOM.uniform(low, high, count).astype(dtype)
