// RUN: cpu expand-vector-type-casts..fission

gpu.module @k {
  gpu.func @sum(%a: memref<?xf32>, %out: memref<?xf32>) kernel {
    %g = gpu.global_id x
    %v = memref.load %a[%g] : memref<?xf32>
    %s = gpu.all_reduce add %v uniform {} : (f32) -> (f32)
    memref.store %s, %out[%g] : memref<?xf32>
    gpu.return
  }
  gpu.func @half(%a: memref<?xf16>, %out: memref<?xf16>) kernel {
    %g = gpu.global_id x
    %v = memref.load %a[%g] : memref<?xf16>
    %s = gpu.all_reduce maximumf %v uniform {} : (f16) -> (f16)
    memref.store %s, %out[%g] : memref<?xf16>
    gpu.return
  }
  gpu.func @region(%a: memref<?xi32>, %out: memref<?xi32>) kernel {
    %g = gpu.global_id x
    %v = memref.load %a[%g] : memref<?xi32>
    %s = gpu.all_reduce %v uniform {
    ^bb0(%l: i32, %h: i32):
      %o = arith.ori %l, %h : i32
      gpu.yield %o : i32
    } : (i32) -> (i32)
    memref.store %s, %out[%g] : memref<?xi32>
    gpu.return
  }
  gpu.func @counted(%a: memref<?xi32>, %out: memref<?xi32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : i32
    %g = gpu.global_id x
    %n = memref.atomic_rmw addi %c1, %a[%c0] : (i32, memref<?xi32>) -> i32
    %s = gpu.all_reduce maxsi %n uniform {} : (i32) -> (i32)
    memref.store %s, %out[%g] : memref<?xi32>
    gpu.return
  }
}

// Values go to 64 partial sums at once: no array with an element for each work-item.
// CHECK: memref.global "private" @sum.workgroup.context.0 : memref<64xf32
// CHECK-NOT: memref<1024xf32
// CHECK-LABEL: gpu.func @sum.workgroup
// CHECK: [[CHUNKS:%.+]] = arith.andi %block_dim_x, %c-64
// CHECK: vector.store {{.*}}, [[LANES:%.+]][%c0]
// CHECK: scf.for {{.*}} to [[CHUNKS]] step %c64
// CHECK-NEXT: arith.constant 64
// CHECK-NEXT: scf.for [[LANE:%.+]] = %c0 to
// CHECK: [[VALUE:%.+]] = memref.load %arg0
// CHECK-NEXT: [[OLD:%.+]] = memref.load [[LANES]]{{\[}}[[LANE]]]
// CHECK-NEXT: [[NEW:%.+]] = arith.addf [[OLD]], [[VALUE]]
// CHECK-NEXT: memref.store [[NEW]], [[LANES]]{{\[}}[[LANE]]]
// CHECK: arith.cmpi eq, [[CHUNKS]], %block_dim_x
// CHECK: gpu.return

// f16 is added as f32.
// CHECK: @half.workgroup.context.0 : memref<64xf32
// CHECK-LABEL: gpu.func @half.workgroup
// CHECK: dense<0xFF800000> : vector<64xf32>
// CHECK: arith.maximumf {{.*}} : f32
// CHECK: gpu.return

// Nobody knows what a region makes of nothing; and in which order atomics come can be told.
// CHECK: @region.workgroup.context.0 : memref<1024xi32
// CHECK-LABEL: gpu.func @region.workgroup
// Workgroups that are no multiple of 64: as many rounds as there are halves, a number that LLVM cannot unroll.
// CHECK: [[ZEROS:%.+]] = math.ctlz
// CHECK: [[BITS:%.+]] = arith.index_cast [[ZEROS]]
// CHECK: [[ROUNDS:%.+]] = arith.subi %c64{{.*}}, [[BITS]]
// CHECK: scf.for {{.*}} to [[ROUNDS]] step %c1 iter_args
// CHECK: @counted.workgroup.context.0 : memref<1024xi32
// CHECK-LABEL: gpu.func @counted.workgroup
