// gpu.warp_execute_on_lane_0: prefix sums by the first work-item of a subgroup.
// BREAK: s/%lane = gpu.lane_id/%lane = arith.constant 1 : index/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%out: memref<32xi32>) kernel {
      %i = gpu.thread_id x
      %lane = gpu.lane_id
      %number = arith.index_cast %i : index to i32
      %own = vector.broadcast %number : i32 to vector<1xi32>
      %part = gpu.warp_execute_on_lane_0(%lane)[32] args(%own : vector<1xi32>) -> (vector<1xi32>) {
      ^bb0(%all: vector<32xi32>):
        %zero = arith.constant dense<0> : vector<i32>
        %sums:2 = vector.scan <add>, %all, %zero {inclusive = true, reduction_dim = 0 : i64}
            : vector<32xi32>, vector<i32>
        gpu.yield %sums#0 : vector<32xi32>
      }
      vector.store %part, %out[%i] : memref<32xi32>, vector<1xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %out = gpu.alloc host_shared () : memref<32xi32>
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1)
        args(%out : memref<32xi32>)
    %print_out = memref.cast %out : memref<32xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %out : memref<32xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [32] strides = [1] data =
// CHECK-NEXT: [0, 1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 66, 78, 91, 105, 120, 136, 153, 171, 190, 210, 231, 253, 276, 300, 325, 351, 378, 406, 435, 465, 496]
