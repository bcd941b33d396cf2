"""Kernels in packs, launched by the runtime library: on the CPU, and on GPUs at hand."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from devices import at_hand, record, runner
from devices.__main__ import main
from devices.cases import Batch, Case, fill, operations, random_kernels, wrong
from devices.pack import RUN, Pack, Result
from e2e.command import execute
from kernels.operations.groups import GROUPS


def launched(
    device: at_hand.Device, batches: Iterable[Batch], folder: Path, **options: object
) -> tuple[list[Case], list[Result]]:
    pack = Pack(folder / "pack", device.chip)
    cases = fill(pack, batches, folder, **options)
    return cases, pack.run(device.kind)


def test_on_the_cpu(tmp_path, monkeypatch):
    """The flow itself: tests of the CPU launch kernels in another way."""
    device = at_hand.cpu()
    few = [p for p in GROUPS["gpu"] if p.runs and (p.prints or p.dynamic_bytes or "cluster" in p.name)]
    monkeypatch.setitem(GROUPS, "few", few)
    batches = [*operations(device.chip, ["few"]), *random_kernels(device.chip, range(4))]
    cases, results = launched(device, batches, tmp_path, opt_level=0)
    assert wrong(cases, results) == {}
    # Wrong results are reported.
    changed = [replace(r, args=tuple(a + np.ones_like(a) for a in r.args), printed="?") for r in results]
    assert wrong(cases, changed).keys() == {case.name for case in cases}


def test_the_commands_of_the_documentation(tmp_path, monkeypatch, capsys):
    """Those of docs/how-to/gpu-tests.md, for two programs and one random kernel."""
    chip = at_hand.cpu().chip
    monkeypatch.setitem(GROUPS, "few", [p for p in GROUPS["gpu"] if p.runs][:2])
    monkeypatch.setattr(record, "FILE", tmp_path / "record.json")
    options = ["--chip", chip, "--kernels", "1", "--groups", "few"]
    options += ["--executables", "saxpy", "gpu.wait"]
    folder, results = tmp_path / "pack", tmp_path / "results"
    assert main(["make", str(folder), *options]) == 0
    execute(sys.executable, folder / RUN, results, "--device", "cpu")
    assert main(["judge", str(results), *options, "--record", "a CPU"]) == 0
    assert "6 right, 0 wrong" in capsys.readouterr().out
    assert record.answer("gpu_thread_id") == record.answer("saxpy") == "right: a CPU"
    lines = (results / "executables.jsonl").read_text().splitlines()
    wrong = [json.dumps(json.loads(line) | {"out": "?"}) for line in lines]
    (results / "executables.jsonl").write_text("\n".join(wrong))
    assert main(["judge", str(results), *options]) == 1
    assert "4 right, 2 wrong" in capsys.readouterr().out
    assert record.answer("gpu_none") == "-"


def test_a_launch_that_ends_the_process_is_noted_and_the_others_run(tmp_path):
    device = at_hand.cpu()
    pack = Pack(tmp_path / "pack", device.chip)
    cases = fill(pack, random_kernels(device.chip, range(2)), tmp_path, opt_level=0)
    launches = pack.folder / runner.LAUNCHES
    lines = launches.read_text().splitlines()
    lines[1] = lines[1].replace('"kernel": "k0"', '"kernel": "absent"')
    launches.write_text("\n".join(lines) + "\n")
    results = pack.run(device.kind)
    assert [number for number, result in enumerate(results) if result.failed] == [1]
    assert "absent" in wrong(cases, results)[cases[1].name]


def test_what_does_not_compile_together_compiles_alone(tmp_path):
    device = at_hand.cpu()
    (batch,) = random_kernels(device.chip, range(2))

    def text(kernels) -> str:
        return batch.text(kernels) if len(kernels) == 1 else "gpu.module @k { nonsense }"

    cases, results = launched(device, [replace(batch, text=text)], tmp_path, opt_level=0)
    assert len(cases) == len(results) > 2
    assert wrong(cases, results) == {}


Find = Callable[[], at_hand.Device | None]
NO_CUDA = pytest.mark.skipif(at_hand.cuda() is None, reason="no NVIDIA GPU")
NO_HIP = pytest.mark.skipif(at_hand.hip() is None, reason="no AMD GPU")
GPUS = [
    pytest.param(at_hand.cuda, marks=[pytest.mark.cuda, NO_CUDA], id="cuda"),
    pytest.param(at_hand.hip, marks=[pytest.mark.hip, NO_HIP], id="hip"),
]


@pytest.mark.parametrize("find", GPUS)
@pytest.mark.parametrize("group", GROUPS)
def test_operations(find: Find, group: str, tmp_path: Path):
    device = find()
    assert wrong(*launched(device, operations(device.chip, [group]), tmp_path)) == {}


@pytest.mark.parametrize("find", GPUS)
@pytest.mark.parametrize("first", range(0, 2000, 500))
def test_random_kernels(find: Find, first: int, tmp_path: Path):
    device = find()
    assert wrong(*launched(device, random_kernels(device.chip, range(first, first + 500)), tmp_path)) == {}
