// RUN: cpu version-aliases

// Results larger than any cache get stores that bypass it where a kernel does little but fill them.
gpu.module @k {
  gpu.func @fills(%a: memref<?xf32>, %out: memref<?xf32>, %n: index) kernel {
    %i = gpu.global_id x
    %x = memref.load %a[%i] : memref<?xf32>
    memref.store %x, %out[%i] : memref<?xf32>
    gpu.return
  }
  gpu.func @loads_it(%a: memref<?xf32>, %out: memref<?xf32>, %n: index) kernel {
    %i = gpu.global_id x
    %x = memref.load %a[%i] : memref<?xf32>
    %o = memref.load %out[%i] : memref<?xf32>
    %z = arith.addf %x, %o : f32
    memref.store %z, %out[%i] : memref<?xf32>
    gpu.return
  }
  gpu.func @gaps(%a: memref<?xf32>, %out: memref<?xf32>, %n: index) kernel {
    %i = gpu.global_id x
    %x = memref.load %a[%i] : memref<?xf32>
    %two = arith.constant 2 : index
    %p = arith.muli %i, %two : index
    memref.store %x, %out[%p] : memref<?xf32>
    gpu.return
  }
  gpu.func @shifted(%a: memref<?xf32>, %out: memref<?xf32>, %n: index) kernel {
    %i = gpu.global_id x
    %x = memref.load %a[%i] : memref<?xf32>
    %one = arith.constant 1 : index
    %p = arith.addi %i, %one : index
    memref.store %x, %out[%p] : memref<?xf32>
    gpu.return
  }
  gpu.func @backwards(%a: memref<?xf32>, %out: memref<?xf32>, %n: index) kernel {
    %i = gpu.global_id x
    %x = memref.load %a[%i] : memref<?xf32>
    %p = arith.subi %n, %i : index
    memref.store %x, %out[%p] : memref<?xf32>
    gpu.return
  }
  gpu.func @same_place(%a: memref<?xf32>, %out: memref<?xf32>, %n: index) kernel {
    %i = gpu.global_id x
    %x = memref.load %a[%i] : memref<?xf32>
    memref.store %x, %out[%n] : memref<?xf32>
    gpu.return
  }
  gpu.func @sums_first(%a: memref<?xf32>, %out: memref<?xf32>, %n: index) kernel {
    %i = gpu.global_id x
    %x = memref.load %a[%i] : memref<?xf32>
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %s = scf.for %k = %zero to %n step %one iter_args(%sum = %x) -> f32 {
    %v = memref.load %a[%k] : memref<?xf32>
    %t = arith.addf %sum, %v : f32
    scf.yield %t : f32
    }
    memref.store %s, %out[%i] : memref<?xf32>
    gpu.return
  }
  gpu.func @exchanges(%a: memref<?xf32>, %out: memref<?xf32>, %n: index) kernel {
    %i = gpu.global_id x
    %x = memref.load %a[%i] : memref<?xf32>
    %c1 = arith.constant 1 : i32
    %c32 = arith.constant 32 : i32
    %o, %p = gpu.shuffle xor %x, %c1, %c32 : f32
    memref.store %o, %out[%i] : memref<?xf32>
    gpu.return
  }
  gpu.func @atomic(%a: memref<?xf32>, %out: memref<?xf32>, %n: index) kernel {
    %i = gpu.global_id x
    %x = memref.load %a[%i] : memref<?xf32>
    %o = memref.atomic_rmw addf %x, %a[%n] : (f32, memref<?xf32>) -> f32
    memref.store %o, %out[%i] : memref<?xf32>
    gpu.return
  }
}

// CHECK: gpu.func @fills{{.*}}'first': 5, 'element_bytes': 4, 'written': True, 'filled': True
// CHECK: gpu.func @loads_it(
// CHECK-NOT: 'filled': True
// CHECK: gpu.func @gaps(
// CHECK-NOT: 'filled': True
// CHECK: gpu.func @shifted(
// CHECK-NOT: 'filled': True
// CHECK: gpu.func @backwards(
// CHECK-NOT: 'filled': True
// CHECK: gpu.func @same_place(
// CHECK-NOT: 'filled': True
// CHECK: gpu.func @sums_first(
// CHECK-NOT: 'filled': True
// CHECK: gpu.func @exchanges(
// CHECK-NOT: 'filled': True
// CHECK: gpu.func @atomic(
// CHECK-NOT: 'filled': True
