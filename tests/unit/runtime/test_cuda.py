"""The mgpu* ABI on the CUDA driver: calls, their order, contexts, failures."""

# ruff: noqa: E501  (programs inside strings are not broken for width)

import pytest
from unit.runtime.programs import PROGRAM, Runtime, container, cubin, hsaco, ptx

MODULE = container(("sm_90", cubin()), module="m")
TENSOR_MAP = "mgpuTensorMapEncodeTiledMemref({0}, memref(64, 0, [1] * {0}, [1] * {0}), {1}, 0, 0, 0, 0, (c_int64 * 6)(1))"


def test_arguments_of_a_launch(runtime: Runtime) -> None:
    script = """
        kernel = mgpuModuleGetFunction(load(0), b'axpy')
        stream = mgpuStreamCreate()
        launch(kernel, (5, 6, 7), (32, 2, 1), 0, stream, [c_int64(0x1122334455667788), c_int32(-2), c_float(1.5)])
    """
    done = runtime.run(script, MODULE, device="cuda", cuda="9.0", FAKE_PARAMS="8,4,4").ok()
    (launch,) = done.called("cuLaunchKernel")
    (stream,) = done.called("cuStreamCreate")
    handle = stream.split()[-1]
    assert launch.endswith(f"grid=5,6,7 block=32,2,1 shared=0 stream={handle} extra=(nil)")
    assert done.called("  param") == [
        "  param 0 = 0x1122334455667788",
        "  param 1 = 0xfffffffe",
        "  param 2 = 0x3fc00000",
    ]
    assert " flags=1 " in stream  # non-blocking


def test_a_kernel_may_use_all_that_its_device_has(runtime: Runtime) -> None:
    """All workgroup memory but its own 1000 bytes, and large clusters."""
    script = """
        kernel = mgpuModuleGetFunction(load(0), b'k')
        for shared in (0, 1024, 512, 65536, 65536):
            launch(kernel, shared=shared)
    """
    done = runtime.run(script, MODULE, device="cuda", cuda="9.0").ok()
    assert [c.split()[-1] for c in done.called("cuFuncSetAttribute")] == ["8=231448", "14=1"]


def test_clusters(runtime: Runtime) -> None:
    script = """
        kernel = mgpuModuleGetFunction(load(0), b'k')
        parameter = c_int64(3)
        params = (P * 1)(addressof(parameter))
        mgpuLaunchClusterKernel(kernel, 2, 1, 1, 8, 4, 2, 128, 1, 1, 64, None, params, None)
        mgpuLaunchClusterKernel(kernel, 16, 1, 1, 16, 1, 1, 128, 1, 1, 0, None, params, None)
        mgpuLaunchClusterKernel(kernel, 1, 1, 1, 8, 4, 2, 128, 1, 1, 0, None, params, None)
    """
    done = runtime.run(script, MODULE, device="cuda", cuda="9.0", FAKE_PARAMS="8").ok()
    first, second = done.called("cuLaunchKernelEx")
    assert first.endswith("grid=8,4,2 block=128,1,1 shared=64 stream=(nil) extra=(nil)")
    assert "grid=16,1,1" in second
    assert done.called("  attribute 4") == ["  attribute 4 = 2,1,1", "  attribute 4 = 16,1,1"]
    assert done.called("  attribute 5") == ["  attribute 5 = 1,0,0"] * 2
    assert len(done.called("cuLaunchKernel ")) == 1
    assert done.called("  param") == ["  param 0 = 0x3"] * 3


MISUSE = {
    "launch(None)": "the kernel is NULL",
    "mgpuModuleGetFunction(None, b'k')": "the module is NULL (used before it was loaded?)",
    "mgpuModuleGetFunction(load(0), None)": "no kernel name",
    "mgpuModuleLoadJIT(b'x', 5)": "optimisation level 5: allowed are 0 to 4",
    "mgpuModuleLoadJIT(None, 2)": "the image is empty",
    "mgpuMemHostRegisterMemRef(1, memref(0, 0, (1 << 62,), (1 << 62,)), 4)": "malformed memref: dimension 0 has size",
    TENSOR_MAP.format(6, 7): "rank 6: allowed are 1 to 5",
    TENSOR_MAP.format(1, 13): "element type 13",
}


def test_misuse(runtime: Runtime) -> None:
    ended = runtime.each([(script, {}) for script in MISUSE], MODULE, device="cuda", cuda="9.0")
    for done, message in zip(ended, MISUSE.values(), strict=True):
        assert (done.code, message in done.err) == (1, True), done.err


def test_streams_and_events_in_order(runtime: Runtime) -> None:
    script = """
        a, b = mgpuStreamCreate(), mgpuStreamCreate()
        event = mgpuEventCreate()
        mgpuEventRecord(event, a)
        mgpuStreamWaitEvent(b, event)
        mgpuEventSynchronize(event)
        mgpuEventDestroy(event)
        mgpuStreamSynchronize(b)
        mgpuStreamDestroy(a)
        mgpuStreamDestroy(b)
        mgpuStreamSynchronize(None)
        print(a, b, event, flush=True)
    """
    done = runtime.run(script, device="cuda", cuda="9.0").ok()
    a, b, event = (hex(int(n)) for n in done.out.split())
    assert [c for c in done.calls if not c.startswith(("cuInit", "cuDevice"))] == [
        f"cuStreamCreate ctx=0 flags=1 {a}",
        f"cuStreamCreate ctx=0 flags=1 {b}",
        f"cuEventCreate ctx=0 flags=2 {event}",
        f"cuEventRecord ctx=0 {event} {a}",
        f"cuStreamWaitEvent ctx=0 {b} {event} 0",
        f"cuEventSynchronize ctx=0 {event}",
        f"cuEventDestroy ctx=0 {event}",
        f"cuStreamSynchronize ctx=0 {b}",
        f"cuStreamDestroy ctx=0 {a}",
        f"cuStreamDestroy ctx=0 {b}",
        "cuStreamSynchronize ctx=0 (nil)",
    ]


def test_memory(runtime: Runtime) -> None:
    """8- and 16-bit arguments come with rubbish above them, as MLIR passes them."""
    script = """
        data = mgpuMemAlloc(64, None, 0xffffff00)
        both = mgpuMemAlloc(32, None, 0xabcdef01)
        mgpuMemset32(data, 0xdeadbeef, 4, None)
        mgpuMemset16(data + 16, 0xffff1234, 2, None)
        host = create_string_buffer(20)
        mgpuMemcpy(addressof(host), data, 20, None)
        print(host.raw.hex(), mgpuMemAlloc(0, None, 0), flush=True)
        mgpuMemcpy(None, None, 0, None)
        mgpuMemset32(None, 1, 0, None)
        mgpuMemFree(None, None)
        mgpuMemFree(both, None)
        mgpuMemFree(data, None)
    """
    done = runtime.run(script, device="cuda", cuda="9.0").ok()
    assert done.out.split() == [b"efbeadde" * 4 + b"3412" * 2, b"None"]
    assert done.called("cuMem") == [
        "cuMemAlloc ctx=0 64",
        "cuMemAllocManaged ctx=0 32 flags=1",
        "cuMemsetD32Async ctx=0 0xdeadbeef 4 stream=(nil)",
        "cuMemsetD16Async ctx=0 0x1234 2 stream=(nil)",
        "cuMemcpyAsync ctx=0 20 stream=(nil)",
        "cuMemFree ctx=0",
        "cuMemFree ctx=0",
    ]


SPANS = [
    ((), (), 0, 4),
    ((10,), (1,), 0, 40),
    ((3, 4), (4, 1), 2, 48),
    ((3, 4), (8, 1), 0, (2 * 8 + 3 + 1) * 4),
    ((3,), (-2,), 10, 20),
    ((2, 3), (0, 1), 0, 12),
    ((3, 0), (0, 1), 0, 0),
]


def test_registered_host_memory_is_the_span_of_the_memref(runtime: Runtime) -> None:
    script = """
        data = create_string_buffer(4096)
        m = memref(addressof(data), {0}, {1}, {2})
        mgpuMemHostRegisterMemRef({3}, m, 4)
        mgpuMemHostUnregisterMemRef({3}, m, 4)
    """
    rows = [(script.format(offset, sizes, strides, len(sizes)), {}) for sizes, strides, offset, _ in SPANS]
    for done, (*_, size) in zip(runtime.each(rows, device="cuda", cuda="9.0"), SPANS, strict=True):
        calls = [f"cuMemHostRegister ctx=0 {size} flags=3", "cuMemHostUnregister ctx=0"]
        assert done.ok().called("cuMemHost") == (calls if size else [])


def test_ptx_is_compiled_by_the_driver(runtime: Runtime) -> None:
    """With the optimisation level that a module without a container comes with."""
    text = ptx("sm_60")
    find = "mgpuModuleGetFunction({}, b'k')"
    jit = "text = create_string_buffer(blobs[1]); " + find.format("mgpuModuleLoadJIT(addressof(text), 3)")
    rows = [(find.format("load(0)"), {}), (jit, {})]
    plain, bare = runtime.each(rows, container(("sm_60", text)), text, device="cuda", cuda="9.0")
    load = f"cuModuleLoadDataEx ctx=0 length={len(text)}"
    assert plain.ok().called("cuModuleLoad", "  opt") == [load]
    assert bare.ok().called("cuModuleLoad", "  opt") == [load, "  optimization level 3"]


def test_the_jits_log_is_in_the_message(runtime: Runtime) -> None:
    done = runtime.run(
        "mgpuModuleGetFunction(load(0), b'k')",
        container(("sm_60", ptx("sm_60"))),
        device="cuda",
        cuda="9.0",
        FAKE_FAIL="cuModuleLoadDataEx=218",
    )
    assert done.code == 1
    assert done.err == (
        "gpubuild: cuModuleLoadDataEx failed with CUDA_ERROR_FAKE (218): a failure to order; "
        "the log of the driver's compiler for PTX:\nptxas fake, line 3; error   : Unknown symbol 'x'\n"
        f"  program: {PROGRAM}\n  module: m\n  kernel: k\n"
        "  target: t-sm_60 (sm_60, ptx)\n  location: gpu.func @k\n"
        "  device: cuda:0 (Fake GPU 0, sm_90)\n  call: cuModuleLoadDataEx (in mgpuModuleLoad)\n"
    )


EVERYTHING = """
    module = load(0)
    kernel = mgpuModuleGetFunction(module, b'k')
    stream = mgpuStreamCreate()
    event = mgpuEventCreate()
    a, b = mgpuMemAlloc(16, stream, 0), mgpuMemAlloc(16, stream, 1)
    mgpuMemset32(a, 1, 4, stream)
    mgpuMemset16(a, 1, 4, stream)
    mgpuMemcpy(b, a, 16, stream)
    mgpuMemHostRegister(b, 16)
    launch(kernel, shared=16, stream=stream)
    mgpuEventRecord(event, stream)
    mgpuStreamWaitEvent(stream, event)
    mgpuEventSynchronize(event)
    mgpuStreamSynchronize(stream)
    mgpuMemHostUnregister(b)
    mgpuMemFree(a, stream)
    mgpuEventDestroy(event)
    mgpuStreamDestroy(stream)
    mgpuModuleUnload(module)
    print('done', flush=True)
"""
DEPTH = "\n    print(CDLL('libcuda.so.1').fake_context_depth(), flush=True)"


FAILING = (
    "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent", "cuModuleLoadData", "cuModuleGetFunction",
    "cuFuncGetAttribute", "cuFuncSetAttribute",
    "cuLaunchKernel", "cuStreamCreate", "cuStreamDestroy", "cuStreamSynchronize", "cuStreamWaitEvent",
    "cuEventCreate", "cuEventDestroy", "cuEventSynchronize", "cuEventRecord", "cuMemAlloc", "cuMemAllocManaged",
    "cuMemFree", "cuMemcpyAsync", "cuMemsetD32Async", "cuMemsetD16Async", "cuMemHostRegister",
    "cuMemHostUnregister", "cuModuleUnload",
)  # fmt: skip


def test_every_failure_ends_the_program_with_its_call(runtime: Runtime) -> None:
    rows = [(EVERYTHING, {"FAKE_FAIL": f"{call}=2"}) for call in FAILING]
    for done, call in zip(runtime.each(rows, MODULE, device="cuda", cuda="9.0"), FAILING, strict=True):
        assert (done.code, done.out) == (1, b"")
        assert done.err.startswith(
            f"gpubuild: {call} failed with CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"
        )
        assert f"  call: {call} (in mgpu" in done.err
        assert "  device: cuda:0 (Fake GPU 0, sm_90)\n" in done.err


@pytest.mark.parametrize(
    ("device", "devices", "image", "calls"),
    [
        ("cuda", "9.0", MODULE, ("cuModuleUnload=4", "cuModuleUnload=709", "cuCtxPushCurrent=4", "cuCtxPushCurrent=709")),
        ("hip", "gfx90a", container(("gfx90a", hsaco())), ("hipModuleUnload=4",)),
    ],
)  # fmt: skip
def test_unloading_after_the_driver_has_ended_is_no_failure(
    runtime: Runtime, device: str, devices: str, image: bytes, calls: tuple[str, ...]
) -> None:
    script = """
        module = load(0)
        mgpuModuleGetFunction(module, b'k')
        CDLL(None).setenv(b'FAKE_FAIL', b'{}', 1)
        mgpuModuleUnload(module)
    """
    rows = [(script.format(call), {}) for call in calls]
    for done in runtime.each(rows, image, device=device, **{device: devices}):
        assert done.ok().err == ""


def test_tensor_map(runtime: Runtime) -> None:
    script = """
        data = mgpuMemAlloc(64 * 128 * 2, None, 0)
        box = (c_int64 * 2)(16, 64)
        address = mgpuTensorMapEncodeTiledMemref(2, memref(data, 4, (32, 128), (128, 1)), 6, 0, 3, 1, 0, box)
        print(cast(address, POINTER(c_uint64))[0] - data, cast(address, POINTER(c_uint8))[127], flush=True)
    """
    done = runtime.run(script, device="cuda", cuda="9.0").ok()
    assert done.called("cuTensorMap") == [
        "cuTensorMapEncodeTiled type=6 rank=2 dims=128,32 stride=256 box=64,16 element=1,1 "
        "interleave=0 swizzle=3 l2=1 fill=0 aligned=1"
    ]
    assert done.out.split() == [b"8", b"90"]  # the offset is in the address; the map is in device memory
    assert done.called("cuMemcpyAsync", "cuStreamSynchronize")[-1] == "cuStreamSynchronize ctx=0 (nil)"


@pytest.mark.parametrize(
    ("device", "message"),
    [("cpu", "sm_90"), ("cuda", "sm_90"), ("hip", "tensor maps (nvgpu.tma) exist on NVIDIA devices")],
)
def test_tensor_maps_where_there_are_none(runtime: Runtime, device: str, message: str) -> None:
    driver = {"hip": "gfx90a"} if device == "hip" else {"cuda": "8.0"}
    done = runtime.run(TENSOR_MAP.format(1, 7), device=device, **driver)
    assert (done.code, message in done.err, "tensor maps" in done.err) == (1, True, True)


def test_trace_shows_loads_launches_and_copies(runtime: Runtime) -> None:
    done = runtime.run(EVERYTHING + DEPTH, MODULE, device="cuda", cuda="9.0", GPUBUILD_TRACE="1").ok()
    assert done.out == b"done\n0\n", "the thread's stack of contexts is left as it was"
    lines = [line.removeprefix("gpubuild: trace: ") for line in done.err.splitlines()]
    assert (
        "load module m, image sm_90 of target t-sm_90 (cubin, 64 bytes) on cuda:0 (Fake GPU 0, sm_90)"
        in lines
    )
    assert any(
        line.startswith("launch m::k grid 1x1x1 block 1x1x1 cluster 1x1x1 shared 16 stream 0x")
        for line in lines
    )
    assert any(line.startswith("copy 16 bytes from 0x") for line in lines)
    assert "unload module m" in lines
