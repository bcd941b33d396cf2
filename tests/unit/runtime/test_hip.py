"""The mgpu* ABI on HIP: calls, the thread's device, failures."""

# ruff: noqa: E501  (programs inside strings are not broken for width)

import io

import pytest
from elftools.elf.elffile import ELFFile
from unit.engine.device_steps import compile_module, kernel
from unit.runtime.programs import Runtime, container, elf, hsaco
from unit.runtime.test_cuda import EVERYTHING

from gpubuild.engine.backends.amd import printf

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


def test_the_program_s_device_is_put_back_after_a_failure(runtime: Runtime) -> None:
    done = runtime.run(
        "mgpuMemAlloc(16, None, 0)", device="hip:1", hip="gfx90a,gfx90a", FAKE_FAIL="hipMalloc=2"
    )
    assert done.code == 1
    assert done.called("hipSetDevice") == ["hipSetDevice 1", "hipSetDevice 0"]


def test_arguments_of_a_launch(runtime: Runtime) -> None:
    script = "launch(mgpuModuleGetFunction(load(0), b'k'), (5, 6, 7), (64, 2, 1), 128, None, [c_int64(9), c_int32(-1)])"
    done = runtime.run(script, MODULE, device="hip", hip="gfx90a", FAKE_PARAMS="8,4").ok()
    assert done.called("hipModuleLaunchKernel")[0].endswith(
        "grid=5,6,7 block=64,2,1 shared=128 stream=(nil) extra=(nil)"
    )
    assert done.called("  param") == ["  param 0 = 0x9", "  param 1 = 0xffffffff"]


FAILING = (
    "hipModuleLoadData", "hipModuleGetFunction", "hipModuleLaunchKernel", "hipStreamCreateWithFlags",
    "hipStreamDestroy", "hipStreamSynchronize", "hipStreamWaitEvent", "hipEventCreateWithFlags", "hipEventDestroy",
    "hipEventSynchronize", "hipEventRecord", "hipMalloc", "hipMallocManaged", "hipFree", "hipMemcpyAsync",
    "hipMemsetD32Async", "hipMemsetD16Async", "hipHostRegister", "hipHostUnregister", "hipModuleUnload",
)  # fmt: skip


def test_every_failure_ends_the_program_with_its_call(runtime: Runtime) -> None:
    rows = [(EVERYTHING, {"FAKE_FAIL": f"{call}=2"}) for call in FAILING]
    for done, call in zip(runtime.each(rows, MODULE, device="hip", hip="gfx90a"), FAILING, strict=True):
        assert (done.code, done.out) == (1, b"")
        assert done.err.startswith(
            f"gpubuild: {call} failed with hipErrorOutOfMemory (2): a failure to order"
        )
        assert f"  call: {call} (in mgpu" in done.err
        assert "  device: hip:0 (Fake AMD GPU 0, gfx90a)\n" in done.err


# ---- assertions ----

SAID = "a.mlir:3:5: k: f: assertion failed: 100%% even, in workgroup (%u, %u, %u), work-item (%u, %u, %u)\n"
LONG = SAID.replace("even", "even " + 300 * "-")
LAUNCH = "launch(mgpuModuleGetFunction(load(0), b'k'), (1, 1, 1), (64, 1, 1), 0, None, [])"


def asserting(*formats: tuple[int, str]) -> bytes:
    """An image whose metadata has formats by name, as MessagePack writes strings."""
    texts = [f"0:0:{name:016x},{text}".encode() for name, text in formats]
    tail = b"".join(
        (b"\xd9" + bytes([len(t)]) if len(t) < 256 else b"\xda" + len(t).to_bytes(2, "big")) + t
        for t in texts
    )
    return container(("gfx90a", elf(224, tail=b"\x92" + tail + bytes(3))), module="m")


@pytest.mark.parametrize(("name", "text"), [(0xFEDC_BA98_7654_3210, SAID), (7, LONG)])
def test_a_failed_assertion_is_told_before_hip_ends_the_process(
    runtime: Runtime, name: int, text: str
) -> None:
    image = asserting((5, "0:0:%d, printed\n"), (0xFEDC_BA98_7654_3210, SAID), (7, LONG))
    done = runtime.run(LAUNCH, image, device="hip", hip="gfx90a", FAKE_ASSERTION=f"{name:x}")
    assert done.code == -6
    assert text % (1, 20, 0, 4294967295, 5, 6) in done.err
    assert done.called("hipHostMalloc") == ["hipHostMalloc dev=0 64 flags=0x40000003"]
    assert done.called("hipModuleGetGlobal")[0].endswith(" gpubuild_assertion_record")


@pytest.mark.parametrize(
    ("text", "variables", "code"),
    [("%d, printed\n", {"FAKE_ASSERTION": "5"}, -6), (SAID, {"FAKE_FAIL": "hipModuleGetGlobal=500"}, 0)],
    ids=["without assertions", "that keeps its record to itself"],
)
def test_a_module_that_is_not_watched(
    runtime: Runtime, text: str, variables: dict[str, str], code: int
) -> None:
    done = runtime.run(LAUNCH, asserting((5, text)), device="hip", hip="gfx90a", **variables)
    assert (done.code, done.err) == (code, "")
    assert done.called("hipHostMalloc") == []
    assert (done.called("hipModuleGetGlobal") == []) == (text != SAID)


def exported(code_object: bytes) -> set[str]:
    table = ELFFile(io.BytesIO(code_object)).get_section_by_name(".dynsym")
    return {symbol.name for symbol in table.iter_symbols() if symbol["st_info"]["type"] == "STT_OBJECT"}


def test_what_is_told_is_in_real_code_objects(runtime: Runtime) -> None:
    built = compile_module(kernel('%ok = arith.cmpi slt, %n, %n : i32\ncf.assert %ok, "100% even"'), "gfx90a")
    said = "k: f: assertion failed: 100%% even, in workgroup (%u, %u, %u), work-item (%u, %u, %u)\n"
    assert "gpubuild_assertion_record" in exported(built.object)
    image = container(("gfx90a", built.object), module="m")
    name = f"{printf.format_name('k', said):x}"
    done = runtime.run(LAUNCH, image, device="hip", hip="gfx90a", FAKE_ASSERTION=name)
    assert done.err.endswith(said % (1, 20, 0, 4294967295, 5, 6))
