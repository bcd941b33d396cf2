; Functions of ROCm's ocml.bc under `fast_math`: instructions of AMD chips, as NVIDIA targets use theirs. Their
; error is absolute, not relative to a small result, and grows with the argument, which is turned into a
; number of turns in f32 first. Without `fast_math` these come from ocml.py.

declare float @llvm.sin.f32(float)
declare float @llvm.cos.f32(float)

define linkonce_odr hidden float @__ocml_sin_f32(float %x) alwaysinline nounwind {
  %r = call afn float @llvm.sin.f32(float %x)
  ret float %r
}

define linkonce_odr hidden float @__ocml_cos_f32(float %x) alwaysinline nounwind {
  %r = call afn float @llvm.cos.f32(float %x)
  ret float %r
}

define linkonce_odr hidden float @__ocml_tan_f32(float %x) alwaysinline nounwind {
  %s = call afn float @llvm.sin.f32(float %x)
  %c = call afn float @llvm.cos.f32(float %x)
  %r = fdiv arcp afn float %s, %c
  ret float %r
}

; Half precision through single precision.
define linkonce_odr hidden half @__ocml_sin_f16(half %x) alwaysinline nounwind {
  %w = fpext half %x to float
  %y = call afn float @llvm.sin.f32(float %w)
  %r = fptrunc float %y to half
  ret half %r
}

define linkonce_odr hidden half @__ocml_cos_f16(half %x) alwaysinline nounwind {
  %w = fpext half %x to float
  %y = call afn float @llvm.cos.f32(float %w)
  %r = fptrunc float %y to half
  ret half %r
}

define linkonce_odr hidden half @__ocml_tan_f16(half %x) alwaysinline nounwind {
  %w = fpext half %x to float
  %s = call afn float @llvm.sin.f32(float %w)
  %c = call afn float @llvm.cos.f32(float %w)
  %y = fdiv arcp afn float %s, %c
  %r = fptrunc float %y to half
  ret half %r
}
