; Work-item functions for AMD GPUs without ROCm's ockl.bc. They read the implicit kernel arguments of
; code object version 5: u32 number of workgroups per dimension at 0, u16 workgroup size at 12.

declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()

define linkonce_odr hidden i64 @__ockl_get_num_groups(i32 %dimension) alwaysinline nounwind {
  %arguments = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %place = getelementptr i32, ptr addrspace(4) %arguments, i32 %dimension
  %count = load i32, ptr addrspace(4) %place, align 4, !invariant.load !0
  %result = zext i32 %count to i64
  ret i64 %result
}

; The size of full workgroups: launches here always have whole ones.
define linkonce_odr hidden i64 @__ockl_get_local_size(i32 %dimension) alwaysinline nounwind {
  %arguments = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %sizes = getelementptr i8, ptr addrspace(4) %arguments, i32 12
  %place = getelementptr i16, ptr addrspace(4) %sizes, i32 %dimension
  %size = load i16, ptr addrspace(4) %place, align 2, !range !1, !invariant.load !0
  %result = zext i16 %size to i64
  ret i64 %result
}

; The buffer that HIP's runtime prints messages from; null where it has none.
define linkonce_odr hidden ptr addrspace(1) @gpubuild_printf_buffer() alwaysinline nounwind {
  %arguments = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %slot = getelementptr i8, ptr addrspace(4) %arguments, i64 72
  %buffer = load ptr addrspace(1), ptr addrspace(4) %slot, align 8
  ret ptr addrspace(1) %buffer
}

!0 = !{}
!1 = !{i16 1, i16 1025}
