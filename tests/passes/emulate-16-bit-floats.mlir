// RUN: x86-64-v2 emulate-16-bit-floats
// RUN: x86-64-v3 emulate-16-bit-floats

gpu.module @k {
  llvm.func @f(%x: f16, %y: bf16, %v: vector<4xf16>, %p: !llvm.ptr) -> f16 {
    %0 = llvm.fadd %x, %x {fastmathFlags = #llvm.fastmath<nnan>} : f16
    %1 = llvm.fadd %0, %0 {fastmathFlags = #llvm.fastmath<nnan>} : f16
    %2 = llvm.fpext %y : bf16 to f64
    %3 = llvm.fptrunc %2 : f64 to f16
    %4 = "llvm.intr.vector.reduce.fadd"(%3, %v) <{fastmathFlags = #llvm.fastmath<none>}> : (f16, vector<4xf16>) -> f16
    %5 = llvm.fcmp "olt" %1, %4 : f16
    %6 = llvm.select %5, %1, %4 : i1, f16
    %7 = llvm.load %p invariant {alignment = 2 : i64} : !llvm.ptr -> bf16
    llvm.store %7, %p {alignment = 2 : i64} : bf16, !llvm.ptr
    llvm.return %6 : f16
  }
}

// X86_64_V2: %[[A:.*]] = llvm.call @gpubuild.fadd.0(%arg0, %arg0) : (f16, f16) -> f16
// X86_64_V2: llvm.call @gpubuild.fadd.0(%[[A]], %[[A]])
// X86_64_V2: llvm.call @gpubuild.fpext.1(%arg1) : (bf16) -> f64
// X86_64_V2: llvm.fptrunc {{.*}} : f64 to f16
// X86_64_V2: llvm.call @gpubuild.intr.vector.reduce.fadd.2
// X86_64_V2: llvm.call @gpubuild.fcmp.3
// X86_64_V2: %[[LOADED:.*]] = llvm.load %arg3 invariant {alignment = 2 : i64} : !llvm.ptr -> i16
// X86_64_V2: %[[FROZEN:.*]] = llvm.freeze %[[LOADED]]
// X86_64_V2: %[[BF16:.*]] = llvm.bitcast %[[FROZEN]] : i16 to bf16
// X86_64_V2: %[[STORED:.*]] = llvm.bitcast %[[BF16]] : bf16 to i16
// X86_64_V2: llvm.store %[[STORED]], %arg3 {alignment = 2 : i64} : i16, !llvm.ptr
// X86_64_V2: llvm.func internal @gpubuild.fadd.0(%arg0: f16, %arg1: f16) -> f16 attributes {always_inline}
// X86_64_V2: llvm.bitcast %arg0 : f16 to i16
// X86_64_V2: llvm.fadd {{.*}} {fastmathFlags = #llvm.fastmath<nnan>} : f32
// X86_64_V2: llvm.intr.umin
// X86_64_V2: llvm.return %{{.*}} : f16
// X86_64_V2: @gpubuild.fpext.1(%arg0: bf16) -> f64
// X86_64_V2: %[[BITS:.*]] = llvm.shl
// X86_64_V2: %[[F32:.*]] = llvm.bitcast %[[BITS]] : i32 to f32
// X86_64_V2: llvm.fpext %[[F32]] : f32 to f64
// X86_64_V2: @gpubuild.intr.vector.reduce.fadd.2(%arg0: f16, %arg1: vector<4xf16>)
// X86_64_V2-COUNT-4: llvm.extractelement {{.*}} : vector<4xf32>
// X86_64_V2: llvm.fcmp "olt" {{.*}} : f32

// X86_64_V3: llvm.fadd %arg0, %arg0 {{.*}} : f16
// X86_64_V3: llvm.call @gpubuild.fpext.0(%arg1) : (bf16) -> f64
// X86_64_V3: "llvm.intr.vector.reduce.fadd"
