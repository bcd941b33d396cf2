; Conversions between 16-bit and wider floats in integer arithmetic, for x86-64 without F16C or AVX512-BF16.
; Rounding is to nearest, ties to even; NaN stays NaN (quiet); as compiler-rt has them.

; Bits of a float, of which `drop` low ones are rounded away; the result may carry into the exponent.
define internal i32 @gpubuild.round(i32 %bits, i32 %drop) alwaysinline {
  %half.bit = sub i32 %drop, 1
  %half = shl i32 1, %half.bit
  %down = sub i32 %half, 1
  %kept = lshr i32 %bits, %drop
  %odd = and i32 %kept, 1
  %bias = add i32 %down, %odd
  %sum = add i32 %bits, %bias
  %result = lshr i32 %sum, %drop
  ret i32 %result
}

define internal i16 @gpubuild.half(i32 %bits) {
  %sign32 = lshr i32 %bits, 16
  %sign = and i32 %sign32, 32768
  %magnitude = and i32 %bits, 2147483647
  %is.nan = icmp ugt i32 %magnitude, 2139095040
  br i1 %is.nan, label %nan, label %number
nan:
  %payload = lshr i32 %magnitude, 13
  %payload.low = and i32 %payload, 511
  %quiet = or i32 %payload.low, 32256
  br label %join
number:
  %is.large = icmp uge i32 %magnitude, 1199570944      ; 65536.0
  br i1 %is.large, label %join, label %finite
finite:
  %is.normal = icmp uge i32 %magnitude, 947912704      ; 2^-14
  br i1 %is.normal, label %normal, label %subnormal
normal:
  %rebased = sub i32 %magnitude, 939524096             ; exponent bias 127 -> 15
  %rounded = call i32 @gpubuild.round(i32 %rebased, i32 13)
  br label %join
subnormal:
  %is.tiny = icmp ult i32 %magnitude, 855638016        ; below 2^-25
  br i1 %is.tiny, label %join, label %shifted
shifted:
  %exponent = lshr i32 %magnitude, 23
  %fraction = and i32 %magnitude, 8388607
  %significand = or i32 %fraction, 8388608
  %shift = sub i32 126, %exponent                      ; 14 .. 24
  %small = call i32 @gpubuild.round(i32 %significand, i32 %shift)
  br label %join
join:
  %value = phi i32 [ %quiet, %nan ], [ 31744, %number ], [ %rounded, %normal ], [ 0, %subnormal ], [ %small, %shifted ]
  %signed = or i32 %value, %sign
  %result = trunc i32 %signed to i16
  ret i16 %result
}

; A double as a float whose last bit is sticky, so that rounding again gives what rounding once would.
define internal i32 @gpubuild.sticky(double %x) {
  %f = fptrunc double %x to float
  %bits = bitcast float %f to i32
  %back = fpext float %f to double
  %exact = fcmp ueq double %back, %x
  br i1 %exact, label %done, label %inexact
inexact:
  %absolute = call double @llvm.fabs.f64(double %x)
  %absolute.back = call double @llvm.fabs.f64(double %back)
  %too.far = fcmp ogt double %absolute.back, %absolute
  %step = zext i1 %too.far to i32
  %toward.zero = sub i32 %bits, %step
  %sticky = or i32 %toward.zero, 1
  br label %done
done:
  %result = phi i32 [ %bits, %0 ], [ %sticky, %inexact ]
  ret i32 %result
}

declare double @llvm.fabs.f64(double)
declare i32 @llvm.ctlz.i32(i32, i1)

define internal i16 @gpubuild.bfloat(i32 %bits) {
  %magnitude = and i32 %bits, 2147483647
  %is.nan = icmp ugt i32 %magnitude, 2139095040
  br i1 %is.nan, label %nan, label %number
nan:
  %high = lshr i32 %bits, 16
  %quiet = or i32 %high, 64
  br label %join
number:
  %rounded = call i32 @gpubuild.round(i32 %bits, i32 16)
  br label %join
join:
  %value = phi i32 [ %quiet, %nan ], [ %rounded, %number ]
  %result = trunc i32 %value to i16
  ret i16 %result
}

define hidden half @__truncsfhf2(float %x) {
  %bits = bitcast float %x to i32
  %r = call i16 @gpubuild.half(i32 %bits)
  %h = bitcast i16 %r to half
  ret half %h
}

define hidden half @__truncdfhf2(double %x) {
  %bits = call i32 @gpubuild.sticky(double %x)
  %r = call i16 @gpubuild.half(i32 %bits)
  %h = bitcast i16 %r to half
  ret half %h
}

define hidden bfloat @__truncsfbf2(float %x) {
  %bits = bitcast float %x to i32
  %r = call i16 @gpubuild.bfloat(i32 %bits)
  %h = bitcast i16 %r to bfloat
  ret bfloat %h
}

define hidden bfloat @__truncdfbf2(double %x) {
  %bits = call i32 @gpubuild.sticky(double %x)
  %r = call i16 @gpubuild.bfloat(i32 %bits)
  %h = bitcast i16 %r to bfloat
  ret bfloat %h
}

define hidden float @__extendhfsf2(half %x) {
  %half = bitcast half %x to i16
  %bits = zext i16 %half to i32
  %sign.low = and i32 %bits, 32768
  %sign = shl i32 %sign.low, 16
  %magnitude = and i32 %bits, 32767
  %is.special = icmp uge i32 %magnitude, 31744
  br i1 %is.special, label %special, label %finite
special:
  %special.high = shl i32 %magnitude, 13
  %special.bits = or i32 %special.high, 2139095040
  br label %join
finite:
  %is.normal = icmp uge i32 %magnitude, 1024
  br i1 %is.normal, label %normal, label %small
normal:
  %wide = shl i32 %magnitude, 13
  %normal.bits = add i32 %wide, 939524096
  br label %join
small:
  %is.zero = icmp eq i32 %magnitude, 0
  br i1 %is.zero, label %join, label %subnormal
subnormal:
  %zeros = call i32 @llvm.ctlz.i32(i32 %magnitude, i1 true)
  %shift = sub i32 %zeros, 8
  %aligned = shl i32 %magnitude, %shift
  %fraction = and i32 %aligned, 8388607
  %exponent = sub i32 134, %zeros
  %exponent.bits = shl i32 %exponent, 23
  %subnormal.bits = or i32 %exponent.bits, %fraction
  br label %join
join:
  %value = phi i32 [ %special.bits, %special ], [ %normal.bits, %normal ], [ 0, %small ], [ %subnormal.bits, %subnormal ]
  %signed = or i32 %value, %sign
  %result = bitcast i32 %signed to float
  ret float %result
}
