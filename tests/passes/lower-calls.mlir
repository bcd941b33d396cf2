// RUN: cpu pass-work-items..lower-calls

gpu.module @k {
  llvm.func @vprintf(!llvm.ptr, !llvm.ptr) -> i32
  llvm.func @__nv_expf(f32) -> f32
  llvm.func @helper(%x: i32) {
    llvm.return
  }
  llvm.func @f(%x: i32, %y: f32, %p: !llvm.ptr) {
    llvm.call @helper(%x) : (i32) -> ()
    %e = llvm.call @__nv_expf(%y) : (f32) -> f32
    %size = llvm.mlir.constant(1 : i32) : i32
    %packed = llvm.alloca %size x !llvm.struct<(i32, f32)> : (i32) -> !llvm.ptr
    %n = llvm.call @vprintf(%p, %packed) : (!llvm.ptr, !llvm.ptr) -> i32
    nvvm.memory.barrier #nvvm.mem_scope<gpu>
    nvvm.nanosleep %x
    llvm.return
  }
}

// CHECK-NOT: @vprintf
// CHECK: llvm.func @f
// CHECK: [[ONE:%.+]] = llvm.mlir.constant(1 : i64)
// CHECK-NEXT: llvm.alloca [[ONE]] x !llvm.struct<(i32, f32)>
// CHECK: llvm.call @helper(%arg0, %arg3)
// CHECK: llvm.call @__nv_expf(%arg1)
// CHECK: llvm.fpext {{.*}} : f32 to f64
// CHECK: llvm.call {{.*}} vararg(!llvm.func<i32 (ptr, ptr, ...)>)
// CHECK-NEXT: llvm.fence seq_cst
// CHECK-NEXT: llvm.return
