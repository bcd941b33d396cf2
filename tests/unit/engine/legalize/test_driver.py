"""Rewrites give valid code that means the same, and leave alone what needs none."""

import re

import pytest
from unit.engine.device_steps import kernel
from unit.engine.legalized import legalized

from gpubuild.errors import Location, StepError


def prepared(body: str, chip: str = "sm_60", *, fast: bool = False, arguments: str = "") -> str:
    return legalized(kernel(body, arguments=arguments), chip, fast_math=fast)


def reduce_body(kind: str, op: str, options: str = "") -> str:
    return (
        f'%r = gpu.subgroup_reduce {op} %v {options} : ({kind}) -> ({kind})\n"test.use"(%r) : ({kind}) -> ()'
    )


def reduced(kind: str, op: str, options: str = "", chip: str = "sm_60", *, full: bool = True) -> str:
    text = kernel(reduce_body(kind, op, options), arguments=f"%v: {kind}")
    if full:
        text = text.replace(" kernel {", " kernel attributes {known_block_size = array<i32: 64, 1, 1>} {")
    return legalized(text, chip)


@pytest.mark.parametrize(("chip", "steps"), [("sm_60", 5), ("gfx90a", 6)])
def test_subgroup_reduce_takes_one_shuffle_per_doubling(chip: str, steps: int) -> None:
    text = reduced("f32", "add", chip=chip)
    assert text.count("gpu.shuffle") == text.count("arith.addf") == steps
    assert [f"constant {1 << k} : i32" in text for k in range(steps)] == [True] * steps


def test_clusters_reduce_over_their_own_members() -> None:
    text = reduced("i32", "maxsi", "cluster(size = 4, stride = 8)")
    assert text.count("gpu.shuffle") == 2
    assert "constant 8 : i32" in text and "constant 16 : i32" in text and "constant 1 : i32" not in text


@pytest.mark.parametrize(
    ("kind", "op", "combined", "carried"),
    [
        ("i32", "xor", "arith.xori", "i32"),
        ("i64", "minui", "arith.minui", "i32"),
        ("f64", "mul", "arith.mulf", "i32"),
        ("f16", "maxnumf", "arith.maxnumf", "i32"),
        ("bf16", "minimumf", "arith.minimumf", "i32"),
        ("i8", "and", "arith.andi", "i32"),
    ],
)
def test_subgroup_reduce_of_every_width(kind: str, op: str, combined: str, carried: str) -> None:
    text = reduced(kind, op)
    assert text.count(combined) == 5
    assert all(line.endswith(f": {carried}") for line in text.splitlines() if "gpu.shuffle" in line)


def test_a_workgroup_of_any_size_reduces_what_is_there() -> None:
    text = reduced("f32", "add", full=False)
    assert text.count("gpu.shuffle  idx") == 6 and "gpu.shuffle  xor" not in text
    assert text.count("arith.select") == 10


def test_vectors_are_reduced_by_element() -> None:
    text = reduced("vector<3xf16>", "add")
    assert text.count("gpu.shuffle") == 15
    assert "gpu.subgroup_reduce" not in text


def test_rotate_reads_around_in_its_width() -> None:
    text = prepared("%r, %v = gpu.rotate %x, 3, 16 : f32\nmemref.store %r, %a[%i] : memref<?xf32>")
    assert "gpu.shuffle  idx" in text and "gpu.rotate" not in text
    assert all(f"constant {c} : i32" in text for c in (3, 15, 16))


def test_chips_that_cannot_exchange_lanes_say_so() -> None:
    for op in (
        "%r = gpu.subgroup_reduce add %x : (f32) -> f32",
        "%r = gpu.all_reduce add %x {} : (f32) -> f32",
    ):
        with pytest.raises(StepError) as caught:
            prepared(op, "gfx700")
        assert "exchange" in caught.value.diagnostics[0].message


def test_subgroup_numbers_on_nvidia() -> None:
    text = prepared(
        "%s = gpu.subgroup_size : index\n%g = gpu.subgroup_id : index\n%c = gpu.num_subgroups : index\n"
        "%t = arith.addi %s, %g : index\n%u = arith.addi %t, %c : index\n"
        "memref.store %x, %a[%u] : memref<?xf32>"
    )
    assert "gpu.subgroup_size" not in text
    assert "gpu.subgroup_id" not in text
    assert "gpu.num_subgroups" not in text
    assert "arith.constant 31 : index" in text  # rounds up


def test_subgroup_size_is_left_to_amds_intrinsic() -> None:
    body = "%s = gpu.subgroup_size : index\nmemref.store %x, %a[%s] : memref<?xf32>"
    assert "gpu.subgroup_size" in prepared(body, "gfx90a")


ATOMIC = """%old = memref.generic_atomic_rmw %{memory}[%i] : memref<?x{kind}> {{
^bb0(%current: {kind}):
  %twice = arith.add{letter} %current, %current : {kind}
  %sum = arith.add{letter} %twice, %current : {kind}
  memref.atomic_yield %sum : {kind}
}}"""


def test_float_atomics_compare_bits() -> None:
    text = prepared(ATOMIC.format(memory="a", kind="f32", letter="f"))
    assert "memref.generic_atomic_rmw" in text
    assert "memref<?xi32>" in text
    assert text.count("arith.bitcast") == 3
    assert "arith.addf %" in text


def test_integer_atomics_stay_as_they_are() -> None:
    text = prepared(ATOMIC.format(memory="z", kind="i32", letter="i"), arguments="%z: memref<?xi32>")
    assert "arith.bitcast" not in text


def test_bools_are_kept_in_bytes() -> None:
    kind = "memref<2x?xi1, strided<[?, 1], offset: ?>, 1>"
    body = (
        f"%c = arith.constant 0 : index\n%v = memref.load %b[%c, %i] : {kind}\n"
        f"memref.store %v, %b[%c, %c] : {kind}"
    )
    text = prepared(body, arguments=f"%b: {kind}")
    assert "memref.load" in text
    assert text.count("memref<2x?xi8, strided<[?, 1], offset: ?>, 1>") >= 4


def test_fast_math_marks_every_float_op() -> None:
    body = "%s = arith.addf %x, %x : f32\n%r = math.exp %s : f32\nmemref.store %r, %a[%i] : memref<?xf32>"
    assert prepared(body, fast=True).count("fastmath<fast>") == 2
    assert "fastmath" not in prepared(body)


def test_narrow_integers_in_memory_are_refused_at_their_place() -> None:
    with pytest.raises(StepError) as caught:
        prepared(
            "%v = arith.constant 0 : i4\nmemref.store %v, %b[%i] : memref<?xi4>", arguments="%b: memref<?xi4>"
        )
    assert "i4" in caught.value.diagnostics[0].message
    assert caught.value.diagnostics[0].location == Location(file="k.mlir", line=5, column=1)


def test_every_refusal_is_listed() -> None:
    with pytest.raises(StepError) as caught:
        prepared("nvvm.barrier0\nnvvm.barrier0", "gfx90a")
    assert len(caught.value.diagnostics) == 2


def test_floats_wider_than_any_gpus_are_refused() -> None:
    with pytest.raises(StepError) as caught:
        prepared("%w = arith.extf %x : f32 to f128")
    assert "f128" in caught.value.diagnostics[0].message


@pytest.mark.parametrize(
    ("kind", "op", "options", "chip", "redux"),
    [
        ("i32", "add", "uniform", "sm_80", "add"),
        ("i32", "maxsi", "uniform", "sm_90a", "max"),
        ("i32", "minui", "uniform", "sm_80", "umin"),
        ("i32", "xor", "uniform", "sm_80", "xor"),
        ("vector<2xi32>", "and", "uniform", "sm_80", "and"),
        ("i32", "add", "uniform cluster(size = 32)", "sm_80", "add"),
        ("i32", "add", "", "sm_80", ""),
        ("i32", "mul", "uniform", "sm_80", ""),
        ("i32", "add", "uniform", "sm_75", ""),
        ("i32", "add", "uniform cluster(size = 16)", "sm_80", ""),
        ("f32", "add", "uniform", "sm_90", ""),
        ("i16", "add", "uniform", "sm_90", ""),
        ("i64", "add", "uniform", "sm_90", ""),
    ],
)
def test_words_of_a_subgroup_are_reduced_by_one_instruction_where_there_is_one(
    kind: str, op: str, options: str, chip: str, redux: str
) -> None:
    for full in (True, False):
        text = reduced(kind, op, options, chip, full=full)
        found = re.findall(r"nvvm\.redux\.sync +(\w+)", text)
        assert found == [redux] * (2 if "vector" in kind else 1) if redux else not found
        assert ("gpu.shuffle" in text) is not bool(redux)
        # Lanes that are not there must not be waited for.
        assert not redux or ("arith.shrui" in text) is not full
