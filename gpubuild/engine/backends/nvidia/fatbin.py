"""Pack machine code and PTX into a fat binary, by NVIDIA's library nvFatbin."""

from __future__ import annotations

import ctypes
from pathlib import Path

from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import StepError
from gpubuild.targets.target import Target

# Without compression every driver and `gpubuild inspect` can read the entries.
_OPTIONS = (b"-64", b"-compress=false")


def pack(target: Target, machine_code: bytes, assembly: bytes, io: StepIO) -> bytes:
    """Return the fat binary, which has the entries of MLIR's. Raises ``StepError``."""
    (path,) = io.tool("nvfatbin")
    library = ctypes.CDLL(path)
    library.nvFatbinGetErrorString.restype = ctypes.c_char_p

    def call(name: str, *arguments: object) -> None:
        if code := getattr(library, name)(*arguments):
            reason = library.nvFatbinGetErrorString(code) or b"unknown error"
            raise StepError(
                f"nvFatbin cannot pack the code for {target.chip}: {reason.decode(errors='replace')}",
                hint=f"choose another `format:`; the library is {Path(path).name}",
            )

    options = (ctypes.c_char_p * len(_OPTIONS))(*_OPTIONS)
    handle, size = ctypes.c_void_p(), ctypes.c_size_t()
    arch = target.chip.removeprefix("sm_").encode()
    text = assembly.rstrip(b"\0") + b"\0"
    call("nvFatbinCreate", ctypes.byref(handle), options, ctypes.c_size_t(len(_OPTIONS)))
    call("nvFatbinAddCubin", handle, machine_code, ctypes.c_size_t(len(machine_code)), arch, None)
    call("nvFatbinAddPTX", handle, text, ctypes.c_size_t(len(text)), arch, None, None)
    call("nvFatbinSize", handle, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    call("nvFatbinGet", handle, buffer)
    call("nvFatbinDestroy", ctypes.byref(handle))
    return buffer.raw
