// RUN: spirv split-masked-accesses

gpu.module @k {
  llvm.func @f(%p: !llvm.ptr, %s: !llvm.ptr<3>, %m: vector<2xi1>, %v: vector<2xf32>) attributes {gpu.kernel} {
    %0 = llvm.intr.masked.load %p, %m, %v {alignment = 8 : i32} : (!llvm.ptr, vector<2xi1>, vector<2xf32>) -> vector<2xf32>
    "llvm.intr.masked.compressstore"(%0, %s, %m) : (vector<2xf32>, !llvm.ptr<3>, vector<2xi1>) -> ()
    llvm.return
  }
}

// CHECK-NOT: llvm.intr.masked
// CHECK: [[ACTIVE:%.*]] = llvm.extractelement %arg2
// CHECK: [[FIRST:%.*]] = llvm.getelementptr %arg0{{.*}} f32
// CHECK: [[ADDRESS:%.*]] = llvm.select [[ACTIVE]], [[FIRST]], [[SPARE:%.*]] : i1, !llvm.ptr
// CHECK: [[LOADED:%.*]] = llvm.load [[ADDRESS]] {alignment = 4 : i64}
// CHECK: llvm.select [[ACTIVE]], [[LOADED]]
// CHECK: [[COUNT:%.*]] = llvm.zext {{.*}} : i1 to i64
// CHECK: llvm.add {{.*}}, [[COUNT]]
// CHECK: llvm.addrspacecast {{.*}} : !llvm.ptr<3> to !llvm.ptr
// CHECK: llvm.store
