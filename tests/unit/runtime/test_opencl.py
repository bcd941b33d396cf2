"""The runtime's calls on Intel's OpenCL driver for CPUs, with kernels in LLVM's assembly."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from devices import at_hand
from unit.runtime.programs import Outcome, Runtime, container, hsaco, ptx
from unit.runtime.test_cpu import images  # noqa: F401  (a fixture)
from variants import few

from gpubuild.engine.ir import llvm
from gpubuild.model.offload_binary import Image, pack

TRIPLE = "spirv64v1.2-unknown-unknown"
PARAMETERS = {"add": 2, "reverse": 1, "slow": 2, "check": 2}  # that launches pass
KERNELS = f"""
target triple = "{TRIPLE}"
declare i64 @_Z13get_global_idj(i32)
declare i64 @_Z12get_local_idj(i32)
declare void @_Z7barrierj(i32) convergent
define spir_kernel void @add(ptr addrspace(1) %x, i32 %n) {{
  %i = call i64 @_Z13get_global_idj(i32 0)
  %p = getelementptr i32, ptr addrspace(1) %x, i64 %i
  %old = load i32, ptr addrspace(1) %p
  %new = add i32 %old, %n
  store i32 %new, ptr addrspace(1) %p
  ret void
}}
define spir_kernel void @reverse(ptr addrspace(1) %x, ptr addrspace(3) %tile) {{
  %i = call i64 @_Z12get_local_idj(i32 0)
  %j = sub i64 15, %i
  %from = getelementptr i32, ptr addrspace(1) %x, i64 %i
  %to = getelementptr i32, ptr addrspace(3) %tile, i64 %j
  %mine = load i32, ptr addrspace(1) %from
  store i32 %mine, ptr addrspace(3) %to
  call void @_Z7barrierj(i32 1)
  %other = getelementptr i32, ptr addrspace(3) %tile, i64 %i
  %new = load i32, ptr addrspace(3) %other
  store i32 %new, ptr addrspace(1) %from
  ret void
}}
define spir_kernel void @slow(ptr addrspace(1) %x, i64 %n) {{
entry:
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%next, %loop]
  %v = load volatile i32, ptr addrspace(1) %x
  %w = add i32 %v, 1
  store volatile i32 %w, ptr addrspace(1) %x
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret void
}}
define spir_kernel void @check(ptr addrspace(1) %x, i32 %limit, ptr addrspace(1) %failed) {{
  %v = load i32, ptr addrspace(1) %x
  %wrong = icmp sge i32 %v, %limit
  br i1 %wrong, label %fail, label %end
fail:
  store i32 1, ptr addrspace(1) %failed
  br label %end
end:
  ret void
}}
"""
HELPERS = """
def upload(values):
    data = (c_int32 * len(values))(*values)
    to = mgpuMemAlloc(sizeof(data), None, 0)
    mgpuMemcpy(to, addressof(data), sizeof(data), None)
    mgpuStreamSynchronize(None)
    return to
def download(address, count):
    data = (c_int32 * count)()
    mgpuMemcpy(addressof(data), address, sizeof(data), None)
    mgpuStreamSynchronize(None)
    return list(data)
"""


def spirv(text: str) -> bytes:
    machine = llvm.target_machine(TRIPLE, "")
    module = llvm.parse_assembly(text, llvm.new_context(TRIPLE))
    llvm.set_target(module, machine)
    return llvm.emit_object(module, machine)


@pytest.fixture(scope="module")
def image() -> bytes:
    kernels = [{"name": name, "parameters": count} for name, count in PARAMETERS.items()]
    listed = json.dumps(kernels, separators=(",", ":"))
    strings = {"arch": "spirv1.2", "gpubuild.module": "m", "gpubuild.target": "t", "gpubuild.kernels": listed}
    return pack([Image(image_kind=1, offload_kind=0, strings=strings, data=spirv(KERNELS))])


Run = Callable[..., Outcome]


@pytest.fixture
def run(runtime: Runtime, image: bytes) -> Run:
    """Run a script on opencl:0 with the kernels as image 0."""
    driver = at_hand.opencl()
    if driver is None:
        pytest.skip("needs Intel's OpenCL runtime (PyPI: intel-opencl-rt)")

    def call(script: str, **variables: str) -> Outcome:
        return runtime.run(HELPERS + script, image, device="opencl", **(driver | variables))

    return call


# A libOpenCL.so.1 in front of the real one, whose devices differ as its variables say: SHIM_SVM (only shared
# virtual memory), SHIM_SUBGROUPS (the one size; 0: unknown sizes), SHIM_GPU (the CPU claims to be a GPU).
SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
int clGetDeviceInfo(void *device, uint32_t what, size_t bytes, void *to, size_t *got) {
    int (*real)(void *, uint32_t, size_t, void *, size_t *) = dlsym(RTLD_NEXT, "clGetDeviceInfo");
    const char *size = getenv("SHIM_SUBGROUPS");
    if (what == 0x4108 && size != NULL) {
        *(size_t *)to = strtoul(size, NULL, 10);
        return *size == '0' ? -30 : 0;
    }
    int result = real(device, what, bytes, to, got);
    char *found = what == 0x1030 && to != NULL ? strstr(to, "cl_intel_unified_shared_memory") : NULL;
    if (found != NULL && getenv("SHIM_SVM") != NULL) {
        *found = 'x';
    }
    return result;
}
int clGetDeviceIDs(void *platform, uint64_t type, uint32_t count, void **to, uint32_t *got) {
    int (*real)(void *, uint64_t, uint32_t, void **, uint32_t *) = dlsym(RTLD_NEXT, "clGetDeviceIDs");
    if (getenv("SHIM_GPU") != NULL) {
        type = type == 4 ? 2 : 4;
    }
    return real(platform, type, count, to, got);
}
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    driver = at_hand.opencl()
    if driver is None:
        pytest.skip("needs Intel's OpenCL runtime (PyPI: intel-opencl-rt)")
    folder = tmp_path_factory.mktemp("shim")
    real, shim = folder / "libreal.so", folder / "libOpenCL.so.1"
    cc: list[str | Path] = ["cc", "-shared", "-fPIC", "-xc", "-", "-o"]
    subprocess.run([*cc, real, "-Wl,-soname,libreal.so"], input=b"", check=True)
    subprocess.run([*cc, shim, "-xnone", "-Wl,--no-as-needed", real, "-ldl"], input=SHIM.encode(), check=True)
    real.unlink()
    real.symlink_to(Path(driver["LD_LIBRARY_PATH"].split(":")[0]) / "libOpenCL.so.1")
    return driver | {"LD_LIBRARY_PATH": f"{folder}:{driver['LD_LIBRARY_PATH']}"}


# What programs do without an error.
SCRIPTS = {
    "fills at any address": """  # OpenCL's own fills need addresses that are multiples of the pattern's size
rt.gpubuildMemset.argtypes = [P, P, P, c_int64, c_int64, P]
to = mgpuMemAlloc(512, None, 1)
for size in (1, 2, 3, 4, 8, 12, 16):
    for element in (bytes(range(1, size + 1)), bytes([7] * size)):
        for offset in (0, 1, 2, 4):
            for count in (1, 2, 5):
                mgpuMemset32(to, 0, 128, None)
                rt.gpubuildMemset(to + offset, element, (c_int64 * 2)(count, 1), 1, size, None)
                mgpuStreamSynchronize(None)
                expected = bytes(offset) + element * count
                assert string_at(to, 512) == expected + bytes(512 - len(expected)), (size, offset, count)
""",
    "a launch without its number of parameters": """  # hosts in C may pass 0, as for CUDA
module = load(0)
x = upload(range(16))
for name, shared in ((b'add', 0), (b'reverse', 64)):
    values = [c_void_p(x), c_int32(5)]
    pointers = (P * 2)(*[addressof(value) for value in values])
    mgpuLaunchKernel(mgpuModuleGetFunction(module, name), 1, 1, 1, 16, 1, 1, shared, None, pointers, None, 0)
assert download(x, 16) == [5 + 15 - i for i in range(16)]
""",
    "an event is recorded again while other threads wait for it": """
import threading
event, streams = mgpuEventCreate(), [mgpuStreamCreate() for _ in range(4)]
def work(stream):
    for _ in range(2000):
        mgpuEventRecord(event, stream)
        mgpuStreamWaitEvent(stream, event)
        mgpuEventSynchronize(event)
threads = [threading.Thread(target=work, args=(stream,)) for stream in streams]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
""",
}


@pytest.mark.parametrize("what", SCRIPTS)
def test_scripts(run: Run, what: str) -> None:
    assert run(SCRIPTS[what].lstrip()).ok().err == ""


@pytest.mark.parametrize("end", few(["mgpuStreamDestroy(stream)", ""]))
@pytest.mark.parametrize("memory", ["usm", "svm"])
def test_memory_is_freed_after_the_work_of_all_streams(
    run: Run, shim: dict[str, str], memory: str, end: str
) -> None:
    done = run(
        f"""
slow = mgpuModuleGetFunction(load(0), b'slow')
seen = upload([0])
for _ in range(3):
    stream = mgpuStreamCreate()
    x = mgpuMemAlloc(1 << 20, None, 0)
    mgpuMemset32(x, 0, 1, stream)
    launch(slow, stream=stream, params=[c_void_p(x), c_int64(30_000_000)])
    mgpuMemcpy(seen, x, 4, stream)
    {end}
    mgpuMemFree(x, None)
    assert download(seen, 1) == [30_000_000]
""",
        **(shim | {"SHIM_SVM": "1"} if memory == "svm" else {}),
    )
    assert done.ok().err == ""


REFUSED = {
    "mgpuLaunchKernel(mgpuModuleGetFunction(load(0), b'add'), *[1] * 6, 0, None, None, 8, 0)": (
        "the launch passes its parameters in `extra`"
    ),
    # A new stream has an idle queue.
    """
slow = mgpuModuleGetFunction(load(0), b'slow')
x = upload([0])
busy = mgpuStreamCreate()
launch(slow, stream=busy, params=[c_void_p(x), c_int64(100_000_000)])
mgpuStreamDestroy(busy)
idle = mgpuStreamCreate()
assert idle != busy
mgpuStreamDestroy(idle)
mgpuMemFree(x, None)
assert {mgpuStreamCreate(), mgpuStreamCreate()} == {busy, idle}
mgpuStreamDestroy(8)
""": "there is no such stream, or it is destroyed already\n",
}


@pytest.mark.parametrize("script", REFUSED, ids=["extra parameters", "a stream that is none"])
def test_what_is_refused(run: Run, script: str) -> None:
    done = run(script)
    assert (done.code, REFUSED[script] in done.err) == (1, True), done.err


@pytest.mark.parametrize("stream", ["None", "mgpuStreamCreate()"])
def test_an_assertion_that_fails_at_the_end_of_the_program(run: Run, stream: str) -> None:
    done = run(
        f"""
module = load(0)
slow, check = (mgpuModuleGetFunction(module, name) for name in (b'slow', b'check'))
pythonapi.Py_IncRef(py_object(buffers[0]))
x, stream = upload([0]), {stream}
for kernel in (slow, check):
    launch(kernel, stream=stream, params=[c_void_p(x), c_int64(30_000_000)])
print('launched', flush=True)
"""
    )
    assert (done.code, done.out) == (1, b"launched\n")
    assert done.err.startswith("gpubuild: an assertion failed in a kernel (the message above)\n")


def requiring(size: int) -> bytes:
    """A module whose kernel `k` runs in subgroups of ``size`` work-items only."""
    return spirv(
        f"""
target triple = "{TRIPLE}"
define spir_kernel void @k() !intel_reqd_sub_group_size !0 {{
  ret void
}}
!0 = !{{i32 {size}}}
"""
    )


@pytest.mark.parametrize(
    ("size", "order", "chip"),
    [(None, -1, "xe"), ("16", 1, "xe"), ("32", 1, "spirv1.2"), ("0", -1, "spirv1.2"), ("64", 1, "")],
)
def test_the_choice_between_portable_and_intels_images(
    runtime: Runtime, shim: dict[str, str], size: str | None, order: int, chip: str
) -> None:
    """A device without subgroups of 16, and one that does not list its sizes, take the portable image."""
    both = [("xe", requiring(16)), ("spirv1.2", requiring(32))]
    variables = shim | ({"SHIM_SUBGROUPS": size} if size else {})
    script = "mgpuModuleGetFunction(load(0), b'k')"
    done = runtime.run(script, container(*both[::order]), device="opencl", GPUBUILD_TRACE="1", **variables)
    said = f"image {chip} of target t-{chip} " if chip else "needs subgroups of another size"
    assert (done.code, said in done.err) == (0 if chip else 1, True), done.err


@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize(("vendor", "devices"), [("cuda", "9.0"), ("hip", "gfx90a"), ("", "")])
def test_auto_tries_cuda_then_hip_then_opencl_gpus_then_the_cpu(
    runtime: Runtime,
    shim: dict[str, str],
    images: list[bytes],  # noqa: F811
    *,
    vendor: str,
    devices: str,
    gpu: bool,
) -> None:
    """The GPU with OpenCL is Intel's runtime for CPUs, which claims to be one."""
    every = container(
        ("x86-64", images[0]), ("spirv1.2", requiring(32)), ("gfx90a", hsaco()), ("sm_60", ptx("sm_60"))
    )
    variables = shim | {"FAKE_DEVICES": devices, "GPUBUILD_TRACE": "1"} | ({"SHIM_GPU": "1"} if gpu else {})
    if vendor:
        variables["LD_LIBRARY_PATH"] += f":{getattr(runtime, vendor)}"
    done = runtime.run(
        "load(0); mgpuMemFree(mgpuMemAlloc(16, None, 0), None)", every, device="auto", **variables
    ).ok()
    assert f"trace: device {vendor or ('opencl' if gpu else 'cpu')}" in done.err
