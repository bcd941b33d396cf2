// gpu.launch: an inline kernel; the host values that it uses become its arguments.
// BREAK: s/threads(%tx, %ty, %tz)/threads(%ty, %tx, %tz)/
// BREAK: s/%scale = arith.constant 0.25/%scale = arith.constant 0.5/
module attributes {gpu.container_module} {
  func.func private @printMemrefF32(memref<*xf32>)

  func.func @main() -> i32 {
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c8 = arith.constant 8 : index
    %c10 = arith.constant 10 : index
    %scale = arith.constant 0.25 : f32
    %offset = memref.alloca() : memref<f32>
    %hundred = arith.constant 100.0 : f32
    memref.store %hundred, %offset[] : memref<f32>
    %start = memref.load %offset[] : memref<f32>
    %x = gpu.alloc host_shared () : memref<3x8xf32>
    gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c3, %gz = %c1)
               threads(%tx, %ty, %tz) in (%sx = %c8, %sy = %c1, %sz = %c1) {
      %tens = arith.muli %by, %c10 : index
      %place = arith.addi %tens, %tx : index
      %number = arith.index_cast %place : index to i32
      %float = arith.sitofp %number : i32 to f32
      %scaled = arith.mulf %float, %scale : f32
      %sum = arith.addf %scaled, %start : f32
      memref.store %sum, %x[%by, %tx] : memref<3x8xf32>
      gpu.terminator
    }
    %print_x = memref.cast %x : memref<3x8xf32> to memref<*xf32>
    call @printMemrefF32(%print_x) : (memref<*xf32>) -> ()
    gpu.dealloc %x : memref<3x8xf32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [3, 8] strides = [8, 1] data =
// CHECK-NEXT: {{\[\[}}100, 100.25, 100.5, 100.75, 101, 101.25, 101.5, 101.75],
// CHECK-NEXT: [102.5, 102.75, 103, 103.25, 103.5, 103.75, 104, 104.25],
// CHECK-NEXT: [105, 105.25, 105.5, 105.75, 106, 106.25, 106.5, 106.75]]
