// RUN: sm_90a convert-nvgpu-in-loops

gpu.module @k {
  gpu.func @f(%n: index, %s: vector<2xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %z = nvgpu.warpgroup.mma.init.accumulator -> <fragmented = vector<64x8xf32>>
    %r = scf.for %k = %c0 to %n step %c1 iter_args(%a = %z) -> (!nvgpu.warpgroup.accumulator<fragmented = vector<64x8xf32>>) {
      scf.yield %a : !nvgpu.warpgroup.accumulator<fragmented = vector<64x8xf32>>
    }
    "test.use"(%r) : (!nvgpu.warpgroup.accumulator<fragmented = vector<64x8xf32>>) -> ()
    gpu.return
  }
}

// CHECK: scf.for {{.*}} -> (!llvm.struct<
// CHECK: scf.yield %{{.*}} : !llvm.struct<
