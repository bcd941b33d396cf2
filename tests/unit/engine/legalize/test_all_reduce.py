"""All-reduce on GPUs: what must not be in it; tests/simulators/device_ir tests what it computes."""

import re

import pytest
from unit.engine.device_steps import kernel
from unit.engine.legalized import legalized

SUM = "%r = gpu.all_reduce add %x uniform {} : (f32) -> (f32)\nmemref.store %r, %a[%i] : memref<?xf32>"
LOOP = f"""%lo = arith.constant 0 : index
%by = arith.constant 1 : index
scf.for %k = %lo to %i step %by {{
{SUM}
}}"""


def prepared(body: str, chip: str, *, extra: str = "") -> str:
    return legalized(kernel(body, extra=extra), chip)


@pytest.mark.parametrize(("chip", "size"), [("gfx1100", 32), ("gfx90a", 64)])
def test_amd_names_lanes_of_whole_subgroups_only(chip: str, size: int) -> None:
    """Upstream asks for as many lanes as there are subgroups, where AMD's form takes powers of two only."""
    text = prepared(SUM, chip)
    assert "gpu.all_reduce" not in text
    widths = {m[1] for m in re.finditer(r"gpu\.shuffle  idx %\S+, %\S+, (%\S+) :", text)}
    assert widths
    assert all(re.search(rf"^ *{width} = arith\.constant {size} : i32", text, re.M) for width in widths)
    assert f"memref<{1024 // size}xf32, #gpu.address_space<workgroup>>" in text


@pytest.mark.parametrize("chip", ["sm_60", "gfx90a"])
def test_who_comes_again_waits_until_all_have_read(chip: str) -> None:
    """Else a fast subgroup writes its next partial result over what a slow one has not read yet."""
    inside = 1 if chip == "gfx90a" else 0  # of our form; upstream's gets its own later
    assert prepared(SUM, chip).count("gpu.barrier") == inside
    assert prepared(LOOP, chip).count("gpu.barrier") == inside + 1
    callee = f"func.func @g(%x: f32, %a: memref<?xf32>, %i: index) {{\n{SUM}\nreturn\n}}"
    assert prepared("gpu.barrier", chip, extra=callee).count("gpu.barrier") == inside + 2


def test_the_cpu_has_its_own() -> None:
    assert "gpu.all_reduce" in prepared(LOOP, "cpu") and "gpu.barrier" not in prepared(LOOP, "cpu")


def test_regions_go_where_two_values_meet() -> None:
    body = """%r = gpu.all_reduce %x uniform {
^bb0(%l: f32, %q: f32):
  %three = arith.constant 3.0 : f32
  %c = arith.cmpf olt, %l, %q : f32
  %z = scf.if %c -> f32 {
    %s = arith.mulf %l, %three : f32
    scf.yield %s : f32
  } else {
    scf.yield %q : f32
  }
  gpu.yield %z : f32
} : (f32) -> (f32)
memref.store %r, %a[%i] : memref<?xf32>"""
    text = prepared(body, "gfx90a")
    assert "gpu.all_reduce" not in text and "gpu.yield" not in text
    assert text.count("arith.mulf") == 6 + 1  # doublings up to 64 lanes, and the loop over subgroups
