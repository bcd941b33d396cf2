"""Fast math: approximations where they were asked for, on both vendors, and nowhere else."""

import re
from pathlib import Path

import pytest
from e2e.cpu_harness import compile_module as compile_for_cpu
from unit.engine.device_steps import Compiled, compile_module

# What the instruction of either vendor for an op is called.
NVIDIA = {
    "math.sin": "sin.approx.ftz", "math.cos": "cos.approx.ftz", "math.exp2": "ex2.approx.ftz",
    "math.log2": "lg2.approx.ftz", "math.sqrt": "sqrt.approx.ftz", "math.rsqrt": "rsqrt.approx.ftz",
}  # fmt: skip
AMD = {
    "math.sin": "v_sin_f32", "math.cos": "v_cos_f32", "math.exp2": "v_exp_f32", "math.log2": "v_log_f32",
    "math.sqrt": "v_sqrt_f32", "math.rsqrt": "v_rsq_f32",
}  # fmt: skip
ALL = (*AMD, "math.tan")
# Corrections that a result right to the last place takes, in what is left without them.
AMD_EXACT = ("v_div_fixup_f32", "v_div_fmas_f32")


def every_op(chip: str, *, fast: bool, kind: str = "f32", **options) -> Compiled:
    """One kernel for each op."""
    functions = "".join(
        f"gpu.func @f{n}(%a: memref<?x{kind}>, %x: {kind}, %i: index) kernel {{\n"
        f"%r = {op} %x : {kind}\n%d = arith.divf %r, %x : {kind}\n"
        f"memref.store %d, %a[%i] : memref<?x{kind}>\ngpu.return\n}}\n"
        for n, op in enumerate(ALL)
    )
    return compile_module(f"gpu.module @k {{\n{functions}}}", chip, fast_math=fast, **options)


def test_nvidia_uses_approximations_only_when_asked() -> None:
    fast, exact = every_op("sm_90", fast=True).asm, every_op("sm_90", fast=False).asm
    assert [op for op, name in NVIDIA.items() if name not in fast] == []
    assert "div.rn" not in fast and "div.rn" in exact
    assert "sqrt.rn" in exact and "sqrt.rn" not in fast
    # libdevice's own functions start from some approximations, which they then improve.
    assert not any(name in exact for name in ("sin.approx", "cos.approx", "lg2.approx", "sqrt.approx.ftz"))


def test_nvidia_compares_bf16() -> None:
    """ptxas refuses ``setp.….ftz.bf16``, which LLVM writes."""
    body = "%r = arith.cmpf olt, %x, %y : bf16\n%s = arith.extui %r : i1 to i32\n"
    kernel = f"gpu.func @f(%a: memref<i32>, %x: bf16, %y: bf16) kernel {{\n{body}memref.store %s, %a[]"
    text = f"gpu.module @k {{\n{kernel} : memref<i32>\ngpu.return\n}}\n}}"
    asm = compile_module(text, "sm_90", fast_math=True).asm
    assert "setp.lt.bf16" in asm


@pytest.mark.parametrize("chip", ["gfx90a", "gfx1100"])
def test_amd_uses_its_instructions_and_no_library_when_fast(chip: str) -> None:
    fast = every_op(chip, fast=True).asm
    assert [op for op, name in AMD.items() if name not in fast] == []
    assert not any(name in fast for name in AMD_EXACT)


def test_amd_without_fast_math_takes_no_coarse_instruction() -> None:
    exact = every_op("gfx90a", fast=False).asm
    assert not re.search(r"v_(sin|cos)_f", exact)
    assert all(name in exact for name in AMD_EXACT)


# ---- contraction ----


KINDS = ("f32", "f64")
# What one operation that rounds once is called in the assembly of each.
FUSED = {
    "sm_90": r"\bfma\.rn\.(?:f32|f64)",
    "gfx90a": r"\bv_(?:pk_)?(?:fma|fmac|mac|mad)_(?:f32|f64)",
    "gfx1100": r"\bv_(?:pk_|dual_)?(?:fma|fmac|mac|mad|fmaak)_(?:f32|f64)",
    "x86-64-v3": r"\bvfn?m(?:add|sub)",
}


def kernels(flags: str) -> str:
    """a · b + c and a · b - c of each type."""
    text = ""
    for kind in KINDS:
        for op in ("addf", "subf"):
            text += f"""
  gpu.func @{op}_{kind}(%a: memref<?x{kind}>, %b: memref<?x{kind}>, %c: memref<?x{kind}>) kernel {{
    %i = gpu.global_id x
    %x = memref.load %a[%i] : memref<?x{kind}>
    %y = memref.load %b[%i] : memref<?x{kind}>
    %z = memref.load %c[%i] : memref<?x{kind}>
    %p = arith.mulf %x, %y {flags} : {kind}
    %r = arith.{op} %p, %z {flags} : {kind}
    memref.store %r, %c[%i] : memref<?x{kind}>
    gpu.return
  }}"""
    return f"gpu.module @k {{{text}\n}}"


@pytest.mark.parametrize("chip", FUSED)
def test_only_what_may_be_contracted_is(chip: str, tmp_path: Path) -> None:
    found = {}
    for flags in ("", "fastmath<contract>"):
        text = kernels(flags)
        if chip.startswith("x86"):
            out = compile_for_cpu(text, tmp_path / f"k{len(flags)}", chip=chip, opt_level=1)
            text = (out / "asm").read_text()
        else:
            text = compile_module(text, chip).asm
        found[flags] = len(re.findall(FUSED[chip], text))
    assert found[""] == 0
    assert found["fastmath<contract>"] >= 2 * len(KINDS)
