// memref.alloca: memory of a work-item: here the digits of a number, in reverse order.
// BREAK: s/arith.muli %sofar, %ten/arith.muli %sofar, %digit/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<32xi32>, %out: memref<32xi32>) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %i = gpu.thread_id x
      %ten = arith.constant 10 : i32
      %zero = arith.constant 0 : i32
      %digits = memref.alloca() : memref<4xi32>
      %number = memref.load %x[%i] : memref<32xi32>
      %rest = scf.for %place = %c0 to %c4 step %c1 iter_args(%left = %number) -> (i32) {
        %digit = arith.remsi %left, %ten : i32
        memref.store %digit, %digits[%place] : memref<4xi32>
        %next = arith.divsi %left, %ten : i32
        scf.yield %next : i32
      }
      %turned = scf.for %place = %c0 to %c4 step %c1 iter_args(%sofar = %zero) -> (i32) {
        %digit = memref.load %digits[%place] : memref<4xi32>
        %shifted = arith.muli %sofar, %ten : i32
        %next = arith.addi %shifted, %digit : i32
        scf.yield %next : i32
      }
      memref.store %turned, %out[%i] : memref<32xi32>
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
      %v = arith.muli %k, %k : i32
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
// CHECK-NEXT: [0, 1000, 4000, 9000, 6100, 5200, 6300, 9400, 4600, 1800, 10, 1210, 4410, 9610, 6910, 5220, 6520, 9820, 4230, 1630, 40, 1440, 4840, 9250, 6750, 5260, 6760, 9270, 4870, 1480, 90, 1690]
