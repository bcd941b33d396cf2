"""Matrix code for AMD's subgroups of 64 lanes, which no CPU has: run as workgroups that stand for them.

The code is the one that AMD's compile step makes; then, in its text, a lane is a work-item's number
in its 64, and where the lanes of a subgroup wait for each other, the workgroup does.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from e2e.cpu_harness import Device, build_runtime, compile_module
from e2e.test_cpu_matrices import MIXES, SHAPES, SPECIAL, TYPES, multiplication
from unit.engine.device_steps import in_child

from gpubuild.cli.single_pass import target_params
from gpubuild.engine.backends.amd import passes
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.passes import run_passes, selected

RNG = np.random.default_rng(6)
LANES, GROUPS = 64, 2
CASES = [
    (SHAPES[0], "f16", True),
    (SHAPES[0], "si8", False),
    (SHAPES[4], "f64", True),
    (SHAPES[5], "half", False),
]
IDENTIFIERS = """
  func.func private @lane() -> index {
    %n = arith.constant 64 : index
    %t = gpu.thread_id x
    %r = arith.remui %t, %n : index
    return %r : index
  }
  func.func private @subgroup() -> index {
    %n = arith.constant 64 : index
    %t = gpu.thread_id x
    %r = arith.divui %t, %n : index
    return %r : index
  }
"""
FENCE = re.compile(r'llvm\.fence syncscope\("wavefront"\) (release|acquire)')
WAVE_BARRIER = 'llvm.call_intrinsic "llvm.amdgcn.wave.barrier"() : () -> ()'


def expanded(text: str) -> str:
    with contexts.context():
        module = contexts.parse(text)
        state = passes.start(target_params("gfx90a"), SourceText())
        run_passes(module, selected(passes.PASSES, "expand-matrices"), state)
        return contexts.canonical_text(module)


def on_cpus(text: str, *, waits: bool) -> str:
    """The kernels of ``text`` alone, for CPUs."""
    fences = FENCE.findall(text)
    assert fences.count("release") == fences.count("acquire") == text.count(WAVE_BARRIER) > 0
    text = text.replace(WAVE_BARRIER, "")
    text = FENCE.sub(lambda m: "gpu.barrier" if waits and m[1] == "release" else "", text)
    text = text.replace("gpu.lane_id", "func.call @lane() : () -> index")
    text = text.replace("gpu.subgroup_id : index", "func.call @subgroup() : () -> index")
    return text[text.index("gpu.func") : text.rindex("}", 0, text.rindex("}"))]


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wave64")
    kernels = [multiplication(f"m{i}", *shape, mix, turned) for i, (shape, mix, turned) in enumerate(CASES)]
    special = re.sub(r"// Only the first.*?(?=// Tiles)", "", SPECIAL, flags=re.S)  # it needs waits of lanes
    text = in_child(expanded, "gpu.module @k {" + "".join(kernels) + special + "}")
    assert "vector<1x4xf32>" in text, "16x16 over 64 lanes"
    in_place = special[: special.index("// Tiles")].replace("@in_place", "@hasty")
    hasty = on_cpus(in_child(expanded, "gpu.module @k {" + in_place + "}"), waits=False)
    whole = "gpu.module @k {" + IDENTIFIERS + on_cpus(text, waits=True) + hasty + "}"
    return Device(build_runtime(folder)).load(compile_module(whole, folder / "k", opt_level=1))


def test_shapes_types_and_layouts(module):
    for number, ((m, n, k), mix, turned) in enumerate(CASES):
        operand, result = (TYPES[t] for t in MIXES[mix])
        sizes = [(m, k), (k, n), (m, n)]
        parts = [[RNG.integers(0 if mix == "ui8" else -4, 5, s) for s in sizes] for _ in range(GROUPS)]
        memory = []
        for place, (rows, columns) in enumerate(sizes):
            flat = np.zeros((GROUPS, (rows + 3) * (columns + 3)), (operand, operand, result)[place])
            for group in range(GROUPS):
                value = parts[group][place].T if turned else parts[group][place]
                view = flat[group, 2 : 2 + value.shape[0] * (value.shape[1] + 3)]
                view.reshape(value.shape[0], -1)[:, : value.shape[1]] = value
            memory.append(flat)
        module.launch(f"m{number}", 1, LANES * GROUPS, *memory)
        for group, (a, b, c) in enumerate(parts):
            want = (a @ b + c).T if turned else a @ b + c
            view = memory[2][group, 2 : 2 + want.shape[0] * (want.shape[1] + 3)].reshape(want.shape[0], -1)
            np.testing.assert_array_equal(view[:, : want.shape[1]], want, err_msg=f"{CASES[number]}")
            assert not view[:, want.shape[1] :].any()


def test_lanes_wait_before_they_store_over_what_others_load(module):
    a, b = RNG.integers(-2, 3, (GROUPS, 16, 16)), RNG.integers(-1, 2, (16, 16))
    want = a @ b @ b @ b @ b
    right, hasty = (a.astype(np.float32).ravel() for _ in range(2))
    module.launch("in_place", 1, LANES * GROUPS, right, b.astype(np.float32).ravel(), 4)
    np.testing.assert_array_equal(right.reshape(a.shape), want)
    module.launch("hasty", 1, LANES * GROUPS, hasty, b.astype(np.float32).ravel(), 4)
    assert not np.array_equal(hasty.reshape(a.shape), want), "nobody waited"


def test_sums_in_loops_branches_and_calls(module):
    a, b = (RNG.integers(-3, 4, (64, 16)).astype(np.float32) for _ in range(2))
    c = np.zeros((32, 16), np.float32)
    module.launch("tiled", 1, LANES * GROUPS, a, b, c, 64)
    want = np.zeros((16, 16))
    for k in range(0, 64, 16):
        want = (want + a[k : k + 16] @ b[k : k + 16]) * (1 if k % 32 else 2)
    np.testing.assert_array_equal(c, -np.vstack([want, want]))
