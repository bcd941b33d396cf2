// RUN: cpu drop-address-spaces

gpu.module @k {
  llvm.mlir.global internal @g("ptr<3> addrspace(3)") {addr_space = 1 : i32} : !llvm.array<19 x i8>
  llvm.func @f(%a: !llvm.ptr<3>) -> !llvm.ptr {
    %g = llvm.mlir.addressof @g : !llvm.ptr<1>
    %p = llvm.addrspacecast %g : !llvm.ptr<1> to !llvm.ptr
    %x = llvm.getelementptr %a[1] : (!llvm.ptr<3>) -> !llvm.ptr<3>, !llvm.struct<(ptr<3>, i64)>
    llvm.return %p : !llvm.ptr
  }
}

// CHECK: @g("ptr<3> addrspace(3)") {addr_space = 0 : i32}
// CHECK: llvm.func @f(%arg0: !llvm.ptr) -> !llvm.ptr
// CHECK: [[G:%.+]] = llvm.mlir.addressof @g : !llvm.ptr
// CHECK-NOT: llvm.addrspacecast
// CHECK: !llvm.struct<(ptr, i64)>
// CHECK: llvm.return [[G]]
