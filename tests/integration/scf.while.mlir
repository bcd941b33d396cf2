// scf.while: a loop until a condition fails, which work-items reach after different times: Euclid's
// greatest common divisor.
// BREAK: s/cmpi ne, %b, %zero/cmpi sgt, %b, %three/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<32xi32>, %out: memref<32xi32>) kernel {
      %i = gpu.thread_id x
      %x_i = memref.load %x[%i] : memref<32xi32>
      %zero = arith.constant 0 : i32
      %three = arith.constant 3 : i32
      %number = arith.constant 360360 : i32
      %r, %rest = scf.while (%a = %number, %b = %x_i) : (i32, i32) -> (i32, i32) {
        %go = arith.cmpi ne, %b, %zero : i32
        scf.condition(%go) %a, %b : i32, i32
      } do {
      ^body(%a: i32, %b: i32):
        %left = arith.remsi %a, %b : i32
        scf.yield %b, %left : i32, i32
      }
      memref.store %r, %out[%i] : memref<32xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %x = gpu.alloc host_shared () : memref<32xi32>
    %out = gpu.alloc host_shared () : memref<32xi32>
    scf.for %i = %c0 to %c32 step %c1 {
      %k = arith.index_cast %i : index to i32
      %hundred = arith.constant 100 : i32
      %v = arith.addi %k, %hundred : i32
      memref.store %v, %x[%i] : memref<32xi32>
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1)
        args(%x : memref<32xi32>, %out : memref<32xi32>)
    %print_out = memref.cast %out : memref<32xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<32xi32>
    gpu.dealloc %out : memref<32xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [32] strides = [1] data =
// CHECK-NEXT: [20, 1, 6, 1, 104, 105, 2, 1, 36, 1, 110, 3, 56, 1, 6, 5, 4, 117, 2, 7, 120, 11, 2, 3, 4, 5, 126, 1, 8, 3, 130, 1]
