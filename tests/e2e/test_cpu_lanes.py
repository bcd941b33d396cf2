"""Exchanges within a subgroup, lane by lane as the dialect words them, in every tier.

Where it leaves a value open (lanes outside the width, lanes that are not there), a lane keeps its own.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from e2e.cpu_harness import load

LANES = 32
BROADCASTS = ("broadcasts", "nested", "behind")
MODES = ("xor", "up", "down", "idx")
WIDTHS = (1, 2, 4, 5, 8, 16, 31, 32)
OFFSETS = (0, 1, 2, 3, 7, 15, 16, 31, 32, 33, 1 << 30, (1 << 31) - 1, -1, -16, -(1 << 31))
ITEMS = (1, 31, 45, 64)
ROTATIONS = [(offset, width) for width in (1, 2, 4, 8, 16, 32) for offset in {0, 1, width // 2, width - 1}
             if offset < width]  # fmt: skip
CLUSTERS = [(1 << s, 1 << t) for s in range(6) for t in range(6 - s)]
INTEGERS = {
    "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "and": lambda a, b: a & b, "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b, "minsi": min, "maxsi": max, "minui": lambda a, b: min(a, b, key=_unsigned),
    "maxui": lambda a, b: max(a, b, key=_unsigned),
}  # fmt: skip
FLOATS = {"add": INTEGERS["add"], "mul": INTEGERS["mul"], "minnumf": min, "maxnumf": max, "minimumf": min,
          "maximumf": max}  # fmt: skip
REDUCTIONS = [*((op, "i32") for op in INTEGERS), *((op, "f32") for op in FLOATS)]


def _unsigned(number: int) -> int:
    return int(number) % (1 << 32)


def _lanes(items: int) -> list[range]:
    """Which work-items each subgroup has."""
    return [range(a, min(b, items)) for a, b in pairwise(range(0, items + LANES, LANES))]


def _shuffled(mode: str, items: int, offset: int, width: int) -> tuple[list[int], list[bool]]:
    sources, valid = list(range(items)), [False] * items
    for group in _lanes(items):
        for lane, item in enumerate(group):
            other = {"xor": lane ^ offset, "up": lane - offset, "down": lane + offset, "idx": offset}[mode]
            valid[item] = lane < width and 0 <= other < width
            if valid[item] and other < len(group):
                sources[item] = group[other]
    return sources, valid


def _rotated(items: int, offset: int, width: int) -> tuple[list[int], list[bool]]:
    sources, valid = list(range(items)), [False] * items
    for group in _lanes(items):
        for lane, item in enumerate(group):
            other = (lane + offset) % width
            valid[item] = lane < width
            if valid[item] and other < len(group):
                sources[item] = group[other]
    return sources, valid


def _reduced(op: str, values: list, size: int, stride: int) -> list:
    found = list(values)
    for group in _lanes(len(values)):
        clusters: dict[tuple[int, int], list[int]] = {}
        for lane, item in enumerate(group):
            clusters.setdefault((lane // (size * stride), lane % stride), []).append(item)
        for members in clusters.values():
            combine = (INTEGERS if isinstance(values[0], int) else FLOATS)[op]
            result = reduce(combine, [values[item] for item in members])
            for item in members:
                found[item] = result
    return found


def _kernel(name: str, body: str, kind: str = "i32", more: str = "") -> str:
    return f"""
  gpu.func @{name}(%A: memref<?x{kind}>, %C: memref<?x?x{kind}>, %V: memref<?x?xi8>{more}) kernel {{
    %x = gpu.thread_id x
    %l = gpu.lane_id
    %v = memref.load %A[%x] : memref<?x{kind}>
    {body}
    gpu.return
  }}"""


def _put(number: int, value: str, valid: str = "", kind: str = "i32") -> str:
    """Store row ``number`` of the results."""
    text = f"""%n{number} = arith.constant {number} : index
    memref.store {value}, %C[%n{number}, %x] : memref<?x?x{kind}>"""
    if not valid:
        return text
    return f"""{text}
    %b{number} = arith.extui {valid} : i1 to i8
    memref.store %b{number}, %V[%n{number}, %x] : memref<?x?xi8>"""


def _module() -> str:
    kernels = []
    for mode in MODES:
        for name, width in (
            ("", ""),
            ("_all", "%w = arith.constant 32 : i32"),
            ("_8", "%w = arith.constant 8 : i32"),
        ):
            body = f"{width}\n    %r, %p = gpu.shuffle {mode} %v, %o, %w : i32\n    {_put(0, '%r', '%p')}"
            kernels.append(_kernel(f"{mode}{name}", body, more=", %o: i32" + ("" if width else ", %w: i32")))
    body = "\n    ".join(
        f"%r{n}, %p{n} = gpu.rotate %v, {offset}, {width} : i32\n    {_put(n, f'%r{n}', f'%p{n}')}"
        for n, (offset, width) in enumerate(ROTATIONS)
    )
    kernels.append(_kernel("rotations", body))
    body = "\n    ".join(
        f"%r{n} = gpu.subgroup_reduce add %v cluster(size = {size}, stride = {stride}) : (i32) -> i32\n"
        f"    {_put(n, f'%r{n}')}"
        for n, (size, stride) in enumerate(CLUSTERS)
    )
    kernels.append(_kernel("clusters", body))
    for kind in ("i32", "f32"):
        ops = [op for op, k in REDUCTIONS if k == kind]
        body = "\n    ".join(
            f"%r{n} = gpu.subgroup_reduce {op} %v cluster(size = 8, stride = 2) : ({kind}) -> {kind}\n"
            f"    {_put(n, f'%r{n}', kind=kind)}"
            for n, op in enumerate(ops)
        )
        kernels.append(_kernel(f"reductions_{kind}", body, kind))
    broadcast = "gpu.subgroup_broadcast %v,"
    body = f"""%f = {broadcast} first_active_lane : i32
    {_put(0, "%f")}
    %s = {broadcast} specific_lane %o : i32
    {_put(1, "%s")}
    %i = arith.index_cast %l : index to i32
    {_put(2, "%i")}
    %p = arith.cmpi uge, %l, %from : index
    scf.if %p {{
      %g = {broadcast} first_active_lane : i32
      {_put(3, "%g")}
    }}"""
    kernels.append(_kernel("broadcasts", body, more=", %o: i32, %from: index"))
    for name, behind in (("nested", ""), ("behind", "gpu.barrier")):
        body = f"""%three = arith.constant 3 : index
    %p = arith.cmpi uge, %l, %three : index
    %q = arith.cmpi uge, %l, %from : index
    scf.if %p {{
      %f = {broadcast} first_active_lane : i32
      {_put(0, "%f")}
      scf.if %q {{
        %g = {broadcast} first_active_lane : i32
        {_put(1, "%g")}
        %s = {broadcast} specific_lane %o : i32
        {_put(2, "%s")}
      }}
    }}
    {behind}
    {_put(3, "%v")}"""
        kernels.append(_kernel(name, body, more=", %o: i32, %from: index"))
    return f"gpu.module @k {{{''.join(kernels)}\n}}"


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    return load(_module(), tmp_path_factory.mktemp("lanes"), opt_level=0)


@pytest.fixture(params=["fission", "fibers"])
def launch(request, module):
    """Launch a kernel on a workgroup's values: the rows it stores, and their flags."""

    def run(name: str, values: np.ndarray, rows: int, *more: int) -> tuple[np.ndarray, np.ndarray]:
        assert module.tier(name) == "fission"
        found = np.full((rows, len(values)), 77, values.dtype)
        flags = np.full((rows, len(values)), 7, np.int8)
        given = [np.int64(n) if name in BROADCASTS and k else np.int32(n) for k, n in enumerate(more)]
        module.launch(name, 1, len(values), values, found, flags, *given, fibers=request.param == "fibers")
        return found, flags

    return run


def _values(items: int) -> np.ndarray:
    return np.random.default_rng(items).integers(-(1 << 31), 1 << 31, items, np.int64).astype(np.int32)


@pytest.mark.parametrize("mode", MODES)
def test_shuffle(launch, mode):
    for items in ITEMS:
        values = _values(items)
        for offset in OFFSETS:
            for name, width in [*((mode, w) for w in WIDTHS), (f"{mode}_all", 32), (f"{mode}_8", 8)]:
                more = (offset, width) if name == mode else (offset,)
                found, flags = launch(name, values, 1, *more)
                sources, valid = _shuffled(mode, items, offset, width)
                where = (name, items, offset, width)
                assert (where, flags[0].tolist()) == (where, [int(bit) for bit in valid])
                assert (where, found[0].tolist()) == (where, values[sources].tolist())


def test_rotate(launch):
    for items in ITEMS:
        values = _values(items)
        found, flags = launch("rotations", values, len(ROTATIONS))
        for row, (offset, width) in enumerate(ROTATIONS):
            sources, valid = _rotated(items, offset, width)
            assert flags[row].tolist() == [int(bit) for bit in valid], (items, offset, width)
            assert found[row].tolist() == values[sources].tolist(), (items, offset, width)


def test_subgroup_reduce(launch):
    for items in ITEMS:
        small = np.random.default_rng(items).integers(-3, 4, items).astype(np.int32)
        found, _ = launch("clusters", small, len(CLUSTERS))
        for row, cluster in enumerate(CLUSTERS):
            assert found[row].tolist() == _reduced("add", small.tolist(), *cluster), (items, cluster)
        for kind in ("i32", "f32"):
            values = small.astype(np.dtype(np.float32 if kind == "f32" else np.int32))
            ops = [op for op, k in REDUCTIONS if k == kind]
            found, _ = launch(f"reductions_{kind}", values, len(ops))
            for row, op in enumerate(ops):
                assert found[row].tolist() == _reduced(op, values.tolist(), 8, 2), (items, op, kind)


def test_subgroup_broadcast_and_lane_id(launch):
    for items in ITEMS:
        values = _values(items)
        for lane, first in ((0, 0), (0, 5), (9, 31), (31, 32)):
            found, _ = launch("broadcasts", values, 4, lane, first)
            want = np.full_like(found, 77)
            for group in _lanes(items):
                for number, item in enumerate(group):
                    want[0, item] = values[group[0]]
                    want[1, item] = values[group[lane]] if lane < len(group) else values[item]
                    want[2, item] = number
                    if number >= first:
                        want[3, item] = values[group[first]]
            assert found.tolist() == want.tolist(), (items, lane, first)


@pytest.mark.parametrize("name", ["nested", "behind"])
def test_broadcasts_in_branches(launch, request, name):
    if name == "behind" and "fibers" in request.node.callspec.id:
        return  # there, exchanges need whole subgroups where somebody waits later
    for items in ITEMS:
        values = _values(items)
        found, _ = launch(name, values, 4, 20, 6)
        want = np.full_like(found, 77)
        for group in _lanes(items):
            for number, item in enumerate(group):
                if number >= 3:
                    want[0, item] = values[group[3]]
                if number >= 6:
                    want[1, item] = values[group[6]]
                    want[2, item] = values[group[20]] if len(group) > 20 else values[item]
        want[3] = values
        assert found.tolist() == want.tolist(), items
