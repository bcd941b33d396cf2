"""Cases like those of cases.py, of divergent barriers and of uninitialised memory."""

from __future__ import annotations

from kernels.checked.cases import WG, WIDE, Case

BARRIERS = {
    "barrier_of_half": Case(
        "scf.if %lower {\ngpu.barrier // barrier\n}",
        says=("16 of 32 work-items of workgroup (0, 0, 0) wait there", "work-item (16, 0, 0)", "2 times"),
        tier="fibers",
    ),
    "barrier_of_workgroup": Case("scf.if %firstblock {\ngpu.barrier\n}", tier="fission"),
    "two_barriers": Case(
        "scf.if %lower {\ngpu.barrier // barrier\n} else {\ngpu.barrier // ok\n}", says=("waits elsewhere",)
    ),
    "barrier_in_turns_of_ones_own": Case(
        "%n2 = arith.select %lower, %c2, %c4 : index\n"
        "scf.for %k = %c0 to %n2 step %c1 {\ngpu.barrier // barrier\n}",
        says=("16 of 32 work-items of workgroup (0, 0, 0) wait there", "returned without reaching it"),
    ),
    "barrier_in_turns_of_the_workgroup": Case(
        "%n2 = arith.select %firstblock, %c2, %c4 : index\nscf.for %k = %c0 to %n2 step %c1 {\ngpu.barrier\n}"
    ),
    "all_reduce_of_half": Case(
        "scf.if %lower {\n%s = gpu.all_reduce add %one uniform {} : (f32) -> f32 // barrier\n"
        "memref.store %s, %g[%t] : memref<?xf32>\n}",
        blocks=1,
        says=("16 of 32 work-items",),
    ),
    "shuffle_of_half": Case(
        "%width = arith.constant 32 : i32\nscf.if %lower {\n"
        "%x, %ok = gpu.shuffle xor %one, %i1, %width : f32 // barrier\n"
        "memref.store %x, %g[%t] : memref<?xf32>\n}\ngpu.barrier",
        blocks=1,
        says=("waits elsewhere",),
    ),
}

UNINITIALIZED = {
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
