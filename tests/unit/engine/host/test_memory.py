"""Memory, launches and tokens of host code: calls of the runtime, and refused operations."""

import re
from pathlib import Path

import pytest
from unit.engine.host_steps import OUTPUTS, PLACEHOLDER, bundled, calls, params, run_body
from unit.engine.steps import failing_step

from gpubuild.engine.host import tokens
from gpubuild.engine.ir import contexts
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


def test_asynchronous_shared_allocation_keeps_its_chain(tmp_path: Path) -> None:
    lines = """ %t0 = gpu.wait async
 %s, %t1 = gpu.alloc async [%t0] host_shared (%n) : memref<?xf32>
 %t2 = gpu.dealloc async [%t1] %s : memref<?xf32>
 gpu.wait [%t2]"""
    assert "mgpuMemFree" in calls(run_body(tmp_path, lines))


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


def test_a_token_with_two_consumers_makes_two_streams(tmp_path: Path) -> None:
    """Upstream would continue in one stream twice and destroy it twice."""
    lines = """ %h = memref.alloc(%n) : memref<?xf32>
 %t0 = gpu.wait async
 %d, %t1 = gpu.alloc async [%t0] (%n) : memref<?xf32>
 %t2 = gpu.memcpy async [%t1] %d, %h : memref<?xf32>, memref<?xf32>
 %t3 = gpu.memcpy async [%t1] %h, %d : memref<?xf32>, memref<?xf32>
 gpu.wait [%t2, %t3]"""
    llvm = run_body(tmp_path, lines)
    found = calls(llvm)
    assert found.count("mgpuStreamCreate") == found.count("mgpuStreamDestroy") == 2
    destroyed = re.findall(r"@mgpuStreamDestroy\(ptr (%\w+)\)", llvm)
    assert len(set(destroyed)) == 2
    # The event for the second stream is recorded right after the allocation, before any copy.
    assert found.index("mgpuEventRecord") < found.index("mgpuMemcpy")


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
