"""The parts of a random kernel that are the same in all of them."""

from e2e.place_text import PLACE, PLACE_IN_GRID

ALIASES = """!shared = memref<1024xi32, #gpu.address_space<workgroup>>
!private = memref<4xi32, #gpu.address_space<private>>
"""
HELPERS = (
    """
  memref.global "private" @mail : !shared = uninitialized
  func.func private @mix(%a: i32, %b: i32) -> i32 {
    %one = arith.constant 1 : i32
    %three = arith.constant 3 : i32
    %x = arith.muli %a, %three : i32
    %y = arith.shrsi %b, %one : i32
    %r = arith.xori %x, %y : i32
    return %r : i32
  }
  func.func private @next(%v: i32) -> i32 {  // the next work-item's
    %mail = memref.get_global @mail : !shared
    %one = arith.constant 1 : index"""
    + PLACE
    + """
    %after = arith.addi %t, %one : index
    %from = arith.remui %after, %n : index
    memref.store %v, %mail[%t] : !shared
    gpu.barrier
    %r = memref.load %mail[%from] : !shared
    gpu.barrier
    return %r : i32
  }
"""
)
ARGUMENTS = "%A: memref<?xi32>, %C: memref<?xi64>, %F: memref<?xf64>, %K: memref<5xi32>"
_CLEAR = "    scf.for %k = %c0 to %c4 step %c1 { memref.store %i0, %priv[%k] : !private }\n"
# Private memory: none, allocated, or belonging to the kernel.
PRIVATE = (
    ("", ""),
    ("", "%priv = memref.alloca() : !private\n" + _CLEAR),
    (" private(%priv : !private)", _CLEAR),
)
BODY = (
    """workgroup(%s : !shared, %own : !shared){private} kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %i0 = arith.constant 0 : i32
    %i1 = arith.constant 1 : i32
    %i5 = arith.constant 5 : i32
    %i32 = arith.constant 32 : i32
    %i31 = arith.constant 31 : i64
    %i20 = arith.constant 20 : i64
    %i63 = arith.constant 63 : i32"""
    + PLACE_IN_GRID
    + """
    %ub = arith.addi %bx, %c2 : index
    %t3 = arith.remui %t, %c3 : index
    %odd = arith.cmpi eq, %t3, %c1 : index
    %first = arith.cmpi eq, %bx, %c1 : index
    %u3 = arith.addi %t3, %c3 : index
    %c32 = arith.constant 32 : index
    %sg = arith.divui %t, %c32 : index
    %sgi = arith.index_cast %sg : index to i32
    %sg3 = arith.remui %sg, %c3 : index
    %sgodd = arith.cmpi eq, %sg3, %c1 : index
    %ti = arith.index_cast %t : index to i32
    %bi = arith.index_cast %bx : index to i32
    %a0 = memref.load %A[%g] : memref<?xi32>
    %a6 = arith.andi %a0, %i63 : i32
    %fa = arith.sitofp %a6 : i32 to f32
    %aw = arith.extsi %a0 : i32 to i64
    %a64 = arith.shli %aw, %i20 : i64
    memref.store %i0, %own[%t] : !shared
    {start}
"""
)
TAIL = """
    memref.store {result}, %C[%g] : memref<?xi64>
    memref.store {real}, %F[%g] : memref<?xf64>
    gpu.return
  }}
"""
