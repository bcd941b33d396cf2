"""The mgpu* ABI on a stand-in of the CUDA driver that runs kernels: what goes wrong is found by it, not ordered."""

# ruff: noqa: E501  (programs inside strings are not broken for width)

from __future__ import annotations

import json
from pathlib import Path

import pytest
from simulators.cuda_driver import standin
from unit.runtime.programs import Outcome, Runtime, container

PTX = (Path(standin.__file__).parent / "kernels.ptx").read_bytes() + b"\0"
MODULE = container(("sm_60", PTX), module="m")
BEGIN = """
m = load(0)
def kernel(name='add'): return mgpuModuleGetFunction(m, name.encode())
def memory(n=4, value=1):
    d = mgpuMemAlloc(4 * n, None, 0)
    mgpuMemset32(d, value, n, None)
    return c_void_p(d)
def numbers(d, n=4, stream=None):
    h = (c_int * n)()
    mgpuMemcpy(addressof(h), d, 4 * n, stream)
    mgpuStreamSynchronize(stream)
    return list(h)
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("modules")


def run(runtime: Runtime, script: str, modules: Path, device: str = "7.0", **more: str) -> Outcome:
    lines = BEGIN + "\n".join(line.removeprefix("        ") for line in script.split("\n"))
    return runtime.run(lines, MODULE, **standin.environment(device, modules=modules, **more))


def test_a_kernel_adds(runtime: Runtime, modules: Path) -> None:
    script = """
        d = memory(64)
        stream = mgpuStreamCreate()
        event = mgpuEventCreate()
        mgpuEventRecord(event, None)
        mgpuStreamWaitEvent(stream, event)
        launch(kernel(), grid=(2, 1, 1), block=(32, 1, 1), stream=stream, params=[d, c_int(5)])
        print(set(numbers(d, 64, stream)))
        mgpuEventDestroy(event)
        mgpuStreamDestroy(stream)
        mgpuMemFree(d, None)
        mgpuModuleUnload(m)
    """
    assert run(runtime, script, modules).ok().out == b"{6}\n"


def test_dynamic_workgroup_memory_above_the_usual_limit(runtime: Runtime, modules: Path) -> None:
    script = """
        d = memory()
        launch(kernel('last'), shared=90000, params=[d, c_int(22500)])
        print(numbers(d)[0], flush=True)
        launch(kernel('last'), shared=100000, params=[d, c_int(25000)])
    """
    done = run(runtime, script, modules)
    assert (done.code, done.out) == (1, b"22500\n")
    assert "asks for 100000 bytes of dynamic workgroup memory; the device has at most 98304" in done.err


def test_each_device_has_a_module_and_memory_of_its_own(runtime: Runtime, modules: Path) -> None:
    script = """
        for ordinal in (1, 0, 1):
            mgpuSetDefaultDevice(ordinal)
            d = memory(1)
            launch(kernel('count'), params=[d])
            print(numbers(d, 1)[0])
    """
    assert run(runtime, script, modules, "7.0,8.0").ok().out.split() == [b"5", b"5", b"6"]


def test_shared_memory_is_the_hosts_and_the_devices(runtime: Runtime, modules: Path) -> None:
    script = """
        d = mgpuMemAlloc(4, None, 1)
        c_int.from_address(d).value = 40
        h = (c_int * 1)(1)
        mgpuMemHostRegister(addressof(h), 4)
        for address in (d, addressof(h)):
            launch(kernel(), params=[c_void_p(address), c_int(2)])
        mgpuStreamSynchronize(None)
        print(c_int.from_address(d).value, h[0])
        mgpuMemHostUnregister(addressof(h))
    """
    assert run(runtime, script, modules).ok().out == b"42 3\n"


@pytest.mark.parametrize("order", ["late", "early"])
def test_a_profile(runtime: Runtime, modules: Path, tmp_path: Path, order: str) -> None:
    """Which records two timed events around each launch and reads them at the end."""
    script = """
        d = memory()
        for _ in range(3): launch(kernel(), params=[d, c_int(5)])
        print(numbers(d)[0], flush=True)
    """
    file = tmp_path / "profile.json"
    done = run(runtime, script, modules, GPUBUILD_PROFILE=str(file), EMU_CUDA_ORDER=order).ok()
    assert done.out == b"16\n"
    (entry,) = json.loads(file.read_text())["kernels"]
    assert (entry["kernel"], entry["launches"]) == ("add", 3)
    assert 0 < entry["min_ns"] <= entry["max_ns"] <= entry["total_ns"]


# What the program does, what is said, and whose call finds it.
MISTAKES = {
    "no kernel of this name": (
        "kernel('none')",
        "CUDA_ERROR_NOT_FOUND (500)",
        "cuModuleGetFunction (in mgpuModuleGetFunction)",
    ),
    "a large workgroup": (
        "launch(kernel(), block=(1025, 1, 1), params=[memory(), c_int(1)])",
        "CUDA_ERROR_INVALID_VALUE (1): invalid argument; grid 1x1x1, block 1025x1x1",
        "cuLaunchKernel (in mgpuLaunchKernel)",
    ),
    "a workgroup of another size": (
        "launch(kernel('of_32'), block=(64, 1, 1))",
        "CUDA_ERROR_INVALID_VALUE (1): invalid argument; grid 1x1x1, block 64x1x1",
        "cuLaunchKernel (in mgpuLaunchKernel)",
    ),
    "clusters": (
        "mgpuLaunchClusterKernel(kernel(), 2, 1, 1, 2, 1, 1, 1, 1, 1, 0, None, None, None)",
        "need a device of sm_90 or newer",
        "mgpuLaunchClusterKernel",
    ),
    "host memory for a kernel": (
        "h = (c_int * 4)(); launch(kernel(), params=[c_void_p(addressof(h)), c_int(1)]); mgpuStreamSynchronize(None)",
        "CUDA_ERROR_ILLEGAL_ADDRESS (700)",
        "cuStreamSynchronize (in mgpuStreamSynchronize)",
    ),
    "one element too many, noticed by who frees it": (
        "d = memory(); launch(kernel(), block=(5, 1, 1), params=[d, c_int(1)]); mgpuMemFree(d, None)",
        "CUDA_ERROR_ILLEGAL_ADDRESS (700)",
        "cuMemFree (in mgpuMemFree)",
    ),
    "one element too many, noticed at the end": (
        "d = memory(); launch(kernel(), block=(5, 1, 1), params=[d, c_int(1)]); mgpuModuleUnload(m)",
        "CUDA_ERROR_ILLEGAL_ADDRESS (700)",
        "cuModuleUnload (in mgpuModuleUnload)",
    ),
    "a copy of too much": (
        "numbers(memory(), 5)",
        "CUDA_ERROR_INVALID_VALUE (1)",
        "cuMemcpyAsync (in mgpuMemcpy)",
    ),
    "memory freed twice": (
        "d = memory(); mgpuMemFree(d, None); mgpuMemFree(d, None)",
        "CUDA_ERROR_INVALID_VALUE (1)",
        "cuMemFree (in mgpuMemFree)",
    ),
    "a stream that is no longer": (
        "s = mgpuStreamCreate(); mgpuStreamDestroy(s); mgpuStreamSynchronize(s)",
        "CUDA_ERROR_INVALID_HANDLE (400)",
        "cuStreamSynchronize (in mgpuStreamSynchronize)",
    ),
    "too much memory": (
        "mgpuMemAlloc(1 << 40, None, 0)",
        "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory; 1099511627776 bytes",
        "cuMemAlloc (in mgpuMemAlloc)",
    ),
    "host memory that is not registered": (
        "mgpuMemHostUnregister(addressof((c_int * 4)()))",
        "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED (713)",
        "cuMemHostUnregister (in mgpuMemHostUnregister)",
    ),
    "a fill of host memory": (
        "mgpuMemset32(addressof((c_int * 4)()), 0, 4, None)",
        "CUDA_ERROR_INVALID_VALUE (1)",
        "cuMemsetD8Async (in mgpuMemset32)",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_end_the_program(runtime: Runtime, modules: Path, mistake: str) -> None:
    code, says, call = MISTAKES[mistake]
    done = run(runtime, code, modules)
    assert done.code == 1, done.err
    assert says in done.err
    assert f"  call: {call}\n" in done.err
    assert f"  device: cuda:0 ({standin.NAME}, sm_70)\n" in done.err


def test_ptx_that_the_driver_does_not_take(runtime: Runtime, modules: Path) -> None:
    image = container(("sm_60", PTX.replace(b"mov.u32 %r4, %tid.x", b"mov.u32 %r4, %nothing")))
    done = runtime.run(
        "mgpuModuleGetFunction(load(0), b'add')", image, **standin.environment("7.0", modules=modules)
    )
    assert done.code == 1
    assert (
        "CUDA_ERROR_INVALID_PTX (218): a PTX JIT compilation failed; the log of the driver's compiler for PTX:"
        in done.err
    )
    assert "%nothing" in done.err
