"""Translate PTX to a shared object that the stand-in of the CUDA driver loads.

The stand-in runs ``python -m simulators.cuda_driver.module FILE.ptx OUTPUT.so sm_70 libcuda.so.1``. For
wrong PTX the exit code is 3 and the output is the assembler's message.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shared_library import shared_library
from simulators.cuda_driver.checked import checked
from simulators.device_ir.host_form import DYNAMIC, DYNAMIC_BYTES, HostForm, translate, type_of
from simulators.device_ir.nvidia import NVIDIA
from simulators.device_ir.runner import each_in_child, host_module
from simulators.ptx.translate import device_ir

from gpubuild.engine.backends.nvidia.compile import parse_ptxas
from gpubuild.engine.ir import llvm
from gpubuild.settings import Settings
from gpubuild.toolchain.find import Toolchain

BAD_PTX = 3
MOST_DYNAMIC_BYTES = 232448 + 1024  # of any chip, and what no work-item may touch (UNTOUCHED in launch.c)
_CODE_OPT_LEVEL = 1
_MODULE_SYMBOL = "cuda_module"  # what the driver looks for in the shared object
_ENTRY = re.compile(r"\.entry\s+(?P<name>[\w$.]+)\s*(?:\((?P<parameters>[^)]*)\))?(?P<directives>[^{;]*)")
_PARAMETER = re.compile(r"\.param\b.*?\.[bsuf](?P<bits>\d+)\b(?P<more>.*)", re.DOTALL)
_KERNEL_TYPE = "{ ptr, ptr, ptr, ptr, i32, i32, [3 x i32], [3 x i32], i32, i32, i32, [3 x i32], i32 }"


class BadPtxError(Exception):
    """PTX that the assembler refuses, with its message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """Facts about a kernel from PTX and the assembler: bytes of parameters, sizes of workgroups."""

    name: str
    parameters: tuple[int, ...]
    required: tuple[int, int, int]
    most: tuple[int, int, int]
    cluster: tuple[int, int, int]
    registers: int
    shared_bytes: int


def kernels_of(ptx: str, assembled: str) -> list[Kernel]:
    """Return the kernels in the order of the text; ``assembled`` is the output of ``ptxas -v``."""
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", "", ptx, flags=re.DOTALL)
    entries = list(_ENTRY.finditer(plain))
    infos = {info.name: info for info in parse_ptxas(assembled, [e["name"] for e in entries])}
    found = []
    for entry in entries:
        info = infos.get(entry["name"])
        found.append(
            Kernel(
                name=entry["name"],
                parameters=tuple(_bytes(p) for p in (entry["parameters"] or "").split(",") if p.strip()),
                required=_three(entry["directives"], "reqntid"),
                most=_three(entry["directives"], "maxntid"),
                cluster=_three(entry["directives"], "reqnctapercluster"),
                registers=(info.registers if info else None) or 0,
                shared_bytes=(info.shared_bytes if info else None) or 0,
            )
        )
    return found


def _bytes(parameter: str) -> int:
    found = _PARAMETER.search(parameter)
    if found is None:
        raise ValueError(f"cannot read a parameter: {parameter}")
    many = re.search(r"\[(\d+)\]", found["more"])
    return int(found["bits"]) // 8 * (int(many[1]) if many else 1)


def _three(directives: str, name: str) -> tuple[int, int, int]:
    found = re.search(rf"\.{name}\s+([\d\s,]+)", directives)
    if found is None:
        return 0, 0, 0
    x, y, z = (*(int(n) for n in found[1].split(",")), 1, 1)[:3]
    return x, y, z


def assembled(ptx: Path, chip: str) -> str:
    """Return the output of ``ptxas -v`` for ``chip``. Raises :class:`BadPtxError`."""
    exactly = re.search(rf"^\s*\.target\s+({chip}[af])\b", ptx.read_text(), re.MULTILINE)
    chip = exactly[1] if exactly else chip  # a device of sm_90 is one of sm_90a
    command = Toolchain(Settings()).require("ptxas").command
    done = subprocess.run(
        [*command, f"-arch={chip}", "-v", "-o", os.devnull, str(ptx)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise BadPtxError(done.stdout + done.stderr)
    return done.stdout + done.stderr


def object_of(ptx: str, kernels: list[Kernel]) -> bytes:
    """Return an object file with the kernels and their table ``cuda_module`` (driver.h)."""
    form = translate(checked(device_ir(ptx)), NVIDIA)
    text = form.text.replace(
        f"@{DYNAMIC} = global [{DYNAMIC_BYTES} x i8]", f"@{DYNAMIC} = global [{MOST_DYNAMIC_BYTES} x i8]"
    )
    text += table(form, kernels, chip_of(ptx))
    return llvm.emit_object(*host_module(text, _CODE_OPT_LEVEL, _set_apart))


def _set_apart(module: llvm.Module) -> None:
    """Give the module's definitions names that are unique in the process.

    Else the loader would use functions of the C library instead of kernels with equal names, and LLVM's
    calls of ``memset``, for example, would be calls of a kernel of that name.
    """
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name != _MODULE_SYMBOL:
            value.name = f"ptx.{value.name}"
            value.linkage = "internal"


def chip_of(ptx: str) -> int:
    """``60`` of ``.target sm_60``."""
    found = re.search(r"^\s*\.target\s+sm_(\d+)", ptx, re.MULTILINE)
    if found is None:
        raise BadPtxError("there is no .target")
    return int(found[1])


def table(form: HostForm, kernels: list[Kernel], chip: int) -> str:
    """LLVM IR of ``struct module_text`` in driver.h."""
    sizes = _shared_types(form.text)
    parts, rows = [], []
    for number, kernel in enumerate(kernels):
        taken = form.kernels[kernel.name]
        assert len(taken) == len(kernel.parameters), (kernel, taken)
        shared = [name for name in form.shared[kernel.name] if name in sizes]
        entries = ", ".join(
            f"{{ ptr, i64 }} {{ ptr {_quoted(n)}, "
            f"i64 ptrtoint (ptr getelementptr ({sizes[n]}, ptr null, i64 1) to i64) }}"
            for n in shared
        )
        text = kernel.name.encode() + b"\0"
        parts += [
            f'@cuda.name.{number} = internal constant [{len(text)} x i8] c"{kernel.name}\\00"',
            f"@cuda.bytes.{number} = internal constant [{len(taken)} x i32] "
            f"[{', '.join(f'i32 {n}' for n in kernel.parameters)}]",
            f"@cuda.shared.{number} = internal constant [{len(shared)} x {{ ptr, i64 }}] [{entries}]",
        ]
        most = kernel.most if any(kernel.most) else kernel.required
        rows.append(
            f"{_KERNEL_TYPE} {{ ptr @cuda.name.{number}, ptr @{_quoted(f'emu.kernel.{kernel.name}')[1:]}, "
            f"ptr @cuda.bytes.{number}, ptr @cuda.shared.{number}, i32 {len(taken)}, i32 {len(shared)}, "
            f"{_numbers(kernel.required)}, {_numbers(kernel.most)}, i32 {most[0] * most[1] * most[2]}, "
            f"i32 {kernel.registers}, i32 {kernel.shared_bytes}, "
            f"{_numbers(kernel.cluster)}, i32 {int(len(shared) < len(form.shared[kernel.name]))} }}"
        )
    parts.append(f"@cuda.kernels = internal constant [{len(rows)} x {_KERNEL_TYPE}] [{', '.join(rows)}]")
    parts.append(
        f"@{_MODULE_SYMBOL} = constant {{ ptr, ptr, i32, i32, i32 }} {{ ptr @cuda.kernels, ptr @{DYNAMIC}, "
        f"i32 {len(rows)}, i32 {MOST_DYNAMIC_BYTES}, i32 {chip} }}"
    )
    return "\n".join(parts) + "\n"


def _quoted(name: str) -> str:
    return f'@"{name}"'


def _numbers(three: tuple[int, int, int]) -> str:
    return f"[3 x i32] [{', '.join(f'i32 {n}' for n in three)}]"


def _shared_types(text: str) -> Mapping[str, str]:
    """Types of the module's variables."""
    found = re.findall(r'^@("[^"]+"|[\w.$-]+) = (?:internal )?global (.*)$', text, re.MULTILINE)
    return {name.strip('"'): type_of(rest) for name, rest in found}


def link(obj: bytes, driver: Path, output: Path) -> None:
    """Write the shared object, which calls functions of the driver that loads it."""
    with tempfile.TemporaryDirectory(dir=output.parent) as folder:
        file, made = Path(folder, "module.o"), Path(folder, "module.so")
        file.write_bytes(obj)
        shared_library(made, [file, driver], "-nostartfiles", "-lc")
        made.replace(output)


def make(ptx: Path, output: Path, chip: str, driver: Path) -> None:
    """Raises :class:`BadPtxError`."""
    said = assembled(ptx, chip)
    text = ptx.read_text()
    link(object_of(text, kernels_of(text, said)), driver, output)


def file_name(text: str, chip: str) -> str:
    """Return the stand-in's file name for the shared object of this text (translation.c)."""
    digests = [0xCBF29CE484222325, 0x84222325CBF29CE4]
    for byte in text.encode():
        digests = [(digest ^ byte) * 0x100000001B3 % (1 << 64) for digest in digests]
    return f"{digests[0]:016x}{digests[1]:016x}.{chip}.so"


def make_all(files: Iterable[Path], chip: str, folder: Path, driver: Path) -> None:
    """Fill a folder of the stand-in, faster than it would itself. Failures are left to it."""
    wanted = {file_name(file.read_text(), chip): file for file in files}

    def work(names: Sequence[str]) -> Iterator[None]:
        for name in names:
            with contextlib.suppress(Exception):
                make(wanted[name], folder / name, chip, driver)
            yield

    for _ in each_in_child(work, [name for name in wanted if not (folder / name).exists()]):
        pass


def main(ptx: str, output: str, chip: str, driver: str) -> int:
    """Translate a file for the stand-in."""
    try:
        make(Path(ptx), Path(output), chip, Path(driver))
    except BadPtxError as error:
        print(error, end="")
        return BAD_PTX
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
