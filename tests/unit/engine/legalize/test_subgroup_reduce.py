"""Subgroup reductions of every type, and where NVIDIA's instruction takes their place."""

import re

import pytest
from unit.engine.device_steps import kernel
from unit.engine.legalized import legalized


def reduce_body(kind: str, op: str, options: str = "") -> str:
    return (
        f'%r = gpu.subgroup_reduce {op} %v {options} : ({kind}) -> ({kind})\n"test.use"(%r) : ({kind}) -> ()'
    )


def reduced(kind: str, op: str, options: str = "", chip: str = "sm_60", *, full: bool = True) -> str:
    text = kernel(reduce_body(kind, op, options), arguments=f"%v: {kind}")
    if full:
        text = text.replace(" kernel {", " kernel attributes {known_block_size = array<i32: 64, 1, 1>} {")
    return legalized(text, chip)


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
