"""LLVM access: libraries are linked as needed, errors say where, outputs repeat."""

import pytest

from gpubuild.engine import llvm
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


def test_a_library_that_is_not_needed_is_not_linked() -> None:
    parsed = module("define void @f() { ret void }")
    llvm.link_library(parsed, OUTER.encode(), "lib")
    assert defined(parsed) == {"f"}


def test_undefined_symbols_leave_intrinsics_out() -> None:
    parsed = module("declare float @llvm.sqrt.f32(float)\ndeclare void @g()\n@v = external global i32")
    assert llvm.undefined_symbols(parsed) == ["g"]
    assert llvm.undefined_symbols(parsed, globals_too=True) == ["g", "v"]


def test_module_flag() -> None:
    parsed = module("define void @f() { ret void }")
    llvm.add_module_flag(parsed, "amdhsa_code_object_version", 500)
    assert '!{i32 1, !"amdhsa_code_object_version", i32 500}' in str(parsed)


def test_parse_error_has_line_and_column() -> None:
    with pytest.raises(StepError) as caught:
        llvm.parse_assembly("define void @f() {\n  oops\n}", llvm.new_context(), name="my.ll")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.location == Location(file="my.ll", line=2, column=4)
    assert diagnostic.source_line == "  oops"


@pytest.mark.parametrize("data", [b"\xff\xfe", b"BC\xc0\xdejunk", b"not IR"])
def test_bad_libraries_are_named(data: bytes) -> None:
    with pytest.raises(StepError, match=r"my\.bc"):
        llvm.parse(data, llvm.new_context(), name="my.bc")


def test_unknown_triple_is_refused() -> None:
    with pytest.raises(StepError, match="no code generator"):
        llvm.target_machine("nonsense-triple", "x")


def test_objects_are_the_same_every_time() -> None:
    def emitted() -> bytes:
        parsed, machine = module(INNER), llvm.target_machine(X86, "x86-64")
        llvm.optimize(parsed, machine, 3)
        return llvm.emit_object(parsed, machine)

    assert emitted() == emitted()
    assert emitted().startswith(b"\x7fELF")


def test_host_cpu_can_be_compiled_for() -> None:
    name, features = llvm.host_cpu()
    parsed = module(INNER)
    assert name
    assert llvm.emit_object(parsed, llvm.target_machine(X86, name, features)).startswith(b"\x7fELF")
