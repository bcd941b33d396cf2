"""The stack of AMD kernels is in an address space of its own, also where it is given back early."""

import pytest
from unit.engine.device_steps import compile_module, kernel

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
