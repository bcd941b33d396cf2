// RUN: sm_60 link-workgroup-memory
// RUN: gfx90a link-workgroup-memory

gpu.module @k {
  llvm.mlir.global external @known() {addr_space = 3 : i32} : !llvm.array<64 x f32>
  llvm.mlir.global internal @dynamic() {addr_space = 3 : i32} : !llvm.array<0 x i8>
  llvm.mlir.global external @elsewhere() : f32
}

// CHECK: llvm.mlir.global internal @known() {addr_space = 3 : i32}
// CHECK: llvm.mlir.global external @dynamic() {addr_space = 3 : i32, alignment = 16 : i64}
// CHECK: llvm.mlir.global external @elsewhere()
