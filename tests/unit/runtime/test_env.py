"""GPUBUILD_* variables: what is taken, and what malformed values say."""

from __future__ import annotations

import pytest
from unit.runtime.programs import PROGRAM, Runtime, container, cubin

ALLOCATE = "mgpuMemFree(mgpuMemAlloc(16, None, 0), None)"


@pytest.mark.parametrize(
    "value",
    ["gpu", "CUDA", "cuda:", "cuda:x", "cuda:-1", "cuda: 1", "cuda:64", "cpu:0", "auto:1", "cudaa", "hip:1x"],
)
def test_malformed_device(runtime: Runtime, value: str) -> None:
    done = runtime.run(ALLOCATE, device=value)
    assert done.code == 1
    assert done.err == (
        f"gpubuild: GPUBUILD_DEVICE={value}: not a device; "
        "allowed are auto, cuda, cuda:N, hip, hip:N, cpu (N from 0 to 63)\n"
        f"  program: {PROGRAM}\n"
    )


@pytest.mark.parametrize("value", ["0", "-1", "4097", "two", "1.5", "+1", " 1", "99999999999999999999"])
def test_malformed_threads(runtime: Runtime, value: str) -> None:
    done = runtime.run(ALLOCATE, GPUBUILD_CPU_THREADS=value)
    assert done.code == 1
    assert done.err == (
        f"gpubuild: GPUBUILD_CPU_THREADS={value}: not a number of threads; allowed are 1 to 4096\n"
        f"  program: {PROGRAM}\n"
    )


@pytest.mark.parametrize("value", ["2", "yes", "01x"])
def test_malformed_trace(runtime: Runtime, value: str) -> None:
    done = runtime.run(ALLOCATE, GPUBUILD_TRACE=value)
    assert (done.code, done.err) == (
        1,
        f"gpubuild: GPUBUILD_TRACE={value}: not a switch; allowed are 0 and 1\n  program: {PROGRAM}\n",
    )


@pytest.mark.parametrize("value", ["", "auto", "cpu"])
def test_without_drivers_the_cpu_is_used(runtime: Runtime, value: str) -> None:
    done = runtime.run(ALLOCATE, device=value, GPUBUILD_TRACE="1", GPUBUILD_CPU_THREADS="").ok()
    assert "gpubuild: trace: device cpu" in done.err


def test_trace_is_silent_by_default(runtime: Runtime) -> None:
    assert runtime.run(ALLOCATE, GPUBUILD_TRACE="0").ok().err == ""


def test_ordinal_chooses_the_device(runtime: Runtime) -> None:
    done = runtime.run(ALLOCATE, device="cuda:1", cuda="9.0,8.0").ok()
    assert done.called("cuMemAlloc") == ["cuMemAlloc ctx=1 16"]


def test_a_fatal_message_follows_what_was_printed(runtime: Runtime) -> None:
    script = """
        rt.printI64(c_int64(7))
        launch(mgpuModuleGetFunction(load(0), b'k'))
    """
    done = runtime.run(
        script, container(("sm_90", cubin())), device="cuda", cuda="9.0", FAKE_FAIL="cuLaunchKernel=700"
    )
    assert (done.code, done.out) == (1, b"7")
    assert (
        "  module: m\n  kernel: k\n  target: t-sm_90 (sm_90, cubin)\n"
        "  location: gpu.func @k\n  device: cuda:0 (Fake GPU 0, sm_90)\n" in done.err
    )
    assert "  call: cuLaunchKernel (in mgpuLaunchKernel)\n" in done.err
