"""Copies, fills, memory spaces and ends of streams in host code: which calls of the runtime they become."""

import re

import pytest

from gpubuild.engine.host import lowering
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.errors import StepError

ROWS = "memref<4x4xf32, strided<[8, 1], offset: ?>>"


def lowered(lines: str, arguments: str = "%n: index") -> str:
    text = f"func.func @f({arguments}) {{\n{lines}\n return\n}}"
    with contexts.context():
        module = contexts.parse(text)
        lowering.lower_host(module, source=SourceText(text, "app.mlir"))
        return contexts.canonical_text(module)


def _body(text: str) -> str:
    return text.split("llvm.func @f(")[1].split("llvm.return", maxsplit=1)[0]


def calls(text: str) -> list[str]:
    return re.findall(
        r"llvm\.call @(\w+)\(", text.split("llvm.func @f(")[1].split("llvm.return", maxsplit=1)[0]
    )


def memset(kind: str, memref: str = "") -> list[str]:
    memref = memref or f"memref<?x{kind}>"
    return calls(lowered(f"gpu.memset %d, %v : {memref}, {kind}", f"%d: {memref}, %v: {kind}"))


@pytest.mark.parametrize("kind", ["i1", "i8", "i64", "index", "f64", "f8E4M3FN", "complex<f32>"])
def test_fills_that_upstream_has_not(kind: str) -> None:
    assert memset(kind) == [
        "mgpuStreamCreate",
        "gpubuildMemset",
        "mgpuStreamSynchronize",
        "mgpuStreamDestroy",
    ]


@pytest.mark.parametrize("kind", ["i16", "i32", "f16", "bf16", "f32"])
def test_fills_that_upstream_has_are_left_to_it(kind: str) -> None:
    [call] = [c for c in memset(kind) if "emset" in c]
    assert call == ("mgpuMemset32" if "32" in kind else "mgpuMemset16")


@pytest.mark.parametrize(
    ("to", "origin", "call"),
    [
        ("memref<4x4xf32>", "memref<4x4xf32>", "mgpuMemcpy"),
        ("memref<?x4xf32>", "memref<?x4xf32>", "mgpuMemcpy"),
        (ROWS, "memref<4x4xf32>", "gpubuildMemcpy"),
        ("memref<4x4xf32>", ROWS, "gpubuildMemcpy"),
        ("memref<?xi8, strided<[?], offset: ?>>", "memref<?xi8, strided<[2]>>", "gpubuildMemcpy"),
        ("memref<f64, strided<[], offset: ?>>", "memref<f64>", "gpubuildMemcpy"),
    ],
)
def test_copies_with_gaps_or_offsets(to: str, origin: str, call: str) -> None:
    """Upstream copies what lies at the base of either."""
    text = lowered(f"gpu.memcpy %a, %b : {to}, {origin}", f"%a: {to}, %b: {origin}")
    assert [c for c in calls(text) if "emcpy" in c] == [call]


def test_a_fill_with_gaps() -> None:
    assert "gpubuildMemset" in memset("f32", ROWS)


def test_arrays_for_calls_are_made_once() -> None:
    lines = """%c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 { gpu.memset %d, %v : memref<?xf64>, f64 }"""
    text = lowered(lines, "%n: index, %d: memref<?xf64>, %v: f64")
    entry = text.split("llvm.func @f(")[1].split("^bb1")[0]
    assert text.count("llvm.alloca") == entry.count("llvm.alloca") == 2


def test_who_joins_after_a_fill_waits_for_it() -> None:
    """Upstream records the event where the token's stream was made, unless the token is made anew."""
    lines = """%t0 = gpu.wait async
    %t1 = gpu.memset async [%t0] %d, %v : memref<?xf64>, f64
    %t2 = gpu.wait async [%t1]
    gpu.wait [%t2]"""
    found = calls(lowered(lines, "%d: memref<?xf64>, %v: f64"))
    assert found.index("gpubuildMemset") < found.index("mgpuEventRecord")


# ---- ends of streams ----

COPY = "%{} = gpu.memcpy async [%{}] %d, %d : memref<?xf64>, memref<?xf64>"


@pytest.mark.parametrize(
    "lines",
    [
        # Joined streams.
        "%a = gpu.wait async\n %b = gpu.wait async\n %t = gpu.wait async [%a, %b]\n gpu.wait [%t]",
        # Nobody waits.
        "%a = gpu.wait async\n" + COPY.format("b", "a"),
        # Joined twice, and the chain goes on.
        "%a = gpu.wait async\n %b = gpu.wait async [%a]\n %c = gpu.wait async [%a]\n gpu.wait [%a, %b, %c]",
        "%a = gpu.wait async\n" + COPY.format("b", "a") + "\n" + COPY.format("c", "a") + "\n gpu.wait [%b]",
        "%a = gpu.wait async\n %b = gpu.memset async [%a] %d, %v : memref<?xf64>, f64",
        "%a = gpu.wait async\n scf.if %p { %b = gpu.wait async [%a]\n gpu.wait [%b] }",
        "%a = gpu.wait async\n scf.if %p { gpu.wait [%a] }",
        "%a = gpu.wait async\n scf.if %p { gpu.wait [%a] } else { gpu.wait [%a] }\n gpu.wait [%a]",
        "%a = gpu.wait async\n gpu.wait [%a]\n scf.if %p {\n" + COPY.format("b", "a") + "\n gpu.wait [%b] }",
        "%a = gpu.wait async\n scf.for %i = %n to %n step %n {\n" + COPY.format("b", "a") + "}",
        "%a = gpu.wait async\n scf.for %i = %n to %n step %n { %b = gpu.wait async [%a]\n gpu.wait [%b] }",
        "%a = gpu.wait async\n" + COPY.format("b", "a") + "\n %c = gpu.wait async [%a]\n gpu.wait [%b, %c]",
    ],
)  # fmt: skip
def test_every_stream_is_destroyed_once(lines: str) -> None:
    text = lowered(lines, "%n: index, %d: memref<?xf64>, %v: f64, %p: i1")
    made = re.findall(r"(%\d+) = llvm.call @mgpuStreamCreate", text)
    ended = re.findall(r"@(?:mgpuStreamDestroy|gpubuildStreamRelease)\((%\d+)\) :", text)
    assert sorted(made) == sorted(ended)
    for stream in made:
        end = re.search(rf"@(?:mgpuStreamDestroy|gpubuildStreamRelease)\({stream}\)", text)
        assert end is not None
        assert f"{stream})" not in text[end.end() :].split("llvm.func @")[0]


def test_a_join_in_a_loop_waits_for_what_the_token_stands_for() -> None:
    lines = """%a = gpu.wait async
    %b = gpu.wait async
    scf.for %i = %n to %n step %n {
      %c = gpu.wait async [%a, %b]
      gpu.wait [%c]
    }
    gpu.wait [%b]"""
    text = lowered(lines, "%n: index")
    [(stream, awaited)] = set(re.findall(r"@gpubuildStreamJoin\((%\d+), (%\d+)\)", text)[:1])
    assert stream != awaited
    loop = text.split("^bb2:")[1].split("^bb3:")[0]
    assert loop.count("gpubuildStreamJoin") == 2
    # Events of upstream's would be recorded once and destroyed in every round.
    assert "mgpuEventDestroy" not in loop


def test_tokens_in_other_blocks() -> None:
    lines = """%a = gpu.wait async
    cf.cond_br %p, ^one, ^two
    ^one: gpu.wait [%a]
    cf.br ^two
    ^two: gpu.wait [%a]"""
    found = calls(lowered(lines, "%p: i1"))
    assert found.count("gpubuildStreamJoin") == found.count("mgpuStreamSynchronize") == 2


# ---- memory spaces ----


def test_memory_of_the_global_space() -> None:
    lines = """%d, %t0 = gpu.alloc async (%n) : memref<?xf32, 1>
    %t1 = gpu.memcpy async [%t0] %d, %h : memref<?xf32, 1>, memref<?xf32>
    %t2 = gpu.memset async [%t1] %d, %v : memref<?xf32, 1>, f32
    %t3 = gpu.memset async [%t2] %e, %w : memref<?xi64, 1>, i64
    %t4 = gpu.dealloc async [%t3] %d : memref<?xf32, 1>
    gpu.wait [%t4]"""
    text = lowered(lines, "%n: index, %h: memref<?xf32>, %v: f32, %e: memref<?xi64, 1>, %w: i64")
    assert calls(text) == [
        "mgpuStreamCreate", "mgpuMemAlloc", "mgpuMemcpy", "mgpuMemset32", "gpubuildMemset", "mgpuMemFree",
        "mgpuStreamSynchronize", "mgpuStreamDestroy",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("%d = gpu.alloc (%n) : memref<?xf32, 3>", "'gpu.alloc' in memory space 3"),
        ("gpu.memset %odd, %i : memref<4xi32, affine_map<(d) -> (d mod 2)>>, i32", "layout is not strides"),
        ("gpu.memcpy %no, %no : memref<4xmemref<4xf32>>, memref<4xmemref<4xf32>>", "elements of type memref"),
    ],
)
def test_what_is_refused_points_at_the_op(lines: str, message: str) -> None:
    arguments = (
        "%n: index, %i: i32, %odd: memref<4xi32, affine_map<(d) -> (d mod 2)>>, %no: memref<4xmemref<4xf32>>"
    )
    with pytest.raises(StepError) as caught:
        lowered(lines, arguments)
    [diagnostic] = caught.value.diagnostics
    assert message in diagnostic.message
    assert diagnostic.location is not None
    assert "global" in caught.value.hint
