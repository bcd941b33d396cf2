"""Registered host memory as the device finds it; the fake drivers say 4096 bytes further on."""

import platform

import pytest
from unit.runtime.programs import Runtime

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="C cannot return five words in registers, as LLVM wants there"
)

SCRIPT = """
class Memref(Structure):
    _fields_ = [('allocated', U), ('aligned', U), ('offset', U), ('size', U), ('stride', U)]
data = create_string_buffer(64)
at = addressof(data)
for name in ('Float', 'Int32'):
    function = getattr(rt, 'mgpuMemGetDeviceMemRef1d' + name)
    function.restype, function.argtypes = Memref, [P, P, c_int64, c_int64, c_int64]
    got = function(at, at + 8, 1, 5, 2)
    print(got.allocated - at, got.aligned - at, got.offset, got.size, got.stride, flush=True)
"""


DEVICES = {
    "cpu": ({}, "0 8 1 5 2", ""),
    "cuda": ({"cuda": "9.0"}, "4104 4104 1 5 2", "cuMemHostGetDevicePointer"),
    "hip": ({"hip": "gfx90a"}, "4104 4104 1 5 2", "hipHostGetDevicePointer"),
}


@pytest.mark.parametrize("device", DEVICES)
def test_descriptors(runtime: Runtime, device: str) -> None:
    """Memory that is not registered is an error on GPUs, and there is no such thing on CPUs."""
    fake, expected, call = DEVICES[device]
    done = runtime.run(SCRIPT, device=device, **fake).ok()
    assert done.out.decode().splitlines() == [expected] * 2
    if call:
        done = runtime.run(SCRIPT, device=device, FAKE_FAIL=f"{call}=1", **fake)
        assert (done.code, done.out) == (1, b"")
        assert done.err.startswith(f"gpubuild: {call} failed with ")
        assert f"  call: {call} (in mgpuMemGetDeviceMemRef1dFloat)" in done.err
