// vector.print: prints a vector or a number on the host.
// BREAK: s/memref.load %x[%c3]/memref.load %x[%c4]/
// BREAK: /vector.print %some/d
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @double(%x: memref<16xi32>) kernel {
      %i = gpu.thread_id x
      %value = memref.load %x[%i] : memref<16xi32>
      %sum = arith.addi %value, %value : i32
      memref.store %sum, %x[%i] : memref<16xi32>
      gpu.return
    }
  }


  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %x = gpu.alloc host_shared () : memref<16xi32>
    scf.for %i = %c0 to %c16 step %c1 {
      %k = arith.index_cast %i : index to i32
      memref.store %k, %x[%i] : memref<16xi32>
    }
    gpu.launch_func @kernels::@double
        blocks in (%c1, %c1, %c1) threads in (%c16, %c1, %c1) args(%x : memref<16xi32>)
    %one = memref.load %x[%c3] : memref<16xi32>
    vector.print %one : i32
    %zero = arith.constant 0 : i32
    %some = vector.transfer_read %x[%c4], %zero : memref<16xi32>, vector<4xi32>
    vector.print %some : vector<4xi32>
    gpu.dealloc %x : memref<16xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: 6
// CHECK: ( 8, 10, 12, 14 )
