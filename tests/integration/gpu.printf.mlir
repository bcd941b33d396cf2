// gpu.printf: prints from a kernel, to the program's standard output. Lines of different work-items come
// in any order.
// BREAK: s/%as_float, %half/%half, %as_float/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel() kernel {
      %i = gpu.thread_id x
      %number = arith.index_cast %i : index to i32
      %two = arith.constant 2 : i32
      %double = arith.muli %number, %two : i32
      %wide = arith.sitofp %number : i32 to f64
      %factor = arith.constant 0.5 : f64
      %half = arith.mulf %wide, %factor : f64
      %as_float = arith.sitofp %double : i32 to f64
      gpu.printf "work-item %d: twice %.1f, half %.2f\0A", %number, %as_float, %half : i32, f64, f64
      gpu.return
    }
  }

  func.func @main() -> i32 {
    %c1 = arith.constant 1 : index
    %c5 = arith.constant 5 : index
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c5, %c1, %c1)
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK-DAG: work-item 0: twice 0.0, half 0.00
// CHECK-DAG: work-item 1: twice 2.0, half 0.50
// CHECK-DAG: work-item 2: twice 4.0, half 1.00
// CHECK-DAG: work-item 3: twice 6.0, half 1.50
// CHECK-DAG: work-item 4: twice 8.0, half 2.00
