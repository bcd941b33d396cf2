"""Random functions on tensors give NumPy's results in the host's memory, and in memory apart from it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from e2e.command import ROOT, build_project, execute, project_file
from kernels.random.tensors import TensorFunction
from simulators.cuda_driver import standin

FUNCTIONS = int(os.environ.get("GPUBUILD_TEST_KERNELS", "20"))  # a longer run: more
SEED = int(os.environ.get("GPUBUILD_TEST_SEED", "0"))
PER_LIBRARY = 20
CHECK = Path(__file__).parent / "tensors" / "check_random.py"
RAND = "rand: {sources: [rand.mlir], pipeline: linalg, product: shared}"


@pytest.mark.parametrize("first", range(SEED, SEED + FUNCTIONS, PER_LIBRARY))
def test_results(tmp_path: Path, first: int) -> None:
    yaml = project_file(RAND, targets="sm_60: {}, cpu: {}", more="defaults: {opt_level: 0}\n")
    text = "".join(TensorFunction(seed).text for seed in range(first, first + PER_LIBRARY))
    build_project(tmp_path, yaml, {"rand.mlir": text})
    library = tmp_path / "build" / "rand"
    standin.translate(list(library.glob("*.sm_60.ptx")), "7.0", tmp_path)
    path = {"PYTHONPATH": os.pathsep.join([str(library), str(ROOT / "tests")])}
    for device in ({"GPUBUILD_DEVICE": "cpu"}, standin.environment("7.0", modules=tmp_path)):
        arguments = [CHECK, str(first), str(PER_LIBRARY)]
        assert execute(sys.executable, *arguments, env=os.environ | path | device).out == ""


def test_results_that_are_not_written_are_noticed() -> None:
    noticed = [bool(TensorFunction(seed).difference(lambda *_: None)) for seed in range(50)]
    assert noticed.count(True) > 40  # the others have no elements
