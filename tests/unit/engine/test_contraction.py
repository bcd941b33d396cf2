"""A product and a sum become one operation where the code allows it, and nowhere else, on every device."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from e2e.cpu_harness import compile_module as compile_for_cpu
from unit.engine.device_steps import compile_module

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
