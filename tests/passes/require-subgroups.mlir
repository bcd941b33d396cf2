// RUN: spirv require-subgroups

gpu.module @k {
  llvm.func @f(%p: !llvm.ptr) attributes {gpu.kernel} {
    %l = nvvm.read.ptx.sreg.laneid : i32
    %x = nvvm.read.ptx.sreg.tid.x : i32
    %y = nvvm.read.ptx.sreg.tid.y : i32
    %z = nvvm.read.ptx.sreg.ntid.z : i32
    %w = nvvm.read.ptx.sreg.ntid.x : i32
    llvm.store %l, %p : i32, !llvm.ptr
    llvm.store %x, %p : i32, !llvm.ptr
    llvm.store %y, %p : i32, !llvm.ptr
    llvm.store %z, %p : i32, !llvm.ptr
    llvm.store %w, %p : i32, !llvm.ptr
    llvm.return
  }
  llvm.func @lane() -> i32 {
    %l = nvvm.read.ptx.sreg.laneid : i32
    llvm.return %l : i32
  }
  llvm.func @calls(%p: !llvm.ptr) attributes {gpu.kernel} {
    %l = llvm.call @lane() : () -> i32
    llvm.store %l, %p : i32, !llvm.ptr
    llvm.return
  }
  llvm.func @other(%p: !llvm.ptr) attributes {gpu.kernel} {
    %y = nvvm.read.ptx.sreg.tid.y : i32
    llvm.store %y, %p : i32, !llvm.ptr
    llvm.return
  }
}

// CHECK: llvm.func @f(%arg0: !llvm.ptr, %arg1: i32, %arg2: i32) attributes {gpu.kernel, gpubuild.added = 2 : i32, intel_reqd_sub_group_size = 32 : i32}
// CHECK: [[ROW:%.*]] = nvvm.read.ptx.sreg.tid.x
// CHECK: [[X:%.*]] = llvm.urem [[ROW]], %arg1
// CHECK: [[AGAIN:%.*]] = nvvm.read.ptx.sreg.tid.x
// CHECK: [[LINE:%.*]] = llvm.udiv [[AGAIN]], %arg1
// CHECK: [[Y:%.*]] = llvm.urem [[LINE]], %arg2
// CHECK: [[ALL:%.*]] = nvvm.read.ptx.sreg.ntid.x
// CHECK: [[PLANE:%.*]] = llvm.mul %arg1, %arg2
// CHECK: [[Z:%.*]] = llvm.udiv [[ALL]], [[PLANE]]
// CHECK: llvm.store [[X]]
// CHECK: llvm.store [[Y]]
// CHECK: llvm.store [[Z]]
// CHECK: llvm.store %arg1
// CHECK: llvm.func @calls(%arg0: !llvm.ptr, %arg1: i32, %arg2: i32) attributes {{.*}}intel_reqd_sub_group_size
// CHECK: llvm.func @other(%arg0: !llvm.ptr) attributes {gpu.kernel}
// CHECK: nvvm.read.ptx.sreg.tid.y
