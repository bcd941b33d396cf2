// RUN: sm_60 floor-wide-integers

gpu.module @k {
  gpu.func @f(%x: i128, %y: i128, %n: i64, %v: vector<2xi96>) kernel {
    %a = arith.floordivsi %x, %y : i128
    %b = arith.floordivsi %n, %n : i64
    %c = arith.floordivsi %v, %v : vector<2xi96>
    "test.use"(%a, %b, %c) : (i128, i64, vector<2xi96>) -> ()
    gpu.return
  }
}

// CHECK: %[[QUOTIENT:.*]] = arith.divsi %arg0, %arg1 : i128
// CHECK: %[[REST:.*]] = arith.remsi %arg0, %arg1 : i128
// CHECK: arith.cmpi ne, %[[REST]]
// CHECK: %[[LESS:.*]] = arith.extsi %{{.*}} : i1 to i128
// CHECK: arith.addi %[[QUOTIENT]], %[[LESS]] : i128
// CHECK: arith.floordivsi %arg2, %arg2 : i64
// CHECK: arith.extsi %{{.*}} : vector<2xi1> to vector<2xi96>
