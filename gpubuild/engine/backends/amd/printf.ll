; Messages of kernels on AMD GPUs: they are left in a buffer, which HIP's runtime (5.7 or newer) prints
; when the kernel has ended. The format of the buffer: docs/design/amd.md.

declare ptr addrspace(1) @gpubuild_printf_buffer()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workgroup.id.z()
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workitem.id.y()
declare i32 @llvm.amdgcn.workitem.id.z()

; Room for one message, whose first word is %control: 4 times its size in bytes, with bit 1 set (the
; format follows from its name), and bit 0 for stderr. Null where there is no room: the message is lost.
define linkonce_odr hidden ptr addrspace(1) @gpubuild_message(i32 %control, i64 %format) noinline norecurse nounwind {
entry:
  %buffer = call ptr addrspace(1) @gpubuild_printf_buffer()
  %none = icmp eq ptr addrspace(1) %buffer, null
  br i1 %none, label %lost, label %start

start:
  %size.place = getelementptr i8, ptr addrspace(1) %buffer, i64 4
  %size = load i32, ptr addrspace(1) %size.place, align 4
  %bytes = lshr i32 %control, 2
  %first = load atomic i32, ptr addrspace(1) %buffer syncscope("agent") monotonic, align 4
  br label %try

try:
  %used = phi i32 [ %first, %start ], [ %now, %full.not ]
  %end = add i32 %used, %bytes
  %overflow = icmp ult i32 %end, %used
  %beyond = icmp ugt i32 %end, %size
  %full = or i1 %overflow, %beyond
  br i1 %full, label %lost, label %full.not

full.not:
  %exchange = cmpxchg ptr addrspace(1) %buffer, i32 %used, i32 %end syncscope("agent") monotonic monotonic
  %now = extractvalue { i32, i1 } %exchange, 0
  %taken = extractvalue { i32, i1 } %exchange, 1
  br i1 %taken, label %write, label %try

write:
  %wide = zext i32 %used to i64
  %offset = add i64 %wide, 8
  %message = getelementptr i8, ptr addrspace(1) %buffer, i64 %offset
  store i32 %control, ptr addrspace(1) %message, align 4
  %name = getelementptr i8, ptr addrspace(1) %message, i64 4
  store i64 %format, ptr addrspace(1) %name, align 4
  %values = getelementptr i8, ptr addrspace(1) %message, i64 12
  ret ptr addrspace(1) %values

lost:
  ret ptr addrspace(1) null
}

define linkonce_odr hidden void @gpubuild_message_value(ptr addrspace(1) %values, i32 %number, i64 %value) alwaysinline nounwind {
entry:
  %lost = icmp eq ptr addrspace(1) %values, null
  br i1 %lost, label %end, label %write

write:
  %place = getelementptr i64, ptr addrspace(1) %values, i32 %number
  store i64 %value, ptr addrspace(1) %place, align 4
  br label %end

end:
  ret void
}

; Where a failed assertion tells the runtime which it was, before its trap ends the process: null unless
; the runtime put an address of host memory there (runtime/hip/hip_assert.c has the layout).
@gpubuild_assertion_record = external addrspace(1) global ptr addrspace(1)

; What a failed assertion says, to stderr. The text of %format has six %u for the workgroup and the work-item.
define linkonce_odr hidden void @gpubuild_assertion_failed(i64 %format) noinline norecurse nounwind {
entry:
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
  ; 60 bytes: control, format, six values
  %values = call ptr addrspace(1) @gpubuild_message(i32 243, i64 %format)
  call void @gpubuild_message_value(ptr addrspace(1) %values, i32 0, i64 %wbx)
  call void @gpubuild_message_value(ptr addrspace(1) %values, i32 1, i64 %wby)
  call void @gpubuild_message_value(ptr addrspace(1) %values, i32 2, i64 %wbz)
  call void @gpubuild_message_value(ptr addrspace(1) %values, i32 3, i64 %wtx)
  call void @gpubuild_message_value(ptr addrspace(1) %values, i32 4, i64 %wty)
  call void @gpubuild_message_value(ptr addrspace(1) %values, i32 5, i64 %wtz)
  %record = load ptr addrspace(1), ptr addrspace(1) @gpubuild_assertion_record, align 8
  %absent = icmp eq ptr addrspace(1) %record, null
  br i1 %absent, label %end, label %try

try:
  %exchange = cmpxchg ptr addrspace(1) %record, i32 0, i32 1 monotonic monotonic, align 8
  %first = extractvalue { i32, i1 } %exchange, 1
  br i1 %first, label %tell, label %end

tell:
  %name = getelementptr i8, ptr addrspace(1) %record, i64 8
  store i64 %format, ptr addrspace(1) %name, align 8
  %ids = getelementptr i8, ptr addrspace(1) %record, i64 16
  store i32 %bx, ptr addrspace(1) %ids, align 4
  %ids.1 = getelementptr i8, ptr addrspace(1) %record, i64 20
  store i32 %by, ptr addrspace(1) %ids.1, align 4
  %ids.2 = getelementptr i8, ptr addrspace(1) %record, i64 24
  store i32 %bz, ptr addrspace(1) %ids.2, align 4
  %ids.3 = getelementptr i8, ptr addrspace(1) %record, i64 28
  store i32 %tx, ptr addrspace(1) %ids.3, align 4
  %ids.4 = getelementptr i8, ptr addrspace(1) %record, i64 32
  store i32 %ty, ptr addrspace(1) %ids.4, align 4
  %ids.5 = getelementptr i8, ptr addrspace(1) %record, i64 36
  store i32 %tz, ptr addrspace(1) %ids.5, align 4
  store atomic i32 2, ptr addrspace(1) %record release, align 8
  br label %end

end:
  ret void
}
