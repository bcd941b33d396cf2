# ruff: noqa: E501 — kernel text reads better unbroken
"""Programs of linalg's named operations: products, convolutions, pooling, element by element."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from kernels.program import Program, Programs

PROGRAMS = Programs()
RANDOM = np.random.default_rng(11)
_SPATIAL = "dhw"
_IMAGE, _KERNEL = 3, 2  # extents of spatial dimensions; compiling takes longer than anything else
_EXTENTS = {"b": 2, "c": 2, "f": 2, "g": 2, "i": 2, "j": 3, "k": 2, "m": 1, "n": 1, "p": 2, "q": 2}

# Image (or left), kernel (or right), result, a letter for each dimension. Spatial ones slide.
_PRODUCTS = {
    "vecmat": "i,ij->j", "contract": "ij,jk->ik", "batch_matmul": "bij,bjk->bik", "batch_matvec": "bij,bj->bi",
    "batch_vecmat": "bi,bij->bj", "batch_reduce_matmul": "bij,bjk->ik", "mmt4d": "mkpj,ckqj->mcpq",
    "batch_mmt4d": "bmkpj,bckqj->bmcpq",
}  # fmt: skip
_CONVOLUTIONS = {
    "conv_1d": "w,w->w", "conv_1d_ncw_fcw": "ncw,fcw->nfw", "conv_1d_nwc_wcf": "nwc,wcf->nwf",
    "conv_2d_nchw_fchw": "nchw,fchw->nfhw", "conv_2d_nhwc_hwcf": "nhwc,hwcf->nhwf",
    "conv_2d_nhwc_fhwc": "nhwc,fhwc->nhwf", "conv_2d_ngchw_fgchw": "ngchw,fgchw->ngfhw",
    "conv_2d_ngchw_gfchw": "ngchw,gfchw->ngfhw", "conv_2d_nhwgc_gfhwc": "nhwgc,gfhwc->nhwgf",
    "conv_3d": "dhw,dhw->dhw", "conv_3d_ncdhw_fcdhw": "ncdhw,fcdhw->nfdhw", "conv_3d_ndhwc_dhwcf": "ndhwc,dhwcf->ndhwf",
}  # fmt: skip
_DEPTHWISE = {
    "conv_1d_ncw_cw": "ncw,cw->ncw", "conv_1d_nwc_wc": "nwc,wc->nwc", "conv_1d_nwc_wcm": "nwc,wcm->nwcm",
    "conv_2d_nchw_chw": "nchw,chw->nchw", "conv_2d_nhwc_hwc": "nhwc,hwc->nhwc", "conv_2d_nhwc_hwcm": "nhwc,hwcm->nhwcm",
    "conv_3d_ncdhw_cdhw": "ncdhw,cdhw->ncdhw", "conv_3d_ndhwc_dhwc": "ndhwc,dhwc->ndhwc",
    "conv_3d_ndhwc_dhwcm": "ndhwc,dhwcm->ndhwcm",
}  # fmt: skip
_QUANTIZED = {
    "quantized_matmul": "ij,jk->ik", "quantized_batch_matmul": "bij,bjk->bik",
    "conv_2d_nchw_fchw_q": "nchw,fchw->nfhw", "conv_2d_nhwc_hwcf_q": "nhwc,hwcf->nhwf",
    "conv_2d_nhwc_fhwc_q": "nhwc,fhwc->nhwf", "conv_2d_ngchw_gfchw_q": "ngchw,gfchw->ngfhw",
    "conv_2d_nhwgc_gfhwc_q": "nhwgc,gfhwc->nhwgf", "conv_3d_ndhwc_dhwcf_q": "ndhwc,dhwcf->ndhwf",
    "depthwise_conv_2d_nhwc_hwc_q": "nhwc,hwc->nhwc", "depthwise_conv_2d_nhwc_hwcm_q": "nhwc,hwcm->nhwcm",
}  # fmt: skip
_POOLING = {"ncw": "w", "nwc": "w", "nchw": "hw", "nhwc": "hw", "ndhwc": "dhw"}
_ZERO_POINTS = (3, -2)
_MOST_PARAMETERS = 250  # of a kernel in words: SPIR-V allows 255
# Not to unroll these loops, which are all upstream's, takes a third of the time.
_PLAIN = '|attributes {passthrough = ["optnone", "noinline"]}'


def _shape(letters: str, spatial: int) -> tuple[int, ...]:
    return tuple(spatial if letter in _SPATIAL else _EXTENTS[letter] for letter in letters)


def _whole(shape: Sequence[int], dtype: type = np.float32) -> np.ndarray:
    return RANDOM.integers(-9, 10, shape).astype(dtype)


def _windows(image: np.ndarray, letters: str, sliding: str) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """For each place of the kernel, what of the image it meets."""
    found = []
    for offset in np.ndindex(*(_KERNEL for _ in sliding)):
        part = image
        for letter, first in zip(sliding, offset, strict=True):
            part = np.take(part, range(first, first + _IMAGE - _KERNEL + 1), letters.index(letter))
        found.append((offset, part))
    return found


def _convolve(image: np.ndarray, kernel: np.ndarray, spec: str) -> np.ndarray:
    given, out = spec.split("->")
    left, right = given.split(",")
    sliding = "".join(letter for letter in right if letter in _SPATIAL)
    rest = "".join(letter for letter in right if letter not in _SPATIAL)
    total = 0
    for offset, part in _windows(image, left, sliding):
        at = tuple(offset[sliding.index(c)] if c in sliding else slice(None) for c in right)
        total = total + np.einsum(f"{left},{rest}->{out}", part, kernel[at])
    return np.asarray(total)


def _words(value: np.ndarray | np.generic) -> int:
    """Parameters that a kernel takes for ``value``: those of a memref's descriptor, or one."""
    return 3 + 2 * value.ndim if isinstance(value, np.ndarray) else 1


class _Calls:
    """Several operations of one kernel, or of a few where they have too many parameters for one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kernels = 0
        self._begin()

    def _begin(self) -> None:
        self.kernels += 1
        self.ops: list[str] = []
        self.body = ""
        self.args: dict[str, np.ndarray | np.generic] = {}
        self.expect: dict[str, np.ndarray] = {}

    def add(
        self, op: str, inputs: list[np.ndarray | np.generic], want: np.ndarray, attributes: str = ""
    ) -> None:
        if sum(map(_words, [*self.args.values(), *inputs, want])) > _MOST_PARAMETERS:
            self.done()
            self._begin()
        number = len(self.ops)
        names = [f"v{number}_{n}" for n in range(len(inputs))]
        out = f"out{number}"
        self.args |= dict(zip(names, inputs, strict=True))
        self.args[out] = np.zeros(want.shape, want.dtype)
        if "max" in op or "min" in op:
            self.args[out] = want.copy() * 0 + (127 if "min" in op else 0 if "unsigned" in op else -127)
        self.expect[out] = want
        typed = Program(name="", op="", body="", args=self.args, expect={})
        ins = ", ".join(f"%{n}" for n in names), ", ".join(map(typed.parameter_type, names))
        self.body += f"    linalg.{op} {attributes} ins({ins[0]} : {ins[1]}) outs(%{out} : {typed.parameter_type(out)})\n"
        self.ops.append(op)

    def done(self, **more) -> None:
        op = "linalg." + ", ".join(dict.fromkeys(self.ops))
        PROGRAMS.add(
            name=self.name if self.kernels == 1 else f"{self.name}_{self.kernels}",
            op=op,
            body=self.body,
            args=self.args,
            expect=self.expect,
            block=1,
            attributes=_PLAIN,
            **more,
        )


def _named(name: str, specs: dict[str, str], prefix: str = "") -> None:
    calls = _Calls(name)
    for op, spec in specs.items():
        left, right = spec.split("->")[0].split(",")
        image, kernel = _whole(_shape(left, _IMAGE)), _whole(_shape(right, _KERNEL))
        maps = "indexing_maps = [affine_map<(i,j,k)->(i,j)>, affine_map<(i,j,k)->(j,k)>, affine_map<(i,j,k)->(i,k)>]"
        calls.add(
            prefix + op, [image, kernel], _convolve(image, kernel, spec), maps if op == "contract" else ""
        )
    calls.done()


def _quantized() -> None:
    calls = _Calls("linalg_quantized")
    zeros = [np.int32(z) for z in _ZERO_POINTS]
    for op, spec in _QUANTIZED.items():
        left, right = spec.split("->")[0].split(",")
        image, kernel = _whole(_shape(left, _IMAGE), np.int8), _whole(_shape(right, _KERNEL), np.int8)
        want = _convolve(image.astype(np.int32) - zeros[0], kernel.astype(np.int32) - zeros[1], spec)
        calls.add(op, [image, kernel, *zeros], want.astype(np.int32))
    calls.done()


def _pooling() -> None:
    calls = _Calls("linalg_pooling")
    for layout, sliding in _POOLING.items():
        kinds = ["max", "sum"] + (["min"] if layout[-1] == "c" else [])
        kinds += ["max_unsigned", "min_unsigned"] if layout in ("nwc", "nhwc") else []
        for kind in kinds:
            dtype = np.int32 if "unsigned" in kind else np.float32
            image = abs(_whole(_shape(layout, _IMAGE), dtype))
            parts = np.array([part for _, part in _windows(image, layout, sliding)])
            reduce: Callable[..., np.ndarray] = {"max": np.max, "sum": np.sum, "min": np.min}[kind[:3]]
            window = np.zeros((_KERNEL,) * len(sliding), dtype)
            calls.add(f"pooling_{layout}_{kind}", [image, window], reduce(parts, axis=0))
    calls.done()


def _elements() -> None:
    calls = _Calls("linalg_elements")
    x, y = _whole((3, 4)) / 4, RANDOM.choice([-2, -1, -0.5, 0.5, 1, 4], (3, 4)).astype(np.float32)
    for op, want in {
        "abs": abs(x), "ceil": np.ceil(x), "floor": np.floor(x), "negf": -x, "round": np.trunc(x + np.copysign(0.5, x)),
        "square": x * x, "sqrt": np.sqrt(x * 0 + 4),
    }.items():  # fmt: skip
        calls.add(op, [x * 0 + 4 if op == "sqrt" else x], want)
    calls.add("reciprocal", [y], 1 / y)
    for op, want in {
        "div": x / y,
        "max": np.maximum(x, y),
        "min": np.minimum(x, y),
        "mul": x * y,
        "sub": x - y,
    }.items():
        calls.add(op, [x, y], want)
    a, b = np.array([7, -1, 9], np.int32), np.array([2, 16, 3], np.int32)
    calls.add("div_unsigned", [a, b], (a.view(np.uint32) // b.view(np.uint32)).view(np.int32))
    which = x > 0
    calls.add("select", [which, x, y], np.where(which, x, y))
    calls.add("elementwise", [x, y], x + y, "kind=#linalg.elementwise_kind<add>")
    calls.done()
    for op in ("exp", "log", "powf", "rsqrt", "tanh", "erf"):
        calls = _Calls(f"linalg_{op}")
        one = RANDOM.uniform(0.5, 2, (3, 4)).astype(np.float32)
        wide = one.astype(np.float64)
        two = np.float32(1.5) + 0 * one
        want = {
            "exp": np.exp, "log": np.log, "rsqrt": lambda v: 1 / np.sqrt(v), "tanh": np.tanh,
            "powf": lambda v: v**1.5, "erf": np.vectorize(_erf),
        }[op](wide)  # fmt: skip
        calls.add(op, [one, two] if op == "powf" else [one], want)
        calls.args["out0"] = np.zeros((3, 4), np.float32)
        calls.body = calls.body.replace("memref<3x4xf64>", "memref<3x4xf32>")
        calls.done(tolerance_ulp=4)


def _erf(value: float) -> float:
    from math import erf

    return erf(value)


def _others() -> None:
    x = _whole((3, 4)) / 4
    for axis in (0, 1):
        power = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
        calls = _Calls(f"linalg_softmax_{axis}")
        calls.add("softmax", [x], power / power.sum(axis, keepdims=True), f"dimension({axis})")
        calls.args["out0"] = np.zeros((3, 4), np.float32)
        calls.body = calls.body.replace("memref<3x4xf64>", "memref<3x4xf32>")
        calls.done(tolerance_ulp=8)
    calls = _Calls("linalg_fill_rng_2d")
    calls.args["out0"] = np.zeros((3, 4), np.float32)
    calls.expect["out0"] = _random_numbers(-1, 1, 5, (3, 4))
    calls.body = """    %low = arith.constant -1.0 : f64
    %high = arith.constant 1.0 : f64
    %seed = arith.constant 5 : i32
    linalg.fill_rng_2d ins(%low, %high, %seed : f64, f64, i32) outs(%out0 : memref<3x4xf32>)"""
    calls.done(breaks=("5 : i32", "6 : i32"))


def _random_numbers(low: float, high: float, seed: int, shape: tuple[int, int]) -> np.ndarray:
    """The two steps of a linear congruential generator that the dialect documents, in i32 and f64."""

    def step(value: np.ndarray, before: np.ndarray) -> np.ndarray:
        return ((value + before) * 1103515245 + 12345).astype(np.int32).astype(np.int64)

    rows, columns = np.indices(shape)
    bits = step(columns, step(rows, np.full(shape, seed)))
    return ((2147483647.0 + bits) * ((high - low) * 2.3283064e-10) + low).astype(np.float32)


_named("linalg_products", _PRODUCTS)
_named("linalg_convolutions", _CONVOLUTIONS)
_named("linalg_depthwise", _DEPTHWISE, "depthwise_")
_quantized()
_pooling()
_elements()
_others()
