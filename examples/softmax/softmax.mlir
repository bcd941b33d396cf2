// Softmax of each row of a matrix: exp(x - max) / sum(exp(x - max)).
//
// One workgroup per row. math.exp becomes a call into the target's mathematics library: libdevice
// for NVIDIA, ocml for AMD.
module attributes {gpu.container_module} {
  gpu.module @softmax_kernels {
    gpu.func @softmax(%input: memref<?x?xf32>, %output: memref<?x?xf32>) kernel {
      %c1 = arith.constant 1 : index
      %zero = arith.constant 0.0 : f32
      %least = arith.constant 0xFF800000 : f32  // minus infinity
      %columns = memref.dim %input, %c1 : memref<?x?xf32>
      %row = gpu.block_id x
      %item = gpu.thread_id x
      %items = gpu.block_dim x

      %my_max = scf.for %j = %item to %columns step %items iter_args(%m = %least) -> (f32) {
        %x = memref.load %input[%row, %j] : memref<?x?xf32>
        %next = arith.maximumf %m, %x : f32
        scf.yield %next : f32
      }
      %max = gpu.all_reduce maximumf %my_max uniform {} : (f32) -> (f32)

      %my_sum = scf.for %j = %item to %columns step %items iter_args(%s = %zero) -> (f32) {
        %x = memref.load %input[%row, %j] : memref<?x?xf32>
        %shifted = arith.subf %x, %max : f32
        %e = math.exp %shifted : f32
        memref.store %e, %output[%row, %j] : memref<?x?xf32>
        %next = arith.addf %s, %e : f32
        scf.yield %next : f32
      }
      %sum = gpu.all_reduce add %my_sum uniform {} : (f32) -> (f32)

      scf.for %j = %item to %columns step %items {
        %e = memref.load %output[%row, %j] : memref<?x?xf32>
        %p = arith.divf %e, %sum : f32
        memref.store %p, %output[%row, %j] : memref<?x?xf32>
      }
      gpu.return
    }
  }

  // Called from main.c as _mlir_ciface_softmax.
  func.func @softmax(%input: memref<?x?xf32>, %output: memref<?x?xf32>)
      attributes {llvm.emit_c_interface} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c128 = arith.constant 128 : index
    %rows = memref.dim %input, %c0 : memref<?x?xf32>
    %columns = memref.dim %input, %c1 : memref<?x?xf32>
    %start = gpu.wait async
    %in, %t1 = gpu.alloc async [%start] (%rows, %columns) : memref<?x?xf32>
    %out, %t2 = gpu.alloc async [%t1] (%rows, %columns) : memref<?x?xf32>
    %t3 = gpu.memcpy async [%t2] %in, %input : memref<?x?xf32>, memref<?x?xf32>
    %t4 = gpu.launch_func async [%t3] @softmax_kernels::@softmax
        blocks in (%rows, %c1, %c1) threads in (%c128, %c1, %c1)
        args(%in : memref<?x?xf32>, %out : memref<?x?xf32>)
    %t5 = gpu.memcpy async [%t4] %output, %out : memref<?x?xf32>, memref<?x?xf32>
    %t6 = gpu.dealloc async [%t5] %in : memref<?x?xf32>
    %t7 = gpu.dealloc async [%t6] %out : memref<?x?xf32>
    gpu.wait [%t7]
    return
  }
}
