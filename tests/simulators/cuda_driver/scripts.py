"""Python programs that call the stand-in as a CUDA driver, each in a process."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

from simulators.cuda_driver import standin

PRELUDE = """
import os, sys
from ctypes import *
cu = CDLL('libcuda.so.1')
U, P = c_uint64, c_void_p
NAMES = {}
def name(code):
    text = c_char_p()
    cu.cuGetErrorName(code, byref(text))
    return text.value.decode().removeprefix('CUDA_ERROR_').removeprefix('CUDA_')
def call(function, *arguments, gives=None):
    result = gives() if gives else None
    code = getattr(cu, function)(*([byref(result)] if gives else []), *arguments)
    if code:
        raise RuntimeError(f'{function}: {name(code)}')
    return result
def says(function, *arguments, gives=None):
    try:
        call(function, *arguments, gives=gives)
    except RuntimeError as error:
        return str(error).split(': ')[1]
    return 'SUCCESS'
call('cuInit', 0)
def enter(ordinal=0):
    device = call('cuDeviceGet', ordinal, gives=c_int)
    call('cuCtxPushCurrent_v2', call('cuDevicePrimaryCtxRetain', device, gives=P))
    return device
device = enter()
def alloc(bytes): return call('cuMemAlloc_v2', c_size_t(bytes), gives=U)
def stream(flags=1): return call('cuStreamCreate', flags, gives=P)
def event(flags=2): return call('cuEventCreate', flags, gives=P)
def copy(to, source, bytes, stream=None):
    at = [x if isinstance(x, U) else U(addressof(x)) for x in (to, source)]
    call('cuMemcpyAsync', *at, c_size_t(bytes), stream)
def load(path): return call('cuModuleLoadData', open(path, 'rb').read() + b'\\0', gives=P)
def kernel(module, name): return call('cuModuleGetFunction', module, name.encode(), gives=P)
def launch(f, *values, grid=(1, 1, 1), block=(1, 1, 1), shared=0, stream=None):
    params = (P * max(1, len(values)))(*[addressof(v) for v in values])
    call('cuLaunchKernel', f, *grid, *block, shared, stream, params, None)
def sync(stream=None): call('cuStreamSynchronize', stream)
def ints(n, value=0): return (c_int * n)(*[value] * n)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a script ended."""

    code: int
    out: str
    err: str


def run(script: str, *arguments: Path, modules: Path, devices: str = "7.0", **variables: str) -> Ended:
    """Run ``script`` behind the prelude; ``arguments`` are ``sys.argv[1:]``."""
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", PRELUDE + textwrap.dedent(script), *map(str, arguments)],
        env=standin.environment(devices, modules=modules, **variables),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    return Ended(code=done.returncode, out=done.stdout, err=done.stderr)
