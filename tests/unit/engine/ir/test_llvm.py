"""LLVM through its C API and llvmlite: linking, locations of errors, reproducible outputs."""

import subprocess
import sys
from io import BytesIO

import pytest
from elftools.elf.elffile import ELFFile
from unit.engine.steps import refused

from gpubuild.engine.ir import llvm
from gpubuild.errors import Location, StepError

X86 = "x86_64-unknown-linux-gnu"
USER = "declare i32 @outer(i32)\ndefine i32 @f(i32 %x) { %r = call i32 @outer(i32 %x)\n ret i32 %r }"
OUTER = """declare i32 @inner(i32)
define i32 @outer(i32 %x) { %r = call i32 @inner(i32 %x)
 ret i32 %r }
define i32 @never() { ret i32 7 }
"""
INNER = "define i32 @inner(i32 %x) { %r = mul i32 %x, 3\n ret i32 %r }"


def module(text: str):
    parsed = llvm.parse_assembly(text, llvm.new_context())
    llvm.set_target(parsed, llvm.target_machine(X86, "x86-64"))
    return parsed


def defined(parsed) -> set[str]:
    return {f.name for f in parsed.functions if not f.is_declaration}


def bitcode(text: str) -> bytes:
    return llvm.parse_assembly(text, llvm.new_context()).as_bitcode()


@pytest.mark.parametrize("order", [(OUTER, INNER), (INNER, OUTER)])
@pytest.mark.parametrize("encode", [str.encode, bitcode])
def test_libraries_in_any_order_give_only_what_is_used(order, encode) -> None:
    parsed = module(USER)
    llvm.link_libraries(parsed, [(f"lib{n}", encode(text)) for n, text in enumerate(order)])
    assert defined(parsed) == {"f", "outer", "inner"}
    assert {f.linkage.name for f in parsed.functions if f.name != "f"} == {"internal"}
    assert llvm.undefined_symbols(parsed) == []
    llvm.verify(parsed)


def test_the_modules_own_definition_wins() -> None:
    parsed = module(USER + "\ndefine i32 @inner(i32 %x) { ret i32 42 }")
    llvm.link_library(parsed, (OUTER + INNER.replace("inner", "other")).encode(), "lib")
    assert "ret i32 42" in str(parsed)
    assert next(f for f in parsed.functions if f.name == "inner").linkage.name == "external"


def test_undefined_symbols_leave_intrinsics_out() -> None:
    parsed = module("declare float @llvm.sqrt.f32(float)\ndeclare void @g()\n@v = external global i32")
    assert llvm.undefined_symbols(parsed) == ["g"]
    assert llvm.undefined_symbols(parsed, globals_too=True) == ["g", "v"]


def test_parse_error_has_line_and_column() -> None:
    error = refused(llvm.parse_assembly, "define void @f() {\n  oops\n}", llvm.new_context(), name="my.ll")
    (diagnostic,) = error.diagnostics
    assert diagnostic.location == Location(file="my.ll", line=2, column=4)
    assert diagnostic.source_line == "  oops"


@pytest.mark.parametrize("data", [b"\xff\xfe", b"BC\xc0\xdejunk", b"not IR"])
def test_bad_libraries_are_named(data: bytes) -> None:
    with pytest.raises(StepError, match=r"my\.bc"):
        llvm.parse(data, llvm.new_context(), name="my.bc")


def test_unknown_triple_is_refused() -> None:
    with pytest.raises(StepError, match="no code generator"):
        llvm.target_machine("nonsense-triple", "x")


CODE = """
target triple = "x86_64-unknown-linux-gnu"
@words = internal constant [8 x i8] c"a\\22b\\5C\\0A\\C3\\A9\\00"
@table = constant [2 x ptr] [ptr @words, ptr @f]
declare double @exp(double)
define i32 @f(ptr %p, i32 %n) uwtable {
  %w = load <8 x float>, ptr %p
  %d = fmul <8 x float> %w, splat (float 0.5)
  store <8 x float> %d, ptr %p
  %v = load volatile i8, ptr @words
  %x = zext i8 %v to i32
  switch i32 %n, label %other [ i32 0, label %a i32 1, label %b i32 2, label %a i32 3, label %b ]
a: ret i32 %x
b: %e = call double @exp(double 2.5)
  %i = fptosi double %e to i32
  ret i32 %i
other: ret i32 %n
}
"""
DEBUG = """define i32 @f() !dbg !4 { ret i32 7, !dbg !6 }
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2}
!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !1, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "a.mlir", directory: ".")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!4 = distinct !DISubprogram(name: "f", file: !1, line: 3, type: !5, unit: !0, spFlags: DISPFlagDefinition)
!5 = !DISubroutineType(types: !{})
!6 = !DILocation(line: 3, scope: !4)
"""


def contents(data: bytes) -> dict[str, bytes]:
    """All sections that are loaded or that debuggers read."""
    found = ELFFile(BytesIO(data)).iter_sections()
    return {s.name: s.data() for s in found if s["sh_flags"] & 2 or ".debug" in s.name}


@pytest.mark.parametrize(
    ("text", "times"),
    [
        (CODE, 1),
        (CODE.replace("@f", '@"a b\\22c"'), 2),
        (CODE.replace("a: ret", 'a: call void asm "nop", ""()\n ret'), 2),
        (DEBUG, 2),
    ],
    ids=["code", "a name that needs quotes", "inline assembly", "debug information"],
)
def test_the_object_is_that_of_the_assembly(text: str, times: int, monkeypatch) -> None:
    def fresh():
        return module(text), llvm.target_machine(X86, "x86-64-v3")

    given = []
    real = llvm.emit_object
    monkeypatch.setattr(llvm, "emit_object", lambda m, machine: given.append(m) or real(m, machine))
    parsed, machine = fresh()
    assembly, code = llvm.emit_both(parsed, machine)
    assert (given[0] is parsed) is (times == 2)
    assert assembly == llvm.emit_assembly(*fresh())
    assert contents(code) == contents(real(*fresh()))
    assert contents(code)[".text"]


def test_another_processors_code_is_generated_twice() -> None:
    parsed, machine = module(INNER), llvm.target_machine("aarch64-unknown-linux-gnu", "generic")
    llvm.set_target(parsed, machine)
    assembly, code = llvm.emit_both(parsed, machine)
    assert "mul" in assembly or "add" in assembly
    assert ELFFile(BytesIO(code))["e_machine"] == "EM_AARCH64"


# ---- intrinsics ----


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("llvm.sqrt", True),
        ("llvm.sqrt.f32", True),
        ("llvm.nvvm.shfl.sync.bfly.i32", True),
        ("llvm.amdgcn.rcp.f32", True),
        ("llvm.no.such", False),
        ("llvm.nvvm.no.such", False),
        ("llvm.", False),
        ("llvm", False),  # LLVM ends the process when it is asked about it
    ],
)
def test_what_llvm_knows(name: str, known: bool) -> None:
    assert llvm.is_known(name) is known


def verify(name: str) -> None:
    text = f"declare void @{name}()\ndefine void @f() {{\n  call void @{name}()\n  ret void\n}}\n"
    llvm.verify(llvm.parse_assembly(text, llvm.new_context()))


def test_a_call_of_an_unknown_intrinsic_is_no_valid_ir() -> None:
    with pytest.raises(StepError, match="LLVM has no intrinsic 'llvm.no.such'"):
        verify("llvm.no.such")


def test_names_of_earlier_releases_are_taken() -> None:
    """LLVM 22 has renamed it, and does so to what it reads."""
    assert not llvm.is_known("llvm.nvvm.barrier0")
    verify("llvm.nvvm.barrier0")


# ---- lifetime ----


SCRIPT = """
import gc
from gpubuild.engine.ir import llvm

def cycle():
    context = llvm.new_context()
    library = llvm.parse_assembly("define void @b() { ret void }", context)
    module = llvm.parse_assembly("declare void @b() define void @a() { call void @b() ret void }", context)
    module.link_in(library)
    copy = llvm.parse_bitcode(module.as_bitcode(), context)
    kept = [context, module, library, copy]
    kept.append(kept)

gc.disable()
for _ in range(50):
    cycle()
gc.collect()
"""


def test_collecting_a_module_after_its_context_does_not_end_the_process() -> None:
    assert subprocess.run([sys.executable, "-c", SCRIPT], check=False).returncode == 0


# ---- the two libraries ----

ONLY_AMD = """
import sys
import gpubuild.engine.ir.bindings
from gpubuild.engine.backends.nvidia import compile
from gpubuild.engine.backends.cpu import compile
from gpubuild.engine.host import object_code
from gpubuild.engine.ir import llvm
llvm.initialize()
for triple, chip in (("nvptx64-nvidia-cuda", "sm_60"), ("x86_64-unknown-linux-gnu", "x86-64")):
    machine = llvm.target_machine(triple, chip)
    module = llvm.parse_assembly("define void @f() { ret void }", llvm.new_context(triple))
    llvm.set_target(module, machine)
    llvm.optimize(module, machine, 3)
    assert "f:" in llvm.emit_assembly(module, machine) or ".func f(" in llvm.emit_assembly(module, machine)
assert "llvmlite" not in sys.modules
llvm.target_machine("amdgcn-amd-amdhsa", "gfx90a")
assert "llvmlite" in sys.modules
"""


def test_llvmlite_is_loaded_for_amd_only() -> None:
    assert subprocess.run([sys.executable, "-c", ONLY_AMD], check=False).returncode == 0


def test_an_error_in_inline_assembly_does_not_end_the_process() -> None:
    parsed = module('define void @f() { call void asm "oops oops", ""()\n ret void }')
    error = refused(llvm.emit_object, parsed, llvm.target_machine(X86, "x86-64"))
    assert "<inline asm>:1:2: " in error.output
    assert "oops oops" in error.output


def test_integers_of_more_than_64_bits_need_no_library() -> None:
    parsed = module(
        "define i128 @f(i128 %a, i100 %b) {\n %q = sdiv i128 %a, 3\n %f = uitofp i100 %b to double\n"
        " %i = fptosi double %f to i128\n %r = urem i128 %q, %i\n ret i128 %r }"
    )
    machine = llvm.target_machine(X86, "x86-64")
    llvm.set_target(parsed, machine)
    assert "call" not in llvm.emit_assembly(parsed, machine)
