"""Memory, launches and tokens of host code: calls of the runtime, and refused operations."""

import re
from pathlib import Path

import pytest
from unit.engine.host_steps import OUTPUTS, PLACEHOLDER, bundled, calls, params, run_body
from unit.engine.steps import failing_step, refused

from gpubuild.engine.host import lowering, tokens
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.model.project import Offload
from gpubuild.model.step import HostParams, StepKind

SYNCHRONOUS = """ %h = memref.alloc(%n) : memref<?xf32>
 %d = gpu.alloc(%n) : memref<?xf32>
 gpu.memcpy %d, %h : memref<?xf32>, memref<?xf32>
 gpu.dealloc %d : memref<?xf32>"""


def test_synchronous_memory_operations(tmp_path: Path) -> None:
    assert calls(run_body(tmp_path, SYNCHRONOUS)) == [
        "mgpuStreamCreate", "mgpuMemAlloc", "mgpuMemcpy", "mgpuMemFree", "mgpuStreamSynchronize",
        "mgpuStreamDestroy",
    ]  # fmt: skip


def test_memory_shared_with_the_host_is_allocated_synchronously(tmp_path: Path) -> None:
    lines = """ %s = gpu.alloc host_shared (%n) : memref<?xf32>
 %zero = arith.constant 0 : index
 %v = memref.load %s[%zero] : memref<?xf32>
 memref.store %v, %s[%zero] : memref<?xf32>
 gpu.dealloc %s : memref<?xf32>"""
    llvm = run_body(tmp_path, lines)
    assert re.search(r"call ptr @mgpuMemAlloc\(i64 \S+, ptr null, i8 1\)", llvm)


def test_asynchronous_chain_with_several_dependencies(tmp_path: Path) -> None:
    lines = """ %t0 = gpu.wait async
 %d, %t1 = gpu.alloc async [%t0] (%n) : memref<?xf32>
 %e, %t2 = gpu.alloc async (%n) : memref<?xf32>
 %t3 = gpu.memcpy async [%t1, %t2] %d, %e : memref<?xf32>, memref<?xf32>
 %t4 = gpu.dealloc async [%t3] %d : memref<?xf32>
 gpu.wait [%t4]"""
    found = calls(run_body(tmp_path, lines))
    assert found.count("mgpuStreamWaitEvent") >= 2  # the copy waits for both allocations
    assert found.index("mgpuMemcpy") > found.index("mgpuStreamWaitEvent")
    assert found[-2:] == ["mgpuStreamSynchronize", "mgpuStreamDestroy"]


def test_synchronous_operations_beside_asynchronous_ones(tmp_path: Path) -> None:
    copy = "gpu.memcpy async [%t0] %d, %h : memref<?xf32>, memref<?xf32>"
    chain = f" %t0 = gpu.wait async\n %t = {copy}\n gpu.wait [%t]\n"
    lines = SYNCHRONOUS.replace(" gpu.dealloc", chain + " gpu.dealloc")
    found = calls(run_body(tmp_path, lines))
    assert found.count("mgpuMemcpy") == 2
    assert found.count("mgpuStreamCreate") == found.count("mgpuStreamDestroy") == 4


def test_launches_in_every_form(tmp_path: Path) -> None:
    launch = "gpu.launch_func {} @saxpy_kernels::@saxpy blocks in (%n, %n, %n) threads in (%n, %n, %n)"
    lines = "\n".join(
        [
            "%t = gpu.wait async",
            "%u = gpu.wait async",
            launch.format("[%t, %u]"),
            "%v = " + launch.format("async"),
            "%w = " + launch.format("async [%v, %t]"),
            "gpu.wait [%w]",
            launch.format("") + " dynamic_shared_memory_size %bytes",
        ]
    )
    found = calls(run_body(tmp_path, lines, "%n: index, %bytes: i32"))
    assert found.count("mgpuLaunchKernel") == 4


def test_the_host_waits_for_what_followed_a_token(tmp_path: Path) -> None:
    """As with upstream, where programs wait for the token on which their copies depend."""
    function = """func.func @f(%h: memref<8xf32>, %d: memref<8xf32>) {
 %t = gpu.wait async
 %a = gpu.memcpy async [%t] %d, %h : memref<8xf32>, memref<8xf32>
 %b = gpu.memcpy async [%t] %h, %d : memref<8xf32>, memref<8xf32>
 %c = gpu.memcpy async [%b] %d, %h : memref<8xf32>, memref<8xf32>
 gpu.wait [%t]
 %late = gpu.memcpy async [%a] %d, %h : memref<8xf32>, memref<8xf32>
 return
}"""
    text = f"module attributes {{gpu.container_module}} {{\n{function}\n}}"
    with contexts.context():
        module = contexts.parse(text)
        tokens.wait_for_followers(module)
        (wait,) = [line for line in contexts.canonical_text(module).splitlines() if "gpu.wait [" in line]
    names = [name.strip() for name in wait[wait.index("[") + 1 : wait.index("]")].split(",")]
    assert len(names) == 3  # the token, the first copy and the third; not the second, which the third follows


def test_the_host_waits_for_copies_that_nothing_else_orders() -> None:
    """Before a launch without tokens, and at a wait whose token is unused; not where tokens order them."""
    text = """module attributes {gpu.container_module} {
gpu.module @k { gpu.func @k() kernel { gpu.return } }
func.func @f(%h: memref<8xf32>, %d: memref<8xf32>) {
 %c = arith.constant 1 : index
 %t = gpu.wait async
 %a = gpu.memcpy async [%t] %d, %h : memref<8xf32>, memref<8xf32>
 %b = gpu.wait async [%a]
 LAUNCH
 %e = gpu.memcpy async [%b] %h, %d : memref<8xf32>, memref<8xf32>
 %u = gpu.wait async [%e]
 return
}
}"""
    sizes = "blocks in (%c, %c, %c) threads in (%c, %c, %c)"
    for launch, waits in (
        (f"gpu.launch_func @k::@k {sizes}", 2),
        (f"%l = gpu.launch_func async [%b] @k::@k {sizes}", 1),
    ):
        with contexts.context():
            module = contexts.parse(text.replace("LAUNCH", launch))
            tokens.wait_for_copies(module)
            assert contexts.canonical_text(module).count("gpu.wait [") == waits


def test_tokens_that_upstream_would_mistake_are_refused(tmp_path: Path) -> None:
    """A function that is unknown when its caller is compiled may not follow our convention for tokens."""
    function = """func.func @f(%g: (!gpu.async.token) -> ()) {
 %t = gpu.wait async
 func.call_indirect %g(%t) : (!gpu.async.token) -> ()
 return
}"""
    text = f"module attributes {{gpu.container_module}} {{\n{PLACEHOLDER}\n{function}\n}}"
    given = {"host": text, "binary.0": bundled(tmp_path)}
    error = failing_step(tmp_path / "host", StepKind.HOST, params(), given, OUTPUTS)
    (found,) = error.diagnostics
    assert found.message == "a gpu token is passed to 'func.call_indirect'"
    assert found.location
    assert "gpu.wait" in error.hint


@pytest.mark.parametrize(
    ("lines", "hint"),
    [
        ('gpu.printf "hi"', "only kernels"),
        ("%d = gpu.alloc (%n) : memref<?xf32, #gpu.address_space<global>>", "left out"),
    ],
)
def test_what_upstream_cannot_lower_has_advice(tmp_path: Path, lines: str, hint: str) -> None:
    text = f"func.func @f(%n: index, %x: f64) {{ {lines}\n return }}"
    given = HostParams(modules=(), offload=Offload.DISPATCH)
    error = failing_step(tmp_path, StepKind.HOST, given, {"host": text}, OUTPUTS)
    assert hint in error.hint


def test_memory_that_upstream_would_abort_on(tmp_path: Path) -> None:
    lines = """ %b = memref.alloc(%n) : memref<?xi1>
 %f = memref.alloc(%n) : memref<?xf32>
 %zero = arith.constant 0 : index
 %v = memref.load %b[%zero] : memref<?xi1>
 memref.store %v, %b[%n] : memref<?xi1>
 %old = memref.generic_atomic_rmw %f[%zero] : memref<?xf32> {
 ^bb0(%x: f32):
  %y = arith.mulf %x, %x : f32
  memref.atomic_yield %y : f32
 }"""
    llvm = run_body(tmp_path, lines)
    assert "store i8" in llvm
    assert "cmpxchg" in llvm


# ---- fills, copies and ends of streams ----


ROWS = "memref<4x4xf32, strided<[8, 1], offset: ?>>"


def lowered(lines: str, arguments: str = "%n: index") -> str:
    text = f"func.func @f({arguments}) {{\n{lines}\n return\n}}"
    with contexts.context():
        module = contexts.parse(text)
        lowering.lower_host(module, source=SourceText(text, "app.mlir"))
        return contexts.canonical_text(module)


def runtime_calls(text: str) -> list[str]:
    return re.findall(
        r"llvm\.call @(\w+)\(", text.split("llvm.func @f(")[1].split("llvm.return", maxsplit=1)[0]
    )


def memset(kind: str, memref: str = "") -> list[str]:
    memref = memref or f"memref<?x{kind}>"
    return runtime_calls(lowered(f"gpu.memset %d, %v : {memref}, {kind}", f"%d: {memref}, %v: {kind}"))


@pytest.mark.parametrize(
    ("kind", "memref"),
    [(kind, "") for kind in ("i1", "i8", "i64", "index", "f64", "f8E4M3FN", "complex<f32>")]
    + [("f32", ROWS)],
)
def test_fills_that_upstream_has_not(kind: str, memref: str) -> None:
    """Of other types, and with gaps."""
    assert memset(kind, memref) == [
        "mgpuStreamCreate", "gpubuildMemset", "mgpuStreamSynchronize", "mgpuStreamDestroy",
    ]  # fmt: skip


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
    assert [c for c in runtime_calls(text) if "emcpy" in c] == [call]


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
    found = runtime_calls(lowered(lines, "%d: memref<?xf64>, %v: f64"))
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


# ---- memory spaces ----


def test_memory_of_the_global_space() -> None:
    lines = """%d, %t0 = gpu.alloc async (%n) : memref<?xf32, 1>
    %t1 = gpu.memcpy async [%t0] %d, %h : memref<?xf32, 1>, memref<?xf32>
    %t2 = gpu.memset async [%t1] %d, %v : memref<?xf32, 1>, f32
    %t3 = gpu.memset async [%t2] %e, %w : memref<?xi64, 1>, i64
    %t4 = gpu.dealloc async [%t3] %d : memref<?xf32, 1>
    gpu.wait [%t4]"""
    text = lowered(lines, "%n: index, %h: memref<?xf32>, %v: f32, %e: memref<?xi64, 1>, %w: i64")
    assert runtime_calls(text) == [
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
    error = refused(lowered, lines, arguments)
    [diagnostic] = error.diagnostics
    assert message in diagnostic.message
    assert diagnostic.location is not None
    assert "global" in error.hint
