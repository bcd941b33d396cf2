; What a failed assertion prints on AMD GPUs, through ROCm's ockl: to stderr, by way of the host.
; %format has six %u for the workgroup and the work-item; %bytes counts its NUL too.

declare i64 @__ockl_fprintf_stderr_begin()
declare i64 @__ockl_fprintf_append_string_n(i64, ptr, i64, i32)
declare i64 @__ockl_fprintf_append_args(i64, i32, i64, i64, i64, i64, i64, i64, i64, i32)
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workgroup.id.z()
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workitem.id.y()
declare i32 @llvm.amdgcn.workitem.id.z()

define linkonce_odr hidden void @gpubuild_assertion_failed(ptr %format, i64 %bytes) noinline nounwind {
  %bx = call i32 @llvm.amdgcn.workgroup.id.x()
  %by = call i32 @llvm.amdgcn.workgroup.id.y()
  %bz = call i32 @llvm.amdgcn.workgroup.id.z()
  %tx = call i32 @llvm.amdgcn.workitem.id.x()
  %ty = call i32 @llvm.amdgcn.workitem.id.y()
  %tz = call i32 @llvm.amdgcn.workitem.id.z()
  %wbx = zext i32 %bx to i64
  %wby = zext i32 %by to i64
  %wbz = zext i32 %bz to i64
  %wtx = zext i32 %tx to i64
  %wty = zext i32 %ty to i64
  %wtz = zext i32 %tz to i64
  %start = call i64 @__ockl_fprintf_stderr_begin()
  %said = call i64 @__ockl_fprintf_append_string_n(i64 %start, ptr %format, i64 %bytes, i32 0)
  %end = call i64 @__ockl_fprintf_append_args(i64 %said, i32 6, i64 %wbx, i64 %wby, i64 %wbz, i64 %wtx, i64 %wty, i64 %wtz, i64 0, i32 1)
  ret void
}
