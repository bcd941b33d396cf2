// RUN: gfx90a move-stack-to-private

gpu.module @k {
  llvm.func @f(%n: i64) attributes {rocdl.kernel} {
    %s = llvm.intr.stacksave : !llvm.ptr
    %p = llvm.alloca %n x f32 : (i64) -> !llvm.ptr
    %q = llvm.alloca %n x f32 : (i64) -> !llvm.ptr<5>
    "test.use"(%p, %q) : (!llvm.ptr, !llvm.ptr<5>) -> ()
    llvm.intr.stackrestore %s : !llvm.ptr
    llvm.return
  }
}

// CHECK: %[[S:.*]] = llvm.intr.stacksave : !llvm.ptr<5>
// CHECK: %[[P:.*]] = llvm.alloca %arg0 x f32 : (i64) -> !llvm.ptr<5>
// CHECK: %[[G:.*]] = llvm.addrspacecast %[[P]] : !llvm.ptr<5> to !llvm.ptr
// CHECK: %[[Q:.*]] = llvm.alloca %arg0 x f32 : (i64) -> !llvm.ptr<5>
// CHECK: "test.use"(%[[G]], %[[Q]])
// CHECK: llvm.intr.stackrestore %[[S]] : !llvm.ptr<5>
