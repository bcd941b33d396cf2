"""Streams of the CPU device: order, concurrency, the end of a program; from C and through the mgpu* ABI."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest
from unit.runtime.programs import FLAGS, HERE, RUNTIME, Runtime, compile_c, cpu_image
from variants import few

PARTS = (
    "abi/async_runtime.c", "core/environment.c", "core/location.c", "core/message.c", "core/process.c",
    "cpu/cpu_resources.c",
)  # fmt: skip


def cc(output: Path, sanitizer: str, *arguments: object) -> Path:
    return compile_c(output, *([f"-fsanitize={sanitizer}"] if sanitizer else []), *arguments, flags=FLAGS)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Compiles what programs need beside the streams, once for each sanitizer."""

    def compiled(sanitizer: str) -> Path:
        sources = [RUNTIME / part for part in PARTS]
        out = tmp_path_factory.mktemp("parts") / "parts.o"
        return cc(out, sanitizer, "-r", *sources)

    return cache(compiled)


def run_stress(runtime: Runtime, sanitizer: str, *arguments: object) -> None:
    done = runtime.start(cc(runtime.scratch / "stress", sanitizer, *arguments, "-ldl"))
    assert (done.code, done.out, done.err) == (0, b"ok\n", "")


STREAMS = RUNTIME / "cpu" / "cpu_stream.c"


@pytest.mark.parametrize("sanitizer", few(["thread", "address,undefined", ""]))
@pytest.mark.parametrize("program", ["stress_streams.c", "stress_tasks.c"])
def test_stress(runtime: Runtime, parts: Callable[[str], Path], program: str, sanitizer: str) -> None:
    run_stress(runtime, sanitizer, HERE / program, STREAMS, parts(sanitizer))


def test_without_any_thread_who_waits_does_the_work(runtime: Runtime, parts: Callable[[str], Path]) -> None:
    streams = cc(runtime.scratch / "streams.o", "", "-Dpthread_create=no_thread", "-c", STREAMS)
    run_stress(runtime, "", "-DNO_RUNNERS", HERE / "stress_streams.c", streams, parts(""))


# slow(ptr x): sleeps a while, then x[0] += 1; meet(ptr x): x[0] += 1, then waits until it is 2; fail().
IMAGE = r"""
KERNEL(slow) {
    volatile int32_t *x = *(int32_t **)launch->params[0];
    for (volatile int i = 0; i < 20000000; i++) {}
    x[0] += 1;
}
KERNEL(meet) {
    int32_t *x = *(int32_t **)launch->params[0];
    __atomic_fetch_add(x, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(x, __ATOMIC_SEQ_CST) < 2) {}
}
gb_cpu_image gpubuild_cpu_image;
KERNEL(fail) {
    gb_cpu_item item = {.kernel = launch->kernel};
    gpubuild_cpu_image.services->assert_fail(&item, "as it must", "k.c", 1, 7);
}
static const uint64_t bytes[] = {8};
static const gb_cpu_kernel kernels[] = {
    {.name = "slow", .run = slow, .param_count = 1, .param_bytes = bytes},
    {.name = "meet", .run = meet, .param_count = 1, .param_bytes = bytes},
    {.name = "fail", .run = fail, .param_count = 0, .param_bytes = bytes},
};
IMAGE(kernels)
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return cpu_image(tmp_path_factory.mktemp("streams"), IMAGE)


BEGIN = """
    module = load(0)
    slow, meet, fail = (mgpuModuleGetFunction(module, n) for n in (b'slow', b'meet', b'fail'))
    x = (c_int32 * 100000)()
    a, b, event = mgpuStreamCreate(), mgpuStreamCreate(), mgpuEventCreate()
    def start(kernel, stream):
        pointer = c_void_p(addressof(x))
        launch(kernel, stream=stream, params=[pointer] if kernel != fail else [])
        pointer.value = 0
"""


def run(runtime: Runtime, image: bytes, script: str, **variables: str) -> bytes:
    done = runtime.run(BEGIN + script, image, device="cpu", **variables).ok()
    assert done.err == ""
    return done.out


@pytest.mark.parametrize("threads", ["1", "2", "5"])
@pytest.mark.parametrize("other", ["b", "None"])
def test_kernels_of_two_streams_may_wait_for_each_other(
    runtime: Runtime, image: bytes, threads: str, other: str
) -> None:
    script = f"""
    start(meet, a)
    start(meet, {other})
    mgpuStreamSynchronize(a)
    mgpuStreamSynchronize({other})
    print(x[0], flush=True)
    """
    assert run(runtime, image, script, GPUBUILD_CPU_THREADS=threads) == b"2\n"


# What is done with streams, and what is printed then.
SCRIPTS = {
    "the host goes on while a kernel runs": (  # which ends only when the host has seen it begin and answered
        """
    start(meet, a)
    while x[0] != 1: pass
    x[0] = 2
    mgpuStreamSynchronize(a)
    print('done', flush=True)
    """,
        "done",
    ),
    "a stream is in order": (
        """
    y = (c_int32 * 100000)()
    start(slow, a)
    mgpuMemcpy(addressof(y), addressof(x), 400000, a)
    mgpuMemset32(addressof(x), 7, 100000, a)
    start(slow, a)
    mgpuMemset16(addressof(x) + 4, 0x0101, 2, a)
    mgpuStreamSynchronize(a)
    print(y[0], y[1], x[0], x[1], x[2], flush=True)
    """,
        "1 0 8 16843009 7",
    ),
    "events order streams": (
        """
    start(slow, a)
    mgpuEventRecord(event, a)
    mgpuStreamWaitEvent(b, event)
    mgpuEventRecord(event, b)         # now stands for b, and so for a
    mgpuStreamDestroy(a)
    y = c_int32()
    mgpuMemcpy(addressof(y), addressof(x), 4, b)
    mgpuEventSynchronize(event)
    first = x[0]
    mgpuEventDestroy(event)
    mgpuStreamSynchronize(b)
    print(first, y.value, flush=True)
    """,
        "1 1",
    ),
    # Freed in another stream than uses it, which the driver of a GPU forgives. See also test_stress.
    "memory is freed when no stream can use it any more": (
        """
    memory = mgpuMemAlloc(4 << 20, a, 0)
    mgpuMemset32(memory, 0, 1 << 20, a)
    launch(slow, stream=a, params=[c_void_p(memory)])
    mgpuMemFree(memory, b)             # munmap, for a block as large
    mgpuStreamSynchronize(b)
    mgpuStreamSynchronize(a)
    print('alive', flush=True)
    """,
        "alive",
    ),
    "unloading waits for kernels": ("start(slow, a); mgpuModuleUnload(module); print(x[0], flush=True)", "1"),
}
FAILING = {
    "start(fail, a)\nwhile True: pass": "k.c:1:7: assertion failed: as it must",  # beside the host
    "mgpuEventRecord(None, a)": "the event is NULL",
    "mgpuStreamWaitEvent(a, None)": "the event is NULL",
}


def test_what_is_done_with_streams(runtime: Runtime, image: bytes) -> None:
    rows = [(dedent(BEGIN) + dedent(script), {}) for script, _ in SCRIPTS.values()]
    for done, (name, (_, printed)) in zip(
        runtime.each(rows, image, device="cpu"), SCRIPTS.items(), strict=True
    ):
        assert (done.code, done.out.decode(), done.err) == (0, f"{printed}\n", ""), name


def test_failures(runtime: Runtime, image: bytes) -> None:
    rows = [(dedent(BEGIN) + script, {}) for script in FAILING]
    for done, message in zip(runtime.each(rows, image, device="cpu"), FAILING.values(), strict=True):
        assert (done.code, message in done.err) == (1, True), done.err
        assert ("kernel: fail" in done.err) == ("assertion" in message)


def test_a_child_of_fork_has_streams_of_its_own(runtime: Runtime, image: bytes) -> None:
    script = """
    start(meet, a)
    while x[0] != 1: pass
    child = os.fork()
    if child == 0:
        mgpuStreamSynchronize(a)      # what the parent had to do is not this process's
        x[0] = 0
        start(slow, a)
        mgpuStreamSynchronize(a)
        os._exit(x[0])
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), x[0], flush=True)
    x[0] = 2
    mgpuStreamSynchronize(a)
    """
    assert run(runtime, image, script) == b"1 1\n"


def test_host_threads_and_streams(runtime: Runtime, image: bytes) -> None:
    script = """
    import threading
    totals = []
    def in_default_stream():
        mine = (c_int32 * 1)(5)
        for _ in range(300):
            launch(meet, stream=None, params=[c_void_p(addressof(mine))])
        mgpuStreamSynchronize(None)
        totals.append((mine[0], 9))
    def in_own_stream():
        mine = (c_int32 * 2)(5, 0)
        s = mgpuStreamCreate()
        for _ in range(300):
            launch(meet, stream=s, params=[c_void_p(addressof(mine))])
            mgpuMemset32(addressof(mine) + 4, 9, 1, s)
        mgpuStreamSynchronize(s)
        mgpuStreamDestroy(s)
        totals.append((mine[0], mine[1]))
    threads = [threading.Thread(target=t) for t in (in_own_stream, in_default_stream) * 4]
    for t in threads: t.start()
    for t in threads: t.join()
    print(set(totals), len(totals), flush=True)
    """
    assert run(runtime, image, script) == b"{(305, 9)} 8\n"
