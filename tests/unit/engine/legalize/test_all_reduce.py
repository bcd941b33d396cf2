"""All-reduce on GPUs: what must not be in it; tests/simulators/device_ir tests what it computes."""

import re

import pytest
from unit.engine.device_steps import in_child, kernel

from gpubuild.engine.ir import contexts
from gpubuild.engine.legalize import driver
from gpubuild.targets.target import Kind

SUM = "%r = gpu.all_reduce add %x uniform {} : (f32) -> (f32)\nmemref.store %r, %a[%i] : memref<?xf32>"
LOOP = f"""%lo = arith.constant 0 : index
%by = arith.constant 1 : index
scf.for %k = %lo to %i step %by {{
{SUM}
}}"""


def prepared(body: str, kind: Kind, *, size: int = 64, extra: str = "") -> str:
    return in_child(_prepare, kernel(body, extra=extra), kind, size)


def _prepare(text: str, kind: Kind, size: int) -> str:
    with contexts.context():
        module = contexts.parse(text)
        driver.prepare(module, driver.Machine(kind=kind, subgroup_size=size))
        contexts.verify(module)
        return contexts.canonical_text(module)


@pytest.mark.parametrize("size", [32, 64])
def test_amd_names_lanes_of_whole_subgroups_only(size: int) -> None:
    """Upstream asks for as many lanes as there are subgroups, where AMD's form takes powers of two only."""
    text = prepared(SUM, Kind.ROCDL, size=size)
    assert "gpu.all_reduce" not in text
    widths = {m[1] for m in re.finditer(r"gpu\.shuffle  idx %\S+, %\S+, (%\S+) :", text)}
    assert widths
    assert all(re.search(rf"^ *{width} = arith\.constant {size} : i32", text, re.M) for width in widths)
    assert f"memref<{1024 // size}xf32, #gpu.address_space<workgroup>>" in text


@pytest.mark.parametrize("kind", [Kind.NVVM, Kind.ROCDL])
def test_who_comes_again_waits_until_all_have_read(kind: Kind) -> None:
    """Else a fast subgroup writes its next partial result over what a slow one has not read yet."""
    inside = 1 if kind is Kind.ROCDL else 0  # of our form; upstream's gets its own later
    assert prepared(SUM, kind).count("gpu.barrier") == inside
    assert prepared(LOOP, kind).count("gpu.barrier") == inside + 1
    callee = f"func.func @g(%x: f32, %a: memref<?xf32>, %i: index) {{\n{SUM}\nreturn\n}}"
    assert prepared("gpu.barrier", kind, extra=callee).count("gpu.barrier") == inside + 2


def test_the_cpu_has_its_own() -> None:
    assert "gpu.all_reduce" in prepared(LOOP, Kind.CPU) and "gpu.barrier" not in prepared(LOOP, Kind.CPU)


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
    text = prepared(body, Kind.ROCDL)
    assert "gpu.all_reduce" not in text and "gpu.yield" not in text
    assert text.count("arith.mulf") == 6 + 1  # doublings up to 64 lanes, and the loop over subgroups
