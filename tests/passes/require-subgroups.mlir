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
