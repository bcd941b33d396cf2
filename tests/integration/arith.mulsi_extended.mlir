// arith.mulsi_extended: the lower and the upper half of a product.
// BREAK: s/arith.mulsi_extended/arith.mului_extended/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<32xi32>, %out: memref<32xi32>) kernel {
      %i = gpu.thread_id x
      %x_i = memref.load %x[%i] : memref<32xi32>
      %large = arith.constant -1000000007 : i32
      %low, %high = arith.mulsi_extended %x_i, %large : i32
      %r = arith.xori %low, %high : i32
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
// CHECK-NEXT: [0, 1000000006, -294967269, 410065468, -1179869076, -769803605, 1640261875, 1755360093, -424509007, -604378076, 1215752876, 740916562, -2028887090, 1496276665, -1568494218, 1661702162, -1698036028, 1237193125, 1877454992, 222749578, 568044210, -1381628312, -1331301045, 719026189, 474386233, -2065220729, 1690139366, -1144435385, -1979009575, -813584323, -1943125942, -1072667495]
