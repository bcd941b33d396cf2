"""The stand-in of the CUDA driver behaves as documented, and as late as documented."""

# ruff: noqa: E501  (programs inside strings are not broken for width)

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from simulators.cuda_driver import scripts

PTX = Path(__file__).parent / "kernels.ptx"
BEGIN = (
    "m = load(sys.argv[1]); add = kernel(m, 'add'); meet = kernel(m, 'meet'); d = alloc(16); h = ints(4, 1)\n"
)


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("modules")


def run(script: str, modules: Path, **more: str) -> scripts.Ended:
    lines = "\n".join(
        line.strip() if not line.startswith("        ") else line[8:] for line in script.splitlines()
    )
    return scripts.run(BEGIN + lines, PTX, modules=modules, **more)


def prints(script: str, modules: Path, **more: str) -> str:
    done = run(script, modules, **more)
    assert done.code == 0, done.err
    return done.out.strip()


@pytest.mark.parametrize(("order", "before"), [("late", 1), ("early", 8)])
def test_nothing_is_done_before_somebody_waits(modules: Path, order: str, before: int) -> None:
    script = """
        s = stream()
        copy(d, h, 16, s)
        launch(add, d, c_int(7), block=(4, 1, 1), stream=s)
        copy(h, d, 16, s)
        first = h[3]
        sync(s)
        print(first, list(h))
    """
    assert prints(script, modules, EMU_CUDA_ORDER=order) == f"{before} [8, 8, 8, 8]"


def test_arguments_are_those_of_the_call(modules: Path) -> None:
    script = """
        n = c_int(7)
        copy(d, h, 16)
        launch(add, d, n)
        n.value = 100
        copy(h, d, 16)
        sync()
        print(list(h))
    """
    assert prints(script, modules) == "[8, 1, 1, 1]"


@pytest.mark.parametrize(("waits", "seen"), [(True, 5), (False, -437918235 + 3)])
def test_a_stream_waits_for_an_event_of_another_and_for_nothing_else(
    modules: Path, waits: bool, seen: int
) -> None:
    """Without the wait the second stream's kernel reads unwritten memory."""
    script = f"""
        s, t, e, two = stream(), stream(), event(), ints(4, 2)
        copy(d, two, 16, s)
        call('cuEventRecord', e, s)
        if {waits}: call('cuStreamWaitEvent', t, e, 0)
        call('cuEventDestroy_v2', e)
        launch(add, d, c_int(3), stream=t)
        copy(h, d, 16, t)
        sync(t)
        print(h[0])
    """
    assert prints(script, modules) == str(seen)


def test_events(modules: Path) -> None:
    script = """
        s, t = stream(), stream()
        e, timed, later = event(), event(0), event(0)
        call('cuEventSynchronize', e)
        call('cuStreamWaitEvent', t, e, 0)
        print(says('cuEventElapsedTime', timed, later, gives=c_float))
        call('cuEventRecord', timed, s)
        call('cuMemsetD32Async', d, 4, c_size_t(4), s)
        call('cuEventRecord', e, s)
        launch(add, d, c_int(1), stream=s)
        call('cuEventRecord', later, s)
        print(says('cuEventElapsedTime', timed, later, gives=c_float))
        call('cuEventSynchronize', e)
        copy(h, d, 16, t)
        sync(t)
        print(list(h))
        sync(s)
        print(call('cuEventElapsedTime', timed, later, gives=c_float).value >= 0)
        print(says('cuEventElapsedTime', e, later, gives=c_float))
    """
    assert prints(script, modules).split("\n") == [
        "INVALID_HANDLE",
        "NOT_READY",
        "[4, 4, 4, 4]",
        "True",
        "INVALID_HANDLE",  # it takes no time
    ]


def test_the_default_stream_and_those_that_wait_for_it(modules: Path) -> None:
    script = """
        for flags in (0, 1):
            d, h, s = alloc(16), ints(4, 1), stream(flags)
            copy(d, h, 16, s)
            launch(add, d, c_int(1))
            copy(h, d, 16)
            sync()
            print(h[0])
    """
    blocking, other = prints(script, modules).split()
    assert (blocking, other) == ("2", str(-437918235 + 1))


def test_a_destroyed_stream_does_what_it_has_to(modules: Path) -> None:
    script = """
        s, three = stream(), ints(4, 3)
        copy(d, three, 16, s)
        call('cuStreamDestroy_v2', s)
        print(says('cuStreamSynchronize', s), says('cuStreamDestroy_v2', s))
        call('cuMemFree_v2', alloc(4))
        copy(h, d, 16)
        sync()
        print(h[3])
    """
    assert prints(script, modules) == "INVALID_HANDLE INVALID_HANDLE\n3"


def test_kernels_that_wait_for_each_other(modules: Path) -> None:
    script = """
        streams = [stream() for _ in range(3)]
        call('cuMemsetD32Async', d, 0, c_size_t(4), streams[0])
        sync(streams[0])
        for s in streams: launch(meet, d, c_int(3), stream=s)
        for s in streams: sync(s)
        copy(h, d, 16)
        sync()
        print(h[0])
    """
    assert prints(script, modules) == "3"


def test_a_kernel_that_never_ends(modules: Path) -> None:
    script = """
        copy(d, h, 16)
        launch(meet, d, c_int(9))
        print(says('cuStreamSynchronize', None), says('cuMemAlloc_v2', c_size_t(4), gives=U))
    """
    assert prints(script, modules, EMU_CUDA_SECONDS="0") == "LAUNCH_TIMEOUT LAUNCH_TIMEOUT"


# ---- memory ----


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("U(addressof(h))", "which is host memory, not registered"),
        ("U(d.value + 14)", "which leaves its allocation"),
        ("U(d.value + 16)", "which is in no allocation"),
        ("freed", "which is in no allocation, or one that was freed"),
        ("U(0)", "which is host memory"),
    ],
)
def test_an_address_that_is_not_the_kernels(modules: Path, address: str, text: str) -> None:
    """The context is of no use from then on."""
    script = f"""
        freed = alloc(16)
        call('cuMemFree_v2', freed)
        launch(add, {address}, c_int(1))
        print(says('cuStreamSynchronize', None), says('cuStreamCreate', 1, gives=P))
    """
    done = run(script, modules)
    # 14 bytes on, an address is not aligned either.
    expected = "LAUNCH_FAILED" if "+ 14" in address and "aligned" in done.err else "ILLEGAL_ADDRESS"
    assert (done.code, done.out) == (0, f"{expected} {expected}\n"), done.err
    assert text in done.err or "aligned" in done.err


def test_the_host_cannot_touch_device_memory(modules: Path) -> None:
    done = run(
        "copy(d, h, 16); sync(); print('there', flush=True); c_int.from_address(d.value).value", modules
    )
    assert (done.code, done.out) == (-signal.SIGSEGV, "there\n")
    assert "the host reads or writes device memory" in done.err


def test_registered_and_managed_memory(modules: Path) -> None:
    script = """
        call('cuMemHostRegister_v2', byref(h), c_size_t(16), 3)
        print(says('cuMemHostRegister_v2', byref(h), c_size_t(4), 3))
        there = call('cuMemHostGetDevicePointer_v2', byref(h), 0, gives=U)
        shared = call('cuMemAllocManaged', c_size_t(16), 1, gives=U)
        seen = (c_int * 4).from_address(shared.value)
        seen[0] = 40
        launch(add, there, c_int(2))
        launch(add, shared, c_int(2))
        print(h[0], seen[0])
        sync()
        print(h[0], seen[0])
        call('cuMemHostUnregister', byref(h))
        print(says('cuMemHostUnregister', byref(h)))
    """
    assert prints(script, modules).split("\n") == [
        "HOST_MEMORY_ALREADY_REGISTERED",
        "1 40",
        "3 42",
        "HOST_MEMORY_NOT_REGISTERED",
    ]


def test_copies_and_fills_that_leave_their_allocation(modules: Path) -> None:
    script = """
        to, size = U(d.value), c_size_t
        print(says('cuMemcpyAsync', to, U(addressof(h)), size(17), None))
        print(says('cuMemcpyAsync', U(addressof(h)), U(d.value + 16), size(1), None))
        print(says('cuMemsetD32Async', to, 0, size(5), None))
        print(says('cuMemsetD32Async', U(d.value + 2), 0, size(1), None))
        print(says('cuMemsetD8Async', U(addressof(h)), 0, size(1), None))
        print(says('cuMemFree_v2', U(d.value + 4)))
        call('cuMemFree_v2', d)
        print(says('cuMemFree_v2', d))
        print(says('cuMemAlloc_v2', size(1 << 35), gives=U))
    """
    assert prints(script, modules).split() == ["INVALID_VALUE"] * 7 + ["OUT_OF_MEMORY"]


def test_memory_of_another_device(modules: Path) -> None:
    script = """
        enter(1)
        print(says('cuModuleUnload', m), says('cuMemcpyAsync', d, U(addressof(h)), c_size_t(4), None))
        other = load(sys.argv[1])
        launch(kernel(other, 'add'), d, c_int(1))
        print(says('cuStreamSynchronize', None))
    """
    assert prints(script, modules, devices="7.0,8.0") == "INVALID_HANDLE INVALID_VALUE\nILLEGAL_ADDRESS"


# ---- modules ----


def test_each_module_has_its_own_variables(modules: Path) -> None:
    script = """
        again = load(sys.argv[1])
        for module in (m, m, again):
            launch(kernel(module, 'count'), d)
            copy(h, d, 4)
            sync()
            print(h[0])
        print(says('cuModuleGetFunction', m, b'none', gives=P))
        call('cuModuleUnload', again)
        print(says('cuModuleGetFunction', again, b'add', gives=P))
    """
    assert prints(script, modules).split() == ["5", "6", "5", "NOT_FOUND", "INVALID_HANDLE"]


def test_images_that_are_not_run(modules: Path) -> None:
    script = r"""
        for image in (b'\x7fELF' + bytes(14) + b'\xbe' + bytes(60), b'\x7fELF' + bytes(14) + b'\x3e' + bytes(60), b'\xff\x01'):
            print(says('cuModuleLoadData', image + bytes(8), gives=P))
        log = create_string_buffer(2000)
        options = (c_int * 2)(5, 6)
        values = (P * 2)(addressof(log), 1999)
        text = open(sys.argv[1], 'rb').read().replace(b'mov.u32 %r4, %tid.x', b'mov.u32 %r4, %nothing')
        print(says('cuModuleLoadDataEx', text, 2, options, values, gives=P))
        print(b'%nothing' in log.value)
    """
    done = run(script, modules)
    assert done.out.split() == ["NO_BINARY_FOR_GPU", "INVALID_IMAGE", "INVALID_IMAGE", "INVALID_PTX", "True"]
    assert "machine code of GPUs cannot be run here, only PTX" in done.err


# ---- launches ----


@pytest.mark.parametrize(
    ("launched", "answer"),
    [
        ("add, d, c_int(0), block=(1024, 1, 1), grid=(0, 1, 1)", "INVALID_VALUE"),
        ("add, d, c_int(0), block=(1025, 1, 1)", "INVALID_VALUE"),
        ("add, d, c_int(0), block=(32, 33, 1)", "INVALID_VALUE"),
        ("add, d, c_int(0), block=(1, 1, 65)", "INVALID_VALUE"),
        ("add, d, c_int(0), grid=(1, 65536, 1)", "INVALID_VALUE"),
        ("add, d, c_int(0), shared=49153", "INVALID_VALUE"),
        ("add, d, c_int(0), stream=d", "INVALID_HANDLE"),
        ("m, d, c_int(0)", "INVALID_HANDLE"),
        ("kernel(m, 'of_32'), block=(64, 1, 1)", "INVALID_VALUE"),
        ("kernel(m, 'up_to_64'), block=(65, 1, 1)", "INVALID_VALUE"),
        ("kernel(m, 'up_to_64'), block=(32, 2, 1)", ""),
    ],
)
def test_launches_that_the_driver_refuses(modules: Path, launched: str, answer: str) -> None:
    script = f"""
        try:
            launch({launched})
        except RuntimeError as error:
            print(str(error).split(': ')[1])
        sync()
    """
    assert prints(script, modules) == answer


def test_dynamic_workgroup_memory(modules: Path) -> None:
    script = """
        last = kernel(m, 'last')
        def tell(n, bytes):
            try:
                launch(last, d, c_int(n), shared=bytes)
                copy(h, d, 4)
                sync()
                print(h[0])
            except RuntimeError as error:
                print(str(error).split(': ')[1])
        tell(10, 40)
        tell(20000, 80000)
        print(says('cuFuncSetAttribute', last, 8, 98305))
        call('cuFuncSetAttribute', last, 8, 98304)
        tell(20000, 80000)
        tell(11, 40)
    """
    answers = prints(script, modules).split()
    assert answers[:4] == ["10", "INVALID_VALUE", "INVALID_VALUE", "20000"]
    assert answers[4] in ("ILLEGAL_ADDRESS", "LAUNCH_FAILED")
