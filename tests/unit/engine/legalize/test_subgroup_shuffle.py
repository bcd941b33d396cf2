"""Shuffles of few lanes: what NVIDIA's instruction is told of them."""

import re

from unit.engine.device_steps import compile_module

WIDTHS = (1, 2, 4, 5, 8, 16, 31, 32)
KERNEL = """
  gpu.func @w{width}(%a: memref<?xi32>, %c: memref<?xi32>, %o: i32) kernel {{
    %x = gpu.thread_id x
    %v = memref.load %a[%x] : memref<?xi32>
    %w = arith.constant {width} : i32
    %y, %p = gpu.shuffle {mode} %v, %o, %w : i32
    %z = arith.select %p, %y, %o : i32
    memref.store %z, %c[%x] : memref<?xi32>
    gpu.return
  }}"""


def test_members_and_clamp() -> None:
    """PTX: clamp bounds the lane to read, its upper bits are no segments, and members name who takes part."""
    modes = ("xor", "up", "down", "idx")
    kernels = "".join(KERNEL.format(width=w, mode=modes[n % 4]) for n, w in enumerate(WIDTHS))
    asm = compile_module(f"gpu.module @k {{{kernels}\n}}", "sm_80").asm
    found = re.findall(r"shfl\.sync\.idx\.b32[^;]*, (\d+), (-?\d+);", asm)
    wanted = [(width - 1, (1 << width) - 1) for width in WIDTHS]
    assert [(int(clamp), int(members) % (1 << 32)) for clamp, members in found] == wanted
