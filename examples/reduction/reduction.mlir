// Sum and maximum of 100000 numbers with gpu.all_reduce.
//
// A workgroup strides over the input, each work-item keeps its own partial result, all_reduce
// combines those of the workgroup. Launched twice: 64 workgroups leave 64 partial results, one
// workgroup reduces these to the answer.
module attributes {gpu.container_module} {
  gpu.module @reduction_kernels {
    gpu.func @sum(%input: memref<?xi32>, %output: memref<?xi32>) kernel {
      %c0 = arith.constant 0 : index
      %zero = arith.constant 0 : i32
      %n = memref.dim %input, %c0 : memref<?xi32>
      %first = gpu.global_id x
      %group_size = gpu.block_dim x
      %groups = gpu.grid_dim x
      %stride = arith.muli %group_size, %groups : index
      %mine = scf.for %i = %first to %n step %stride iter_args(%acc = %zero) -> (i32) {
        %value = memref.load %input[%i] : memref<?xi32>
        %next = arith.addi %acc, %value : i32
        scf.yield %next : i32
      }
      %all = gpu.all_reduce add %mine uniform {} : (i32) -> (i32)
      %item = gpu.thread_id x
      %is_first = arith.cmpi eq, %item, %c0 : index
      scf.if %is_first {
        %group = gpu.block_id x
        memref.store %all, %output[%group] : memref<?xi32>
      }
      gpu.return
    }

    // The same with an operation of one's own: any associative one may stand in the region.
    gpu.func @max(%input: memref<?xi32>, %output: memref<?xi32>) kernel {
      %c0 = arith.constant 0 : index
      %least = arith.constant -2147483648 : i32
      %n = memref.dim %input, %c0 : memref<?xi32>
      %first = gpu.global_id x
      %group_size = gpu.block_dim x
      %groups = gpu.grid_dim x
      %stride = arith.muli %group_size, %groups : index
      %mine = scf.for %i = %first to %n step %stride iter_args(%acc = %least) -> (i32) {
        %value = memref.load %input[%i] : memref<?xi32>
        %next = arith.maxsi %acc, %value : i32
        scf.yield %next : i32
      }
      %all = gpu.all_reduce %mine uniform {
      ^combine(%a: i32, %b: i32):
        %larger = arith.maxsi %a, %b : i32
        gpu.yield %larger : i32
      } : (i32) -> (i32)
      %item = gpu.thread_id x
      %is_first = arith.cmpi eq, %item, %c0 : index
      scf.if %is_first {
        %group = gpu.block_id x
        memref.store %all, %output[%group] : memref<?xi32>
      }
      gpu.return
    }
  }

  llvm.mlir.global internal constant @line("reduction: %s (sum %d, max %d)\0A\00")
  llvm.mlir.global internal constant @ok("OK\00")
  llvm.mlir.global internal constant @wrong("WRONG\00")
  llvm.func @printf(!llvm.ptr, ...) -> i32

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c64 = arith.constant 64 : index
    %c256 = arith.constant 256 : index
    %n = arith.constant 100000 : index

    // input[i] = (i * 7919) mod 10007
    %input = memref.alloc(%n) : memref<?xi32>
    scf.for %i = %c0 to %n step %c1 {
      %factor = arith.constant 7919 : index
      %modulus = arith.constant 10007 : index
      %product = arith.muli %i, %factor : index
      %rest = arith.remui %product, %modulus : index
      %value = arith.index_cast %rest : index to i32
      memref.store %value, %input[%i] : memref<?xi32>
    }

    %results = memref.alloc(%c1) : memref<?xi32>
    %start = gpu.wait async
    %data, %t1 = gpu.alloc async [%start] (%n) : memref<?xi32>
    %partial, %t2 = gpu.alloc async [%t1] (%c64) : memref<?xi32>
    %answer, %t3 = gpu.alloc async [%t2] (%c1) : memref<?xi32>
    %t4 = gpu.memcpy async [%t3] %data, %input : memref<?xi32>, memref<?xi32>

    %t5 = gpu.launch_func async [%t4] @reduction_kernels::@sum
        blocks in (%c64, %c1, %c1) threads in (%c256, %c1, %c1)
        args(%data : memref<?xi32>, %partial : memref<?xi32>)
    %t6 = gpu.launch_func async [%t5] @reduction_kernels::@sum
        blocks in (%c1, %c1, %c1) threads in (%c64, %c1, %c1)
        args(%partial : memref<?xi32>, %answer : memref<?xi32>)
    %t7 = gpu.memcpy async [%t6] %results, %answer : memref<?xi32>, memref<?xi32>
    gpu.wait [%t7]
    %sum = memref.load %results[%c0] : memref<?xi32>

    %again = gpu.wait async
    %t8 = gpu.launch_func async [%again] @reduction_kernels::@max
        blocks in (%c64, %c1, %c1) threads in (%c256, %c1, %c1)
        args(%data : memref<?xi32>, %partial : memref<?xi32>)
    %t9 = gpu.launch_func async [%t8] @reduction_kernels::@max
        blocks in (%c1, %c1, %c1) threads in (%c64, %c1, %c1)
        args(%partial : memref<?xi32>, %answer : memref<?xi32>)
    %t10 = gpu.memcpy async [%t9] %results, %answer : memref<?xi32>, memref<?xi32>
    %t11 = gpu.dealloc async [%t10] %data : memref<?xi32>
    %t12 = gpu.dealloc async [%t11] %partial : memref<?xi32>
    %t13 = gpu.dealloc async [%t12] %answer : memref<?xi32>
    gpu.wait [%t13]
    %max = memref.load %results[%c0] : memref<?xi32>

    // The same on the host.
    %zero = arith.constant 0 : i32
    %expected_sum, %expected_max = scf.for %i = %c0 to %n step %c1
        iter_args(%s = %zero, %m = %zero) -> (i32, i32) {
      %value = memref.load %input[%i] : memref<?xi32>
      %next_sum = arith.addi %s, %value : i32
      %next_max = arith.maxsi %m, %value : i32
      scf.yield %next_sum, %next_max : i32, i32
    }
    %sum_right = arith.cmpi eq, %sum, %expected_sum : i32
    %max_right = arith.cmpi eq, %max, %expected_max : i32
    %right = arith.andi %sum_right, %max_right : i1

    %line = llvm.mlir.addressof @line : !llvm.ptr
    %ok = llvm.mlir.addressof @ok : !llvm.ptr
    %wrong = llvm.mlir.addressof @wrong : !llvm.ptr
    %verdict = arith.select %right, %ok, %wrong : !llvm.ptr
    %printed = llvm.call @printf(%line, %verdict, %sum, %max) vararg(!llvm.func<i32 (ptr, ...)>)
        : (!llvm.ptr, !llvm.ptr, i32, i32) -> i32
    memref.dealloc %input : memref<?xi32>
    memref.dealloc %results : memref<?xi32>
    %one = arith.constant 1 : i32
    %code = arith.select %right, %zero, %one : i32
    return %code : i32
  }
}
