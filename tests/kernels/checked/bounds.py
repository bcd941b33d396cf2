"""Cases like those of cases.py, of indices and views that leave their memrefs, or just do not."""

from __future__ import annotations

from kernels.checked.cases import WG, Case, alone, one_writes

# Zero, as no compiler knows.
_ZERO = "%n0 = memref.load %n[%c0] : memref<?xi32>\n%ni = arith.index_cast %n0 : i32 to index\n"
_SHAPE = (
    "%s = memref.alloca() : memref<2xindex>\n%rows = arith.constant ROWS : index\n"
    "memref.store %rows, %s[%c0] : memref<2xindex>\nmemref.store %c2, %s[%c1] : memref<2xindex>\n"
    "%e = memref.reshape %g(%s) : (memref<?xf32>, memref<2xindex>) -> memref<?x?xf32>"
)


def _backwards(first: int, mark: str = "") -> str:
    return one_writes(
        f"%f = arith.constant {first} : index\n%v = memref.subview %g[%f] [100] [-1] : "
        f"memref<?xf32> to memref<100xf32, strided<[-1], offset: ?>>{mark}\n"
        "memref.store %one, %v[%c97] : memref<100xf32, strided<[-1], offset: ?>>"
    )


BOUNDS = {
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
    "load_before_begin": alone(
        "%x = arith.subi %t, %c1 : index\n%v = memref.load %g[%x] : memref<?xf32> // bounds\n"
        "memref.store %v, %g[%c0] : memref<?xf32>",
        says=("index -1 of dimension 0",),
    ),
    "second_dimension": alone(
        "memref.store %one, %m[%c1, %c8] : memref<16x8xf32> // bounds",
        says=("index 8 of dimension 1, which has 8 elements",),
    ),
    "inside_the_buffer_all_the_same": alone(
        "memref.store %one, %m[%c16, %c0] : memref<16x8xf32> // bounds",
        says=("index 16 of dimension 0, which has 16 elements",),
    ),
    "boolean": alone(
        "%x = arith.addi %c32, %c32 : index\nmemref.store %true, %p[%x] : memref<?xi1> // bounds\n"
        "%y = arith.subi %x, %c1 : index\nmemref.store %true, %p[%y] : memref<?xi1>"
    ),
    "vector_load": alone(
        "%v = vector.load %g[%c97] : memref<?xf32>, vector<4xf32> // bounds\n"
        "vector.store %v, %g[%c0] : memref<?xf32>, vector<4xf32>",
        says=("indices 97 to 100 of dimension 0",),
    ),
    "vector_load_at_end": alone(
        "%x = arith.subi %c97, %c1 : index\n%v = vector.load %g[%x] : memref<?xf32>, vector<4xf32>\n"
        "vector.store %v, %g[%c0] : memref<?xf32>, vector<4xf32>"
    ),
    "vector_store": alone(
        "%v = vector.broadcast %one : f32 to vector<8xf32>\n"
        "vector.store %v, %m[%c1, %c1] : memref<16x8xf32>, vector<8xf32> // bounds",
        says=("indices 1 to 8 of dimension 1",),
    ),
    "transfer_in_bounds_is_a_promise": alone(
        "%v = vector.transfer_read %g[%c97], %one {in_bounds = [true]} : "
        "memref<?xf32>, vector<4xf32> // bounds\n"
        "vector.store %v, %g[%c0] : memref<?xf32>, vector<4xf32>"
    ),
    "transfer_may_be_partial": alone(
        "%v = vector.transfer_read %g[%c97], %one : memref<?xf32>, vector<4xf32>\n"
        "vector.transfer_write %v, %g[%c97] : vector<4xf32>, memref<?xf32>"
    ),
    "transfer_of_rows": alone(
        "%y = arith.subi %c16, %c1 : index\n"
        "%v = vector.transfer_read %m[%y, %c0], %one {in_bounds = [true, true]} : "
        "memref<16x8xf32>, vector<2x4xf32> // bounds\n"
        "vector.transfer_write %v, %m[%c0, %c0] {in_bounds = [true, true]} : "
        "vector<2x4xf32>, memref<16x8xf32>"
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
    "copy": alone(
        "%s = memref.subview %m[0, 0] [9, 4] [1, 1] : "
        "memref<16x8xf32> to memref<9x4xf32, strided<[8, 1]>>\n"
        "%x = arith.addi %c8, %b : index\n"
        "%q = memref.subview %m[0, 4] [%x, 4] [1, 1] : "
        "memref<16x8xf32> to memref<?x4xf32, strided<[8, 1], offset: 4>>\n"
        "%s2 = memref.cast %s : memref<9x4xf32, strided<[8, 1]>> to memref<?x4xf32, strided<[8, 1]>>\n"
        "memref.copy %s2, %q : memref<?x4xf32, strided<[8, 1]>> to "
        "memref<?x4xf32, strided<[8, 1], offset: 4>> // bounds",
        says=("index 8 of dimension 0, which has 8 elements",),
    ),
    "private_memory": Case(
        f"{_ZERO}%a = memref.alloca() : memref<4xf32>\n%x = arith.addi %ni, %c4 : index\n"
        "%y = arith.subi %x, %c1 : index\nmemref.store %one, %a[%y] : memref<4xf32>\n"
        "memref.store %one, %a[%x] : memref<4xf32> // bounds\n"
        "%v = memref.load %a[%y] : memref<4xf32>\nmemref.store %v, %g[%i] : memref<?xf32>",
        says=("index 4 of dimension 0, which has 4 elements", "64 times"),
    ),
    "workgroup_memory": Case(
        "memref.store %one, %w[%next] : WG // bounds", shared=WG, says=("work-item (31, 0, 0)",)
    ),
    # What is wrong for certain is refused when it is built.
    "view_of_dynamic_memory": Case(
        "%y = gpu.dynamic_shared_memory : BYTES\n"
        "%four = arith.divui %d, %c8 : index\n"
        "%v = memref.view %y[%four][] : "
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
    "loop_to_the_end": alone(
        "%c3 = arith.subi %c4, %c1 : index\n"
        "scf.for %k = %c0 to %c97 step %c4 {\n%x = arith.addi %k, %c3 : index\n"
        "memref.store %one, %g[%x] : memref<?xf32>\n}"
    ),
    "loop_past_the_end": alone(
        "%c3 = arith.subi %c4, %c1 : index\n"
        "scf.for %k = %c0 to %c100 step %c8 {\n%x = arith.addi %k, %c4 : index\n"
        "memref.store %one, %g[%x] : memref<?xf32> // bounds\n}",
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
    "guarded_from_the_begin": Case(
        f"{_ZERO}%d1 = arith.addi %ni, %c16 : index\n%in = arith.cmpi uge, %t, %d1 : index\n"
        "scf.if %in {\n%x = arith.subi %t, %d1 : index\nmemref.store %one, %w[%x] : WG\n}",
        shared=WG,
    ),
    "guarded_from_before_the_begin": Case(
        f"{_ZERO}%d1 = arith.addi %ni, %c16 : index\n%in = arith.cmpi uge, %next, %d1 : index\n"
        "scf.if %in {\n%x = arith.subi %t, %d1 : index\nmemref.store %one, %w[%x] : WG // bounds\n}",
        shared=WG,
        says=("index -1 of dimension 0", "2 times"),
    ),
    "guarded_against_the_first": Case(
        "%in = arith.cmpi ugt, %i, %c0 : index\n%x = arith.subi %i, %c1 : index\n"
        "scf.if %in {\nmemref.store %one, %g[%x] : memref<?xf32>\n"
        "} else {\nmemref.store %one, %g[%x] : memref<?xf32> // bounds\n}",
        says=("index -1 of dimension 0",),
    ),
    "guarded_against_another": Case(
        "%in = arith.cmpi ne, %i, %c1 : index\n%x = arith.subi %i, %c1 : index\n"
        "scf.if %in {\nmemref.store %one, %g[%x] : memref<?xf32> // bounds\n}",
        says=("index -1 of dimension 0",),
    ),
    "guarded_the_wrong_way": Case(
        "%x = arith.muli %i, %c2 : index\n%in = arith.cmpi ult, %x, %c100 : index\n"
        "scf.if %in {\n} else {\nmemref.store %one, %g[%x] : memref<?xf32> // bounds\n}",
        says=("14 times",),
    ),
    "guarded_further_on": Case(
        "%x = arith.addi %i, %c97 : index\n%y = arith.addi %i, %c100 : index\n"
        "%in = arith.cmpi ult, %x, %c100 : index\n"
        "scf.if %in {\nmemref.store %one, %g[%x] : memref<?xf32>\n"
        "memref.store %one, %g[%y] : memref<?xf32> // bounds\n}",
        says=("3 times",),
    ),
    "halves": alone(
        "%e = scf.for %k = %c0 to %c4 step %c1 iter_args(%s = %c97) -> index {\n"
        "memref.store %one, %g[%s] : memref<?xf32>\n%u = arith.addi %s, %s : index\n"
        "memref.store %one, %g[%u] : memref<?xf32> // bounds\n"
        "%h2 = arith.shrui %s, %c1 : index\nscf.yield %h2 : index\n}",
        says=("index 194 of dimension 0", "1 times"),
    ),
    # Such a loop runs around the one over work-items.
    "loop_of_neighbours": Case(
        "%s = memref.dim %n, %c0 : memref<?xi32>\n%st = arith.addi %d, %d : index\n"
        "%in = arith.cmpi eq, %t, %c31 : index\n%far = arith.select %in, %c100, %c0 : index\n"
        "scf.for %k = %i to %s step %st {\n%x0 = memref.load %n[%k] : memref<?xi32>\n"
        "%x1 = arith.index_cast %x0 : i32 to index\n%x = arith.addi %x1, %far : index\n"
        "%v = memref.atomic_rmw addf %one, %g[%x] : (f32, memref<?xf32>) -> f32 // bounds\n}",
        says=("index 100 of dimension 0", "work-item (31, 0, 0) of workgroup (0, 0, 0)", "2 times"),
    ),
    "loop_whose_step_wraps": alone(
        f"{_ZERO}%far = arith.constant 0x7ffffffffffffff0 : index\n%st = arith.addi %far, %ni : index\n"
        "scf.for %k = %c97 to %c100 step %st { memref.store %one, %g[%k] : memref<?xf32> // bounds\n}",
        says=("index -9223372036854775727", "3 times"),
    ),
    # Views that claim more than there is.
    "subview_of_negative_size": alone(
        f"{_ZERO}%far = arith.constant -90 : index\n%f = arith.constant 99 : index\n"
        "%x = arith.addi %far, %ni : index\n%v = memref.subview %g[%f] [%x] [1] : "
        "memref<?xf32> to memref<?xf32, strided<[1], offset: ?>> // bounds\n"
        "memref.store %one, %v[%c100] : memref<?xf32, strided<[1], offset: ?>>",
        says=("view out of bounds",),
    ),
    "subview_whose_steps_wrap": alone(
        f"{_ZERO}%far = arith.constant 0x4000000000000000 : index\n%x = arith.addi %far, %ni : index\n"
        "%v = memref.subview %g[0] [5] [%x] : memref<?xf32> to memref<5xf32, strided<[?]>> // bounds\n"
        "memref.store %one, %v[%c1] : memref<5xf32, strided<[?]>>"
    ),
    "subview_backwards": Case(_backwards(99)),
    "subview_backwards_beyond": Case(_backwards(98, " // bounds"), says=("indices 98 to -1",)),
    "cast_to_more": alone(
        "%v = memref.cast %g : memref<?xf32> to memref<200xf32> // bounds\n"
        "%e = memref.expand_shape %v [[0, 1]] output_shape [20, 10] : "
        "memref<200xf32> into memref<20x10xf32>\n"
        "memref.store %one, %e[%c16, %c1] : memref<20x10xf32>",
        says=("indices 0 to 199 of dimension 0, which has 100 elements",),
    ),
    "reshape": alone(_SHAPE.replace("ROWS", "50") + "\nmemref.store %one, %e[%c31, %c1] : memref<?x?xf32>"),
    "reshape_to_more": alone(
        _SHAPE.replace("ROWS", "51") + " // bounds\nmemref.store %one, %e[%c31, %c1] : memref<?x?xf32>",
        says=("indices 0 to 101 of dimension 0, which has 100 elements",),
    ),
    "view_whose_bytes_wrap": Case(
        f"{_ZERO}%y = gpu.dynamic_shared_memory : BYTES\n%far = arith.constant 0x4000000000000000 : index\n"
        "%x = arith.addi %far, %ni : index\n%v = memref.view %y[%c4][%x] : "
        "BYTES to memref<?xf32, #gpu.address_space<workgroup>> // bounds\n"
        "memref.store %one, %v[%t] : memref<?xf32, #gpu.address_space<workgroup>>",
        dynamic=8,
    ),
}
