"""Cases like those of cases.py, for lanes that wait for each other, as those that load a matrix."""

from __future__ import annotations

from kernels.checked.cases import WIDE, Case

_A, _B, _C = (
    f'!gpu.mma_matrix<{shape}xf32, "{role}Op">'
    for shape, role in (("16x8", "A"), ("8x8", "B"), ("16x8", "C"))
)
_M = "memref<16x8xf32>"
_AT = "[%c0, %c0] {leadDimension = 8 : index}"
_LOADS = (
    f"%ma = gpu.subgroup_mma_load_matrix %m{_AT} : {_M} -> {_A}\n"
    f"%mb = gpu.subgroup_mma_load_matrix %m{_AT} : {_M} -> {_B}\n"
    f"%mc = gpu.subgroup_mma_constant_matrix %one : {_C}\n"
    f"%mr = gpu.subgroup_mma_compute %ma, %mb, %mc : {_A}, {_B} -> {_C}\n"
)
_STORE = f"gpu.subgroup_mma_store_matrix %mr, %m{_AT} : {_C}, {_M}"

_SUBGROUP = "%c64 = arith.addi %c32, %c32 : index\n%s = arith.divui %t, %c32 : index\n"
_PAIR = "memref<32x8xf32, #gpu.address_space<workgroup>>"  # a tile for each of two subgroups
_ROWS = (
    _SUBGROUP + "%l = arith.remui %t, %c32 : index\n%left = arith.muli %s, %c4 : index\n"
    "scf.for %k = %c0 to %c4 step %c1 {\n%x = arith.addi %left, %k : index\n"
    f"memref.store %one, %w[%l, %x] : {_PAIR}\n}}\ngpu.barrier\n"
    "%r = arith.muli %s, %c16 : index\n%o2 = arith.subi %c16, %r : index\n"
    f"%mb = gpu.subgroup_mma_load_matrix %m{_AT} : {_M} -> {_B}\n"
    f"%mc = gpu.subgroup_mma_constant_matrix %one : {_C}\n"
)
_LOAD_TILE = (
    f"%ma = gpu.subgroup_mma_load_matrix %w[%r, %c0] {{leadDimension = 8 : index}} : {_PAIR} -> {_A}\n"
    f"%mr = gpu.subgroup_mma_compute %ma, %mb, %mc : {_A}, {_B} -> {_C}\n"
)
_STORE_TILE = f"gpu.subgroup_mma_store_matrix %mr, %w[ROW, %c0] {{leadDimension = 8 : index}} : {_C}, {_PAIR}"
_OWN, _OTHERS = _STORE_TILE.replace("ROW", "%r"), _STORE_TILE.replace("ROW", "%o2")
_SYNC = "%all = arith.constant -1 : i32\nnvvm.bar.warp.sync %all : i32\n"
_READ = "%v = memref.load %w[AT] : WIDE"
_TO_G = "\nmemref.store %v, %g[%i] : memref<?xf32>"


def _box(memory: str, at: str, lead: int) -> str:
    """A load of 16 x 8 elements; that nothing uses them makes no difference."""
    name, kind = memory.split(maxsplit=1)
    return (
        f"%x{lead} = gpu.subgroup_mma_load_matrix {name}[{at}] "
        f"{{leadDimension = {lead} : index}} : {kind} -> {_C}"
    )


def _past(load: str, before: str = "") -> Case:
    return Case(f"{before}{load} // bounds", blocks=1, says=("view out of bounds",))


_UNKNOWN = "memref<?x?xf32, strided<[?, 1], offset: ?>>"
_CAST = f"%u = memref.cast %m : {_M} to {_UNKNOWN}\n"

MATRICES = {
    "matrix_stored_over": Case(_LOADS + _STORE, blocks=1, known=True, tier="fission"),
    "matrix_stored_over_by_one_of_unknown": Case(_LOADS + _STORE, blocks=1, tier="fission"),
    "matrix_stored_over_by_two_subgroups": Case(f"{_LOADS}{_STORE} // race", blocks=1, items=64, known=True),
    "matrix_stored_over_by_two_workgroups": Case(
        _LOADS.replace(f"{_A}\n", f"{_A} // race\n", 1).replace(f"{_B}\n", f"{_B} // race\n", 1)
        + f"{_STORE} // race",
        known=True,
    ),
    "neighbour_without_the_wait": Case(
        "memref.store %one, %g[%t] : memref<?xf32> // race\n%x = memref.load %g[%right] : memref<?xf32>\n"
        f"{_LOADS}{_STORE}\nmemref.store %x, %g[%t] : memref<?xf32>",
        blocks=1,
        known=True,
    ),
    # Each subgroup has a tile of its own, and goes on without the other one.
    "tiles_of_subgroups": Case(
        f"{_ROWS}scf.for %k = %c0 to %c4 step %c1 {{\n{_LOAD_TILE}{_OWN}\n}}",
        blocks=1,
        items=64,
        shared=_PAIR,
        tier="fission",
    ),
    "tiles_of_the_other_subgroup": Case(
        f"{_ROWS}{_LOAD_TILE}{_OTHERS} // race",
        blocks=1,
        items=64,
        shared=_PAIR,
        says=("work-item (0, 0, 0) of", "by work-item (32, 0, 0) of"),
    ),
    "tile_of_one_subgroup": Case(
        f"{_ROWS}%one_of = arith.cmpi eq, %s, %c0 : index\nscf.if %one_of {{\n{_LOAD_TILE}{_OWN}\n}}",
        blocks=1,
        items=64,
        shared=_PAIR,
    ),
    # By hand.
    "lanes_in_order": Case(
        f"{_SUBGROUP}%y = arith.xori %t, %c1 : index\nmemref.store %one, %w[%t] : WIDE\n{_SYNC}"
        f"{_READ.replace('AT', '%y')}{_TO_G}\nnvvm.bar.warp.sync %all : i32\n"
        "memref.store %one, %w[%t] : WIDE",
        blocks=1,
        items=64,
        shared=WIDE,
    ),
    "lanes_in_order_on_fibers": Case(
        "%z = memref.load %g[%c97] : memref<?xf32>\n%some = arith.cmpf olt, %z, %one : f32\n"
        "scf.if %some { gpu.barrier }\n%y = arith.xori %t, %c1 : index\n"
        f"%y2 = arith.xori %t, %c32 : index\nmemref.store %one, %w[%t] : WIDE // ok\n{_SYNC}"
        f"{_READ.replace('AT', '%y')} // race{_TO_G}\nmemref.store %v, %w[%y2] : WIDE // race\n",
        blocks=1,
        items=64,
        shared=WIDE,
        tier="fibers",
        says=("by work-item (0, 0, 0) of", "before by work-item (32, 0, 0) of"),
    ),
    "lanes_not_in_order": Case(
        f"%y = arith.xori %t, %c1 : index\nmemref.store %one, %w[%t] : WIDE\n{_SYNC}"
        f"{_READ.replace('AT', '%y')} // race{_TO_G}\nmemref.store %one, %w[%t] : WIDE // ok",
        blocks=1,
        items=64,
        shared=WIDE,
        says=("work-item (1, 0, 0) of workgroup (0, 0, 0)", "by work-item (0, 0, 0) of", "64 times"),
    ),
    "some_lanes_in_order": Case(
        "%y = arith.xori %t, %c1 : index\nscf.if %lower {\nmemref.store %one, %w[%t] : WIDE // ok\n"
        "%half = arith.constant 65535 : i32\nnvvm.bar.warp.sync %half : i32\n"
        f"{_READ.replace('AT', '%y')} // race{_TO_G}\n}}",
        blocks=1,
        items=64,
        shared=WIDE,
    ),
    "subgroups_not_in_order": Case(
        f"{_SUBGROUP}%y = arith.xori %t, %c32 : index\nmemref.store %one, %w[%t] : WIDE // ok\n{_SYNC}"
        f"{_READ.replace('AT', '%y')} // race{_TO_G}",
        blocks=1,
        items=64,
        shared=WIDE,
    ),
    "read_by_two_subgroups": Case(
        f"memref.store %one, %w[%t] : WIDE\ngpu.barrier\n{_READ.replace('AT', '%c0')}{_TO_G}\n{_SYNC}"
        "scf.if %first { memref.store %one, %w[%c0] : WIDE } // race",
        blocks=1,
        items=64,
        shared=WIDE,
        says=("were read before by work-item (32, 0, 0)",),
    ),
    "read_by_one_subgroup": Case(
        "memref.store %one, %w[%t] : WIDE\ngpu.barrier\n%mine = arith.cmpi ult, %t, %c32 : index\n"
        f"scf.if %mine {{\n{_READ.replace('AT', '%c0')}{_TO_G}\n}}\n{_SYNC}"
        "scf.if %first { memref.store %one, %w[%c0] : WIDE }",
        blocks=1,
        items=64,
        shared=WIDE,
    ),
    "subgroups_meet_in_global_memory": Case(
        "%y = arith.xori %t, %c1 : index\nmemref.store %i1, %n[%t] : memref<?xi32>\n"
        f"{_SYNC}%v = memref.load %n[%y] : memref<?xi32> // race\n"
        "memref.store %v, %n[%c0] : memref<?xi32> // race",
        blocks=1,
        items=64,
    ),
    # Of rows of the memref, of rows that are known when it runs, and of one stretch.
    "matrices_inside": Case(
        _CAST
        + "\n".join(
            (
                _box(f"%m {_M}", "%c0, %c0", 8),
                _box(f"%u {_UNKNOWN}", "%c0, %c0", 8).replace("%x8", "%xu"),
                _box("%g memref<?xf32>", "%c2", 6),
                _box(f"%m {_M}", "%c2, %c0", 6).replace("%x6", "%xm"),
            )
        ),
        blocks=1,
    ),
    "matrix_below": _past(_box(f"%m {_M}", "%c1, %c0", 8)),
    "matrix_beside": _past(_box(f"%m {_M}", "%c0, %c1", 8)),
    "matrix_below_unknown": _past(_box(f"%u {_UNKNOWN}", "%c1, %c0", 8), _CAST),
    "matrix_past_a_stretch": _past(
        _box("%g memref<?xf32>", "%three", 6), "%three = arith.addi %c1, %c2 : index\n"
    ),
    "matrix_past_other_rows": _past(_box(f"%m {_M}", "%c4, %c0", 6)),
}
