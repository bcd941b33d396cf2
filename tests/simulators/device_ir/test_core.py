"""What runs device IR: lanes meet where they would on a GPU, and what a GPU leaves undefined is noticed."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from simulators.device_ir.host_form import UntranslatableError, translate
from simulators.device_ir.nvidia import NVIDIA
from simulators.device_ir.runner import DeviceModule, WrongUseError, each_in_child
from unit.engine.device_steps import in_child

POISON = np.uint64(0xBADC0DE5BADC0DE5)
HEAD = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.activemask() #0
declare i32 @llvm.nvvm.shfl.sync.idx.i32(i32, i32, i32, i32) #0
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32) #0
declare i32 @llvm.nvvm.no.such.thing()
declare i32 @llvm.ctpop.i32(i32)
@shared = internal addrspace(3) global [64 x i32] undef, align 4
@dynamic = external addrspace(3) global [0 x i32], align 16
define ptx_kernel void @k(ptr %base, ptr %out, i64 %offset, i64 %size, i64 %stride) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %w = zext i32 %t to i64
  %place = getelementptr i32, ptr %out, i64 %w
"""
TAIL = """
}
attributes #0 = { convergent nounwind }
"""
STORE = "  store i32 %r, ptr %place, align 4\n  ret void\n"


def launch(
    body: str, *, chip: str = "sm_90", block: int = 32, dynamic: int = 0, size: int = 0, backwards=False
):
    """In a child; ``%r`` or what is stored at ``%place``."""

    def run() -> np.ndarray:
        out = np.zeros(size or block, np.uint32)
        module = DeviceModule.load(HEAD + body + TAIL, chip)
        module.launch("k", 1, block, out, dynamic=dynamic, backwards=backwards)
        return out

    return in_child(run)


def wrong(body: str, **more) -> str:
    with pytest.raises(WrongUseError) as caught:
        launch(body, **more)
    return str(caught.value)


@pytest.mark.parametrize("backwards", [False, True])
def test_lanes_that_leave_a_loop_wait_behind_it(backwards):
    """Lane t takes t % 4 turns: in turn n those that are left are together, behind the loop all are."""
    body = (
        """  %n = and i32 %t, 3
  br label %head
head:
  %i = phi i32 [ 0, %0 ], [ %next, %body ]
  %sum = phi i32 [ 0, %0 ], [ %more, %body ]
  %go = icmp ult i32 %i, %n
  br i1 %go, label %body, label %behind
body:
  %set = call i32 @llvm.nvvm.activemask()
  %count = call i32 @llvm.ctpop.i32(i32 %set)
  %more = add i32 %sum, %count
  %next = add i32 %i, 1
  br label %head
behind:
  %all = call i32 @llvm.nvvm.activemask()
  %whole = call i32 @llvm.ctpop.i32(i32 %all)
  %high = shl i32 %whole, 16
  %r = or i32 %high, %sum
"""
        + STORE
    )
    turns = np.arange(32) % 4
    here = np.array([0, 24, 24 + 16, 24 + 16 + 8])
    got = launch(body, backwards=backwards)
    np.testing.assert_array_equal(got, 32 << 16 | here[turns])


def test_both_sides_of_a_branch_meet():
    body = """  %p = icmp ult i32 %t, 5
  br i1 %p, label %few, label %many
few:
  %a = call i32 @llvm.nvvm.activemask()
  br label %end
many:
  %b = call i32 @llvm.nvvm.activemask()
  br label %end
end:
  %own = phi i32 [ %a, %few ], [ %b, %many ]
  %all = call i32 @llvm.nvvm.activemask()
  %r = xor i32 %own, %all
"""
    got = launch(body + STORE)
    np.testing.assert_array_equal(got, np.where(np.arange(32) < 5, 0xFFFFFFE0, 0x1F))


SHUFFLE = "  %r = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 {}, i32 %t, i32 {}, i32 31)\n" + STORE


def test_a_shuffle_that_reads_a_lane_that_is_not_there_gives_poison():
    got = launch(SHUFFLE.format(-1, 20), block=10)
    np.testing.assert_array_equal(got, np.full(10, POISON.astype(np.uint32)))
    np.testing.assert_array_equal(launch(SHUFFLE.format(-1, 7), block=10), np.full(10, 7))


def test_a_lane_must_be_one_of_those_it_names():
    assert "shfl.sync.idx of lanes 0x1 by lane 1, which is not one of them" in wrong(SHUFFLE.format(1, 0))


MISSED = """  %p = icmp ult i32 %t, 5
  br i1 %p, label %few, label %end
few:
  %r = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 %t, i32 0, i32 31)
  store i32 %r, ptr %place
  br label %end
end:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  ret void
"""


def test_lanes_that_never_come_stop_the_others():
    said = wrong(MISSED)
    assert "no work-item can continue" in said
    assert "from work-item 0 on at site" in said and "shfl.sync.idx 0xffffffff" in said
    assert "@llvm.nvvm.shfl.sync.idx.i32(i32 -1" in said  # the IR of the place


TWO_PLACES = (
    """  %p = icmp ult i32 %t, 5
  br i1 %p, label %few, label %many
few:
  %a = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 %t, i32 9, i32 31)
  br label %end
many:
  %b = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 %t, i32 9, i32 31)
  br label %end
end:
  %r = phi i32 [ %a, %few ], [ %b, %many ]
"""
    + STORE
)


def test_before_sm_70_lanes_must_come_to_one_place():
    np.testing.assert_array_equal(launch(TWO_PLACES, chip="sm_70"), np.full(32, 9))
    assert "no work-item can continue" in wrong(TWO_PLACES, chip="sm_60")


BARRIERS = """  %p = icmp ult i32 %t, {}
  br i1 %p, label %few, label %many
few:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %end
many:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br label %end
end:
  ret void
"""


def test_lanes_of_a_subgroup_are_at_one_barrier():
    launch(BARRIERS.format(32), block=64)
    assert "lanes of subgroup 0 are at different barriers" in wrong(BARRIERS.format(5), block=64)


def test_memory_of_a_workgroup_begins_with_poison():
    body = (
        "  %s = getelementptr i32, ptr addrspace(3) @shared, i64 %w\n  %r = load i32, ptr addrspace(3) %s\n"
    )
    np.testing.assert_array_equal(launch(body + STORE), np.full(32, 0xE5E5E5E5))


def test_dynamic_memory_ends_where_the_launch_says():
    body = """  %s = getelementptr i32, ptr addrspace(3) @dynamic, i64 %w
  store i32 %t, ptr addrspace(3) %s
  ret void
"""
    launch(body, dynamic=128)
    assert "byte 124 of dynamic workgroup memory was written, which has 124 bytes" in wrong(body, dynamic=124)


def test_what_lies_behind_an_array_costs_the_kernel_that_touches_it():
    body = "  %far = getelementptr i32, ptr %place, i64 16\n  store i32 1, ptr %far\n  ret void\n"

    def work(sizes):
        module = DeviceModule.load(HEAD + body + TAIL, "sm_90")
        for size in sizes:
            module.launch("k", 1, 16, np.zeros(size, np.uint32))
            yield "ran"

    said = [answer for _, answer in each_in_child(work, [32, 16, 32])]
    assert said == ["ran", f"the child ended with status {int(signal.SIGSEGV)}", "ran"]


def test_unknown_intrinsics_are_named():
    text = HEAD + "  %r = call i32 @llvm.nvvm.no.such.thing()\n" + STORE + TAIL
    assert translate(text, NVIDIA).unknown["k"] == ("llvm.nvvm.no.such.thing",)
    assert "calls llvm.nvvm.no.such.thing, which is unknown here" in wrong(
        "  %r = call i32 @llvm.nvvm.no.such.thing()\n" + STORE
    )


def test_lines_that_cannot_be_read_are_refused():
    with pytest.raises(UntranslatableError, match="cannot read"):
        translate("declare something", NVIDIA)
