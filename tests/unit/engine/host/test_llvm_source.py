"""LLVM IR as a host source."""

from pathlib import Path

from elftools.elf.elffile import ELFFile
from unit.engine.steps import failing_step, run_step

from gpubuild.engine.ir import llvm
from gpubuild.model.step import LlvmParams, StepKind

TRIPLE = "x86_64-unknown-linux-gnu"
PARAMS = LlvmParams(triple=TRIPLE, source_name="src/add.ll")
ADD = """source_filename = "/home/someone/secret.c"
%entry = type { i32, ptr, ptr }
@llvm.global_ctors = appending global [1 x %entry] [%entry { i32 9, ptr @start, ptr null }]
define internal void @start() {
  ret void
}
define i32 @add(i32 %a, i32 %b) {
  %c = add i32 %a, %b
  ret i32 %c
}
"""


def compile_ll(tmp_path: Path, source: str | bytes, params: LlvmParams = PARAMS) -> bytes:
    return run_step(tmp_path, StepKind.LLVM, params, {"source": source}, ("object",)).outputs["object"]


def elf(tmp_path: Path, data: bytes) -> ELFFile:
    (tmp_path / "x.o").write_bytes(data)
    return ELFFile((tmp_path / "x.o").open("rb"))


def test_text_becomes_an_object_with_its_constructor(tmp_path: Path) -> None:
    data = compile_ll(tmp_path, ADD)
    file = elf(tmp_path, data)
    assert file.header["e_machine"] == "EM_X86_64"
    assert file.get_section_by_name(".init_array.00009").data_size == 8
    names = {s.name for s in file.get_section_by_name(".symtab").iter_symbols()}
    assert "add" in names
    assert b"secret" not in data


def test_bitcode_and_text_give_the_same_object(tmp_path: Path) -> None:
    bitcode = llvm.parse_assembly(ADD, llvm.new_context()).as_bitcode()
    params = LlvmParams(triple=TRIPLE, bitcode=True)
    assert compile_ll(tmp_path / "bc", bitcode, params) == compile_ll(tmp_path / "ll", ADD)


def test_opt_level_matters(tmp_path: Path) -> None:
    slow = compile_ll(tmp_path / "0", ADD, LlvmParams(triple=TRIPLE, opt_level=0))
    assert slow != compile_ll(tmp_path / "3", ADD)


def test_mistake_has_file_line_and_column(tmp_path: Path) -> None:
    source = ADD.replace("ret i32", "ret i65x")
    error = failing_step(tmp_path, StepKind.LLVM, PARAMS, {"source": source}, ("object",))
    assert error.stage == "parse"
    (diagnostic,) = error.diagnostics
    assert str(diagnostic.location).startswith("src/add.ll:9:")
    assert diagnostic.source_line == "  ret i65x %c"


def test_device_code_as_a_host_source_is_refused(tmp_path: Path) -> None:
    source = 'target triple = "nvptx64-nvidia-cuda"\n' + ADD
    error = failing_step(tmp_path, StepKind.LLVM, PARAMS, {"source": source}, ("object",))
    assert "is for nvptx64-nvidia-cuda" in error.message
    assert "device_libs" in error.hint


def test_broken_bitcode_is_an_error(tmp_path: Path) -> None:
    params = LlvmParams(triple=TRIPLE, bitcode=True, source_name="x.bc")
    error = failing_step(tmp_path, StepKind.LLVM, params, {"source": b"BC\xc0\xde\0\0"}, ("object",))
    assert "x.bc" in error.message
