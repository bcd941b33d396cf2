"""Host objects for clang-linker-wrapper: device code in its section, entries, and a record."""

import re
import struct
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from unit.engine.host.test_bundle import OBJECTS
from unit.engine.host.test_offload_binary import llvm
from unit.engine.host_steps import HOST, OUTPUTS, bundled, params
from unit.engine.steps import failing_step, run_step

from gpubuild.engine.cc.link import device_error
from gpubuild.engine.host.clang_offload import Carried, with_device_code
from gpubuild.model.offload_binary import unpack
from gpubuild.model.project import Offload
from gpubuild.model.step import LinkParams, StepKind
from gpubuild.targets.vendor import ImageKind, OffloadKind

CODES = [f"code {n}".encode() for n in range(len(OBJECTS))]
AMD_ID = "gfx90a:sramecc+:xnack-"
EXCLUDED = 0x80000000  # SHF_EXCLUDE: not part of what a linker writes


def inputs(tmp_path: Path, host: str = HOST) -> dict[str, str | bytes]:
    codes = {f"device.0.{n}": code for n, code in enumerate(CODES)}
    return {"host": host, "binary.0": bundled(tmp_path), **codes}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("host")
    ran = run_step(folder / "step", StepKind.HOST, params(Offload.CLANG), inputs(folder), OUTPUTS)
    (folder / "host.o").write_bytes(ran.outputs["object"])
    (folder / "host.ll").write_bytes(ran.outputs["llvm"])
    return folder


def test_the_wrapper_s_section_holds_relocatable_code_and_does_not_reach_programs(made: Path) -> None:
    with (made / "host.o").open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".llvm.offloading")
        assert section["sh_flags"] & EXCLUDED
        images = unpack(section.data())
    assert [(i.image_kind, i.offload_kind, i.strings, i.data) for i in images] == [
        (ImageKind.CUBIN, OffloadKind.CUDA, strings("nvptx64-nvidia-cuda", "sm_60"), CODES[0]),
        (ImageKind.CUBIN, OffloadKind.CUDA, strings("nvptx64-nvidia-cuda", "sm_90a"), CODES[1]),
        (ImageKind.BITCODE, OffloadKind.HIP, strings("amdgcn-amd-amdhsa", AMD_ID), CODES[2]),
        (ImageKind.OBJECT, OffloadKind.OPENMP, strings("x86_64-unknown-linux-gnu", "x86-64-v3"), CODES[3]),
    ]  # fmt: skip


def strings(triple: str, arch: str) -> dict[str, str]:
    return {"triple": triple, "arch": arch}


def test_llvm_reads_it(made: Path) -> None:
    listed = llvm(made, "objdump", "--offloading", "host.o")
    assert re.findall(r"producer +(\w+)", listed) == ["cuda", "cuda", "hip", "openmp"]
    assert re.findall(r"kind +([\w<> ]+)\n", listed) == ["cubin", "cubin", "llvm ir", "elf"]


def test_entries_name_each_kernel_for_each_runtime(made: Path) -> None:
    with (made / "host.o").open("rb") as stream:
        elf = ELFFile(stream)
        data = elf.get_section_by_name("llvm_offload_entries").data()
        relocations = elf.get_section_by_name(".relallvm_offload_entries")
        places = sorted((r["r_offset"], r["r_addend"]) for r in relocations.iter_relocations())
    entries = list(struct.iter_unpack("<QHHIQQQQQ", data))
    assert [(version, kind, size) for _, version, kind, _, _, _, size, _, _ in entries] == [
        (1, OffloadKind.CUDA, 0), (1, OffloadKind.HIP, 0), (1, OffloadKind.OPENMP, 0)
    ]  # fmt: skip
    # The kernel's address and its name, in each entry of 56 bytes.
    assert [offset for offset, _ in places] == [start + at for start in (0, 56, 112) for at in (16, 24)]


def test_the_record_says_what_there_is_and_holds_nothing(made: Path) -> None:
    text = (made / "host.ll").read_text()
    match = re.search(r'@saxpy_kernels_binary = internal constant \[\d+ x i8\] c"(.*)"', text)
    record = re.sub(r"\\(..)", lambda m: chr(int(m[1], 16)), match[1]).encode("latin-1")
    images = unpack(record)
    assert [i.strings["arch"] for i in images] == ["sm_60", "sm_90a", "gfx90a:sramecc+:xnack-", "x86-64-v3"]
    assert {i.data for i in images} == {b""}
    assert {i.strings["gpubuild.module"] for i in images} == {"saxpy_kernels"}
    assert images[3].strings["gpubuild.features"] == "+avx512f"
    assert [i.strings["gpubuild.target"] for i in images] == ["sm_60", "hopper", "gfx90a", "cpu"]


def test_a_host_that_keeps_symbols_itself_is_refused(tmp_path: Path) -> None:
    used = (
        'llvm.mlir.global appending @llvm.compiler.used() {addr_space = 0 : i32, section = "llvm.metadata"} '
        ": !llvm.array<1 x ptr> { %0 = llvm.mlir.addressof @f : !llvm.ptr\n"
        "%1 = llvm.mlir.undef : !llvm.array<1 x ptr>\n"
        "%2 = llvm.insertvalue %0, %1[0] : !llvm.array<1 x ptr>\n"
        "llvm.return %2 : !llvm.array<1 x ptr> }\nllvm.func @f()\n}"
    )
    host = HOST.rstrip()[:-1] + used
    error = failing_step(tmp_path, StepKind.HOST, params(Offload.CLANG), inputs(tmp_path, host), OUTPUTS)
    assert "@llvm.compiler.used" in error.message and "dispatch" in error.hint


def test_names_need_not_be_plain() -> None:
    carried = Carried(module='a"b', container=b"\0", kernels=("k é",), kinds=(OffloadKind.HIP,))
    text = with_device_code("", [carried])
    assert '@"gpubuild.entry.a\\22b.k \\C3\\A9.hip" = ' in text
    assert 'ptr getelementptr (i8, ptr @"a\\22b_binary", i64 0)' in text
    assert with_device_code("as it was", []) == "as it was"


def test_duplicates_are_explained() -> None:
    lld = "ld.lld: error: duplicate symbol: scale\n>>> defined at a\n"
    nvlink = "nvlink error   : Multiple definition of 'add' in 'b.cubin', first defined in 'a.cubin'\n"
    error = device_error(lld + nvlink)
    assert error.message == "cannot link: add, scale is defined more than once"
    assert "rename one" in error.hint
    assert device_error("undefined reference to `f'") is None


def test_a_chip_that_nvlink_does_not_know() -> None:
    error = device_error("nvlink fatal   : Value 'sm_60' is not defined for option 'arch'\n")
    assert error.message == "cannot link: this nvlink does not support sm_60"
    assert "CUDA_PATH" in error.hint


def test_a_compiler_that_is_two_words(tmp_path: Path) -> None:
    tools = {"cc": ("/zig", "cc"), "clang-linker-wrapper": ("/wrapper",)}
    given = LinkParams(wrapper_triple="x86_64-unknown-linux-gnu")
    error = failing_step(tmp_path, StepKind.LINK, given, {"object.0": b""}, ("executable",), tools)
    assert "cannot link with /zig cc: clang-linker-wrapper runs a command of one word" in error.message
