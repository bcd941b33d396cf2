// RUN: sm_90 extrema-to-llvm
// RUN: sm_60 extrema-to-llvm
// RUN: gfx90a extrema-to-llvm

gpu.module @k {
  gpu.func @f(%x: f32, %y: f32, %v: vector<2xf16>, %d: f64, %b: bf16, %m: vector<2x2xf32>) kernel {
    %0 = arith.maximumf %x, %y : f32
    %1 = arith.minimumf %v, %v fastmath<nnan,ninf> : vector<2xf16>
    %2 = arith.maximumf %d, %d : f64
    %3 = arith.maximumf %b, %b : bf16
    %4 = arith.minimumf %m, %m : vector<2x2xf32>
    %5 = arith.maxnumf %x, %y fastmath<nnan> : f32
    %6 = arith.minnumf %v, %v : vector<2xf16>
    "test.use"(%0, %1, %2, %3, %4) : (f32, vector<2xf16>, f64, bf16, vector<2x2xf32>) -> ()
    "test.use"(%5, %6) : (f32, vector<2xf16>) -> ()
    gpu.return
  }
}

// sm_80 and later have the NaN of max.NaN; AMD chips need two instructions more, which LLVM selects.
// SM_90: llvm.intr.maximum(%arg0, %arg1) : (f32, f32) -> f32
// SM_90: llvm.intr.minimum(%arg2, %arg2) {fastmathFlags = #llvm.fastmath<nnan, ninf>} : (vector<2xf16>,
// SM_90: %[[MAX:.*]] = llvm.call_intrinsic "llvm.maximumnum"(%arg3, %arg3) : (f64, f64) -> f64
// SM_90: %[[NUMBERS:.*]] = arith.cmpf ord, %arg3, %arg3 : f64
// SM_90: arith.select %[[NUMBERS]], %[[MAX]], %{{.*}} : f64
// SM_90: llvm.intr.maximum(%arg4, %arg4) : (bf16, bf16) -> bf16
// SM_90: arith.minimumf %arg5, %arg5 : vector<2x2xf32>
// SM_90: llvm.intr.maxnum(%arg0, %arg1) {fastmathFlags = #llvm.fastmath<nnan>} : (f32, f32) -> f32
// SM_90: llvm.intr.minnum(%arg2, %arg2) : (vector<2xf16>, vector<2xf16>) -> vector<2xf16>
// SM_60: %[[MAX:.*]] = llvm.call_intrinsic "llvm.maximumnum"(%arg0, %arg1) : (f32, f32) -> f32
// SM_60: arith.cmpf ord, %arg0, %arg1 : f32
// SM_60: arith.select
// SM_60: llvm.call_intrinsic "llvm.minimumnum"(%arg2, %arg2) {fastmathFlags = #llvm.fastmath<nnan, ninf>}
// SM_60-NOT: arith.select {{.*}}xf16
// SM_60: arith.maximumf %arg4, %arg4 : bf16
// SM_60: llvm.intr.maxnum(%arg0, %arg1)
// SM_60: arith.minnumf %arg2, %arg2 : vector<2xf16>
// GFX90A: llvm.intr.maximum(%arg0, %arg1) : (f32, f32) -> f32
// GFX90A: llvm.intr.minimum(%arg2, %arg2)
// GFX90A: llvm.intr.maximum(%arg3, %arg3) : (f64, f64) -> f64
// GFX90A: arith.maximumf %arg4, %arg4 : bf16
