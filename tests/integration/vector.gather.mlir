// vector.gather: numbers at indices known at run time, selected by a mask.
// BREAK: s/[true, true, false, true]/[true, true, true, true]/
// BREAK: s/[%places]/[%others]/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<32xi32>, %order: memref<16xi32>, %out: memref<16xi32>) kernel {
      %c0 = arith.constant 0 : index
      %c4 = arith.constant 4 : index
      %t = gpu.thread_id x
      %first = arith.muli %t, %c4 : index
      %places = vector.load %order[%first] : memref<16xi32>, vector<4xi32>
      %others = vector.load %order[%c0] : memref<16xi32>, vector<4xi32>
      %mask = arith.constant dense<[true, true, false, true]> : vector<4xi1>
      %none = arith.constant dense<-1> : vector<4xi32>
      %got = vector.gather %x[%c0] [%places], %mask, %none
          : memref<32xi32>, vector<4xi32>, vector<4xi1>, vector<4xi32> into vector<4xi32>
      vector.store %got, %out[%first] : memref<16xi32>, vector<4xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %x = gpu.alloc host_shared () : memref<32xi32>
    %order = gpu.alloc host_shared () : memref<16xi32>
    %out = gpu.alloc host_shared () : memref<16xi32>
    scf.for %i = %c0 to %c32 step %c1 {
      %k = arith.index_cast %i : index to i32
      %v = arith.muli %k, %k : i32
      memref.store %v, %x[%i] : memref<32xi32>
    }
    scf.for %i = %c0 to %c16 step %c1 {
      %k = arith.index_cast %i : index to i32
      %thirteen = arith.constant 13 : i32
      %modulus = arith.constant 32 : i32
      %product = arith.muli %k, %thirteen : i32
      %v = arith.remsi %product, %modulus : i32
      memref.store %v, %order[%i] : memref<16xi32>
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c4, %c1, %c1)
        args(%x : memref<32xi32>, %order : memref<16xi32>, %out : memref<16xi32>)
    %print_out = memref.cast %out : memref<16xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<32xi32>
    gpu.dealloc %order : memref<16xi32>
    gpu.dealloc %out : memref<16xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [16] strides = [1] data =
// CHECK-NEXT: [0, 169, -1, 49, 400, 1, -1, 729, 64, 441, -1, 225, 784, 81, -1, 9]
