// Which number below 100000 has the longest Collatz sequence (n -> n/2, or 3n + 1 when odd)?
//
// The kernel stands inline in the host function, as gpu.launch; gpubuild outlines it into a
// gpu.module of its own. Work-items take very different numbers of steps and agree on the winner
// through one atomic maximum of (steps << 32) + start.
module {
  llvm.mlir.global internal constant @line("collatz: %s (%ld takes %ld steps)\0A\00")
  llvm.mlir.global internal constant @ok("OK\00")
  llvm.mlir.global internal constant @wrong("WRONG\00")
  llvm.func @printf(!llvm.ptr, ...) -> i32

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c256 = arith.constant 256 : index
    %limit = arith.constant 100000 : index
    %groups = arith.ceildivui %limit, %c256 : index
    %zero = arith.constant 0 : i64
    %bits = arith.constant 32 : i64

    %host = memref.alloc() : memref<1xi64>
    memref.store %zero, %host[%c0] : memref<1xi64>
    %start = gpu.wait async
    %best, %t1 = gpu.alloc async [%start] () : memref<1xi64>
    %t2 = gpu.memcpy async [%t1] %best, %host : memref<1xi64>, memref<1xi64>

    %t3 = gpu.launch async [%t2]
        blocks(%bx, %by, %bz) in (%gx = %groups, %gy = %c1, %gz = %c1)
        threads(%tx, %ty, %tz) in (%lx = %c256, %ly = %c1, %lz = %c1) {
      %base = arith.muli %bx, %lx : index
      %number = arith.addi %base, %tx : index
      %not_zero = arith.cmpi ne, %number, %c0 : index
      %below = arith.cmpi ult, %number, %limit : index
      %counts = arith.andi %not_zero, %below : i1
      scf.if %counts {
        %one = arith.constant 1 : i64
        %three = arith.constant 3 : i64
        %first = arith.index_cast %number : index to i64
        %end, %steps = scf.while (%n = %first, %s = %zero) : (i64, i64) -> (i64, i64) {
          %more = arith.cmpi ugt, %n, %one : i64
          scf.condition(%more) %n, %s : i64, i64
        } do {
        ^next(%n: i64, %s: i64):
          %half = arith.shrui %n, %one : i64
          %tripled = arith.muli %n, %three : i64
          %up = arith.addi %tripled, %one : i64
          %low_bit = arith.andi %n, %one : i64
          %odd = arith.cmpi eq, %low_bit, %one : i64
          %following = arith.select %odd, %up, %half : i64
          %taken = arith.addi %s, %one : i64
          scf.yield %following, %taken : i64, i64
        }
        %high = arith.shli %steps, %bits : i64
        %key = arith.ori %high, %first : i64
        %old = memref.atomic_rmw maxu %key, %best[%c0] : (i64, memref<1xi64>) -> i64
      }
      gpu.terminator
    }

    %t4 = gpu.memcpy async [%t3] %host, %best : memref<1xi64>, memref<1xi64>
    %t5 = gpu.dealloc async [%t4] %best : memref<1xi64>
    gpu.wait [%t5]

    // Known: 77031 takes 350 steps, more than any other number below 100000.
    %key = memref.load %host[%c0] : memref<1xi64>
    %steps = arith.shrui %key, %bits : i64
    %mask = arith.constant 0xffffffff : i64
    %number = arith.andi %key, %mask : i64
    %known_number = arith.constant 77031 : i64
    %known_steps = arith.constant 350 : i64
    %number_right = arith.cmpi eq, %number, %known_number : i64
    %steps_right = arith.cmpi eq, %steps, %known_steps : i64
    %right = arith.andi %number_right, %steps_right : i1
    %line = llvm.mlir.addressof @line : !llvm.ptr
    %ok = llvm.mlir.addressof @ok : !llvm.ptr
    %wrong = llvm.mlir.addressof @wrong : !llvm.ptr
    %verdict = arith.select %right, %ok, %wrong : !llvm.ptr
    %printed = llvm.call @printf(%line, %verdict, %number, %steps)
        vararg(!llvm.func<i32 (ptr, ...)>) : (!llvm.ptr, !llvm.ptr, i64, i64) -> i32
    memref.dealloc %host : memref<1xi64>
    %success = arith.constant 0 : i32
    %failure = arith.constant 1 : i32
    %code = arith.select %right, %success, %failure : i32
    return %code : i32
  }
}
