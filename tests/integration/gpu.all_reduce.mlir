// gpu.all_reduce: a sum over a workgroup, returned to each of its work-items.
// BREAK: s/all_reduce add/all_reduce maxsi/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<200xi32>, %out: memref<200xi32>) kernel {
      // Each work-item takes the sum's distance from its own number.
      %i = gpu.global_id x
      %mine = memref.load %x[%i] : memref<200xi32>
      %sum = gpu.all_reduce add %mine uniform {} : (i32) -> i32
      %rest = arith.subi %sum, %mine : i32
      memref.store %rest, %out[%i] : memref<200xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c100 = arith.constant 100 : index
    %c200 = arith.constant 200 : index
    %x = gpu.alloc host_shared () : memref<200xi32>
    %out = gpu.alloc host_shared () : memref<200xi32>
    scf.for %i = %c0 to %c200 step %c1 {
      %k = arith.index_cast %i : index to i32
      %thirteen = arith.constant 13 : i32
      %modulus = arith.constant 32 : i32
      %product = arith.muli %k, %thirteen : i32
      %v = arith.remsi %product, %modulus : i32
      memref.store %v, %x[%i] : memref<200xi32>
    }
    gpu.launch_func @kernels::@kernel blocks in (%c2, %c1, %c1) threads in (%c100, %c1, %c1)
        args(%x : memref<200xi32>, %out : memref<200xi32>)
    %print_out = memref.cast %out : memref<200xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<200xi32>
    gpu.dealloc %out : memref<200xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [200] strides = [1] data =
// CHECK-NEXT: [1534, 1521, 1508, 1527, 1514, 1533, 1520, 1507, 1526, 1513, 1532, 1519, 1506, 1525, 1512, 1531, 1518, 1505, 1524, 1511, 1530, 1517, 1504, 1523, 1510, 1529, 1516, 1503, 1522, 1509, 1528, 1515, 1534, 1521, 1508, 1527, 1514, 1533, 1520, 1507, 1526, 1513, 1532, 1519, 1506, 1525, 1512, 1531, 1518, 1505, 1524, 1511, 1530, 1517, 1504, 1523, 1510, 1529, 1516, 1503, 1522, 1509, 1528, 1515, 1534, 1521, 1508, 1527, 1514, 1533, 1520, 1507, 1526, 1513, 1532, 1519, 1506, 1525, 1512, 1531, 1518, 1505, 1524, 1511, 1530, 1517, 1504, 1523, 1510, 1529, 1516, 1503, 1522, 1509, 1528, 1515, 1534, 1521, 1508, 1527, 1530, 1549, 1536, 1523, 1542, 1529, 1548, 1535, 1522, 1541, 1528, 1547, 1534, 1521, 1540, 1527, 1546, 1533, 1520, 1539, 1526, 1545, 1532, 1519, 1538, 1525, 1544, 1531, 1550, 1537, 1524, 1543, 1530, 1549, 1536, 1523, 1542, 1529, 1548, 1535, 1522, 1541, 1528, 1547, 1534, 1521, 1540, 1527, 1546, 1533, 1520, 1539, 1526, 1545, 1532, 1519, 1538, 1525, 1544, 1531, 1550, 1537, 1524, 1543, 1530, 1549, 1536, 1523, 1542, 1529, 1548, 1535, 1522, 1541, 1528, 1547, 1534, 1521, 1540, 1527, 1546, 1533, 1520, 1539, 1526, 1545, 1532, 1519, 1538, 1525, 1544, 1531, 1550, 1537, 1524, 1543, 1530, 1549, 1536, 1523]
