"""The mgpu* ABI on HIP: calls, the thread's device, failures."""

# ruff: noqa: E501  (programs inside strings are not broken for width)

from __future__ import annotations

import pytest
from unit.runtime.programs import Runtime, container, hsaco
from unit.runtime.test_cuda import EVERYTHING

MODULE = container(("gfx90a", hsaco()), module="m")


def test_everything(runtime: Runtime) -> None:
    done = runtime.run(EVERYTHING, MODULE, device="hip", hip="gfx90a:sramecc+:xnack-").ok()
    assert done.out == b"done\n"
    assert done.called("hipModuleLoadData") == ["hipModuleLoadData dev=0 7f454c46 machine=224"]
    assert done.called("hipMemcpyAsync")[0].startswith("hipMemcpyAsync dev=0 16 kind=4 stream=0x")
    assert done.called("hipMallocManaged") == ["hipMallocManaged dev=0 16 flags=1"]
    assert done.called("hipStreamCreate") == ["hipStreamCreateWithFlags dev=0 flags=1"]
    assert done.called("hipEventCreate") == ["hipEventCreateWithFlags dev=0 flags=2"]
    assert done.called("hipHostRegister") == ["hipHostRegister dev=0 16 flags=3"]
    assert done.called("hipSetDevice") == []  # it is the thread's device already


def test_the_program_s_device_is_put_back(runtime: Runtime) -> None:
    done = runtime.run(
        "mgpuMemFree(mgpuMemAlloc(16, None, 0), None)", device="hip:1", hip="gfx90a,gfx90a"
    ).ok()
    assert done.called("hipMalloc", "hipSetDevice", "hipFree") == [
        "hipSetDevice 1", "hipMalloc dev=1 16", "hipSetDevice 0", "hipSetDevice 1", "hipFree dev=1", "hipSetDevice 0",
    ]  # fmt: skip


def test_arguments_of_a_launch(runtime: Runtime) -> None:
    script = "launch(mgpuModuleGetFunction(load(0), b'k'), (5, 6, 7), (64, 2, 1), 128, None, [c_int64(9), c_int32(-1)])"
    done = runtime.run(script, MODULE, device="hip", hip="gfx90a", FAKE_PARAMS="8,4").ok()
    assert done.called("hipModuleLaunchKernel")[0].endswith(
        "grid=5,6,7 block=64,2,1 shared=128 stream=(nil) extra=(nil)"
    )
    assert done.called("  param") == ["  param 0 = 0x9", "  param 1 = 0xffffffff"]


@pytest.mark.parametrize(
    "call",
    [
        "hipModuleLoadData", "hipModuleGetFunction", "hipModuleLaunchKernel", "hipStreamCreateWithFlags",
        "hipStreamDestroy", "hipStreamSynchronize", "hipStreamWaitEvent", "hipEventCreateWithFlags", "hipEventDestroy",
        "hipEventSynchronize", "hipEventRecord", "hipMalloc", "hipMallocManaged", "hipFree", "hipMemcpyAsync",
        "hipMemsetD32Async", "hipMemsetD16Async", "hipHostRegister", "hipHostUnregister", "hipModuleUnload",
    ],
)  # fmt: skip
def test_every_failure_ends_the_program_with_its_call(runtime: Runtime, call: str) -> None:
    done = runtime.run(EVERYTHING, MODULE, device="hip", hip="gfx90a", FAKE_FAIL=f"{call}=2")
    assert (done.code, done.out) == (1, b"")
    assert done.err.startswith(f"gpubuild: {call} failed with hipErrorOutOfMemory (2): a failure to order")
    assert f"  call: {call} (in mgpu" in done.err
    assert "  device: hip:0 (Fake AMD GPU 0, gfx90a)\n" in done.err


def test_clusters(runtime: Runtime) -> None:
    script = "mgpuLaunchClusterKernel(mgpuModuleGetFunction(load(0), b'k'), 2, 1, 1, 2, 1, 1, 1, 1, 1, 0, None, None, None)"
    done = runtime.run(script, MODULE, device="hip", hip="gfx90a")
    assert (done.code, "clusters of 2x1x1 workgroups, which HIP devices do not have" in done.err) == (1, True)


def test_tensor_maps(runtime: Runtime) -> None:
    script = "mgpuTensorMapEncodeTiledMemref(1, memref(64, 0, [1], [1]), 7, 0, 0, 0, 0, (c_int64 * 1)(1))"
    done = runtime.run(script, device="hip", hip="gfx90a")
    assert (done.code, "tensor maps (nvgpu.tma) exist on NVIDIA devices" in done.err) == (1, True)


def test_unloading_after_hip_has_ended_is_no_failure(runtime: Runtime) -> None:
    script = """
        module = load(0)
        mgpuModuleGetFunction(module, b'k')
        CDLL(None).setenv(b'FAKE_FAIL', b'hipModuleUnload=4', 1)
        mgpuModuleUnload(module)
    """
    assert runtime.run(script, MODULE, device="hip", hip="gfx90a").ok().err == ""


def test_a_device_that_does_not_tell_its_chip(runtime: Runtime) -> None:
    done = runtime.run("mgpuStreamCreate()", device="hip", hip="?")
    assert (done.code, "HIP does not tell the chip of hip:0" in done.err) == (1, True)
