"""Upstream's GPU integration programs build unchanged and print what their CHECK lines say.

They are not part of this repository: ``GPUBUILD_TEST_UPSTREAM`` names a checkout of llvm-project, such as
a release's sources. Takes a few minutes.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest
from devices import at_hand
from upstream import table
from upstream.programs import Built, UpstreamProgram, on_stand_in, run

# Ends as it must, but upstream checks other words, or what it checks is no output of the program.
_OTHERWISE = {"CUDA/assert": "ends with code 1: callee_file.cc:7:9: assertion failed: failing assertion"}
_OTHERWISE_ON_OPENCL = {"CUDA/assert": "ends with code 1: an assertion failed in a kernel"}
# What the stand-in of the CUDA driver says of what it lacks, and of two programs.
_LACKING = ("which is unknown here", "tensor maps need a device")
_NOT_THERE = {
    "CUDA/assert": ("kernel test_assert: workgroup (0, 0, 0), work-item (0, 0, 0): assertion failed",),
    # It has a memref of one element, and uses the second.
    "CUDA/alloc-host-shared": ("reads or writes 4 bytes",),
}


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("upstream")


@pytest.fixture(scope="session")
def results(project: Path) -> list[tuple[UpstreamProgram, Built, str]]:
    checkout = os.environ.get("GPUBUILD_TEST_UPSTREAM")
    if not checkout:
        pytest.skip("GPUBUILD_TEST_UPSTREAM names no checkout of llvm-project")
    return table.results(Path(checkout), project)


def test_on_the_cpu(results: list[tuple[UpstreamProgram, Built, str]]) -> None:
    wrong = {
        program.name: ended
        for program, _, ended in results
        if ended not in ("", "as checked", "ends") and not ended.startswith(_OTHERWISE.get(program.name, "?"))
    }
    assert not wrong


def test_the_page_is_current(results: list[tuple[UpstreamProgram, Built, str]]) -> None:
    assert table.table(results) == table.stored()


@pytest.fixture(scope="session")
def on_opencl(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    checkout, variables = os.environ.get("GPUBUILD_TEST_UPSTREAM"), at_hand.opencl()
    if not checkout:
        pytest.skip("GPUBUILD_TEST_UPSTREAM names no checkout of llvm-project")
    if variables is None:
        pytest.skip("needs Intel's OpenCL runtime (PyPI: intel-opencl-rt)")
    return table.opencl_results(Path(checkout), tmp_path_factory.mktemp("opencl"), variables)


def test_on_opencl(on_opencl: dict[str, str]) -> None:
    """The programs for SYCL, and those of the others that become SPIR-V."""
    wrong = {
        n: e for n, e in on_opencl.items() if e not in ("as checked", "ends") and not e.startswith("no: ")
    }
    expected = {n for n, e in wrong.items() if e.startswith(_OTHERWISE_ON_OPENCL.get(n, "?"))}
    assert {n: e for n, e in wrong.items() if n not in expected} == {}
    assert {e for n, e in on_opencl.items() if n.startswith("SYCL/")} == {"as checked"}


def test_the_page_is_current_on_opencl(on_opencl: dict[str, str]) -> None:
    shown = table.stored(table.OPENCL_BEGIN)
    lines = table.opencl_table(on_opencl).splitlines()
    assert [line for line in lines if line not in shown] == []


def test_on_the_stand_in_of_the_cuda_driver(
    results: list[tuple[UpstreamProgram, Built, str]], project: Path
) -> None:
    """Their PTX runs on the host, which shows nothing of a GPU; what has no meaning there says so."""
    ended = {
        program.name: run(program, project, "cuda", **on_stand_in(program, built, project))
        for program, built, _ in results
        if program.has_main and any(target.startswith("sm_") for target in built.targets)
    }
    wrong = {n: e for n, e in ended.items() if e not in ("as checked", "ends")}
    assert {
        n: e for n, e in wrong.items() if not any(says in e for says in _NOT_THERE.get(n, _LACKING))
    } == {}
    assert len(ended) - len(wrong) >= 20


def test_on_nvidia(results: list[tuple[UpstreamProgram, Built, str]], project: Path) -> None:
    """Upstream runs these on its own machines; a chip that lacks an instruction is refused by name."""
    try:
        count, driver = ctypes.c_int(0), ctypes.CDLL("libcuda.so.1")
    except OSError:
        pytest.skip("no NVIDIA driver")
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        pytest.skip("no NVIDIA device")
    ended = {
        program.name: run(program, project, "cuda")
        for program, built, _ in results
        if program.has_main and any(target.startswith("sm_") for target in built.targets)
    }
    none = "ends with code 1: this program cannot run on the device"
    assert {
        n: e for n, e in ended.items() if e not in ("as checked", "ends") and not e.startswith(none)
    } == {}
