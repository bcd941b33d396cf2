"""Which loops get a volatile load; tests/e2e/test_opencl.py shows what happens without it."""

import pytest

from gpubuild.engine.backends.spirv.loop_values import guard
from gpubuild.engine.ir import llvm

LOOP = """
define i32 @f(i32 %start, i32 %step, i64 %n, ptr %out, ptr %table) {{
{label}  %given = load i32, ptr %table, align 4
  br label %head

head:                                             ; preds = %head, %entry
  %i = phi i64 [ 0, {entry} ], [ %more, %head ]
  %value = phi i32 [ %start, {entry} ], [ %next, %head ]
  %next = add i32 %value, %step
{inside}  %more = add i64 %i, 1
  %end = icmp eq i64 %more, %n
  br i1 %end, label %exit, label %head

exit:                                             ; preds = %head
{behind}}}
"""
BOTH = "  %r = sub i32 %next, %value\n  ret i32 %r\n"
NEXT = "  ret i32 %next\n"
MOVED = "  %twice = shl i32 %value, 1\n  %moved = xor i32 %twice, %next\n"
ELEMENT = "  %p = getelementptr i32, ptr %out, i64 %i\n"


def guards(text: str, *, all_loops: bool = False) -> int:
    found = guard(text, all_loops=all_loops)
    llvm.verify(llvm.parse_assembly(found, llvm.new_context()))
    return found.count("load volatile")


@pytest.mark.parametrize(
    ("inside", "behind", "expected"),
    [
        ("", BOTH, 1),
        ("", NEXT, 0),
        (MOVED, "  ret i32 %moved\n", 1),
        (MOVED, NEXT, 0),
        ("  store i32 %value, ptr %out, align 4\n", NEXT, 1),
        (f"{ELEMENT}  store i32 %value, ptr %p, align 4\n", NEXT, 0),
        (f"{MOVED}{ELEMENT}  store i32 %moved, ptr %p, align 4\n", "  ret i32 %moved\n", 0),
    ],
)
@pytest.mark.parametrize(("label", "entry"), [("", "%0"), ("entry:\n", "%entry"), ('"a b":\n', '%"a b"')])
def test_loops_whose_values_are_used_behind_them(inside, behind, expected, label, entry):
    text = LOOP.format(inside=inside, behind=behind, label=label, entry=entry)
    assert guards(text) == expected
    assert guards(text, all_loops=True) == 1


NESTED = """
define i32 @f(i32 %a, i64 %n) {
  br label %outer

outer:
  %j = phi i64 [ 0, %0 ], [ %jn, %latch ]
  %sum = phi i32 [ 0, %0 ], [ %total, %latch ]
  br label %inner

inner:
  %i = phi i64 [ 0, %outer ], [ %in, %inner ]
  %v = phi i32 [ %sum, %outer ], [ %w, %inner ]
  %w = add i32 %v, %a
  %in = add i64 %i, 1
  %ie = icmp eq i64 %in, %n
  br i1 %ie, label %latch, label %inner

latch:
  %total = mul i32 %v, %w
  %jn = add i64 %j, 1
  %je = icmp eq i64 %jn, %n
  br i1 %je, label %exit, label %outer

exit:
  ret i32 %total
}

define i32 @g(i1 %c) {
  br i1 %c, label %yes, label %no

yes:
  br label %no

no:
  %v = phi i32 [ 0, %0 ], [ 1, %yes ]
  ret i32 %v
}
"""


def test_loops_with_barriers_need_none():
    declared = "declare void @_Z7barrierj(i32) convergent\n"
    barrier = "  call void @_Z7barrierj(i32 3)\n"
    for before, inside, expected in ((barrier, "", 1), ("", barrier, 0)):
        text = declared + LOOP.format(inside=inside, behind=BOTH, label=before, entry="%0")
        assert guards(text) == guards(text, all_loops=True) == expected


def test_only_the_loop_itself_of_several():
    lines = guard(NESTED).split("\n")
    (at,) = (number for number, line in enumerate(lines) if "load volatile" in line)
    assert lines[at - 1].startswith("  %v = phi i32 [ %sum")
    assert guards(NESTED) == 1
    assert guards(NESTED, all_loops=True) == 2
