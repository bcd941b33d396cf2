// Two gpu.modules, compiled for different targets (see `modules:` in targets.yaml).
//
// @fill is plain and goes everywhere. @norm stands for a module whose author supports fewer devices:
// it is compiled for sm_60 and the CPU only. Its sm_60 image also carries PTX, which newer NVIDIA
// devices compile for themselves.
module attributes {gpu.container_module} {
  gpu.module @fill {
    // data[i] = (i mod 10) - 4
    gpu.func @pattern(%data: memref<?xf32>) kernel {
      %c0 = arith.constant 0 : index
      %n = memref.dim %data, %c0 : memref<?xf32>
      %i = gpu.global_id x
      %inside = arith.cmpi ult, %i, %n : index
      scf.if %inside {
        %c10 = arith.constant 10 : index
        %four = arith.constant 4.0 : f32
        %rest = arith.remui %i, %c10 : index
        %whole = arith.index_cast %rest : index to i32
        %value = arith.sitofp %whole : i32 to f32
        %shifted = arith.subf %value, %four : f32
        memref.store %shifted, %data[%i] : memref<?xf32>
      }
      gpu.return
    }
  }

  gpu.module @norm {
    // result[0] = sum of data[i]^2, by one workgroup.
    gpu.func @sum_of_squares(%data: memref<?xf32>, %result: memref<1xf32>) kernel {
      %c0 = arith.constant 0 : index
      %zero = arith.constant 0.0 : f32
      %n = memref.dim %data, %c0 : memref<?xf32>
      %item = gpu.thread_id x
      %items = gpu.block_dim x
      %mine = scf.for %i = %item to %n step %items iter_args(%acc = %zero) -> (f32) {
        %value = memref.load %data[%i] : memref<?xf32>
        %square = arith.mulf %value, %value : f32
        %next = arith.addf %acc, %square : f32
        scf.yield %next : f32
      }
      %all = gpu.all_reduce add %mine uniform {} : (f32) -> (f32)
      %is_first = arith.cmpi eq, %item, %c0 : index
      scf.if %is_first {
        memref.store %all, %result[%c0] : memref<1xf32>
      }
      gpu.return
    }
  }

  llvm.mlir.global internal constant @line("two_modules: %s (sum of squares %.0f)\0A\00")
  llvm.mlir.global internal constant @ok("OK\00")
  llvm.mlir.global internal constant @wrong("WRONG\00")
  llvm.func @printf(!llvm.ptr, ...) -> i32

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c128 = arith.constant 128 : index
    %c256 = arith.constant 256 : index
    %n = arith.constant 10000 : index
    %groups = arith.ceildivui %n, %c256 : index
    %host = memref.alloc() : memref<1xf32>

    %start = gpu.wait async
    %data, %t1 = gpu.alloc async [%start] (%n) : memref<?xf32>
    %result, %t2 = gpu.alloc async [%t1] () : memref<1xf32>
    %t3 = gpu.launch_func async [%t2] @fill::@pattern
        blocks in (%groups, %c1, %c1) threads in (%c256, %c1, %c1) args(%data : memref<?xf32>)
    %t4 = gpu.launch_func async [%t3] @norm::@sum_of_squares
        blocks in (%c1, %c1, %c1) threads in (%c128, %c1, %c1)
        args(%data : memref<?xf32>, %result : memref<1xf32>)
    %t5 = gpu.memcpy async [%t4] %host, %result : memref<1xf32>, memref<1xf32>
    %t6 = gpu.dealloc async [%t5] %data : memref<?xf32>
    %t7 = gpu.dealloc async [%t6] %result : memref<1xf32>
    gpu.wait [%t7]

    // A thousand times 16 + 9 + 4 + 1 + 0 + 1 + 4 + 9 + 16 + 25.
    %expected = arith.constant 85000.0 : f32
    %sum = memref.load %host[%c0] : memref<1xf32>
    %right = arith.cmpf oeq, %sum, %expected : f32
    %line = llvm.mlir.addressof @line : !llvm.ptr
    %ok = llvm.mlir.addressof @ok : !llvm.ptr
    %wrong = llvm.mlir.addressof @wrong : !llvm.ptr
    %verdict = arith.select %right, %ok, %wrong : !llvm.ptr
    %wide = arith.extf %sum : f32 to f64
    %printed = llvm.call @printf(%line, %verdict, %wide) vararg(!llvm.func<i32 (ptr, ...)>)
        : (!llvm.ptr, !llvm.ptr, f64) -> i32
    memref.dealloc %host : memref<1xf32>
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %code = arith.select %right, %zero, %one : i32
    return %code : i32
  }
}
