"""The library for AMD GPUs, compiled for this CPU and run there: the same functions, the same bits."""

import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from accuracy import TYPES, arguments, errors, needs_wide_numbers, pairs, reference, special_pairs
from llvmlite import binding
from unit.engine.device_steps import compile_module, kernel

from gpubuild.engine.backends.amd import ocml
from gpubuild.engine.backends.cpu import compiler_rt
from gpubuild.engine.ir import llvm

# Worst errors in units in the last place; docs/how-to/device-libraries.md says the same.
BOUNDS: dict[tuple[str, str], float] = {
    **dict.fromkeys([(name, "f32") for name in ("atan", "atan2", "log1p")], 0.7),
    **dict.fromkeys([(name, "f32") for name in ("cos", "cosh", "pow", "sin", "sinh")], 0.8),
    **dict.fromkeys([(name, "f32") for name in ("acos", "asin", "expm1")], 1.1),
    **dict.fromkeys([(name, "f32") for name in ("asinh", "atanh")], 1.6),
    ("acosh", "f32"): 2.1,
    ("cbrt", "f32"): 0.51,
    ("erf", "f32"): 1.3,
    ("erfc", "f32"): 4.0,
    ("tan", "f32"): 2.4,
    ("tanh", "f32"): 1.4,
    **dict.fromkeys([(name, "f64") for name in ("atan2", "cos", "exp", "exp2", "pow", "sin")], 0.8),
    **dict.fromkeys([(name, "f64") for name in (
        "atan", "cosh", "log", "log10", "log1p", "log2", "sinh", "tanh",
    )], 0.7),
    **dict.fromkeys([(name, "f64") for name in ("acos", "asin", "expm1")], 1.1),
    **dict.fromkeys([(name, "f64") for name in ("asinh", "atanh")], 1.7),
    ("acosh", "f64"): 2.6,
    ("cbrt", "f64"): 0.51,
    ("erf", "f64"): 1.2,
    ("erfc", "f64"): 4.0,
    ("tan", "f64"): 2.1,
}  # fmt: skip
PAIRS = ("atan2", "pow")
C_TYPES = {"f16": "half", "f32": "float", "f64": "double", "i32": "i32"}
UNARY = [key for key in BOUNDS if key[0] not in PAIRS]
HALVES = ("atan2", "cbrt", "erfc", "pow", "sin")  # as f32, like all others


def loop(name: str, kinds: tuple[str, ...]) -> str:
    """A C function that writes results over the first operands."""
    types = [C_TYPES[kind] for kind in kinds]
    pointers = ", ".join(f"ptr %p{k}" for k in range(len(kinds)))
    loads = "".join(
        f"  %a{k} = getelementptr {kind}, ptr %p{k}, i64 %i\n  %v{k} = load {kind}, ptr %a{k}\n"
        for k, kind in enumerate(types)
    )
    operands = ", ".join(f"{kind} %v{k}" for k, kind in enumerate(types))
    return (
        f"declare {types[0]} @{name}({', '.join(types)})\n"
        f"define void @each.{name}(i64 %n, {pointers}) {{\n  br label %next\nnext:\n"
        f"  %i = phi i64 [ 0, %0 ], [ %j, %next ]\n{loads}"
        f"  %r = call {types[0]} @{name}({operands})\n  store {types[0]} %r, ptr %a0\n"
        "  %j = add i64 %i, 1\n  %more = icmp ult i64 %j, %n\n  br i1 %more, label %next, label %end\n"
        "end:\n  ret void\n}\n"
    )


@cache
def library() -> ctypes.CDLL:
    """All functions, for this machine's CPU, linked."""
    wanted = {(name, kind): (kind,) * (2 if name in PAIRS else 1) for name, kind in BOUNDS}
    wanted |= {(name, "f16"): ("f16",) * (2 if name in PAIRS else 1) for name in HALVES}
    wanted |= {("pown", kind): (kind, "i32") for kind in ("f16", "f32", "f64")}
    names = {key: f"__ocml_{'_'.join(key)}" for key in wanted}
    text = "".join(loop(names[key], kinds) for key, kinds in wanted.items())
    module = llvm.parse_assembly(text, llvm.new_context())
    machine = llvm.target_machine(binding.get_process_triple(), *llvm.host_cpu(), 0)
    llvm.set_target(module, machine)
    llvm.link_library(module, ocml.library_text(names.values()).encode(), "mathematics")
    assert not llvm.undefined_symbols(module)
    compiler_rt.link_half_conversions(module, machine.triple)
    llvm.optimize(module, machine, 1)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "ocml.o"), Path(folder, "ocml.so")
        source.write_bytes(llvm.emit_object(module, machine))
        compiler = shutil.which("cc") or shutil.which("gcc")
        command = [compiler] if compiler else [sys.executable, "-m", "ziglang", "cc"]
        subprocess.run([*command, "-shared", "-o", str(target), str(source), "-lm"], check=True)
        return ctypes.CDLL(str(target))


def run(name: str, kind: str, *operands: np.ndarray) -> np.ndarray:
    """``operands[0]``'s type is that of the results."""
    arrays = [np.ascontiguousarray(v).copy() for v in operands]
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
    library()[f"each.__ocml_{name}_{kind}"](ctypes.c_int64(len(arrays[0])), *pointers)
    return arrays[0]


def worst(name: str, kind: str, bound: float, *operands: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        exact = reference(name, *operands)
        result = run(name, kind, *operands)
        error = errors(result, exact)
    k = error.argmax()
    assert error[k] <= bound, (error[k], [v[k] for v in operands], result[k], exact[k])


@needs_wide_numbers
@pytest.mark.parametrize(("name", "kind"), UNARY)
def test_errors(name: str, kind: str) -> None:
    worst(name, kind, BOUNDS[name, kind], arguments(kind))


@needs_wide_numbers
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_far_arguments(name: str) -> None:
    """Doubles next to multiples of a quarter turn, the nearest of all among them, of every exponent."""
    rng = np.random.default_rng(5)
    exponents = rng.integers(0, 1024, 20_000)
    far = np.ldexp(1 + rng.random(20_000), exponents) * rng.choice([1, -1], 20_000)
    close = [
        6381956970095103 * 2.0**797,
        2.0**26,
        np.nextafter(2.0**26, np.inf),
        1.7976931348623157e308,
        1e22,
    ]
    worst(name, "f64", BOUNDS[name, "f64"], np.concatenate([far, close, np.negative(close)]))


@needs_wide_numbers
@pytest.mark.parametrize(("name", "kind"), [key for key in BOUNDS if key[0] in PAIRS])
def test_errors_of_pairs(name: str, kind: str) -> None:
    worst(name, kind, BOUNDS[name, kind], *pairs(kind))


@pytest.mark.parametrize(("name", "kind"), [key for key in BOUNDS if key[0] in PAIRS])
def test_special_pairs(name: str, kind: str) -> None:
    a, b, expected = special_pairs(name + ("f" if kind == "f32" else ""), kind)
    result = run(name, kind, a, b)
    np.testing.assert_allclose(result, expected, rtol=4 * np.finfo(TYPES[kind]).eps)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result[known]), np.signbit(expected[known]))


@needs_wide_numbers
@pytest.mark.parametrize("kind", TYPES)
def test_whole_powers(kind: str) -> None:
    """Also integers that f32 does not hold, with the parity that they have."""
    rng = np.random.default_rng(5)
    near_one = np.exp(rng.normal(0, 1, 40_000) * np.repeat([1e-6, 1e-3, 0.3, 20], 10_000)).astype(np.float32)
    logarithm = np.maximum(np.abs(np.log(near_one.astype(float))), 1e-9)
    powers = np.clip(rng.uniform(-88, 88, 40_000) / logarithm, -(2**31), 2**31 - 1).astype(np.int32)
    values = (near_one * rng.choice([1, -1], 40_000)).astype(TYPES[kind])
    exact = values.astype(np.longdouble) ** powers
    error = errors(run("pown", kind, values, powers), exact)
    k = error.argmax()
    assert error[k] <= BOUNDS["pow", kind], (values[k], powers[k])


@needs_wide_numbers
@pytest.mark.parametrize("kind", ["f16", *TYPES])
def test_special_whole_powers(kind: str) -> None:
    dtype = TYPES.get(kind, np.float16)
    some = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-40, -3e38, 2, -2, 0.5])
    whole = [0, 1, -1, 2, -2, 3, -3, 4096, 4097, -4096, -4097, 2**31 - 1, -(2**31)]
    with np.errstate(all="ignore"):
        values, powers = (np.ravel(v) for v in np.meshgrid(some.astype(dtype), np.array(whole, np.int32)))
        expected = np.power(values.astype(np.longdouble), powers).astype(dtype)
    result = run("pown", kind, values, powers)
    np.testing.assert_allclose(result, expected, rtol=2 * np.finfo(dtype).eps)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result[known]), np.signbit(expected[known]))


@pytest.mark.parametrize("name", HALVES)
def test_every_half(name: str) -> None:
    """Through f32, within little more than half a unit: all of f16 for one operand."""
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    operands = [values]
    if name in PAIRS:
        operands.append(np.random.default_rng(5).uniform(-8, 8, len(values)).astype(np.float16))
    with np.errstate(all="ignore"):
        exact = reference(name, *(v.astype(np.float32) for v in operands)).astype(np.float64)
        error = errors(run(name, "f16", *operands), exact)
    assert error.max() <= 0.51, values[error.argmax()]


def table() -> list[str]:
    """The rows of docs/how-to/device-libraries.md."""
    rows: dict[tuple[str, float], list[str]] = {}
    for (name, kind), bound in BOUNDS.items():
        rows.setdefault((kind, bound), []).append(name)
    return [
        f"| {', '.join(f'`{n}`' for n in sorted(names))} of {kind} | {bound} |"
        for (kind, bound), names in sorted(rows.items())
    ]


def test_the_documentation_says_so() -> None:
    page = Path(__file__).parents[5] / "docs" / "how-to" / "device-libraries.md"
    assert "\n".join(table()) in page.read_text()


def test_only_what_is_asked_for() -> None:
    assert not ocml.library_text([])
    assert not ocml.library_text(["__ocml_j0_f32", "__ockl_printf_begin", "sinf", "__ocml_sin_f128"])
    text = ocml.library_text(["__ocml_sin_f16", "__ocml_sin_f32"])
    assert re.findall(r"^define .*@([\w.]+)\(", text, re.M) == [
        "gpubuild.ocml.sin",
        "__ocml_sin_f16",
        "__ocml_sin_f32",
    ]


def kernels(keys: list[tuple[str, str]]) -> str:
    """A gpu.module with one kernel for each function."""
    texts = []
    for name, kind in keys:
        op = {"pow": "powf"}.get(name, name)
        operands = "%x, %x" if name in PAIRS else "%x"
        texts.append(
            f"gpu.func @{name}_{kind}(%a: memref<?x{kind}>, %x: {kind}) kernel {{\n"
            f"%i = gpu.thread_id x\n%r = math.{op} {operands} : {kind}\n"
            f"memref.store %r, %a[%i] : memref<?x{kind}>\ngpu.return\n}}\n"
        )
    return f"gpu.module @k {{\n{''.join(texts)}}}"


# The table of op_coverage has all of them for gfx90a and gfx942.
@pytest.mark.parametrize(
    ("chip", "keys"),
    [
        ("gfx1100", [*BOUNDS, ("sin", "f16"), ("pow", "f16"), ("tanh", "bf16")]),
        ("gfx906", [("sin", "f32"), ("pow", "f64"), ("tan", "f64"), ("erfc", "f64")]),
    ],
)
def test_code_for_gpus(chip: str, keys: list[tuple[str, str]]) -> None:
    """In registers, without calls; ld.lld has seen that nothing is missing."""
    built = compile_module(kernels(keys), chip, opt_level=1)
    assert len(built.kernels) == len(keys)
    assert "s_swappc" not in built.asm
    for found in built.kernels:
        assert found["spill_bytes"] == 0 and found["registers"] <= 64, found
    for name in (name for name, kind in keys if kind != "f64"):
        body = built.asm.partition(f"\n{name}_")[2].partition("s_endpgm")[0]
        assert body and "_f64" not in body, name  # which some chips have few units for
    assert set(re.findall(r"\.private_segment_fixed_size: (\d+)", built.asm)) == {"0"}


def test_a_library_of_the_users_comes_first() -> None:
    own = "define float @__ocml_sin_f32(float %x) { %r = fadd float %x, 42.0\n ret float %r }\n"
    text = kernel("%r = math.sin %x : f32\nmemref.store %r, %a[%i] : memref<?xf32>")
    assert "0x42280000" in compile_module(text, "gfx90a", libraries=(own,)).asm


def test_libraries_of_the_users_may_call_ours() -> None:
    own = (
        "declare double @__ocml_sin_f64(double)\ndefine float @wave(float %x) {\n"
        "  %w = fpext float %x to double\n  %s = call double @__ocml_sin_f64(double %w)\n"
        "  %r = fptrunc double %s to float\n  ret float %r\n}\n"
    )
    text = kernel(
        "%r = func.call @wave(%x) : (f32) -> f32\nmemref.store %r, %a[%i] : memref<?xf32>",
        extra="func.func private @wave(f32) -> f32",
    )
    assert "gpubuild.two_over_pi" in compile_module(text, "gfx90a", libraries=(own,)).asm
