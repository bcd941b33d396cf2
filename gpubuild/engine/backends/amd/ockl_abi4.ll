; Work-item functions for AMD GPUs, for code objects of version 4: their implicit arguments do not contain
; sizes, so these are in the packet of the launch: u16 workgroup sizes at 4, u32 grid sizes at 12.

declare ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()

define linkonce_odr hidden i64 @__ockl_get_local_size(i32 %dimension) alwaysinline nounwind {
  %packet = call ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
  %sizes = getelementptr i8, ptr addrspace(4) %packet, i32 4
  %slot = getelementptr i16, ptr addrspace(4) %sizes, i32 %dimension
  %size = load i16, ptr addrspace(4) %slot, align 2, !range !1, !invariant.load !0
  %result = zext i16 %size to i64
  ret i64 %result
}

; Launches here have whole workgroups only.
define linkonce_odr hidden i64 @__ockl_get_num_groups(i32 %dimension) alwaysinline nounwind {
  %packet = call ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
  %sizes = getelementptr i8, ptr addrspace(4) %packet, i32 12
  %slot = getelementptr i32, ptr addrspace(4) %sizes, i32 %dimension
  %total = load i32, ptr addrspace(4) %slot, align 4, !invariant.load !0
  %size = call i64 @__ockl_get_local_size(i32 %dimension)
  %divisor = trunc i64 %size to i32
  %count = udiv i32 %total, %divisor
  %result = zext i32 %count to i64
  ret i64 %result
}

; The buffer that HIP's runtime prints messages from; null where it has none.
define linkonce_odr hidden ptr addrspace(1) @gpubuild_printf_buffer() alwaysinline nounwind {
  %arguments = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %slot = getelementptr i8, ptr addrspace(4) %arguments, i64 24
  %buffer = load ptr addrspace(1), ptr addrspace(4) %slot, align 8
  ret ptr addrspace(1) %buffer
}

!0 = !{}
!1 = !{i16 1, i16 1025}
