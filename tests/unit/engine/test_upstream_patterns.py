"""Upstream's own rewrites of the gpu dialect, asked for by a schedule in the user's file."""

from __future__ import annotations

import pytest
from unit.engine.device_steps import outline_source

_SOURCE = """module attributes {transform.with_named_sequence} {
gpu.module @k {
  gpu.func @f(%m: memref<32xf32>, %v: vector<4xf32>) kernel {
    BODY
    gpu.return
  }
}
transform.named_sequence @__transform_main(%top: !transform.any_op) {
  %kernels = transform.structured.match ops{["gpu.module"]} in %top : (!transform.any_op) -> !transform.any_op
  transform.apply_patterns to %kernels {
    PATTERN
  } : !transform.any_op
  transform.yield
}
}
"""
_REDUCTION = """%t = gpu.thread_id x
    %x = memref.load %m[%t] : memref<32xf32>
    %r = gpu.all_reduce add %x uniform {} : (f32) -> f32
    memref.store %r, %m[%t] : memref<32xf32>"""
_BARRIERS = "gpu.barrier\n    gpu.barrier\n    gpu.barrier"
_SHUFFLE = """%t = gpu.thread_id x
    %x = memref.load %m[%t] : memref<32xf32>
    %by = arith.constant 16 : i32
    %width = arith.constant 64 : i32
    %r, %valid = gpu.shuffle xor %x, %by, %width : f32
    memref.store %r, %m[%t] : memref<32xf32>"""


@pytest.mark.parametrize(
    ("pattern", "body", "gone", "made"),
    [
        ("gpu.gpu_rewrite_patterns", _REDUCTION, "gpu.all_reduce", "gpu.shuffle"),
        ("gpu.eliminate_barriers", _BARRIERS, "gpu.barrier", "gpu.return"),
        ('gpu.gpu_shuffle_to_amdgpu chipset = "gfx950"', _SHUFFLE, "gpu.shuffle", "amdgpu.permlane_swap"),
    ],
)
def test_patterns_of_the_gpu_dialect(pattern: str, body: str, gone: str, made: str) -> None:
    text = _SOURCE.replace("BODY", body).replace("PATTERN", f"transform.apply_patterns.{pattern}")
    asked = outline_source(text, passes="builtin.module(transform-interpreter)")["module.0.mlir"]
    assert gone not in asked
    assert made in asked
    assert gone in outline_source(text)["module.0.mlir"]
