; Square roots of f32 of the target flag `unsafe_sqrt`, approximated by AMD's instructions.

declare float @llvm.sqrt.f32(float)

define linkonce_odr hidden float @__ocml_sqrt_f32(float %x) alwaysinline nounwind {
  %r = call contract afn float @llvm.sqrt.f32(float %x)
  ret float %r
}

define linkonce_odr hidden float @__ocml_rsqrt_f32(float %x) alwaysinline nounwind {
  %s = call contract afn float @llvm.sqrt.f32(float %x)
  %r = fdiv contract arcp afn float 1.0, %s
  ret float %r
}

