// RUN: sm_60 inline-odd-signatures

gpu.module @k {
  llvm.func @f(%v: vector<4xi1>, %x: f32) attributes {nvvm.kernel} {
    %r = llvm.call @g(%v) : (vector<4xi1>) -> vector<4xi1>
    "test.use"(%r) : (vector<4xi1>) -> ()
    llvm.return
  }
  llvm.func @g(%v: vector<4xi1>) -> vector<4xi1> {
    llvm.return %v : vector<4xi1>
  }
  llvm.func @plain(%v: i1) -> i1 {
    llvm.return %v : i1
  }
}

// CHECK: llvm.func @f(%arg0: i8, %arg1: f32)
// CHECK: llvm.trunc %arg0 : i8 to i4
// CHECK: llvm.call @g(%{{.*}}) : (vector<4xi1>) -> vector<4xi1>
// CHECK: llvm.func @g(%arg0: vector<4xi1>) -> vector<4xi1> attributes {always_inline}
// CHECK: llvm.func @plain(%arg0: i1) -> i1 {
