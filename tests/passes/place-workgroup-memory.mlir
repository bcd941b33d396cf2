// RUN: cpu place-workgroup-memory

// A workgroup function shares the variables of its kernel; context arrays have memory of their own.
gpu.module @k {
  llvm.mlir.global internal @__wg_f_0() {addr_space = 3 : i32} : !llvm.array<3 x f32>
  llvm.mlir.global internal @__wg_f.workgroup_0() {addr_space = 3 : i32} : !llvm.array<3 x f32>
  llvm.mlir.global internal @other() {addr_space = 3 : i32} : !llvm.array<4 x f64>
  llvm.mlir.global internal @f.workgroup.context.0() {addr_space = 3 : i32} : !llvm.array<8 x f32>
  llvm.mlir.global internal @f.workgroup.shuffle.context.0() {addr_space = 3 : i32} : !llvm.array<8 x f32>
  llvm.mlir.global internal @dynamic() {addr_space = 3 : i32} : !llvm.array<0 x i8>
  llvm.func @f.workgroup(%item: !llvm.ptr) attributes {gpubuild.workgroup_of = "f"} {
    %a = llvm.mlir.addressof @__wg_f.workgroup_0 : !llvm.ptr<3>
    %b = llvm.mlir.addressof @other : !llvm.ptr<3>
    %c = llvm.mlir.addressof @f.workgroup.context.0 : !llvm.ptr<3>
    %d = llvm.mlir.addressof @f.workgroup.shuffle.context.0 : !llvm.ptr<3>
    %e = llvm.mlir.addressof @dynamic : !llvm.ptr<3>
    llvm.return
  }
  llvm.func @f(%item: !llvm.ptr) {
    %a = llvm.mlir.addressof @__wg_f_0 : !llvm.ptr<3>
    llvm.return
  }
}

// CHECK-NOT: llvm.mlir.global
// CHECK-LABEL: llvm.func @f.workgroup
// CHECK: [[SHARED:%.+]] = llvm.getelementptr %arg0[64]
// CHECK: llvm.load [[SHARED]]
// CHECK: llvm.getelementptr %arg0[64]
// CHECK: [[BASE:%.+]] = llvm.load
// CHECK: llvm.getelementptr [[BASE]][64]
// CHECK: llvm.getelementptr %arg0[96]
// CHECK: llvm.getelementptr %arg0[96]
// CHECK: [[CONTEXT:%.+]] = llvm.load
// CHECK: llvm.getelementptr [[CONTEXT]][128]
// CHECK: llvm.getelementptr %arg0[72]
// CHECK-LABEL: llvm.func @f(
// CHECK: llvm.getelementptr %arg0[64]
// CHECK-NEXT: llvm.load
// CHECK-NEXT: llvm.addrspacecast
