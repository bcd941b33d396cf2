; A failed assertion on AMD GPUs where ROCm's libraries are not at hand: nothing but the trap after it.

define linkonce_odr hidden void @gpubuild_assertion_failed(ptr %format, i64 %bytes) alwaysinline nounwind {
  ret void
}
