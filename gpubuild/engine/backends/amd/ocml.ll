; Functions of ROCm's ocml.bc that AMD's code generator does exactly by itself, so that a kernel that uses
; only these needs no ROCm installation. What takes more than that (sin, pow, erf, ...) is in ocml.py.

declare half @llvm.floor.f16(half)
define linkonce_odr hidden half @__ocml_floor_f16(half %x) alwaysinline nounwind {
  %r = call half @llvm.floor.f16(half %x)
  ret half %r
}

declare float @llvm.floor.f32(float)
define linkonce_odr hidden float @__ocml_floor_f32(float %x) alwaysinline nounwind {
  %r = call float @llvm.floor.f32(float %x)
  ret float %r
}

declare double @llvm.floor.f64(double)
define linkonce_odr hidden double @__ocml_floor_f64(double %x) alwaysinline nounwind {
  %r = call double @llvm.floor.f64(double %x)
  ret double %r
}

declare half @llvm.ceil.f16(half)
define linkonce_odr hidden half @__ocml_ceil_f16(half %x) alwaysinline nounwind {
  %r = call half @llvm.ceil.f16(half %x)
  ret half %r
}

declare float @llvm.ceil.f32(float)
define linkonce_odr hidden float @__ocml_ceil_f32(float %x) alwaysinline nounwind {
  %r = call float @llvm.ceil.f32(float %x)
  ret float %r
}

declare double @llvm.ceil.f64(double)
define linkonce_odr hidden double @__ocml_ceil_f64(double %x) alwaysinline nounwind {
  %r = call double @llvm.ceil.f64(double %x)
  ret double %r
}

declare half @llvm.trunc.f16(half)
define linkonce_odr hidden half @__ocml_trunc_f16(half %x) alwaysinline nounwind {
  %r = call half @llvm.trunc.f16(half %x)
  ret half %r
}

declare float @llvm.trunc.f32(float)
define linkonce_odr hidden float @__ocml_trunc_f32(float %x) alwaysinline nounwind {
  %r = call float @llvm.trunc.f32(float %x)
  ret float %r
}

declare double @llvm.trunc.f64(double)
define linkonce_odr hidden double @__ocml_trunc_f64(double %x) alwaysinline nounwind {
  %r = call double @llvm.trunc.f64(double %x)
  ret double %r
}

declare half @llvm.rint.f16(half)
define linkonce_odr hidden half @__ocml_rint_f16(half %x) alwaysinline nounwind {
  %r = call half @llvm.rint.f16(half %x)
  ret half %r
}

declare float @llvm.rint.f32(float)
define linkonce_odr hidden float @__ocml_rint_f32(float %x) alwaysinline nounwind {
  %r = call float @llvm.rint.f32(float %x)
  ret float %r
}

declare double @llvm.rint.f64(double)
define linkonce_odr hidden double @__ocml_rint_f64(double %x) alwaysinline nounwind {
  %r = call double @llvm.rint.f64(double %x)
  ret double %r
}

declare half @llvm.round.f16(half)
define linkonce_odr hidden half @__ocml_round_f16(half %x) alwaysinline nounwind {
  %r = call half @llvm.round.f16(half %x)
  ret half %r
}

declare float @llvm.round.f32(float)
define linkonce_odr hidden float @__ocml_round_f32(float %x) alwaysinline nounwind {
  %r = call float @llvm.round.f32(float %x)
  ret float %r
}

declare double @llvm.round.f64(double)
define linkonce_odr hidden double @__ocml_round_f64(double %x) alwaysinline nounwind {
  %r = call double @llvm.round.f64(double %x)
  ret double %r
}

declare half @llvm.nearbyint.f16(half)
define linkonce_odr hidden half @__ocml_nearbyint_f16(half %x) alwaysinline nounwind {
  %r = call half @llvm.nearbyint.f16(half %x)
  ret half %r
}

declare float @llvm.nearbyint.f32(float)
define linkonce_odr hidden float @__ocml_nearbyint_f32(float %x) alwaysinline nounwind {
  %r = call float @llvm.nearbyint.f32(float %x)
  ret float %r
}

declare double @llvm.nearbyint.f64(double)
define linkonce_odr hidden double @__ocml_nearbyint_f64(double %x) alwaysinline nounwind {
  %r = call double @llvm.nearbyint.f64(double %x)
  ret double %r
}

declare half @llvm.fabs.f16(half)
define linkonce_odr hidden half @__ocml_fabs_f16(half %x) alwaysinline nounwind {
  %r = call half @llvm.fabs.f16(half %x)
  ret half %r
}

declare float @llvm.fabs.f32(float)
define linkonce_odr hidden float @__ocml_fabs_f32(float %x) alwaysinline nounwind {
  %r = call float @llvm.fabs.f32(float %x)
  ret float %r
}

declare double @llvm.fabs.f64(double)
define linkonce_odr hidden double @__ocml_fabs_f64(double %x) alwaysinline nounwind {
  %r = call double @llvm.fabs.f64(double %x)
  ret double %r
}

declare half @llvm.fma.f16(half, half, half)
define linkonce_odr hidden half @__ocml_fma_f16(half %x, half %y, half %z) alwaysinline nounwind {
  %r = call half @llvm.fma.f16(half %x, half %y, half %z)
  ret half %r
}

declare float @llvm.fma.f32(float, float, float)
define linkonce_odr hidden float @__ocml_fma_f32(float %x, float %y, float %z) alwaysinline nounwind {
  %r = call float @llvm.fma.f32(float %x, float %y, float %z)
  ret float %r
}

declare double @llvm.fma.f64(double, double, double)
define linkonce_odr hidden double @__ocml_fma_f64(double %x, double %y, double %z) alwaysinline nounwind {
  %r = call double @llvm.fma.f64(double %x, double %y, double %z)
  ret double %r
}

declare half @llvm.copysign.f16(half, half)
define linkonce_odr hidden half @__ocml_copysign_f16(half %x, half %y) alwaysinline nounwind {
  %r = call half @llvm.copysign.f16(half %x, half %y)
  ret half %r
}

declare float @llvm.copysign.f32(float, float)
define linkonce_odr hidden float @__ocml_copysign_f32(float %x, float %y) alwaysinline nounwind {
  %r = call float @llvm.copysign.f32(float %x, float %y)
  ret float %r
}

declare double @llvm.copysign.f64(double, double)
define linkonce_odr hidden double @__ocml_copysign_f64(double %x, double %y) alwaysinline nounwind {
  %r = call double @llvm.copysign.f64(double %x, double %y)
  ret double %r
}

declare half @llvm.sqrt.f16(half)
define linkonce_odr hidden half @__ocml_sqrt_f16(half %x) alwaysinline nounwind {
  %r = call half @llvm.sqrt.f16(half %x)
  ret half %r
}

declare float @llvm.sqrt.f32(float)
define linkonce_odr hidden float @__ocml_sqrt_f32(float %x) alwaysinline nounwind {
  %r = call float @llvm.sqrt.f32(float %x)
  ret float %r
}

declare double @llvm.sqrt.f64(double)
define linkonce_odr hidden double @__ocml_sqrt_f64(double %x) alwaysinline nounwind {
  %r = call double @llvm.sqrt.f64(double %x)
  ret double %r
}

define linkonce_odr hidden half @__ocml_rsqrt_f16(half %x) alwaysinline nounwind {
  %s = call half @llvm.sqrt.f16(half %x)
  %r = fdiv half 1.0, %s
  ret half %r
}

define linkonce_odr hidden float @__ocml_rsqrt_f32(float %x) alwaysinline nounwind {
  %s = call float @llvm.sqrt.f32(float %x)
  %r = fdiv float 1.0, %s
  ret float %r
}

define linkonce_odr hidden double @__ocml_rsqrt_f64(double %x) alwaysinline nounwind {
  %s = call double @llvm.sqrt.f64(double %x)
  %r = fdiv double 1.0, %s
  ret double %r
}

; What ROCm's own library forwards to the code generator as well.
declare float @llvm.exp.f32(float)
define linkonce_odr hidden float @__ocml_exp_f32(float %x) alwaysinline nounwind {
  %r = call float @llvm.exp.f32(float %x)
  ret float %r
}

declare float @llvm.exp2.f32(float)
define linkonce_odr hidden float @__ocml_exp2_f32(float %x) alwaysinline nounwind {
  %r = call float @llvm.exp2.f32(float %x)
  ret float %r
}

declare float @llvm.log.f32(float)
define linkonce_odr hidden float @__ocml_log_f32(float %x) alwaysinline nounwind {
  %r = call float @llvm.log.f32(float %x)
  ret float %r
}

declare float @llvm.log2.f32(float)
define linkonce_odr hidden float @__ocml_log2_f32(float %x) alwaysinline nounwind {
  %r = call float @llvm.log2.f32(float %x)
  ret float %r
}

declare float @llvm.log10.f32(float)
define linkonce_odr hidden float @__ocml_log10_f32(float %x) alwaysinline nounwind {
  %r = call float @llvm.log10.f32(float %x)
  ret float %r
}

; Half precision through single precision, which has more than enough of it.
define linkonce_odr hidden half @__ocml_exp_f16(half %x) alwaysinline nounwind {
  %w = fpext half %x to float
  %y = call float @llvm.exp.f32(float %w)
  %r = fptrunc float %y to half
  ret half %r
}

define linkonce_odr hidden half @__ocml_exp2_f16(half %x) alwaysinline nounwind {
  %w = fpext half %x to float
  %y = call float @llvm.exp2.f32(float %w)
  %r = fptrunc float %y to half
  ret half %r
}

define linkonce_odr hidden half @__ocml_log_f16(half %x) alwaysinline nounwind {
  %w = fpext half %x to float
  %y = call float @llvm.log.f32(float %w)
  %r = fptrunc float %y to half
  ret half %r
}

define linkonce_odr hidden half @__ocml_log2_f16(half %x) alwaysinline nounwind {
  %w = fpext half %x to float
  %y = call float @llvm.log2.f32(float %w)
  %r = fptrunc float %y to half
  ret half %r
}

define linkonce_odr hidden half @__ocml_log10_f16(half %x) alwaysinline nounwind {
  %w = fpext half %x to float
  %y = call float @llvm.log10.f32(float %w)
  %r = fptrunc float %y to half
  ret half %r
}

; LLVM expands frem as ocml does, by exact steps of a long division.
define linkonce_odr hidden half @__ocml_fmod_f16(half %x, half %y) alwaysinline nounwind {
  %r = frem half %x, %y
  ret half %r
}

; The call keeps it from becoming a frem of bf16 where its operands are that: there is no expansion of it.
declare float @llvm.canonicalize.f32(float)
define linkonce_odr hidden float @__ocml_fmod_f32(float %x, float %y) alwaysinline nounwind {
  %q = frem float %x, %y
  %r = call float @llvm.canonicalize.f32(float %q)
  ret float %r
}

define linkonce_odr hidden double @__ocml_fmod_f64(double %x, double %y) alwaysinline nounwind {
  %r = frem double %x, %y
  ret double %r
}
