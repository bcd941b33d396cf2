"""Kernels that break the rules, and kernels that nearly do: one program, one function per kernel.

A line that ends in ``// bounds`` (or another kind) is reported as that and no other line is. Every
kernel gets the same memory: ``%g`` 100 floats, ``%m`` 16 x 8 floats, ``%n`` 64 i32, ``%c`` 256 bytes,
``%p`` 64 i1, ``%h`` is ``%g`` once more, and runs as two workgroups of 32 work-items unless it says
otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A kernel's body, and what the run must say beyond the kinds and lines of its marks."""

    body: str
    says: tuple[str, ...] = ()
    shared: str = ""  # type of workgroup memory %w, static
    private: str = ""  # type of private memory %q
    dynamic: int = 0
    blocks: int = 2
    items: int = 32
    known: bool = False  # whether the kernel says how many work-items a workgroup has
    tier: str = ""


def one_writes(body: str) -> str:
    """``body`` for the first work-item of the first workgroup only."""
    return "%both = arith.andi %first, %firstblock : i1\nscf.if %both {\n" + body.strip() + "\n}"


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


WG = "memref<32xf32, #gpu.address_space<workgroup>>"
WIDE = "memref<64xf32, #gpu.address_space<workgroup>>"
BYTES = "memref<?xi8, #gpu.address_space<workgroup>>"

CASES = {
    # ---- bounds ----
    "store_past_end": Case(
        "%x = arith.muli %i, %c2 : index\nmemref.store %one, %g[%x] : memref<?xf32> // bounds",
        says=(
            "memref.store %one, %g[%x]",
            "index 100 of dimension 0, which has 100 elements",
            "work-item (18, 0, 0) of workgroup (1, 0, 0)",
            "14 times",
        ),
        tier="loop",
    ),
    "store_at_end": Case("%x = arith.addi %i, %c31 : index\nmemref.store %one, %g[%x] : memref<?xf32>"),
    "load_before_begin": Case(
        one_writes(
            "%x = arith.subi %t, %c1 : index\n%v = memref.load %g[%x] : memref<?xf32> // bounds\n"
            "memref.store %v, %g[%c0] : memref<?xf32>"
        ),
        says=("index -1 of dimension 0",),
    ),
    "second_dimension": Case(
        one_writes("memref.store %one, %m[%c1, %c8] : memref<16x8xf32> // bounds"),
        says=("index 8 of dimension 1, which has 8 elements",),
    ),
    "inside_the_buffer_all_the_same": Case(
        one_writes("memref.store %one, %m[%c16, %c0] : memref<16x8xf32> // bounds"),
        says=("index 16 of dimension 0, which has 16 elements",),
    ),
    "corner": Case(
        one_writes(
            "%y = arith.subi %c16, %c1 : index\n%x = arith.subi %c8, %c1 : index\n"
            "memref.store %one, %m[%y, %x] : memref<16x8xf32>"
        )
    ),
    "boolean": Case(
        one_writes(
            "%x = arith.addi %c32, %c32 : index\nmemref.store %true, %p[%x] : memref<?xi1> // bounds\n"
            "%y = arith.subi %x, %c1 : index\nmemref.store %true, %p[%y] : memref<?xi1>"
        )
    ),
    "vector_load": Case(
        one_writes(
            "%v = vector.load %g[%c97] : memref<?xf32>, vector<4xf32> // bounds\n"
            "vector.store %v, %g[%c0] : memref<?xf32>, vector<4xf32>"
        ),
        says=("indices 97 to 100 of dimension 0",),
    ),
    "vector_load_at_end": Case(
        one_writes(
            "%x = arith.subi %c97, %c1 : index\n%v = vector.load %g[%x] : memref<?xf32>, vector<4xf32>\n"
            "vector.store %v, %g[%c0] : memref<?xf32>, vector<4xf32>"
        )
    ),
    "vector_store": Case(
        one_writes(
            "%v = vector.broadcast %one : f32 to vector<8xf32>\n"
            "vector.store %v, %m[%c1, %c1] : memref<16x8xf32>, vector<8xf32> // bounds"
        ),
        says=("indices 1 to 8 of dimension 1",),
    ),
    "transfer_in_bounds_is_a_promise": Case(
        one_writes(
            "%v = vector.transfer_read %g[%c97], %one {in_bounds = [true]} : "
            "memref<?xf32>, vector<4xf32> // bounds\n"
            "vector.store %v, %g[%c0] : memref<?xf32>, vector<4xf32>"
        )
    ),
    "transfer_may_be_partial": Case(
        one_writes(
            "%v = vector.transfer_read %g[%c97], %one : memref<?xf32>, vector<4xf32>\n"
            "vector.transfer_write %v, %g[%c97] : vector<4xf32>, memref<?xf32>"
        )
    ),
    "transfer_of_rows": Case(
        one_writes(
            "%y = arith.subi %c16, %c1 : index\n"
            "%v = vector.transfer_read %m[%y, %c0], %one {in_bounds = [true, true]} : "
            "memref<16x8xf32>, vector<2x4xf32> // bounds\n"
            "vector.transfer_write %v, %m[%c0, %c0] {in_bounds = [true, true]} : "
            "vector<2x4xf32>, memref<16x8xf32>"
        )
    ),
    "atomic": Case(
        "%x = arith.muli %i, %c2 : index\n"
        "%v = memref.atomic_rmw addi %i1, %n[%x] : (i32, memref<?xi32>) -> i32 // bounds"
    ),
    "atomic_region": Case(
        "%x = arith.muli %i, %c2 : index\n"
        "%v = memref.generic_atomic_rmw %n[%x] : memref<?xi32> { // bounds\n"
        "^bb0(%old: i32):\n%new = arith.muli %old, %i1 : i32\nmemref.atomic_yield %new : i32\n}"
    ),
    "copy": Case(
        one_writes(
            "%s = memref.subview %m[0, 0] [9, 4] [1, 1] : "
            "memref<16x8xf32> to memref<9x4xf32, strided<[8, 1]>>\n"
            "%x = arith.addi %c8, %b : index\n"
            "%q = memref.subview %m[0, 4] [%x, 4] [1, 1] : "
            "memref<16x8xf32> to memref<?x4xf32, strided<[8, 1], offset: 4>>\n"
            "%s2 = memref.cast %s : memref<9x4xf32, strided<[8, 1]>> to memref<?x4xf32, strided<[8, 1]>>\n"
            "memref.copy %s2, %q : memref<?x4xf32, strided<[8, 1]>> to "
            "memref<?x4xf32, strided<[8, 1], offset: 4>> // bounds"
        ),
        says=("index 8 of dimension 0, which has 8 elements",),
    ),
    "workgroup_memory": Case(
        "memref.store %one, %w[%next] : WG // bounds", shared=WG, says=("work-item (31, 0, 0)",)
    ),
    "view_of_dynamic_memory": Case(
        "%y = gpu.dynamic_shared_memory : BYTES\n"
        "%v = memref.view %y[%c4][] : "
        "BYTES to WG // bounds\n"
        "memref.store %one, %v[%t] : WG",
        dynamic=128,
        says=("view out of bounds", "indices 4 to 131 of dimension 0, which has 128 elements"),
    ),
    "view_that_fits": Case(
        "%y = gpu.dynamic_shared_memory : BYTES\n"
        "%v = memref.view %y[%c4][] : "
        "BYTES to WG\n"
        "memref.store %one, %v[%t] : WG\n"
        "gpu.barrier\n"
        "%x = memref.load %v[%right] : WG\n"
        "memref.store %x, %g[%i] : memref<?xf32>",
        dynamic=132,
        tier="fission",
    ),
    "subview": Case(
        "%x = arith.addi %i, %c97 : index\n"
        "%v = memref.subview %g[%x] [4] [1] : "
        "memref<?xf32> to memref<4xf32, strided<[1], offset: ?>> // bounds\n"
        "memref.store %one, %v[%c0] : memref<4xf32, strided<[1], offset: ?>>",
        blocks=1,
        says=("view out of bounds", "indices 97 to 100"),
    ),
    "subview_that_is_empty": Case(
        "%e = arith.subi %c1, %c1 : index\n"
        "%v = memref.subview %g[%c100] [%e] [1] : "
        "memref<?xf32> to memref<?xf32, strided<[1], offset: ?>>\n"
        "%s = memref.dim %v, %c0 : memref<?xf32, strided<[1], offset: ?>>\n"
        "scf.for %k = %c0 to %s step %c1 { memref.store %one, %v[%k] : "
        "memref<?xf32, strided<[1], offset: ?>> }"
    ),
    "affine": Case(
        "affine.for %k = 0 to 101 { // not the place\n"
        "affine.store %one, %g[%k] : memref<?xf32> // bounds race\n}",
        blocks=1,
    ),
    "called_function": Case(
        "func.call @poke(%g, %c97) : (memref<?xf32>, index) -> ()",
        says=("memref.store", "kernel @called_function"),
    ),
    # Indices of which the range is known: each just fits, or just does not.
    "loop_to_the_end": Case(
        one_writes(
            "%c3 = arith.subi %c4, %c1 : index\n"
            "scf.for %k = %c0 to %c97 step %c4 {\n%x = arith.addi %k, %c3 : index\n"
            "memref.store %one, %g[%x] : memref<?xf32>\n}"
        )
    ),
    "loop_past_the_end": Case(
        one_writes(
            "%c3 = arith.subi %c4, %c1 : index\n"
            "scf.for %k = %c0 to %c100 step %c8 {\n%x = arith.addi %k, %c4 : index\n"
            "memref.store %one, %g[%x] : memref<?xf32> // bounds\n}"
        ),
        says=("index 100 of dimension 0",),
    ),
    "guarded_to_the_end": Case(
        "%x = arith.muli %i, %c2 : index\n%in = arith.cmpi ult, %x, %c100 : index\n"
        "scf.if %in {\nmemref.store %one, %g[%x] : memref<?xf32>\n}"
    ),
    "guarded_past_the_end": Case(
        "%x = arith.muli %i, %c2 : index\n%in = arith.cmpi ule, %x, %c100 : index\n"
        "scf.if %in {\nmemref.store %one, %g[%x] : memref<?xf32> // bounds\n}",
        says=("index 100 of dimension 0", "1 times"),
    ),
    "guarded_the_wrong_way": Case(
        "%x = arith.muli %i, %c2 : index\n%in = arith.cmpi ult, %x, %c100 : index\n"
        "scf.if %in {\n} else {\nmemref.store %one, %g[%x] : memref<?xf32> // bounds\n}",
        says=("14 times",),
    ),
    "guarded_above_only": Case(
        "%x = arith.subi %i, %c1 : index\n%in = arith.cmpi slt, %x, %c100 : index\n"
        "scf.if %in {\nmemref.store %one, %g[%x] : memref<?xf32> // bounds\n}",
        says=("index -1 of dimension 0",),
    ),
    "guarded_further_on": Case(
        "%x = arith.addi %i, %c97 : index\n%y = arith.addi %i, %c100 : index\n"
        "%in = arith.cmpi ult, %x, %c100 : index\n"
        "scf.if %in {\nmemref.store %one, %g[%x] : memref<?xf32>\n"
        "memref.store %one, %g[%y] : memref<?xf32> // bounds\n}",
        says=("3 times",),
    ),
    "halves": Case(
        one_writes(
            "%e = scf.for %k = %c0 to %c4 step %c1 iter_args(%s = %c97) -> index {\n"
            "memref.store %one, %g[%s] : memref<?xf32>\n%u = arith.addi %s, %s : index\n"
            "memref.store %one, %g[%u] : memref<?xf32> // bounds\n"
            "%h2 = arith.shrui %s, %c1 : index\nscf.yield %h2 : index\n}"
        ),
        says=("index 194 of dimension 0", "1 times"),
    ),
    # ---- races ----
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
    "private_memory": Case(
        "%a = memref.alloca() : memref<4xf32>\nmemref.store %one, %a[%c1] : memref<4xf32>\n"
        "%sel = scf.if %lower -> memref<4xf32> { scf.yield %a : memref<4xf32> } "
        "else { scf.yield %a : memref<4xf32> }\n"
        "%v = memref.load %sel[%c1] : memref<4xf32>\nmemref.store %v, %g[%i] : memref<?xf32>"
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
    # ---- barriers ----
    "barrier_of_half": Case(
        "scf.if %lower {\ngpu.barrier // barrier\n}",
        says=("16 of 32 work-items of workgroup (0, 0, 0) wait there", "work-item (16, 0, 0)", "2 times"),
        tier="fibers",
    ),
    "barrier_of_workgroup": Case("scf.if %firstblock {\ngpu.barrier\n}", tier="fission"),
    "two_barriers": Case(
        "scf.if %lower {\ngpu.barrier // barrier\n} else {\ngpu.barrier // ok\n}", says=("waits elsewhere",)
    ),
    # ---- uninitialised memory ----
    "never_written": Case(
        "%v = memref.load %w[%t] : WG // uninitialized\nmemref.store %v, %g[%i] : memref<?xf32>",
        shared=WG,
        says=("4 bytes at byte ", "of workgroup memory", "64 times"),
    ),
    "written_in_first_workgroup_only": Case(
        "scf.if %firstblock { memref.store %one, %w[%t] : WG }\ngpu.barrier\n"
        "%v = memref.load %w[%right] : WG // uninitialized\nmemref.store %v, %g[%i] : memref<?xf32>",
        shared=WG,
        says=("workgroup (1, 0, 0)", "32 times"),
    ),
    "half_of_a_vector": Case(
        "%s = arith.muli %t, %c2 : index\n"
        "scf.if %lower { memref.store %one, %w[%s] : WG }\ngpu.barrier\n"
        "scf.if %lower {\n%v = vector.load %w[%s] : WG, vector<2xf32> // uninitialized\n"
        "%x = vector.extract %v[0] : f32 from vector<2xf32>\nmemref.store %x, %g[%i] : memref<?xf32>\n}",
        shared=WG,
    ),
    "atomic_on_nothing": Case(
        "%v = memref.atomic_rmw addi %i1, %w[%c0] : "
        "(i32, memref<4xi32, #gpu.address_space<workgroup>>) -> i32 // uninitialized",
        shared="memref<4xi32, #gpu.address_space<workgroup>>",
    ),
    "written_with_a_mask": Case(
        "%s = arith.muli %t, %c2 : index\n%n2 = arith.addi %t, %c1 : index\n"
        "scf.if %lower {\n%k = vector.create_mask %n2 : vector<2xi1>\n"
        "%v = vector.broadcast %one : f32 to vector<2xf32>\n"
        "vector.maskedstore %w[%s], %k, %v : WG, vector<2xi1>, vector<2xf32>\n"
        "vector.transfer_write %v, %g[%c0], %k : vector<2xf32>, memref<?xf32> // race\n}\ngpu.barrier\n"
        "%x = memref.load %w[%right] : WG // uninitialized\nmemref.store %x, %w[%t] : WG // race",
        shared=WG,
    ),
    "written_by_one_read_by_all": Case(
        "scf.if %first { memref.store %one, %w[%c0] : WG }\ngpu.barrier\n"
        "%v = memref.load %w[%c0] : WG\nmemref.store %v, %g[%i] : memref<?xf32>",
        shared=WG,
        blocks=3,
    ),
    # Stores that together write all that is read, or just do not.
    "written_whole_in_turns": Case(
        "scf.for %k = %c0 to %c2 step %c1 {\n%x0 = arith.muli %k, %c32 : index\n"
        "%x = arith.addi %x0, %t : index\nmemref.store %one, %w[%x] : WIDE\n}\ngpu.barrier\n"
        "%y = arith.addi %right, %c32 : index\n%v = memref.load %w[%y] : WIDE\n"
        "memref.store %v, %g[%i] : memref<?xf32>",
        shared=WIDE,
    ),
    "written_with_gaps": Case(
        "%x = arith.muli %t, %c2 : index\nmemref.store %one, %w[%x] : WIDE\ngpu.barrier\n"
        "%v = memref.load %w[%right] : WIDE // uninitialized\nmemref.store %v, %g[%i] : memref<?xf32>",
        shared=WIDE,
        says=("32 times",),
    ),
    "written_halfway": Case(
        "memref.store %one, %w[%t] : WIDE\ngpu.barrier\n%y = arith.addi %right, %c1 : index\n"
        "%v = memref.load %w[%y] : WIDE // uninitialized\nmemref.store %v, %g[%i] : memref<?xf32>",
        shared=WIDE,
        says=("2 times",),
    ),
    "written_in_a_later_turn": Case(
        "scf.for %k = %c0 to %c2 step %c1 {\n%x0 = arith.muli %k, %c32 : index\n"
        "%x = arith.addi %x0, %t : index\nmemref.store %one, %w[%x] : WIDE\ngpu.barrier\n"
        "%y = arith.addi %right, %c32 : index\n%v = memref.load %w[%y] : WIDE // uninitialized\n"
        "memref.store %v, %g[%i] : memref<?xf32>\ngpu.barrier\n}",
        shared=WIDE,
        says=("64 times",),
    ),
    "written_along_the_diagonal": Case(
        "memref.store %one, %w[%t, %t] : SQUARE\ngpu.barrier\n"
        "%v = memref.load %w[%t, %right] : SQUARE // uninitialized\nmemref.store %v, %g[%i] : memref<?xf32>",
        shared="memref<32x32xf32, #gpu.address_space<workgroup>>",
    ),
    "written_by_workgroups_in_turn": Case(
        "%x0 = arith.muli %b, %c32 : index\n%x = arith.addi %x0, %t : index\n"
        "memref.store %one, %w[%x] : WIDE\ngpu.barrier\n"
        "%v = memref.load %w[%right] : WIDE // uninitialized\nmemref.store %v, %g[%i] : memref<?xf32>",
        shared=WIDE,
        says=("workgroup (1, 0, 0)", "32 times"),
    ),
}
