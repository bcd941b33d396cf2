// Counts 100000 values into 16 bins with atomic additions.
//
// Each workgroup counts in workgroup memory first, where atomics are cheap, then adds its 16
// counters to the global ones.
!values = memref<?xi32>
!bins = memref<16xi32>
!local = memref<16xi32, #gpu.address_space<workgroup>>

module attributes {gpu.container_module} {
  gpu.module @histogram_kernels {
    gpu.func @histogram(%values: !values, %bins: !bins) workgroup(%local: !local) kernel {
      %c0 = arith.constant 0 : index
      %c16 = arith.constant 16 : index
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %item = gpu.thread_id x
      %owns_bin = arith.cmpi ult, %item, %c16 : index
      scf.if %owns_bin {
        memref.store %zero, %local[%item] : !local
      }
      gpu.barrier

      %n = memref.dim %values, %c0 : !values
      %first = gpu.global_id x
      %group_size = gpu.block_dim x
      %groups = gpu.grid_dim x
      %stride = arith.muli %group_size, %groups : index
      scf.for %i = %first to %n step %stride {
        %value = memref.load %values[%i] : !values
        %sixteen = arith.constant 16 : i32
        %rest = arith.remui %value, %sixteen : i32
        %bin = arith.index_castui %rest : i32 to index
        %old = memref.atomic_rmw addi %one, %local[%bin] : (i32, !local) -> i32
      }
      gpu.barrier

      scf.if %owns_bin {
        %count = memref.load %local[%item] : !local
        %old = memref.atomic_rmw addi %count, %bins[%item] : (i32, !bins) -> i32
      }
      gpu.return
    }
  }

  llvm.mlir.global internal constant @line("histogram: %s (%d values)\0A\00")
  llvm.mlir.global internal constant @ok("OK\00")
  llvm.mlir.global internal constant @wrong("WRONG\00")
  llvm.func @printf(!llvm.ptr, ...) -> i32
  llvm.mlir.global internal constant @bin("%2d: %d\0A\00")

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c128 = arith.constant 128 : index
    %n = arith.constant 100000 : index
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32

    // Values from a linear congruential generator, counted on the host as they are made.
    %values = memref.alloc(%n) : !values
    %expected = memref.alloc() : !bins
    scf.for %b = %c0 to %c16 step %c1 {
      memref.store %zero, %expected[%b] : !bins
    }
    %seed = arith.constant 12345 : i32
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%state = %seed) -> (i32) {
      %a = arith.constant 1103515245 : i32
      %c = arith.constant 12345 : i32
      %product = arith.muli %state, %a : i32
      %next = arith.addi %product, %c : i32
      // The high bits are the random ones; squaring makes the bins uneven.
      %shift = arith.constant 24 : i32
      %high = arith.shrui %next, %shift : i32
      %square = arith.muli %high, %high : i32
      %twelve = arith.constant 12 : i32
      %value = arith.shrui %square, %twelve : i32
      memref.store %value, %values[%i] : !values
      %b = arith.index_castui %value : i32 to index
      %count = memref.load %expected[%b] : !bins
      %more = arith.addi %count, %one : i32
      memref.store %more, %expected[%b] : !bins
      scf.yield %next : i32
    }

    %bins = memref.alloc() : !bins
    %start = gpu.wait async
    %device_values, %t1 = gpu.alloc async [%start] (%n) : !values
    %device_bins, %t2 = gpu.alloc async [%t1] () : !bins
    %t3 = gpu.memcpy async [%t2] %device_values, %values : !values, !values
    %t4 = gpu.memset async [%t3] %device_bins, %zero : !bins, i32
    %t5 = gpu.launch_func async [%t4] @histogram_kernels::@histogram
        blocks in (%c8, %c1, %c1) threads in (%c128, %c1, %c1)
        args(%device_values : !values, %device_bins : !bins)
    %t6 = gpu.memcpy async [%t5] %bins, %device_bins : !bins, !bins
    %t7 = gpu.dealloc async [%t6] %device_values : !values
    %t8 = gpu.dealloc async [%t7] %device_bins : !bins
    gpu.wait [%t8]

    %true = arith.constant true
    %bin_format = llvm.mlir.addressof @bin : !llvm.ptr
    %right = scf.for %b = %c0 to %c16 step %c1 iter_args(%so_far = %true) -> (i1) {
      %count = memref.load %bins[%b] : !bins
      %wanted = memref.load %expected[%b] : !bins
      %number = arith.index_cast %b : index to i32
      %p = llvm.call @printf(%bin_format, %number, %count) vararg(!llvm.func<i32 (ptr, ...)>)
          : (!llvm.ptr, i32, i32) -> i32
      %same = arith.cmpi eq, %count, %wanted : i32
      %next = arith.andi %so_far, %same : i1
      scf.yield %next : i1
    }

    %line = llvm.mlir.addressof @line : !llvm.ptr
    %ok = llvm.mlir.addressof @ok : !llvm.ptr
    %wrong = llvm.mlir.addressof @wrong : !llvm.ptr
    %verdict = arith.select %right, %ok, %wrong : !llvm.ptr
    %total = arith.index_cast %n : index to i32
    %printed = llvm.call @printf(%line, %verdict, %total) vararg(!llvm.func<i32 (ptr, ...)>)
        : (!llvm.ptr, !llvm.ptr, i32) -> i32
    memref.dealloc %values : !values
    memref.dealloc %expected : !bins
    memref.dealloc %bins : !bins
    %code = arith.select %right, %zero, %one : i32
    return %code : i32
  }
}
