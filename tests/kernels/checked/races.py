"""Cases like those of cases.py, of work-items that meet in memory, or just do not."""

from __future__ import annotations

from kernels.checked.cases import WG, Case


def _tree(
    limit: str = "%in = arith.cmpi ult, %t, %s : index",
    far: str = "%far = arith.addi %t, %s : index",
    mark: str = "",
    end: str = "gpu.barrier\n",
) -> str:
    """A sum of ``%w``."""
    return (
        "memref.store %one, %w[%t] : WG\ngpu.barrier\n"
        "%e = scf.for %k = %c0 to %c4 step %c1 iter_args(%s = %c16) -> index {\n"
        f"{limit}\nscf.if %in {{\n{far}\n%x = memref.load %w[%t] : WG\n"
        "%y = memref.load %w[%far] : WG // far\n%z = arith.addf %x, %y : f32\n"
        f"memref.store %z, %w[%t] : WG{mark}\n}}\n{end}"
        "%n2 = arith.shrui %s, %c1 : index\nscf.yield %n2 : index\n}"
    )


def _pieces(second: int, mark: str = "") -> str:
    half = "memref<16xf32, #gpu.address_space<workgroup>>"
    return (
        f"%all = gpu.dynamic_shared_memory : BYTES\n%far = arith.constant {second} : index\n"
        f"%lo = memref.view %all[%c0][] : BYTES to {half}\n%hi = memref.view %all[%far][] : BYTES to {half}\n"
        f"scf.if %lower {{\nmemref.store %one, %lo[%t] : {half}{mark}\n"
        f"memref.store %one, %hi[%t] : {half} // ok\n}}"
    )


_HALO = "memref<2x34xf32, #gpu.address_space<workgroup>>"


def _halo(column: int, mark: str = "") -> str:
    return (
        f"%edge = arith.constant {column} : index\nmemref.store %one, %w[%c0, %next] : SQUARE{mark}\n"
        "%side = arith.cmpi eq, %t, %c0 : index\n"
        "scf.for %k = %c0 to %c2 step %c1 {\nmemref.store %one, %w[%c1, %next] : SQUARE\n}\n"
        f"scf.if %side {{\nmemref.store %one, %w[%c0, %edge] : SQUARE // ok\n}}"
    )


RACES = {
    "neighbour_without_barrier": Case(
        "memref.store %one, %w[%t] : WG // race\n"
        "%v = memref.load %w[%right] : WG // uninitialized\n"
        "memref.store %v, %g[%i] : memref<?xf32>",
        shared=WG,
    ),
    "neighbour_with_barrier": Case(
        "memref.store %one, %w[%t] : WG\ngpu.barrier\n"
        "%v = memref.load %w[%right] : WG\n"
        "memref.store %v, %g[%i] : memref<?xf32>",
        shared=WG,
        blocks=3,
        tier="fission",
    ),
    "barrier_only_before": Case(
        "memref.store %one, %w[%t] : WG\ngpu.barrier\n"
        "%v = memref.load %w[%right] : WG\n"
        "memref.store %v, %w[%t] : WG // race",
        shared=WG,
        says=("written by work-item (1, 0, 0) of", "were read before by work-item (0, 0, 0) of"),
    ),
    "loop_with_both_barriers": Case(
        "scf.for %k = %c0 to %c4 step %c1 {\n"
        "memref.store %one, %w[%t] : WG\ngpu.barrier\n"
        "%v = memref.load %w[%right] : WG\nmemref.store %v, %g[%i] : memref<?xf32>\ngpu.barrier\n}",
        shared=WG,
        tier="fission",
    ),
    "loop_with_one_barrier": Case(
        "scf.for %k = %c0 to %c4 step %c1 {\n"
        "memref.store %one, %w[%t] : WG // race\ngpu.barrier\n"
        "%v = memref.load %w[%right] : WG\nmemref.store %v, %g[%i] : memref<?xf32>\n}",
        shared=WG,
        says=("memref.store %one", "the other access: cases.mlir"),
    ),
    "same_place_of_all": Case(
        "memref.store %one, %g[%c0] : memref<?xf32> // race", says=("63 times", "global memory")
    ),
    "same_place_of_workgroups": Case(
        "memref.store %one, %g[%t] : memref<?xf32> // race",
        says=("workgroup (1, 0, 0)", "by work-item (0, 0, 0) of workgroup (0, 0, 0)", "32 times"),
    ),
    "read_by_another_workgroup": Case(
        "%v = memref.load %g[%c0] : memref<?xf32> // ok\n"
        "%both = arith.andi %first, %firstblock : i1\n%last = arith.xori %firstblock, %true : i1\n"
        "%w2 = arith.andi %first, %last : i1\n"
        "scf.if %w2 { memref.store %v, %g[%c0] : memref<?xf32> } // race"
    ),
    "read_by_all": Case("%v = memref.load %g[%c97] : memref<?xf32>\nmemref.store %v, %g[%i] : memref<?xf32>"),
    "atomics": Case("%v = memref.atomic_rmw addi %i1, %n[%c0] : (i32, memref<?xi32>) -> i32"),
    "atomic_and_read": Case(
        "%v = memref.atomic_rmw addi %i1, %n[%c0] : (i32, memref<?xi32>) -> i32 // race\n"
        "%r = memref.load %n[%c0] : memref<?xi32> // race\n"
        "memref.store %r, %n[%c0] : memref<?xi32> // race",
        says=("changed atomically",),
    ),
    "bytes_side_by_side": Case("memref.store %b1, %c[%i] : memref<?xi8>"),
    "bytes_and_words": Case(
        "%v = vector.broadcast %b1 : i8 to vector<4xi8>\n%x = arith.muli %i, %c2 : index\n"
        "vector.store %v, %c[%x] : memref<?xi8>, vector<4xi8> // race"
    ),
    "words_side_by_side": Case(
        "%v = vector.broadcast %b1 : i8 to vector<4xi8>\n%x = arith.muli %i, %c4 : index\n"
        "vector.store %v, %c[%x] : memref<?xi8>, vector<4xi8>"
    ),
    "all_reduce_orders": Case(
        "memref.store %one, %w[%t] : WG\n%s = gpu.all_reduce add %one uniform {} : (f32) -> f32\n"
        "%v = memref.load %w[%right] : WG\n%r = arith.addf %v, %s : f32\n"
        "memref.store %r, %g[%i] : memref<?xf32>",
        shared=WG,
    ),
    "fibers": Case(
        "%z = memref.load %g[%c97] : memref<?xf32>\n%all = arith.cmpf olt, %z, %one : f32\n"
        "memref.store %one, %w[%t] : WG\nscf.if %all { gpu.barrier }\n"
        "%v = memref.load %w[%right] : WG\nmemref.store %v, %g[%c0] : memref<?xf32> // race",
        shared=WG,
        tier="fibers",
    ),
    "shuffle": Case(
        "%width = arith.constant 32 : i32\n%x, %ok = gpu.shuffle xor %one, %i1, %width : f32\n"
        "memref.store %x, %w[%t] : WG\ngpu.barrier\n%v = memref.load %w[%right] : WG\n"
        "memref.store %v, %g[%i] : memref<?xf32>",
        shared=WG,
    ),
    "private_memory_behind_a_barrier": Case(
        "%a = memref.alloca() : memref<4xf32>\nmemref.store %one, %a[%c1] : memref<4xf32>\n"
        "%sel = scf.if %lower -> memref<4xf32> { scf.yield %a : memref<4xf32> } "
        "else { scf.yield %a : memref<4xf32> }\n"
        "memref.store %one, %sel[%c2] : memref<4xf32>\ngpu.barrier\n"
        "%v = memref.load %a[%c1] : memref<4xf32>\nmemref.store %v, %g[%i] : memref<?xf32>"
    ),
    "private_attribution": Case(
        "memref.store %one, %q[%c1] : PRIVATE\ngpu.barrier\n"
        "%v = memref.load %q[%c1] : PRIVATE\nmemref.store %v, %g[%i] : memref<?xf32>",
        private="memref<4xf32, #gpu.address_space<private>>",
    ),
    # Indices that tell work-items apart, or just do not.
    "workgroups_overlap": Case(
        "%x0 = arith.muli %b, %c31 : index\n%x = arith.addi %x0, %t : index\n"
        "memref.store %one, %g[%x] : memref<?xf32> // race",
        says=("1 times",),
    ),
    "workgroups_leave_gaps": Case(
        "%c33 = arith.addi %c32, %c1 : index\n%x0 = arith.muli %b, %c33 : index\n"
        "%x = arith.addi %x0, %t : index\nmemref.store %one, %g[%x] : memref<?xf32>"
    ),
    "turns_meet": Case(
        "scf.for %k = %t to %c97 step %c31 { memref.store %one, %g[%k] : memref<?xf32> } // race", blocks=1
    ),
    "turns_never_meet": Case(
        "scf.for %k = %t to %c97 step %d { memref.store %one, %g[%k] : memref<?xf32> }", blocks=1
    ),
    "turns_between_work_items": Case(
        "scf.for %k = %c0 to %c4 step %c1 {\n%x0 = arith.muli %t, %c2 : index\n"
        "%x = arith.addi %x0, %k : index\nmemref.store %one, %g[%x] : memref<?xf32> // race\n}",
        blocks=1,
    ),
    "turns_inside_work_items": Case(
        "scf.for %k = %c0 to %c2 step %c1 {\n%x0 = arith.muli %t, %c2 : index\n"
        "%x = arith.addi %x0, %k : index\nmemref.store %one, %g[%x] : memref<?xf32>\n}",
        blocks=1,
    ),
    "two_loops_of_the_same_steps": Case(
        "scf.for %k = %t to %c97 step %d { memref.store %one, %g[%k] : memref<?xf32> }\n"
        "scf.for %k = %t to %c97 step %d {\n%v = memref.load %g[%k] : memref<?xf32>\n"
        "memref.store %v, %g[%k] : memref<?xf32>\n}",
        blocks=1,
    ),
    "two_loops_of_different_steps": Case(
        "scf.for %k = %t to %c97 step %d { memref.store %one, %g[%k] : memref<?xf32> }\n"
        "scf.for %k = %t to %c97 step %c31 {\n%v = memref.load %g[%k] : memref<?xf32> // race\n"
        "memref.store %v, %q[%c0] : PRIVATE\n}",
        private="memref<4xf32, #gpu.address_space<private>>",
        blocks=1,
    ),
    "the_same_one_twice": Case(
        "scf.if %first { memref.store %one, %w[%c0] : WG }\n"
        "scf.if %first { memref.store %one, %w[%c0] : WG }",
        shared=WG,
    ),
    "one_and_another": Case(
        "%second = arith.cmpi eq, %t, %c1 : index\n"
        "scf.if %first { memref.store %one, %w[%c0] : WG }\n"
        "scf.if %second { memref.store %one, %w[%c0] : WG } // race",
        shared=WG,
        says=("2 times",),
    ),
    "same_buffer_twice": Case(
        "%v = memref.load %h[%c0] : memref<?xf32> // race\nmemref.store %v, %g[%i] : memref<?xf32> // ok"
    ),
    "same_buffer_read_twice": Case(
        "%v = memref.load %h[%c0] : memref<?xf32>\n%u = memref.load %g[%i] : memref<?xf32>\n"
        "%s = arith.addf %u, %v : f32\nmemref.store %s, %w[%t] : WG",
        shared=WG,
    ),
    "segments_around_a_loop": Case(
        "scf.for %k = %c0 to %c4 step %c1 {\n"
        "%v = memref.load %w[%t] : WG // race uninitialized\n"
        "gpu.barrier\nmemref.store %v, %w[%right] : WG\n}",
        shared=WG,
        blocks=1,
    ),
    "tree": Case(
        _tree() + "\ngpu.barrier\nscf.if %first {\n%sum = memref.load %w[%c0] : WG\n"
        "memref.store %sum, %g[%b] : memref<?xf32>\n}",
        shared=WG,
        tier="fission",
    ),
    "tree_read_at_once": Case(
        _tree() + "\nscf.if %first {\n%sum = memref.load %w[%c0] : WG\n"
        "memref.store %sum, %g[%b] : memref<?xf32>\n}",
        shared=WG,
        tier="fission",
    ),
    "tree_read_by_another": Case(
        "memref.store %one, %w[%t] : WG\n%second = arith.cmpi eq, %t, %c1 : index\n"
        "scf.if %second {\n%sum = memref.load %w[%c0] : WG // race\n"
        "memref.store %sum, %g[%b] : memref<?xf32>\n}",
        shared=WG,
    ),
    "tree_without_barrier": Case(_tree(end="", mark=" // race"), shared=WG),
    "tree_one_too_far": Case(
        _tree(limit="%in = arith.cmpi ule, %t, %s : index", mark=" // race").replace("far\n", "bounds\n"),
        shared=WG,
    ),
    "tree_of_quarters": Case(
        _tree(
            far="%h2 = arith.shrui %s, %c1 : index\n%far = arith.addi %t, %h2 : index",
            mark=" // race",
        ),
        shared=WG,
    ),
    "tree_of_ones_own": Case(
        _tree(
            limit="%own = arith.addi %t, %c1 : index\n%up = arith.cmpi ult, %t, %own : index\n"
            "%in = arith.andi %up, %lower : i1",
            far="%far = arith.addi %t, %own : index",
            mark=" // race",
        ),
        shared=WG,
    ),
    "tree_without_guard": Case(
        "memref.store %one, %w[%t] : WG\ngpu.barrier\n"
        "%e = scf.for %k = %c0 to %c4 step %c1 iter_args(%s = %c16) -> index {\n"
        "%o0 = arith.addi %t, %s : index\n%far = arith.remui %o0, %c32 : index\n"
        "%x = memref.load %w[%t] : WG\n%y = memref.load %w[%far] : WG // ok\n%z = arith.addf %x, %y : f32\n"
        "memref.store %z, %w[%t] : WG // race\ngpu.barrier\n%n2 = arith.shrui %s, %c1 : index\n"
        "scf.yield %n2 : index\n}",
        shared=WG,
    ),
    # Two arrays in dynamic memory, or nearly.
    "pieces_apart": Case(_pieces(64), dynamic=128),
    "pieces_overlap": Case(_pieces(60, " // race"), dynamic=128, says=("2 times",)),
    # A tile with a column beside it that one work-item of each row fills, or nearly beside it.
    "tile_and_halo": Case(_halo(33), shared=_HALO),
    "tile_and_halo_overlap": Case(_halo(32, " // race"), shared=_HALO, blocks=1),
}
