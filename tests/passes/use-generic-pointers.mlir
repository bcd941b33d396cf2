// RUN: spirv use-generic-pointers

gpu.module @k {
  llvm.mlir.global internal @table(dense<[1, 2]> : tensor<2xi32>) : !llvm.array<2 x i32>
  llvm.mlir.global internal @size() {addr_space = 3 : i32} : !llvm.array<0 x i8>
  llvm.func @f(%p: !llvm.ptr, %flag: i1, %n: i64, %z: !llvm.struct<(f32, f32)>) attributes {gpu.kernel} {
    %a = llvm.alloca %n x f32 : (i64) -> !llvm.ptr
    %t = llvm.mlir.addressof @table : !llvm.ptr
    %s = llvm.mlir.addressof @size : !llvm.ptr<3>
    %v = llvm.load %p : !llvm.ptr -> f32
    llvm.store %v, %a : f32, !llvm.ptr
    llvm.store %v, %s : f32, !llvm.ptr<3>
    llvm.store %flag, %t : i1, !llvm.ptr
    llvm.store %z, %p : !llvm.struct<(f32, f32)>, !llvm.ptr
    llvm.return
  }
}

// CHECK: llvm.mlir.global internal @table({{.*}}) {addr_space = 1 : i32}
// CHECK-NOT: @size
// CHECK: llvm.func @f(%arg0: !llvm.ptr<1>, %arg1: i8, %arg2: i64, %arg3: !llvm.ptr {llvm.byval = !llvm.struct<(f32, f32)>}, %arg4: !llvm.ptr<3>) attributes {gpu.kernel, gpubuild.added = 1 : i32}
// CHECK: [[Z:%.*]] = llvm.load %arg3 : !llvm.ptr -> !llvm.struct<(f32, f32)>
// CHECK: [[FLAG:%.*]] = llvm.trunc %arg1 : i8 to i1
// CHECK: [[P:%.*]] = llvm.addrspacecast %arg0 : !llvm.ptr<1> to !llvm.ptr<4>
// CHECK: [[PRIVATE:%.*]] = llvm.alloca {{.*}} -> !llvm.ptr
// CHECK: [[A:%.*]] = llvm.addrspacecast [[PRIVATE]] : !llvm.ptr to !llvm.ptr<4>
// CHECK: [[TABLE:%.*]] = llvm.mlir.addressof @table : !llvm.ptr<1>
// CHECK: [[T:%.*]] = llvm.addrspacecast [[TABLE]]
// CHECK: [[V:%.*]] = llvm.load [[P]] : !llvm.ptr<4> -> f32
// CHECK: llvm.store [[V]], [[A]] : f32, !llvm.ptr<4>
// CHECK: llvm.store [[V]], %arg4 : f32, !llvm.ptr<3>
// CHECK: llvm.store [[FLAG]], [[T]] : i1, !llvm.ptr<4>
// CHECK: llvm.store [[Z]], [[P]]
