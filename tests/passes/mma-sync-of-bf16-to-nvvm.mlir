// RUN: sm_90 mma-sync-of-bf16-to-nvvm

gpu.module @k {
  gpu.func @f(%l: vector<4x2xbf16>, %r: vector<2x2xbf16>, %s: vector<2x2xf32>) kernel {
    %d = nvgpu.mma.sync (%l, %r, %s) {mmaShape = [16, 8, 16]} : (vector<4x2xbf16>, vector<2x2xbf16>, vector<2x2xf32>) -> vector<2x2xf32>
    "test.use"(%d) : (vector<2x2xf32>) -> ()
    gpu.return
  }
}

// Pairs of elements travel as one i32 each.
// CHECK-COUNT-6: llvm.bitcast %{{.*}} : vector<2xbf16> to i32
// CHECK: nvvm.mma.sync {{.*}}multiplicandAPtxType = #nvvm.mma_type<bf16>
// CHECK-COUNT-4: llvm.extractvalue
// CHECK: vector.from_elements
