; Division of integers of 65 to 128 bits, and conversions between them and floats, which code generation calls.
; Conversions round to nearest, ties to even; as compiler-rt has them.

; Quotient and rest, without signs; digit by digit where 64 bits are not enough.
define internal { i128, i128 } @gpubuild.divide(i128 %n, i128 %d) {
  %both = or i128 %n, %d
  %is.short = icmp ult i128 %both, 18446744073709551616
  br i1 %is.short, label %short, label %long
short:
  %n64 = trunc i128 %n to i64
  %d64 = trunc i128 %d to i64
  %q64 = udiv i64 %n64, %d64
  %r64 = urem i64 %n64, %d64
  %q.short = zext i64 %q64 to i128
  %r.short = zext i64 %r64 to i128
  br label %join
long:
  %is.less = icmp ult i128 %n, %d
  br i1 %is.less, label %join, label %start
start:
  %n.zeros = call i128 @llvm.ctlz.i128(i128 %n, i1 false)
  %d.zeros = call i128 @llvm.ctlz.i128(i128 %d, i1 false)
  %distance = sub i128 %d.zeros, %n.zeros
  %shift = and i128 %distance, 127
  %aligned = shl i128 %d, %shift
  br label %digit
digit:
  %left = phi i128 [ %shift, %start ], [ %left.next, %digit ]
  %by = phi i128 [ %aligned, %start ], [ %by.next, %digit ]
  %q = phi i128 [ 0, %start ], [ %q.next, %digit ]
  %r = phi i128 [ %n, %start ], [ %r.next, %digit ]
  %goes = icmp uge i128 %r, %by
  %take = select i1 %goes, i128 %by, i128 0
  %r.next = sub i128 %r, %take
  %one = zext i1 %goes to i128
  %twice = shl i128 %q, 1
  %q.next = or i128 %twice, %one
  %by.next = lshr i128 %by, 1
  %left.next = sub i128 %left, 1
  %is.last = icmp eq i128 %left, 0
  br i1 %is.last, label %join, label %digit
join:
  %quotient = phi i128 [ %q.short, %short ], [ 0, %long ], [ %q.next, %digit ]
  %rest = phi i128 [ %r.short, %short ], [ %n, %long ], [ %r.next, %digit ]
  %first = insertvalue { i128, i128 } poison, i128 %quotient, 0
  %result = insertvalue { i128, i128 } %first, i128 %rest, 1
  ret { i128, i128 } %result
}

define hidden i128 @__udivti3(i128 %n, i128 %d) {
  %both = call { i128, i128 } @gpubuild.divide(i128 %n, i128 %d)
  %q = extractvalue { i128, i128 } %both, 0
  ret i128 %q
}

define hidden i128 @__umodti3(i128 %n, i128 %d) {
  %both = call { i128, i128 } @gpubuild.divide(i128 %n, i128 %d)
  %r = extractvalue { i128, i128 } %both, 1
  ret i128 %r
}

define hidden i128 @__divti3(i128 %n, i128 %d) {
  %n.size = call i128 @llvm.abs.i128(i128 %n, i1 false)
  %d.size = call i128 @llvm.abs.i128(i128 %d, i1 false)
  %both = call { i128, i128 } @gpubuild.divide(i128 %n.size, i128 %d.size)
  %q = extractvalue { i128, i128 } %both, 0
  %signs = xor i128 %n, %d
  %is.negative = icmp slt i128 %signs, 0
  %minus = sub i128 0, %q
  %result = select i1 %is.negative, i128 %minus, i128 %q
  ret i128 %result
}

define hidden i128 @__modti3(i128 %n, i128 %d) {
  %n.size = call i128 @llvm.abs.i128(i128 %n, i1 false)
  %d.size = call i128 @llvm.abs.i128(i128 %d, i1 false)
  %both = call { i128, i128 } @gpubuild.divide(i128 %n.size, i128 %d.size)
  %r = extractvalue { i128, i128 } %both, 1
  %is.negative = icmp slt i128 %n, 0
  %minus = sub i128 0, %r
  %result = select i1 %is.negative, i128 %minus, i128 %r
  ret i128 %result
}

; How far to move a number to the right for it to have at most 64 bits.
define internal i128 @gpubuild.excess(i128 %x) alwaysinline {
  %zeros = call i128 @llvm.ctlz.i128(i128 %x, i1 false)
  %more = sub i128 64, %zeros
  %excess = call i128 @llvm.smax.i128(i128 %more, i128 0)
  ret i128 %excess
}

; Its first 64 bits, of which the last one also stands for any behind it.
define internal i64 @gpubuild.first64(i128 %x, i128 %excess) alwaysinline {
  %moved = lshr i128 %x, %excess
  %back = shl i128 %moved, %excess
  %is.inexact = icmp ne i128 %back, %x
  %sticky = zext i1 %is.inexact to i64
  %first = trunc i128 %moved to i64
  %result = or i64 %first, %sticky
  ret i64 %result
}

define hidden float @__floatuntisf(i128 %x) {
  %excess = call i128 @gpubuild.excess(i128 %x)
  %first = call i64 @gpubuild.first64(i128 %x, i128 %excess)
  %short = uitofp i64 %first to float
  %excess32 = trunc i128 %excess to i32
  %exponent = add i32 %excess32, 127
  %bits = shl i32 %exponent, 23
  %scale = bitcast i32 %bits to float
  %result = fmul float %short, %scale
  ret float %result
}

define hidden double @__floatuntidf(i128 %x) {
  %excess = call i128 @gpubuild.excess(i128 %x)
  %first = call i64 @gpubuild.first64(i128 %x, i128 %excess)
  %short = uitofp i64 %first to double
  %excess64 = trunc i128 %excess to i64
  %exponent = add i64 %excess64, 1023
  %bits = shl i64 %exponent, 52
  %scale = bitcast i64 %bits to double
  %result = fmul double %short, %scale
  ret double %result
}

; A float holds all that is no infinity.
define hidden half @__floatuntihf(i128 %x) {
  %small = call i128 @llvm.umin.i128(i128 %x, i128 65536)
  %small32 = trunc i128 %small to i32
  %exact = uitofp i32 %small32 to float
  %result = fptrunc float %exact to half
  ret half %result
}

define hidden float @__floattisf(i128 %x) {
  %size = call i128 @llvm.abs.i128(i128 %x, i1 false)
  %positive = call float @__floatuntisf(i128 %size)
  %negative = fneg float %positive
  %is.negative = icmp slt i128 %x, 0
  %result = select i1 %is.negative, float %negative, float %positive
  ret float %result
}

define hidden double @__floattidf(i128 %x) {
  %size = call i128 @llvm.abs.i128(i128 %x, i1 false)
  %positive = call double @__floatuntidf(i128 %size)
  %negative = fneg double %positive
  %is.negative = icmp slt i128 %x, 0
  %result = select i1 %is.negative, double %negative, double %positive
  ret double %result
}

define hidden half @__floattihf(i128 %x) {
  %low = call i128 @llvm.smax.i128(i128 %x, i128 -65536)
  %small = call i128 @llvm.smin.i128(i128 %low, i128 65536)
  %small32 = trunc i128 %small to i32
  %exact = sitofp i32 %small32 to float
  %result = fptrunc float %exact to half
  ret half %result
}

define hidden i128 @__fixunsdfti(double %x) {
  %is.small = fcmp olt double %x, 0x43E0000000000000  ; 2^63
  br i1 %is.small, label %small, label %large
small:
  %short = fptosi double %x to i64
  %extended = sext i64 %short to i128
  ret i128 %extended
large:
  %bits = bitcast double %x to i64
  %fraction = and i64 %bits, 4503599627370495
  %significand = or i64 %fraction, 4503599627370496
  %exponent = lshr i64 %bits, 52
  %distance = sub i64 %exponent, 1075
  %shift64 = and i64 %distance, 127
  %wide = zext i64 %significand to i128
  %shift = zext i64 %shift64 to i128
  %result = shl i128 %wide, %shift
  ret i128 %result
}

define hidden i128 @__fixdfti(double %x) {
  %size = call double @llvm.fabs.f64(double %x)
  %positive = call i128 @__fixunsdfti(double %size)
  %negative = sub i128 0, %positive
  %is.negative = fcmp olt double %x, 0.0
  %result = select i1 %is.negative, i128 %negative, i128 %positive
  ret i128 %result
}

define hidden i128 @__fixunssfti(float %x) {
  %wide = fpext float %x to double
  %result = call i128 @__fixunsdfti(double %wide)
  ret i128 %result
}

define hidden i128 @__fixsfti(float %x) {
  %wide = fpext float %x to double
  %result = call i128 @__fixdfti(double %wide)
  ret i128 %result
}

define hidden i128 @__fixunshfti(half %x) {
  %exact = fpext half %x to float
  %short = fptosi float %exact to i32
  %result = sext i32 %short to i128
  ret i128 %result
}

define hidden i128 @__fixhfti(half %x) {
  %exact = fpext half %x to float
  %short = fptosi float %exact to i32
  %result = sext i32 %short to i128
  ret i128 %result
}

declare i128 @llvm.ctlz.i128(i128, i1)
declare i128 @llvm.abs.i128(i128, i1)
declare i128 @llvm.smax.i128(i128, i128)
declare i128 @llvm.smin.i128(i128, i128)
declare i128 @llvm.umin.i128(i128, i128)
declare double @llvm.fabs.f64(double)
