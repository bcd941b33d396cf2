// gpu.alloc: memory of the device whose size is known at run time, and memory that host and device share.
// BREAK: s/(%rows, %columns)/(%columns, %rows)/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @count(%m: memref<?x?xi32>, %out: memref<?x?xi32>) kernel {
      %row = gpu.block_id x
      %column = gpu.thread_id x
      %columns = gpu.block_dim x
      %first = arith.muli %row, %columns : index
      %place = arith.addi %first, %column : index
      %value = arith.index_cast %place : index to i32
      memref.store %value, %m[%row, %column] : memref<?x?xi32>
      %again = memref.load %m[%row, %column] : memref<?x?xi32>
      memref.store %again, %out[%row, %column] : memref<?x?xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c1 = arith.constant 1 : index
    %c5 = arith.constant 5 : index
    %rows = arith.constant 3 : index
    %columns = arith.constant 5 : index
    %m = gpu.alloc (%c5, %c5) : memref<?x?xi32>
    %out = gpu.alloc host_shared (%rows, %columns) : memref<?x?xi32>
    gpu.launch_func @kernels::@count blocks in (%rows, %c1, %c1) threads in (%columns, %c1, %c1)
        args(%m : memref<?x?xi32>, %out : memref<?x?xi32>)
    %print_out = memref.cast %out : memref<?x?xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %m : memref<?x?xi32>
    gpu.dealloc %out : memref<?x?xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [3, 5] strides = [5, 1] data =
// CHECK-NEXT: {{\[\[}}0, 1, 2, 3, 4],
// CHECK-NEXT: [5, 6, 7, 8, 9],
// CHECK-NEXT: [10, 11, 12, 13, 14]]
