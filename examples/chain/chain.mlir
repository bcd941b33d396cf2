// Copy, compute and copy back as a graph of asynchronous operations.
//
// Two halves of the data travel in two chains of tokens that do not wait for each other, so that a
// device may copy one half while it computes on the other. A third chain begins where both end.
//
//   start ─ alloc, copy in, square ─┐
//   start ─ alloc, copy in, square ─┴─ add ─ copy out
!half = memref<4096xi32>

module attributes {gpu.container_module} {
  gpu.module @chain_kernels {
    gpu.func @square(%data: !half) kernel {
      %i = gpu.global_id x
      %value = memref.load %data[%i] : !half
      %square = arith.muli %value, %value : i32
      memref.store %square, %data[%i] : !half
      gpu.return
    }
    gpu.func @add(%left: !half, %right: !half) kernel {
      %i = gpu.global_id x
      %a = memref.load %left[%i] : !half
      %b = memref.load %right[%i] : !half
      %sum = arith.addi %a, %b : i32
      memref.store %sum, %left[%i] : !half
      gpu.return
    }
  }

  llvm.mlir.global internal constant @line("chain: %s (%d wrong elements)\0A\00")
  llvm.mlir.global internal constant @ok("OK\00")
  llvm.mlir.global internal constant @wrong("WRONG\00")
  llvm.func @printf(!llvm.ptr, ...) -> i32

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %c128 = arith.constant 128 : index
    %n = arith.constant 4096 : index
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %three = arith.constant 3 : i32

    // left[i] = i mod 1000, right[i] = 3 * left[i]
    %left = memref.alloc() : !half
    %right = memref.alloc() : !half
    scf.for %i = %c0 to %n step %c1 {
      %c1000 = arith.constant 1000 : index
      %rest = arith.remui %i, %c1000 : index
      %value = arith.index_cast %rest : index to i32
      %triple = arith.muli %value, %three : i32
      memref.store %value, %left[%i] : !half
      memref.store %triple, %right[%i] : !half
    }

    %start_left = gpu.wait async
    %dl, %l1 = gpu.alloc async [%start_left] () : !half
    %l2 = gpu.memcpy async [%l1] %dl, %left : !half, !half
    %l3 = gpu.launch_func async [%l2] @chain_kernels::@square
        blocks in (%c32, %c1, %c1) threads in (%c128, %c1, %c1) args(%dl : !half)

    %start_right = gpu.wait async
    %dr, %r1 = gpu.alloc async [%start_right] () : !half
    %r2 = gpu.memcpy async [%r1] %dr, %right : !half, !half
    %r3 = gpu.launch_func async [%r2] @chain_kernels::@square
        blocks in (%c32, %c1, %c1) threads in (%c128, %c1, %c1) args(%dr : !half)

    %both = gpu.wait async [%l3, %r3]
    %t1 = gpu.launch_func async [%both] @chain_kernels::@add
        blocks in (%c32, %c1, %c1) threads in (%c128, %c1, %c1) args(%dl : !half, %dr : !half)
    %t2 = gpu.memcpy async [%t1] %left, %dl : !half, !half
    %t3 = gpu.dealloc async [%t2] %dl : !half
    %t4 = gpu.dealloc async [%t3] %dr : !half
    gpu.wait [%t4]

    // v^2 + (3v)^2 = 10 v^2
    %count = scf.for %i = %c0 to %n step %c1 iter_args(%wrong = %zero) -> (i32) {
      %c1000 = arith.constant 1000 : index
      %ten = arith.constant 10 : i32
      %rest = arith.remui %i, %c1000 : index
      %value = arith.index_cast %rest : index to i32
      %square = arith.muli %value, %value : i32
      %expected = arith.muli %square, %ten : i32
      %got = memref.load %left[%i] : !half
      %bad = arith.cmpi ne, %got, %expected : i32
      %add = arith.extui %bad : i1 to i32
      %next = arith.addi %wrong, %add : i32
      scf.yield %next : i32
    }
    %right_result = arith.cmpi eq, %count, %zero : i32
    %line = llvm.mlir.addressof @line : !llvm.ptr
    %ok = llvm.mlir.addressof @ok : !llvm.ptr
    %wrong = llvm.mlir.addressof @wrong : !llvm.ptr
    %verdict = arith.select %right_result, %ok, %wrong : !llvm.ptr
    %printed = llvm.call @printf(%line, %verdict, %count) vararg(!llvm.func<i32 (ptr, ...)>)
        : (!llvm.ptr, !llvm.ptr, i32) -> i32
    memref.dealloc %left : !half
    memref.dealloc %right : !half
    %code = arith.select %right_result, %zero, %one : i32
    return %code : i32
  }
}
