"""Mathematics as vector code: errors against wider numbers, special values against C's functions."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from accuracy import TYPES, WIDE, arguments, errors, needs_wide_numbers, pairs, reference, special_pairs
from e2e.cpu_harness import Device, Module, compile_module

from gpubuild.engine.mathlib import functions

C_LIBRARY = 2.5  # what is left to the C library (glibc's log10: 1.6)
# Bounds in units in the last place, with fused multiply-add and without; see docs/explanation/cpu.md.
BOUNDS: dict[tuple[str, str], tuple[float, float]] = {
    ("exp", "f32"): (0.94, 1.21),
    ("exp2", "f32"): (0.94, 1.21),
    ("tanh", "f32"): (1.4, 1.4),
    ("erf", "f32"): (1.3, 1.4),
    ("log", "f32"): (0.51, C_LIBRARY),
    ("log2", "f32"): (0.51, C_LIBRARY),
    **dict.fromkeys([(name, "f32") for name in (
        "expm1", "log10", "log1p", "sinh", "cosh", "sin", "cos", "tan", "erfc", "atan", "asin", "acos",
        "asinh", "acosh", "atanh", "cbrt",
    )], (0.51, 0.51)),
    **dict.fromkeys([(name, "f64") for name in ("exp", "exp2")], (0.8, C_LIBRARY)),
    **dict.fromkeys([(name, "f64") for name in ("sin", "cos")], (0.8, 0.8)),
    **dict.fromkeys([(name, "f64") for name in ("log", "log2", "log10")], (0.7, C_LIBRARY)),
    **dict.fromkeys([(name, "f64") for name in ("sinh", "cosh")], (0.7, 1.3)),
    ("tanh", "f64"): (0.7, 1.9),
    ("expm1", "f64"): (1.1, 1.1),
    ("log1p", "f64"): (0.7, 0.7),
    ("tan", "f64"): (2.1, 2.1),
    ("asinh", "f64"): (1.7, 1.7),
    ("atanh", "f64"): (1.7, 1.7),
    ("acosh", "f64"): (2.6, C_LIBRARY),
    ("erf", "f64"): (1.2, 1.4),
    ("erfc", "f64"): (4.0, 4.0),
    ("atan", "f64"): (0.7, 0.7),
    ("asin", "f64"): (1.1, 1.1),
    ("acos", "f64"): (1.1, 1.1),
    ("cbrt", "f64"): (0.51, 0.51),
}  # fmt: skip
PAIRS: dict[tuple[str, str], tuple[float, float]] = {
    ("powf", "f32"): (0.51, C_LIBRARY),
    ("powf", "f64"): (0.8, C_LIBRARY),
    ("atan2", "f32"): (0.51, 0.51),
    ("atan2", "f64"): (0.8, 0.8),
}
FAR = (2.0**26, 2.0**20)  # the C library takes sines and cosines of f64 from there on
CHIPS = {"x86-64-v3": 0, "x86-64-v2": 1}  # → which of the bounds
pytestmark = needs_wide_numbers


def c_name(name: str, kind: str) -> str:
    """C's function. Kernels have its name on purpose: they must not be called in its place."""
    return {"powf": "pow"}.get(name, name) + ("f" if kind == "f32" else "")


def kernel(name: str, kind: str) -> str:
    """In place, so that it is compiled once."""
    return f"""
  gpu.func @{c_name(name, kind)}(%a: memref<?x{kind}>) kernel {{
    %i = gpu.global_id x
    %x = memref.load %a[%i] : memref<?x{kind}>
    %y = math.{name} %x : {kind}
    memref.store %y, %a[%i] : memref<?x{kind}>
    gpu.return
  }}"""


def pair_kernel(name: str, kind: str) -> str:
    """The first operands become the results."""
    return f"""
  gpu.func @{c_name(name, kind)}(%a: memref<2x?x{kind}>) kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %i = gpu.global_id x
    %x = memref.load %a[%c0, %i] : memref<2x?x{kind}>
    %w = memref.load %a[%c1, %i] : memref<2x?x{kind}>
    %y = math.{name} %x, %w : {kind}
    memref.store %y, %a[%c0, %i] : memref<2x?x{kind}>
    gpu.return
  }}"""


def sincos_kernel(kind: str) -> str:
    """The sine goes where the argument was, the cosine behind it."""
    return f"""
  gpu.func @sincos_{kind}(%a: memref<2x?x{kind}>) kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %i = gpu.global_id x
    %x = memref.load %a[%c0, %i] : memref<2x?x{kind}>
    %s, %c = math.sincos %x : {kind}
    memref.store %s, %a[%c0, %i] : memref<2x?x{kind}>
    memref.store %c, %a[%c1, %i] : memref<2x?x{kind}>
    gpu.return
  }}"""


def whole_power_kernel(kind: str) -> str:
    """To the power of the work-item's number less 100."""
    return f"""
  gpu.func @fpowi_{kind}(%a: memref<?x{kind}>) kernel {{
    %c100 = arith.constant 100 : i32
    %i = gpu.global_id x
    %j = arith.index_cast %i : index to i32
    %n = arith.subi %j, %c100 : i32
    %x = memref.load %a[%i] : memref<?x{kind}>
    %y = math.fpowi %x, %n : {kind}, i32
    memref.store %y, %a[%i] : memref<?x{kind}>
    gpu.return
  }}"""


FMA = """
  gpu.func @fmaf(%a: memref<3x?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %i = gpu.global_id x
    %x = memref.load %a[%c0, %i] : memref<3x?xf32>
    %y = memref.load %a[%c1, %i] : memref<3x?xf32>
    %z = memref.load %a[%c2, %i] : memref<3x?xf32>
    %r = math.fma %x, %y, %z : f32
    memref.store %r, %a[%c0, %i] : memref<3x?xf32>
    gpu.return
  }"""
OTHERS = "".join([FMA, *map(sincos_kernel, TYPES), *map(whole_power_kernel, TYPES)])
TEXT = OTHERS + "".join([*(kernel(*key) for key in BOUNDS), *(pair_kernel(*key) for key in PAIRS)])


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("math")
    return {chip: compile_module(f"gpu.module @k {{{TEXT}\n}}", folder / chip, chip=chip) for chip in CHIPS}


@pytest.fixture(scope="module")
def modules(any_device: Device, outputs: dict[str, Path]) -> dict[str, Module]:
    return {chip: any_device.load(out) for chip, out in outputs.items() if any_device.supports(chip)}


def table() -> list[str]:
    """The rows of docs/explanation/cpu.md."""
    rows: dict[tuple[str, tuple[float, float]], list[str]] = {}
    for (name, kind), bounds in (BOUNDS | PAIRS).items():
        rows.setdefault((kind, bounds), []).append({"powf": "pow"}.get(name, name))
    return [
        f"| {', '.join(f'`{n}`' for n in sorted(names))} of {kind} | "
        + " | ".join("the C library's" if b == C_LIBRARY else f"{b}" for b in bounds)
        + " |"
        for (kind, bounds), names in sorted(rows.items())
    ]


def test_the_documentation_says_so() -> None:
    page = Path(__file__).parents[2] / "docs" / "explanation" / "cpu.md"
    assert "\n".join(table()) in page.read_text()


def test_bounds_are_of_our_own_code() -> None:
    for (name, kind), bounds in (BOUNDS | PAIRS).items():
        plain = c_name(name, kind)
        for fused, bound in zip((True, False), bounds, strict=True):
            assert functions.has_own(plain, fused=fused) == (bound != C_LIBRARY), (plain, fused)


def run(module: Module, kernel: str, values: np.ndarray) -> np.ndarray:
    """The last dimension is that of work-items."""
    count = values.shape[-1]
    result = np.resize(values, (-(-count // 256) * 256)) if values.ndim == 1 else values.copy()
    module.launch(kernel, result.shape[-1] // 256, 256, result)
    return result[:count] if values.ndim == 1 else result[0]


@pytest.mark.parametrize(("name", "kind"), BOUNDS)
def test_errors(modules, name: str, kind: str) -> None:
    values = arguments(kind)
    with np.errstate(all="ignore"):
        exact = reference(name, values)
        for chip, module in modules.items():
            result = run(module, c_name(name, kind), values)
            error = errors(result, exact)
            limit = np.full(len(values), BOUNDS[name, kind][CHIPS[chip]])
            if name in ("sin", "cos", "tan") and kind == "f64":
                limit[np.abs(values) > FAR[CHIPS[chip]]] = C_LIBRARY
            worst = (error / limit).argmax()
            assert error[worst] <= limit[worst], (chip, values[worst], result[worst], exact[worst])


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_errors_of_pairs(modules, name: str, kind: str) -> None:
    values = pairs(kind)
    if name == "atan2":
        values[:, 20_000:40_000] = np.random.default_rng(6).uniform(-3, 3, (2, 20_000))
    values = values[:, : values.shape[1] // 256 * 256]
    with np.errstate(all="ignore"):
        exact = reference(name, *values)
        for chip, module in modules.items():
            error = errors(run(module, c_name(name, kind), values), exact)
            worst = error.argmax()
            assert error[worst] <= PAIRS[name, kind][CHIPS[chip]], (chip, values[:, worst])


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_special_pairs(modules, name: str, kind: str) -> None:
    a, b, few = special_pairs(c_name(name, kind), kind)
    values, expected = np.stack([np.resize(v, 768) for v in (a, b)]), np.resize(few, 768)
    for chip, module in modules.items():
        result = run(module, c_name(name, kind), values)
        np.testing.assert_allclose(result, expected, rtol=2 * np.finfo(TYPES[kind]).eps, err_msg=chip)
        known = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(result[known]), np.signbit(expected[known]))


def test_sincos_is_sine_and_cosine(modules) -> None:
    for chip, module in modules.items():
        for kind, dtype in TYPES.items():
            values = arguments(kind)[:25_600]
            both = np.stack([values, values]).astype(dtype)
            module.launch(f"sincos_{kind}", 100, 256, both)
            for name, result in zip(("sin", "cos"), both, strict=True):
                np.testing.assert_array_equal(result, run(module, c_name(name, kind), values), err_msg=chip)


def test_fma_is_rounded_once(modules) -> None:
    """By code of ours as by the instruction, also where the sum cancels, or lies next to a tie."""
    if len(modules) < len(CHIPS):
        pytest.skip("this processor has no fused multiply-add to compare with")
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 1 << 32, (3, 60_160), np.uint64).astype(np.uint32)
    values = bits.view(np.float32).copy()
    values[:, 20_000:40_000] = rng.uniform(-2, 2, (3, 20_000))
    values[2, 30_000:40_000] = -values[0, 30_000:40_000] * values[1, 30_000:40_000]
    values[:2, 40_000:60_000] = 1 + rng.integers(0, 1 << 12, (2, 20_000)) * 2.0**-12  # ties, but for
    values[2, 40_000:60_000] = rng.choice([1, -1], 20_000) * 2.0 ** rng.integers(-80, -20, 20_000)  # this
    values[:, 60_000:] = rng.choice(np.float32([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45]), (3, 160))
    results = [run(module, "fmaf", values) for module in modules.values()]
    np.testing.assert_array_equal(*results)
    known = ~np.isnan(results[0])
    np.testing.assert_array_equal(*(np.signbit(result[known]) for result in results))
    with np.errstate(all="ignore"):
        naive = (values[0].astype(float) * values[1] + values[2]).astype(np.float32)
    assert (naive != results[0])[40_000:60_000].any()  # rounded twice


def test_whole_powers(modules) -> None:
    powers = np.arange(256) - 100
    for kind, dtype in TYPES.items():
        values = (np.linspace(0.4, 2.5, 256) * np.where(np.arange(256) % 3, 1, -1)).astype(dtype)
        exact = values.astype(WIDE[kind]) ** powers.astype(WIDE[kind])
        for chip, module in modules.items():
            error = errors(run(module, f"fpowi_{kind}", values), exact)
            assert error.max() <= (0.51 if kind == "f32" else 1.0), (chip, values[error.argmax()])


def test_one_value_is_as_many(modules) -> None:
    """The vectorised loop and a work-item alone, which fibers run, give the same bits."""
    for chip, module in modules.items():
        for name, kind in BOUNDS:
            values = np.linspace(-300, 300, 256).astype(TYPES[kind])
            values[::2] /= 400
            found = []
            for fibers in (False, True):
                result = values.copy()
                module.launch(c_name(name, kind), 1, 256, result, fibers=fibers)
                found.append(result)
            np.testing.assert_array_equal(*found, err_msg=f"{name} of {kind}, {chip}")


def test_it_is_vectorised(outputs: dict[str, Path]) -> None:
    text = (outputs["x86-64-v3"] / "llvm").read_text()
    assert text.count("@llvm.fma.v4f64(") > 100
    assert "@llvm.sin.v" not in text  # which would call the C library for each element
    calls = set(re.findall(r"\bcall [^\n]*@(\w+)\(", text))
    assert calls <= {"sin", "cos", "tan"}  # of f64, where they are far from zero
