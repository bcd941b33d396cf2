"""Instructions of PTX that no kernel of the table comes to, one by one, after the words of the PTX ISA."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from simulators.device_ir.runner import DeviceModule, WrongUseError
from simulators.ptx.source import PtxError
from simulators.ptx.translate import device_ir
from unit.engine.device_steps import in_child

HEAD = """.version 8.7
.target sm_90
.address_size 64
.shared .align 4 .b8 own[64];
.visible .entry k(.param .u64 .ptr .align 8 out) {
  .reg .b16 %h<20>; .reg .b32 %r<30>; .reg .b64 %d<30>; .reg .pred %p<9>;
  ld.param.b64 %d0, [out];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %d1, %r0, 8;
  add.s64 %d0, %d0, %d1;
"""
POISON = 0xBADC0DE5BADC0DE5


def ran(body: str, items: int = 1) -> list[int]:
    """What is in ``%d9``, by work-item."""
    text = device_ir(f"{HEAD}{body}\n  st.global.b64 [%d0], %d9;\n  ret;\n}}\n", strict=True)

    def work() -> list[int]:
        out = np.zeros(items, np.uint64)
        DeviceModule.load(text, "sm_90").launch("k", 1, items, np.uint64(out.ctypes.data))
        return [int(v) for v in out]

    return in_child(work)


def f32(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


def f64(value: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", value))[0]


# Instruction with a result %r9 of 32 bits and operands; the result.
WORDS = [
    ("shl.b32 %r9, 1, 32", 0),
    ("shl.b32 %r9, 1, 31", 1 << 31),
    ("shr.u32 %r9, 0x80000000, 40", 0),
    ("shr.s32 %r9, 0x80000000, 40", 0xFFFFFFFF),
    ("shf.l.wrap.b32 %r9, 0x80000001, 2, 33", 5),
    ("shf.r.wrap.b32 %r9, 1, 3, 1", 0x80000000),
    ("bfe.u32 %r9, 0xABCD, 4, 8", 0xBC),
    ("bfe.s32 %r9, 0xABCD, 4, 8", 0xFFFFFFBC),
    ("bfe.s32 %r9, 0x80000000, 28, 16", 0xFFFFFFF8),
    ("bfe.u32 %r9, -1, 8, 0", 0),
    ("bfi.b32 %r9, 0xF, 0, 28, 8", 0xF0000000),
    ("bfi.b32 %r9, 0, -1, 8, 8", 0xFFFF00FF),
    ("popc.b32 %r9, 0xF0F", 8),
    ("clz.b32 %r9, 0", 32),
    ("prmt.b32 %r9, 0x44332211, 0x88776655, 0x7410", 0x88552211),
    ("prmt.b32 %r9, 0x44332280, 0x88776655, 0x888F", 0xFFFFFFFF),
    ("mul.hi.s32 %r9, -1, 2", 0xFFFFFFFF),
    ("mul.hi.u32 %r9, -1, 2", 1),
    ("div.s32 %r9, 0x80000000, -1", 0x80000000),
    ("rem.s32 %r9, 0x80000000, -1", 0),
    ("rem.s32 %r9, -7, 3", 0xFFFFFFFF),
    ("abs.s32 %r9, -5", 5),
    ("min.f32 %r9, 0f80000000, 0f00000000", 0x80000000),
    ("max.f32 %r9, 0f80000000, 0f00000000", 0),
    ("min.f32 %r9, 0f7FC00000, 0f3F800000", f32(1)),
    ("max.NaN.f32 %r9, 0f7FC00000, 0f3F800000", 0x7FFFFFFF),
    ("add.ftz.f32 %r9, 0f00000001, 0f00000001", 0),
    ("add.rz.f32 %r9, 0f3F800000, 0f33800001", f32(1)),
    ("add.rp.f32 %r9, 0f3F800000, 0f33000000", 0x3F800001),
    ("add.rm.f32 %r9, 0fBF800000, 0fB3000000", 0xBF800001),
    ("fma.rn.f32 %r9, 0f3F800001, 0f3F800001, 0fBF800002", 0x28800000),
    ("sub.rn.f32 %r9, 0f3F800000, 0f3F800000", 0),
    ("div.approx.f32 %r9, 0f3F800000, 0f7F000000", 0),
    ("div.full.f32 %r9, 0f40C00000, 0f40000000", f32(3)),
    ("sqrt.rz.f32 %r9, 0f40000000", 0x3FB504F3),
    ("abs.ftz.f32 %r9, 0f80000001", 0),
    ("copysign.f32 %r9, 0f80000000, 0f40000000", f32(-2)),
    ("ex2.approx.ftz.f32 %r9, 0f40400000", f32(8)),
    ("rcp.approx.ftz.f32 %r9, 0f00000001", 0x7F800000),
    ("cvt.rzi.s32.f32 %r9, 0f7FC00000", 0),
    ("cvt.rzi.s32.f32 %r9, 0f4F000000", 0x7FFFFFFF),
    ("cvt.rzi.u32.f32 %r9, 0fBF800000", 0),
    ("cvt.rni.s32.f32 %r9, 0f40200000", 2),
    ("cvt.rmi.s32.f32 %r9, 0fBFC00000", -2),
    ("cvt.rpi.u32.f32 %r9, 0f3F000000", 1),
    ("cvt.rni.f32.f32 %r9, 0f3F000000", 0),
    ("cvt.s8.s32 %r9, 0x1FF", 0xFFFFFFFF),
    ("cvt.u8.u32 %r9, 0x1FF", 0xFF),
    ("cvt.rn.f32.u32 %r9, 0xFFFFFFFF", 0x4F800000),
]


def test_results_of_words():
    """In one kernel: each result goes to a place of its own."""
    body = "".join(
        f"{{ {text}; mov.b64 %d9, {{%r9, 0}}; st.global.b64 [%d0+{8 * n}], %d9; }}\n"
        for n, (text, _) in enumerate(WORDS)
    )
    text = device_ir(f"{HEAD}{body} ret;\n}}\n", strict=True)

    def work() -> list[int]:
        out = np.zeros(len(WORDS), np.uint64)
        DeviceModule.load(text, "sm_90").launch("k", 1, 1, np.uint64(out.ctypes.data))
        return [int(v) for v in out]

    got = in_child(work)
    wrong = [
        (text, hex(found), hex(wanted % 2**32))
        for found, (text, wanted) in zip(got, WORDS, strict=True)
        if found != wanted % 2**32
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (
            "add.cc.u32 %r1, -1, 1; addc.cc.u32 %r2, -1, 0; addc.u32 %r3, 7, 0; mov.b64 %d9, {%r2, %r3};",
            8 << 32,
        ),
        ("sub.cc.u32 %r1, 0, 1; subc.u32 %r2, 5, 0; mov.b64 %d9, {%r1, %r2};", 4 << 32 | 0xFFFFFFFF),
        (
            "mad.lo.cc.u32 %r1, -1, -1, -1; madc.hi.u32 %r2, -1, -1, 0; mov.b64 %d9, {%r1, %r2};",
            (2**32 - 1) ** 2 + 2**32 - 1,
        ),
        ("bfe.s64 %d9, 0xFF00, 8, 8;", 2**64 - 1),
        ("mul.hi.u64 %d9, -1, -1;", 2**64 - 2),
        ("mad.wide.s32 %d9, -2, 3, 10;", 4),
        ("cvt.rzi.s64.f64 %d9, 0d7FF8000000000000;", 1 << 63),
        ("cvt.rn.f64.u64 %d9, -1;", f64(2.0**64)),
        ("add.rp.f64 %d9, 0d3FF0000000000000, 0d0010000000000000;", 0x3FF0000000000001),
        ("cvt.rn.f16.s64 %h1, 2049; cvt.u64.u16 %d9, %h1;", 0x6800),
        ("cvt.rn.bf16.f32 %h1, 0f3F808000; cvt.u64.u16 %d9, %h1;", 0x3F80),
        # The product is halfway between two halves, and the addend below what a double holds beside it.
        (
            "mov.b16 %h1, 0x3C01; mov.b16 %h2, 0x0001; fma.rn.f16 %h3, %h1, 0x3E00, %h2; "
            "cvt.u64.u16 %d9, %h3;",
            0x3E02,
        ),
        (
            "setp.ne.f32 %p1, 0f7FC00000, 0f00000000; setp.neu.f32 %p2, 0f7FC00000, 0f00000000; "
            "selp.b64 %d1, 1, 0, %p1; selp.b64 %d2, 2, 0, %p2; or.b64 %d9, %d1, %d2;",
            2,
        ),
        (
            "mov.b32 %r1, 2; brx.idx %r1, many; many: .branchtargets $A, $B, $C;\n"
            "$A: mov.b64 %d9, 1; bra $D;\n"
            "$B: mov.b64 %d9, 2; bra $D;\n$C: mov.b64 %d9, 3;\n$D:",
            3,
        ),
        ("mov.b64 %d9, %d8;", POISON),
        (
            "mov.b64 %d5, own; st.shared.b32 [%d5+4], 9; cvta.shared.u64 %d6, %d5; ld.b32 %r1, [%d6+4]; "
            "atom.add.u32 %r2, [%d6+4], 10; atom.shared.exch.b32 %r3, [%d5+4], 5; ld.shared.b32 %r4, [%d5+4];"
            "add.s32 %r5, %r1, %r2; add.s32 %r6, %r3, -19; add.s32 %r5, %r5, %r6; mov.b64 %d9, {%r5, %r4};",
            5 << 32 | 18,
        ),
        (
            ".local .align 8 .b8 here[8]; mov.b64 %d5, here; st.local.v2.b32 [%d5], {3, 4}; "
            "cvta.local.u64 %d6, %d5; ld.b64 %d9, [%d6];",
            4 << 32 | 3,
        ),
    ],
)
def test_results(body: str, wanted: int):
    if ".branchtargets" in body:  # moved to the end, behind the return
        before, _, rest = body.partition("many: ")
        table, _, after = rest.partition("\n")
        body = f"{before}\n{after}\n st.global.b64 [%d0], %d9; ret; many: {table}"
    assert ran(body) == [wanted]


def test_lanes_diverge_and_meet():
    """Odd lanes take a guard; the vote behind it has them all."""
    body = """and.b32 %r1, %r0, 1; setp.eq.b32 %p1, %r1, 1; mov.b32 %r2, 0;
@!%p1 bra $EVEN;
activemask.b32 %r2;
$EVEN: vote.sync.ballot.b32 %r3, %p1, -1; shfl.sync.bfly.b32 %r4|%p2, %r0, 1, 31, -1;
@%p2 add.s32 %r2, %r2, %r4; mov.b64 %d9, {%r2, %r3};"""
    wanted = [0xAAAAAAAA << 32 | (0xAAAAAAAA if lane % 2 else 0) + (lane ^ 1) for lane in range(32)]
    assert ran(body, 32) == wanted


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("ld.global.b64 %d9, [%d0+4];", "8 bytes at address .* not aligned"),
        ("mov.b64 %d5, own; ld.shared.b64 %d9, [%d5+60];", "8 bytes at shared address .* has no memory"),
        ("cvta.to.shared.u64 %d5, %d0; ld.shared.b64 %d9, [%d5];", "has no memory"),
        ("trap;", "trap"),
        ("@%p1 bra $A; bar.sync 0;\n$A: bar.sync 0;", ""),
    ],
)
def test_wrong_use_is_noticed(body: str, said: str):
    if not said:  # a barrier of half a subgroup, as tail duplication would make it
        body = f"setp.lt.u32 %p1, %r0, 16; {body}"
        said = "lanes of subgroup 0 are at different barriers"
    with pytest.raises(WrongUseError, match=said):
        ran(body, 32)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("frobnicate.b32 %r1, %r2;", r"line 11: frobnicate\.b32 %r1, %r2: not known here"),
        ("add.rn.rz.f32 %r1, %r2, %r3;", r"line 11: add\.rn\.rz\.f32"),
        ("div.f32 %r1, %r2, %r3;", "a rounding mode is missing"),
        ("add.s32 %r1, %r2, %d3;", "%d3 has 64 bits, not 32"),
        ("mov.u32 %r1, %smid;", "the register %smid is not known here"),
        ("cvt.f32.f64 %r1, %d1;", "a rounding mode is missing"),
        ("ld.param.b64 %d1, [out+8];", "8 bytes at .out.8. are not in out"),
    ],
)
def test_what_is_not_known_is_said_with_its_line(line: str, said: str):
    with pytest.raises(PtxError, match=said):
        device_ir(f"{HEAD}{line}\n  ret;\n}}\n", strict=True)
    module = DeviceModule  # not strict: the kernel ends there, and says so
    text = device_ir(f"{HEAD}{line}\n  ret;\n}}\n")

    def work() -> str:
        loaded = module.load(text, "sm_90")
        assert len(loaded.form.unknown["k"]) == 1
        with pytest.raises(WrongUseError) as caught:
            loaded.launch("k", 1, 1, np.uint64(0))
        return str(caught.value)

    assert "ptx.line.11." in in_child(work)
