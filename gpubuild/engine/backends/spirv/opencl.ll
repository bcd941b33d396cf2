; Intrinsics of NVVM, under other names, by OpenCL's built-in functions (names mangled as SPIR-V's back end reads them).
; What convert-gpu-to-nvvm and gpubuild's expansions use; tests compile each.
declare i64 @_Z12get_local_idj(i32) nounwind willreturn memory(none)
declare i64 @_Z14get_local_sizej(i32) nounwind willreturn memory(none)
declare i64 @_Z12get_group_idj(i32) nounwind willreturn memory(none)
declare i64 @_Z14get_num_groupsj(i32) nounwind willreturn memory(none)
declare i32 @_Z22get_sub_group_local_idv() nounwind willreturn memory(none)
declare void @_Z7barrierj(i32) convergent
declare void @_Z17sub_group_barrierj(i32) convergent
declare i32 @_Z17sub_group_shuffleij(i32, i32) convergent

define i32 @gpubuild.nvvm.read.ptx.sreg.tid.x() alwaysinline {
  %wide = call i64 @_Z12get_local_idj(i32 0)
  %r = trunc i64 %wide to i32
  ret i32 %r
}

define i32 @gpubuild.nvvm.read.ptx.sreg.tid.y() alwaysinline {
  %wide = call i64 @_Z12get_local_idj(i32 1)
  %r = trunc i64 %wide to i32
  ret i32 %r
}

define i32 @gpubuild.nvvm.read.ptx.sreg.tid.z() alwaysinline {
  %wide = call i64 @_Z12get_local_idj(i32 2)
  %r = trunc i64 %wide to i32
  ret i32 %r
}

define i32 @gpubuild.nvvm.read.ptx.sreg.ntid.x() alwaysinline {
  %wide = call i64 @_Z14get_local_sizej(i32 0)
  %r = trunc i64 %wide to i32
  ret i32 %r
}

define i32 @gpubuild.nvvm.read.ptx.sreg.ntid.y() alwaysinline {
  %wide = call i64 @_Z14get_local_sizej(i32 1)
  %r = trunc i64 %wide to i32
  ret i32 %r
}

define i32 @gpubuild.nvvm.read.ptx.sreg.ntid.z() alwaysinline {
  %wide = call i64 @_Z14get_local_sizej(i32 2)
  %r = trunc i64 %wide to i32
  ret i32 %r
}

define i32 @gpubuild.nvvm.read.ptx.sreg.ctaid.x() alwaysinline {
  %wide = call i64 @_Z12get_group_idj(i32 0)
  %r = trunc i64 %wide to i32
  ret i32 %r
}

define i32 @gpubuild.nvvm.read.ptx.sreg.ctaid.y() alwaysinline {
  %wide = call i64 @_Z12get_group_idj(i32 1)
  %r = trunc i64 %wide to i32
  ret i32 %r
}

define i32 @gpubuild.nvvm.read.ptx.sreg.ctaid.z() alwaysinline {
  %wide = call i64 @_Z12get_group_idj(i32 2)
  %r = trunc i64 %wide to i32
  ret i32 %r
}

define i32 @gpubuild.nvvm.read.ptx.sreg.nctaid.x() alwaysinline {
  %wide = call i64 @_Z14get_num_groupsj(i32 0)
  %r = trunc i64 %wide to i32
  ret i32 %r
}

define i32 @gpubuild.nvvm.read.ptx.sreg.nctaid.y() alwaysinline {
  %wide = call i64 @_Z14get_num_groupsj(i32 1)
  %r = trunc i64 %wide to i32
  ret i32 %r
}

define i32 @gpubuild.nvvm.read.ptx.sreg.nctaid.z() alwaysinline {
  %wide = call i64 @_Z14get_num_groupsj(i32 2)
  %r = trunc i64 %wide to i32
  ret i32 %r
}

define i32 @gpubuild.nvvm.read.ptx.sreg.laneid() alwaysinline {
  %r = call i32 @_Z22get_sub_group_local_idv()
  ret i32 %r
}

; Flags: CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE.
define void @gpubuild.nvvm.barrier.cta.sync.aligned.all(i32 %0) alwaysinline convergent {
  call void @_Z7barrierj(i32 3)
  ret void
}

; Lanes of a subgroup need not run in step.
define void @gpubuild.nvvm.bar.warp.sync(i32 %0) alwaysinline convergent {
  call void @_Z17sub_group_barrierj(i32 3)
  ret void
}

; The lane, if it is at most the last one that takes part, else the own one.
define internal i32 @gpubuild.read_lane(i32 %value, i32 %source, i1 %valid) alwaysinline convergent {
  %own = call i32 @_Z22get_sub_group_local_idv()
  %from = select i1 %valid, i32 %source, i32 %own
  %r = call i32 @_Z17sub_group_shuffleij(i32 %value, i32 %from)
  ret i32 %r
}

define { i32, i1 } @gpubuild.nvvm.shfl.sync.idx.i32p(i32 %mask, i32 %value, i32 %offset, i32 %clamp) alwaysinline convergent {
  %source = and i32 %offset, 31
  %last = and i32 %clamp, 31
  %valid = icmp ule i32 %source, %last
  %moved = call i32 @gpubuild.read_lane(i32 %value, i32 %source, i1 %valid)
  %pair = insertvalue { i32, i1 } undef, i32 %moved, 0
  %both = insertvalue { i32, i1 } %pair, i1 %valid, 1
  ret { i32, i1 } %both
}

define i32 @gpubuild.nvvm.shfl.sync.idx.i32(i32 %mask, i32 %value, i32 %offset, i32 %clamp) alwaysinline convergent {
  %source = and i32 %offset, 31
  %last = and i32 %clamp, 31
  %valid = icmp ule i32 %source, %last
  %moved = call i32 @gpubuild.read_lane(i32 %value, i32 %source, i1 %valid)
  ret i32 %moved
}

define { float, i1 } @gpubuild.nvvm.shfl.sync.idx.f32p(i32 %mask, float %value, i32 %offset, i32 %clamp) alwaysinline convergent {
  %source = and i32 %offset, 31
  %last = and i32 %clamp, 31
  %valid = icmp ule i32 %source, %last
  %word = bitcast float %value to i32
  %moved = call i32 @gpubuild.read_lane(i32 %word, i32 %source, i1 %valid)
  %result = bitcast i32 %moved to float
  %pair = insertvalue { float, i1 } undef, float %result, 0
  %both = insertvalue { float, i1 } %pair, i1 %valid, 1
  ret { float, i1 } %both
}

define float @gpubuild.nvvm.shfl.sync.idx.f32(i32 %mask, float %value, i32 %offset, i32 %clamp) alwaysinline convergent {
  %source = and i32 %offset, 31
  %last = and i32 %clamp, 31
  %valid = icmp ule i32 %source, %last
  %word = bitcast float %value to i32
  %moved = call i32 @gpubuild.read_lane(i32 %word, i32 %source, i1 %valid)
  %result = bitcast i32 %moved to float
  ret float %result
}

define { i32, i1 } @gpubuild.nvvm.shfl.sync.bfly.i32p(i32 %mask, i32 %value, i32 %offset, i32 %clamp) alwaysinline convergent {
  %lane = call i32 @_Z22get_sub_group_local_idv()
  %source = xor i32 %lane, %offset
  %last = and i32 %clamp, 31
  %valid = icmp ule i32 %source, %last
  %moved = call i32 @gpubuild.read_lane(i32 %value, i32 %source, i1 %valid)
  %pair = insertvalue { i32, i1 } undef, i32 %moved, 0
  %both = insertvalue { i32, i1 } %pair, i1 %valid, 1
  ret { i32, i1 } %both
}

define i32 @gpubuild.nvvm.shfl.sync.bfly.i32(i32 %mask, i32 %value, i32 %offset, i32 %clamp) alwaysinline convergent {
  %lane = call i32 @_Z22get_sub_group_local_idv()
  %source = xor i32 %lane, %offset
  %last = and i32 %clamp, 31
  %valid = icmp ule i32 %source, %last
  %moved = call i32 @gpubuild.read_lane(i32 %value, i32 %source, i1 %valid)
  ret i32 %moved
}

define { float, i1 } @gpubuild.nvvm.shfl.sync.bfly.f32p(i32 %mask, float %value, i32 %offset, i32 %clamp) alwaysinline convergent {
  %lane = call i32 @_Z22get_sub_group_local_idv()
  %source = xor i32 %lane, %offset
  %last = and i32 %clamp, 31
  %valid = icmp ule i32 %source, %last
  %word = bitcast float %value to i32
  %moved = call i32 @gpubuild.read_lane(i32 %word, i32 %source, i1 %valid)
  %result = bitcast i32 %moved to float
  %pair = insertvalue { float, i1 } undef, float %result, 0
  %both = insertvalue { float, i1 } %pair, i1 %valid, 1
  ret { float, i1 } %both
}

define float @gpubuild.nvvm.shfl.sync.bfly.f32(i32 %mask, float %value, i32 %offset, i32 %clamp) alwaysinline convergent {
  %lane = call i32 @_Z22get_sub_group_local_idv()
  %source = xor i32 %lane, %offset
  %last = and i32 %clamp, 31
  %valid = icmp ule i32 %source, %last
  %word = bitcast float %value to i32
  %moved = call i32 @gpubuild.read_lane(i32 %word, i32 %source, i1 %valid)
  %result = bitcast i32 %moved to float
  ret float %result
}

; Functions that gpubuild's mathematics computes in i128, which SPIR-V lacks. Errors are those of the OpenCL
; specification: 4 units in the last place, 5 of tan.
declare float @_Z3sinf(float) nounwind willreturn memory(none)
define float @__nv_sinf(float %0) alwaysinline {
  %r = call float @_Z3sinf(float %0)
  ret float %r
}
declare double @_Z3sind(double) nounwind willreturn memory(none)
define double @__nv_sin(double %0) alwaysinline {
  %r = call double @_Z3sind(double %0)
  ret double %r
}
declare float @_Z3cosf(float) nounwind willreturn memory(none)
define float @__nv_cosf(float %0) alwaysinline {
  %r = call float @_Z3cosf(float %0)
  ret float %r
}
declare double @_Z3cosd(double) nounwind willreturn memory(none)
define double @__nv_cos(double %0) alwaysinline {
  %r = call double @_Z3cosd(double %0)
  ret double %r
}
declare float @_Z3tanf(float) nounwind willreturn memory(none)
define float @__nv_tanf(float %0) alwaysinline {
  %r = call float @_Z3tanf(float %0)
  ret float %r
}
declare double @_Z3tand(double) nounwind willreturn memory(none)
define double @__nv_tan(double %0) alwaysinline {
  %r = call double @_Z3tand(double %0)
  ret double %r
}
define float @__nv_fmodf(float %0, float %1) alwaysinline {
  %r = frem float %0, %1
  ret float %r
}
define void @__nv_sincosf(float %0, ptr addrspace(4) %1, ptr addrspace(4) %2) alwaysinline {
  %s = call float @_Z3sinf(float %0)
  %c = call float @_Z3cosf(float %0)
  store float %s, ptr addrspace(4) %1
  store float %c, ptr addrspace(4) %2
  ret void
}
define double @__nv_fmod(double %0, double %1) alwaysinline {
  %r = frem double %0, %1
  ret double %r
}
define void @__nv_sincos(double %0, ptr addrspace(4) %1, ptr addrspace(4) %2) alwaysinline {
  %s = call double @_Z3sind(double %0)
  %c = call double @_Z3cosd(double %0)
  store double %s, ptr addrspace(4) %1
  store double %c, ptr addrspace(4) %2
  ret void
}
