"""Guards that LLVM found to be constants, which ptxas takes only as registers."""

import pytest
from unit.engine.device_steps import compile_module

from gpubuild.engine.backends.nvidia.workarounds import fold_constant_guards


@pytest.mark.parametrize(
    ("written", "settled"),
    [
        ("\t@0 a.b [%r1];\n", "\t\n"),
        ("\t@-1 a.b [%r1];\n", "\ta.b [%r1];\n"),
        ("\t@1 a.b [%r1];\n", "\ta.b [%r1];\n"),
        ("\t@!0 a.b [%r1];\n", "\ta.b [%r1];\n"),
        ("{ @!1 a.b [%r1]; c.d; }\n", "{  c.d; }\n"),
        ("\t@0 cp [%r1], [%rd1, {%r2, %r3}];\n", "\t\n"),
        ("\t@-1 cp [%r1], [%rd1, {%r2, %r3}];\n", "\tcp [%r1], [%rd1, {%r2, %r3}];\n"),
        ("\t@%p1 bra $L;\n", "\t@%p1 bra $L;\n"),
        ("\t@!%p1 bra $L;\n", "\t@!%p1 bra $L;\n"),
        ("// a@0 b;\n", "// a@0 b;\n"),
    ],
)  # fmt: skip
def test_settles(written, settled):
    assert fold_constant_guards(written) == settled


def test_guards_that_are_constants_assemble():
    asm = compile_module(
        """gpu.module @k {
  gpu.func @f(%b: !llvm.ptr<3>, %n: i32, %d: !llvm.ptr, %p: i1) kernel {
    %false = arith.constant false
    %true = arith.constant true
    nvvm.mbarrier.arrive.expect_tx %b, %n, predicate = %false : !llvm.ptr<3>, i32, i1
    nvvm.prefetch tensormap, %d, predicate = %true : !llvm.ptr, i1
    nvvm.mbarrier.arrive.expect_tx %b, %n, predicate = %p : !llvm.ptr<3>, i32, i1
    gpu.return
  }
}""",
        "sm_90a",
    ).asm
    assert asm.count("mbarrier.arrive.expect_tx") == 1
    assert "@%p1 mbarrier.arrive.expect_tx" in asm
    assert asm.count("\tprefetch.tensormap") == 1
