"""The mgpu* ABI on the CPU, with a real CPU image compiled from C."""

# ruff: noqa: E501  (programs inside strings are not broken for width)

import platform
from pathlib import Path

import pytest
from unit.runtime.programs import RUNTIME, Runtime, container, cpu_image

BASE = "x86-64" if "x86" in platform.machine() else "generic"

# axpy(i64 n, f32 a, ptr x): x[i] += a, and which(ptr out): writes NUMBER.
IMAGE = r"""
KERNEL(axpy) {
    int64_t n = *(int64_t *)launch->params[0];
    float a = *(float *)launch->params[1], *x = *(float **)launch->params[2];
    for (uint64_t b = first; b < last; b++)
        for (uint32_t t = 0; t < launch->block_dim[0]; t++) {
            int64_t i = (int64_t)(b * launch->block_dim[0] + t);
            if (i < n) x[i] += a;
        }
}
KERNEL(which) {
    **(int64_t **)launch->params[0] = NUMBER;
}
static const uint64_t axpy_bytes[] = {8, 4, 8}, which_bytes[] = {8};
static const gb_cpu_kernel kernels[] = {
    {.name = "axpy", .run = axpy, .tier = GB_CPU_TIER_LOOP, .param_count = 3, .param_bytes = axpy_bytes},
    {.name = "which", .run = which, .tier = GB_CPU_TIER_LOOP, .param_count = 1, .param_bytes = which_bytes},
};
IMAGE(kernels)
"""


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Two CPU images; `which` of image N writes N."""
    folder = tmp_path_factory.mktemp("cpu")
    return [cpu_image(folder, IMAGE, f"-DNUMBER={number}") for number in range(2)]


AXPY = """
    kernel = mgpuModuleGetFunction(load(0), b'axpy')
    stream, event = mgpuStreamCreate(), mgpuEventCreate()
    n = 1000
    host = (c_float * n)(*range(n))
    data = mgpuMemAlloc(4 * n, stream, 0)
    mgpuMemcpy(data, addressof(host), 4 * n, stream)
    arguments = [c_int64(n), c_float(0.5), c_void_p(data)]
    launch(kernel, (16, 1, 1), (64, 1, 1), 0, stream, arguments)
    mgpuEventRecord(event, stream)
    mgpuStreamWaitEvent(None, event)
    launch(kernel, (16, 1, 1), (64, 1, 1), 0, None, arguments)
    mgpuMemcpy(addressof(host), data, 4 * n, None)
    mgpuStreamSynchronize(None)
    mgpuMemFree(data, None)
    mgpuEventSynchronize(event)
    mgpuEventDestroy(event)
    mgpuStreamDestroy(stream)
    print(list(host) == [i + 1.0 for i in range(n)], flush=True)
"""


@pytest.mark.parametrize("threads", ["", "1", "3"])
def test_copies_and_launches(runtime: Runtime, images: list[bytes], threads: str) -> None:
    done = runtime.run(AXPY, container((BASE, images[0])), GPUBUILD_CPU_THREADS=threads).ok()
    assert (done.out, done.err) == (b"True\n", "")


WHICH = """
    out = c_int64(-1)
    launch(mgpuModuleGetFunction(load(0), b'which'), params=[c_void_p(addressof(out))])
    mgpuStreamSynchronize(None)
    print(out.value, flush=True)
"""


@pytest.mark.skipif(BASE != "x86-64", reason="levels of x86-64")
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_highest_level_that_the_processor_has(
    runtime: Runtime, images: list[bytes], order: tuple[int, int]
) -> None:
    """Every x86-64 this runs on has v2."""
    entries = [("x86-64", images[0]), ("x86-64-v2", images[1])]
    assert runtime.run(WHICH, container(*(entries[i] for i in order))).ok().out == b"1\n"
    entries = [("x86-64", images[0]), ("unheard-of", images[1])]
    assert runtime.run(WHICH, container(*(entries[i] for i in order))).ok().out == b"0\n"


def test_unload_and_load_again(runtime: Runtime, images: list[bytes]) -> None:
    """A bare image, as `offload: select_object` embeds for a CPU target."""
    script = """
        out = c_int64(-1)
        for _ in range(50):
            module = load(0)
            launch(mgpuModuleGetFunction(module, b'which'), params=[c_void_p(addressof(out))])
            mgpuModuleUnload(module)
        print(out.value, len(os.listdir('/proc/self/fd')) < 20, flush=True)
    """
    assert runtime.run(script, images[1]).ok().out == b"1 True\n"


def test_a_shared_object_that_is_no_image(runtime: Runtime) -> None:
    libc = Path("/proc/self/maps").read_text().split("libc.so")[0].rsplit(" ", 1)[-1] + "libc.so.6"
    if not Path(libc).exists():
        pytest.skip("no libc.so.6 to try")
    done = runtime.run("mgpuModuleGetFunction(load(0), b'k')", Path(libc).read_bytes())
    assert done.code == 1
    assert done.err.startswith("gpubuild: ")


def test_memory(runtime: Runtime) -> None:
    script = """
        data = mgpuMemAlloc(64, None, 0xffffff01)
        mgpuMemset32(data, 0xdeadbeef, 4, None)
        mgpuMemset16(data + 16, 0xffff1234, 2, None)
        mgpuMemset32(data + 21, 0x01020304, 1, None)
        mgpuMemcpy(data + 32, data, 16, None)
        mgpuMemHostRegister(data, 64)
        mgpuMemHostUnregister(data)
        print(data % 256, string_at(data, 20).hex(), string_at(data + 21, 4).hex(), string_at(data + 32, 16).hex(), flush=True)
        mgpuMemFree(data, None)
    """
    done = runtime.run(script, device="cpu").ok()
    assert done.out.split() == [b"0", b"efbeadde" * 4 + b"3412" * 2, b"04030201", b"efbeadde" * 4]


def test_more_memory_than_there_is(runtime: Runtime) -> None:
    done = runtime.run("mgpuMemAlloc(1 << 60, None, 0)", device="cpu")
    assert (done.code, "out of memory: 1152921504606846976 bytes requested" in done.err) == (1, True)


@pytest.mark.skipif(BASE != "x86-64", reason="the table of x86-64")
def test_what_llvm_says_of_this_machine_is_known_to_the_runtime(runtime: Runtime) -> None:
    """`chip: native` makes images that need all of it; a name that the runtime does not know fits nowhere."""
    from gpubuild.engine.ir.llvm import host_cpu

    _, features = host_cpu()
    names = {name[1:] for name in features.split(",")}
    table = (RUNTIME / "cpu" / "cpu_chip.c").read_text()
    assert {name for name in names if f'{{"{name}", ' not in table} == set()
    script = f"print(rt.gb_cpu_supports(b'of-next-year', {features.encode()!r}), flush=True)"
    assert runtime.run(script).ok().out == b"1\n"


def test_memory_that_the_c_library_was_given_back(runtime: Runtime) -> None:
    """``memref.dealloc`` of what ``gpu.alloc`` made goes unnoticed; the same address may then come again."""
    script = """
        libc = CDLL(None)
        libc.free.argtypes = [P]
        seen = set()
        for size in [4096, 64] * 50:
            data = mgpuMemAlloc(size, None, 0)
            mgpuMemcpy(data, data, size, None)
            if data in seen:
                print('again', flush=True)
            seen.add(data)
            libc.free(data)
        last = mgpuMemAlloc(8192, None, 0)
        mgpuMemset32(last, 7, 2048, None)
        mgpuMemFree(last, None)
    """
    assert b"again" in runtime.run(script, device="cpu").ok().out
