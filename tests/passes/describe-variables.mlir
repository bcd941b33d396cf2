// RUN: cpu record-variable-names..describe-variables --debug-full
// RUN: sm_90 record-variable-names..describe-variables --debug-full
// RUN: gfx942 record-variable-names..describe-variables --debug-full

gpu.module @k {
  gpu.func @f(%m: memref<8x4xf32>, %n: index) workgroup(%tile: memref<8xf32, #gpu.address_space<workgroup>>)
      kernel attributes {gpubuild.argument_names = ["m", "n", "tile"]} {
    %i = gpu.thread_id x loc("i"("k.mlir":3:1))
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %x = memref.load %m[%i, %c0] : memref<8x4xf32> loc("x"("k.mlir":4:1))
    // Equal to the last: a value has one name.
    %y = memref.load %m[%i, %c0] : memref<8x4xf32> loc("not an identifier"("k.mlir":5:1))
    %sum = scf.for %j = %c0 to %n step %c1 iter_args(%s = %x) -> f32 {
      %t = arith.addf %s, %y : f32 loc("t"("k.mlir":7:1))
      scf.yield %t : f32
    } {gpubuild.argument_names = ["j", "s"]} loc("sum"("k.mlir":6:1))
    // Of many operations: which of them is the value is not clear.
    %all = gpu.all_reduce add %sum {} : (f32) -> f32 loc("all"("k.mlir":9:1))
    memref.store %all, %tile[%i] : memref<8xf32, #gpu.address_space<workgroup>>
    %z = memref.load %tile[%n] : memref<8xf32, #gpu.address_space<workgroup>> loc("z"("k.mlir":10:1))
    %b = arith.cmpf olt, %z, %x : f32 loc("b"("k.mlir":11:1))
    scf.if %b {
      memref.store %z, %m[%i, %i] : memref<8x4xf32>
    }
    gpu.return
  } loc("k.mlir":2:1)
}

// CPU-NOT: dbg_exprs
// CPU:      %[[TILE:[0-9]+]] = llvm.mlir.addressof @__wg_f_0
// CPU-NEXT: llvm.intr.dbg.value {{.*}}name = "tile", {{.*}}DW_TAG_reference_type, {{.*}}count = 8{{.*}} = %[[TILE]]
// CPU:      llvm.br ^bb1
// A loop ends its variables until they have values again.
// CPU:      ^bb1(%[[J:[0-9]+]]: i64, %[[S:[0-9]+]]: f32):
// CPU-NEXT: %[[NONE:[0-9]+]] = llvm.mlir.poison : f32
// CPU-NEXT: llvm.intr.dbg.value {{.*}} = %[[NONE]] : f32
// CPU:      llvm.intr.dbg.value {{.*}}name = "j", {{.*}} = %[[J]] : i64
// CPU-NEXT: llvm.intr.dbg.value {{.*}}name = "s", {{.*}} = %[[S]] : f32
// CPU:      %[[T:[0-9]+]] = llvm.fadd
// CPU-NEXT: llvm.intr.dbg.value {{.*}}name = "t", {{.*}} = %[[T]] : f32
// CPU-NOT:  name = "{{sum|all|not an identifier}}"
// CPU:      llvm.intr.dbg.value {{.*}}name = "z", {{.*}} = %[[Z:[0-9]+]] : f32
// CPU-NEXT: llvm.fcmp "olt" %[[Z]]
// CPU-NEXT: llvm.intr.dbg.value {{.*}}name = "b"

// The descriptor's second part points to rows.
// SM_90:     llvm.mlir.global internal @__wg_f_0() {{.*}}dbg_exprs = [#llvm.di_global_variable_expression<{{.*}}name = "tile"
// SM_90:     llvm.intr.dbg.value {{.*}}name = "m", {{.*}}arg = 1, {{.*}}DW_TAG_pointer_type, {{.*}}count = 4{{.*}} = %arg1 : !llvm.ptr
// SM_90:     llvm.intr.dbg.value {{.*}}name = "n", {{.*}}arg = 2, {{.*}}name = "index"{{.*}} = %arg7 : i64
// SM_90-NOT: llvm.intr.dbg.value {{.*}}name = "tile"
// SM_90:     name = "z"
// SM_90:     name = "b"

// GFX942:     llvm.mlir.global internal @__wg_f_0() {{.*}}dbg_exprs = [#llvm.di_global_variable_expression<{{.*}}name = "tile"
// GFX942:     name = "z"
// A boolean is a mask of lanes.
// GFX942-NOT: name = "b"
