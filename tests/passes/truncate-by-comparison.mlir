// RUN: spirv truncate-by-comparison

gpu.module @k {
  gpu.func @f(%a: i32, %b: vector<4xi8>) kernel {
    %x = arith.trunci %a : i32 to i1
    %y = arith.trunci %b : vector<4xi8> to vector<4xi1>
    %z = arith.trunci %a : i32 to i8
    "test.use"(%x, %y, %z) : (i1, vector<4xi1>, i8) -> ()
    gpu.return
  }
}

// CHECK: %[[B:.*]] = arith.andi %arg0, %{{.*}} : i32
// CHECK: arith.cmpi ne, %[[B]], %{{.*}} : i32
// CHECK: %[[V:.*]] = arith.andi %arg1, %{{.*}} : vector<4xi8>
// CHECK: arith.cmpi ne, %[[V]], %{{.*}} : vector<4xi8>
// CHECK: arith.trunci %arg0 : i32 to i8
