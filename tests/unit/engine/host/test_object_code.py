"""Constructors move from LLVM's arrays to sections that every linker keeps, in order."""

import pytest

from gpubuild.engine.host.object_code import rewrite
from gpubuild.engine.ir import llvm

FUNCTIONS = "".join(f"define void @{name} {{ ret void }}\n" for name in ("a()", "b()", '"odd \\22name"()'))
ENTRY = "{ i32, ptr, ptr }"


def printed(text: str) -> str:
    """Return the text as LLVM prints it."""
    return str(llvm.parse_assembly(text, llvm.new_context()))


def array(which: str, *entries: tuple[int, str]) -> str:
    items = ", ".join(f"{ENTRY} {{ i32 {priority}, ptr {name}, ptr null }}" for priority, name in entries)
    return f"@llvm.global_{which} = appending global [{len(entries)} x {ENTRY}] [{items}]\n"


def rewritten(text: str) -> str:
    out = rewrite(printed(text))
    assert "llvm.global_" not in out
    return printed(out)  # it parses, so it is LLVM IR


def test_constructors_and_destructors_become_pointers_in_sections() -> None:
    out = rewritten(FUNCTIONS + array("ctors", (123, "@a")) + array("dtors", (123, "@b")))
    assert '@gpubuild.ctors.0 = internal global ptr @a, section ".init_array.00123", align 8' in out
    assert '@gpubuild.dtors.0 = internal global ptr @b, section ".fini_array.00123", align 8' in out
    assert "@llvm.used = appending global [2 x ptr] [ptr @gpubuild.ctors.0, ptr @gpubuild.dtors.0]" in out


def test_several_entries_keep_their_order_and_odd_names_their_quotes() -> None:
    out = rewritten(FUNCTIONS + array("ctors", (7, "@a"), (7, '@"odd \\22name"'), (65535, "@b")))
    assert '@gpubuild.ctors.0 = internal global ptr @a, section ".init_array.00007"' in out
    assert '@gpubuild.ctors.1 = internal global ptr @"odd \\22name", section ".init_array.00007"' in out
    assert '@gpubuild.ctors.2 = internal global ptr @b, section ".init_array"' in out


def test_associated_data_and_null_entries() -> None:
    entries = f"{ENTRY} {{ i32 1, ptr @a, ptr @g }}, {ENTRY} {{ i32 2, ptr null, ptr null }}"
    text = f"@g = global i32 0\n{FUNCTIONS}@llvm.global_ctors = appending global [2 x {ENTRY}] [{entries}]\n"
    out = rewritten(text)
    assert '@gpubuild.ctors.0 = internal global ptr @a, section ".init_array.00001"' in out
    assert "gpubuild.ctors.1" not in out


def test_existing_used_list_is_extended() -> None:
    used = '@x = global i32 1\n@llvm.used = appending global [1 x ptr] [ptr @x], section "llvm.metadata"\n'
    out = rewritten(used + FUNCTIONS + array("ctors", (1, "@a")))
    assert "@llvm.used = appending global [2 x ptr] [ptr @x, ptr @gpubuild.ctors.0]" in out
    assert out.count("@llvm.used") == 1


@pytest.mark.parametrize("more", ["", '@s = constant [21 x i8] c"@llvm.global_ctors = "\n'])
def test_text_without_constructors_is_left_alone(more: str) -> None:
    text = printed(more + FUNCTIONS)
    assert rewrite(text) == text


def test_empty_list_disappears() -> None:
    out = rewritten(FUNCTIONS + f"@llvm.global_ctors = appending global [0 x {ENTRY}] zeroinitializer\n")
    assert "init_array" not in out


def test_a_form_that_llvm_does_not_print_is_an_error() -> None:
    entry = f"{ENTRY} {{ i32 1, ptr getelementptr (i8, ptr @a, i64 1), ptr null }}"
    with pytest.raises(ValueError, match="unexpected entry"):
        rewrite(f"@llvm.global_ctors = appending global [1 x {ENTRY}] [{entry}]\n")
