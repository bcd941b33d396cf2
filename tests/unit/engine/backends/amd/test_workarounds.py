"""Workarounds for AMD GPUs: kernels ask for the implicit arguments they use, traps on GFX 11.0 keep code."""

import pytest
from unit.engine.device_steps import compile_module, kernel

from gpubuild.inspect import hsaco
from gpubuild.inspect.elf import Elf

GUARDED = """
%limit = arith.constant 1.0e3 : f32
%fits = arith.cmpf olt, %x, %limit : f32
cf.assert %fits, "x is small"
%d = arith.extf %x : f32 to f64
memref.store %d, %out[%i] : memref<?xf64>
"""


@pytest.mark.parametrize("chip", ["gfx1100", "gfx11-generic"])
def test_code_after_a_trap_is_kept(chip: str) -> None:
    """LLVM 22.1.8 ends here: the store is still a pseudo instruction when it is to be printed."""
    asm = compile_module(kernel(GUARDED, arguments="%out: memref<?xf64>"), chip, opt_level=1).asm
    assert asm.count("s_sethalt") == 1 and "_store_b64" in asm


def test_other_chips_trap_in_place() -> None:
    built = compile_module(kernel(GUARDED, arguments="%out: memref<?xf64>"), "gfx1150", opt_level=1)
    assert "gpubuild_trap" not in built.llvm and "s_trap 2" in built.asm


PRINTS = """
%ok = arith.cmpi slt, %n, %n : i32
%far = math.sin %x : f32
memref.store %far, %a[%i] : memref<?xf32>
cf.assert %ok, "never"
gpu.printf "%d\\0A", %n : i32
"""
UNUSED = {"hostcall_buffer", "heap_v1", "multigrid_sync_arg", "default_queue", "completion_action"}
READS = """gpu.module @k {
  llvm.func @f(%out: !llvm.ptr<1>) attributes {gpu.kernel, rocdl.kernel} {
    %all = llvm.call_intrinsic "llvm.amdgcn.implicitarg.ptr"() : () -> !llvm.ptr<4>
    %field = llvm.getelementptr %all[80] : (!llvm.ptr<4>) -> !llvm.ptr<4>, i8
    %buffer = llvm.load %field : !llvm.ptr<4> -> i64
    llvm.store %buffer, %out : i64, !llvm.ptr<1>
    llvm.return
  }
}
"""


def asked(text: str, chip: str, **options) -> tuple[set[str], dict]:
    (found,) = hsaco.metadata(Elf(compile_module(text, chip, **options).object))["amdhsa.kernels"]
    kinds = {argument[".value_kind"] for argument in found[".args"]}
    return {kind.removeprefix("hidden_") for kind in kinds if kind.startswith("hidden_")}, found


@pytest.mark.parametrize(("chip", "level"), [("gfx90a", 0), ("gfx1100", 0), ("gfx1100", 3)])
def test_no_kernel_asks_for_what_it_does_not_use(chip: str, level: int) -> None:
    """HIP refuses a launch when it has no buffer for calls of the host."""
    hidden, found = asked(kernel(PRINTS), chip, opt_level=level)
    assert hidden & UNUSED == set()
    assert "printf_buffer" in hidden
    # Else the size of the stack is a lower bound, and HIP has to guess.
    assert not found[".uses_dynamic_stack"]


@pytest.mark.parametrize("level", [0, 3])
def test_a_kernel_that_reads_one_itself_gets_it(level: int) -> None:
    assert "hostcall_buffer" in asked(READS, "gfx90a", opt_level=level)[0]


# Written by each turn of a loop, whose stack is given back: no turn sees another's.
TURNS = """
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%t = gpu.thread_id x
%last = arith.addi %t, %i : index
%most = arith.addi %last, %c1 : index
scf.for %k = %c0 to %most step %c1 {
  %r = memref.alloca_scope -> (f32) {
    %s = memref.alloca(%most) : memref<?xf32>
    %y = arith.index_cast %k : index to i32
    %z = arith.sitofp %y : i32 to f32
    memref.store %z, %s[%c0] : memref<?xf32>
    memref.store %z, %s[%i] : memref<?xf32>
    %w = memref.load %s[%c0] : memref<?xf32>
    memref.alloca_scope.return %w : f32
  }
  memref.store %r, %a[%t] : memref<?xf32>
}
"""


@pytest.mark.parametrize(("chip", "level"), [("gfx90a", 3), ("gfx1100", 0)])
def test_a_scope_that_gives_memory_back_compiles(chip: str, level: int) -> None:
    """LLVM ended with "Cannot select: stacksave": upstream saves the stack as a generic pointer."""
    built = compile_module(kernel(TURNS), chip, opt_level=level)
    assert "@llvm.stacksave.p5()" in built.llvm and "@llvm.stackrestore.p5(" in built.llvm
