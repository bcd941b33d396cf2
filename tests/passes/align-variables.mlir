// RUN: sm_90 align-variables

gpu.module @k {
  llvm.mlir.global internal @tile() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<64 x f32>
  llvm.mlir.global external @dynamic() {addr_space = 3 : i32} : !llvm.array<0 x i8>
  llvm.mlir.global internal @__mbarrier() {addr_space = 3 : i32} : !llvm.array<1 x i64>
  llvm.mlir.global internal @elsewhere() : !llvm.array<4 x array<4 x i16>>
  llvm.mlir.global internal @odd() : !llvm.array<9 x f32>
  llvm.func @f(%d: !llvm.ptr, %i: i32) attributes {gpu.kernel} {
    %tile = llvm.mlir.addressof @tile : !llvm.ptr<3>
    %barrier = llvm.mlir.addressof @__mbarrier : !llvm.ptr<3>
    %to = llvm.addrspacecast %tile : !llvm.ptr<3> to !llvm.ptr<7>
    nvvm.cp.async.bulk.tensor.shared.cluster.global %to, %d, %barrier, box[%i, %i]
        : !llvm.ptr<7>, !llvm.ptr
    llvm.return
  }
}

// The pattern of a tensor map that swizzles repeats every 1,024 bytes.
// CHECK: @tile() {addr_space = 3 : i32, alignment = 1024 : i64}
// CHECK: @dynamic() {addr_space = 3 : i32, alignment = 1024 : i64}
// CHECK: @__mbarrier() {addr_space = 3 : i32}
// LLVM takes it for aligned to 16 bytes, if it is large enough.
// CHECK: @elsewhere() {addr_space = 0 : i32, alignment = 16 : i64} :
// From its last 16 bytes LLVM would read the end of the array and more.
// CHECK: @odd() {addr_space = 0 : i32, alignment = 4 : i64} :
