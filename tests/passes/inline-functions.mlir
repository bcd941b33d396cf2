// RUN: spirv inline-functions

gpu.module @k {
  llvm.mlir.global internal @size() {addr_space = 3 : i32} : !llvm.array<0 x i8>
  llvm.func @address() -> !llvm.ptr<3> {
    %s = llvm.mlir.addressof @size : !llvm.ptr<3>
    llvm.return %s : !llvm.ptr<3>
  }
  llvm.func @f(%v: f32) attributes {gpu.kernel} {
    %s = llvm.call @address() : () -> !llvm.ptr<3>
    llvm.store %v, %s : f32, !llvm.ptr<3>
    llvm.return
  }
}

// CHECK-NOT: @address
// CHECK: llvm.func @f
// CHECK: [[S:%.*]] = llvm.mlir.addressof @size
// CHECK: llvm.store %arg0, [[S]]
