// The Mandelbrot set as text, from an scf.parallel loop: no kernel is written down here.
//
// `passes: {source: …}` in targets.yaml maps the loop to the gpu dialect before gpubuild splits off
// the kernel. Numbers are fixed-point with 24 fractional bits, so that every device draws exactly
// the same picture.
!picture = memref<24x72xi32>

module {
  llvm.mlir.global internal constant @line("mandelbrot: %s (%d points inside)\0A\00")
  llvm.mlir.global internal constant @ok("OK\00")
  llvm.mlir.global internal constant @wrong("WRONG\00")
  llvm.func @printf(!llvm.ptr, ...) -> i32
  llvm.func @putchar(i32) -> i32

  // How many steps the point (column, row) takes to leave the circle of radius 2, at most 96.
  // Called by the kernel and, to check it, by the host.
  func.func private @escape_time(%row: index, %column: index) -> i32 {
    // x from -2.25 in steps of 3/72, y from -1.25 in steps of 2.5/24
    %x0 = arith.constant -37748736 : i64
    %y0 = arith.constant -20971520 : i64
    %dx = arith.constant 699051 : i64
    %dy = arith.constant 1747627 : i64
    %column_number = arith.index_cast %column : index to i64
    %row_number = arith.index_cast %row : index to i64
    %x_steps = arith.muli %column_number, %dx : i64
    %y_steps = arith.muli %row_number, %dy : i64
    %cx = arith.addi %x0, %x_steps : i64
    %cy = arith.addi %y0, %y_steps : i64

    %zero = arith.constant 0 : i64
    %start = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %limit = arith.constant 96 : i32
    %radius = arith.constant 67108864 : i64  // 4.0
    %point = arith.constant 24 : i64
    %doubling = arith.constant 23 : i64
    %fx, %fy, %steps = scf.while (%x = %zero, %y = %zero, %n = %start)
        : (i64, i64, i32) -> (i64, i64, i32) {
      %xx = arith.muli %x, %x : i64
      %yy = arith.muli %y, %y : i64
      %both = arith.addi %xx, %yy : i64
      %distance = arith.shrsi %both, %point : i64
      %near = arith.cmpi sle, %distance, %radius : i64
      %early = arith.cmpi slt, %n, %limit : i32
      %go_on = arith.andi %near, %early : i1
      scf.condition(%go_on) %x, %y, %n : i64, i64, i32
    } do {
    ^step(%x: i64, %y: i64, %n: i32):
      %xx = arith.muli %x, %x : i64
      %yy = arith.muli %y, %y : i64
      %xy = arith.muli %x, %y : i64
      %difference = arith.subi %xx, %yy : i64
      %real = arith.shrsi %difference, %point : i64
      %imaginary = arith.shrsi %xy, %doubling : i64
      %next_x = arith.addi %real, %cx : i64
      %next_y = arith.addi %imaginary, %cy : i64
      %next_n = arith.addi %n, %one : i32
      scf.yield %next_x, %next_y, %next_n : i64, i64, i32
    }
    return %steps : i32
  }

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %rows = arith.constant 24 : index
    %columns = arith.constant 72 : index
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %limit = arith.constant 96 : i32

    %device = gpu.alloc () : !picture
    scf.parallel (%row, %column) = (%c0, %c0) to (%rows, %columns) step (%c1, %c1) {
      %steps = func.call @escape_time(%row, %column) : (index, index) -> i32
      memref.store %steps, %device[%row, %column] : !picture
      scf.reduce
    }
    %picture = memref.alloc() : !picture
    gpu.memcpy %picture, %device : !picture, !picture
    gpu.dealloc %device : !picture

    // Inside '#'; outside '.', ':', '+' by the steps taken.
    %newline = arith.constant 10 : i32
    %inside, %errors = scf.for %row = %c0 to %rows step %c1
        iter_args(%count = %zero, %bad = %zero) -> (i32, i32) {
      %row_count, %row_bad = scf.for %column = %c0 to %columns step %c1
          iter_args(%row_count = %count, %row_bad = %bad) -> (i32, i32) {
        %steps = memref.load %picture[%row, %column] : !picture
        %expected = func.call @escape_time(%row, %column) : (index, index) -> i32
        %differs = arith.cmpi ne, %steps, %expected : i32
        %more_bad = arith.extui %differs : i1 to i32
        %next_bad = arith.addi %row_bad, %more_bad : i32
        %in = arith.cmpi eq, %steps, %limit : i32
        %more = arith.extui %in : i1 to i32
        %next_count = arith.addi %row_count, %more : i32

        %four = arith.constant 4 : i32
        %ten = arith.constant 10 : i32
        %dot = arith.constant 46 : i32
        %colon = arith.constant 58 : i32
        %plus = arith.constant 43 : i32
        %hash = arith.constant 35 : i32
        %soon = arith.cmpi ult, %steps, %four : i32
        %later = arith.cmpi ult, %steps, %ten : i32
        %far_shade = arith.select %later, %colon, %plus : i32
        %outside_shade = arith.select %soon, %dot, %far_shade : i32
        %shade = arith.select %in, %hash, %outside_shade : i32
        %p = llvm.call @putchar(%shade) : (i32) -> i32
        scf.yield %next_count, %next_bad : i32, i32
      }
      %p = llvm.call @putchar(%newline) : (i32) -> i32
      scf.yield %row_count, %row_bad : i32, i32
    }

    %right = arith.cmpi eq, %errors, %zero : i32
    %line = llvm.mlir.addressof @line : !llvm.ptr
    %ok = llvm.mlir.addressof @ok : !llvm.ptr
    %wrong = llvm.mlir.addressof @wrong : !llvm.ptr
    %verdict = arith.select %right, %ok, %wrong : !llvm.ptr
    %printed = llvm.call @printf(%line, %verdict, %inside) vararg(!llvm.func<i32 (ptr, ...)>)
        : (!llvm.ptr, !llvm.ptr, i32) -> i32
    memref.dealloc %picture : !picture
    %code = arith.select %right, %zero, %one : i32
    return %code : i32
  }
}
