// RUN: sm_60 check-operations
// RUN: sm_90 check-operations
// RUN: gfx90a check-operations
// RUN: gfx700 check-operations

gpu.module @k {
  gpu.func @f(%m: memref<?xf32>, %i: index, %x: f32, %q: memref<?xi4>) kernel {
    nvvm.cluster.arrive
    %c = gpu.cluster_id x
    %r = gpu.subgroup_reduce add %x : (f32) -> f32
    rocdl.barrier
    %v = memref.load %q[%i] : memref<?xi4>
    gpu.printf "%s\n", %i : index
    memref.dealloc %m : memref<?xf32>
    gpu.return
  }

  gpu.func @first_lane(%l: index, %m: memref<?xf32>) kernel {
    %v = gpu.warp_execute_on_lane_0(%l)[32] -> (memref<?xf32>) {
      gpu.yield %m : memref<?xf32>
    }
    gpu.return
  }
}

// All errors at once, of the chip and of the module.
// SM_60: error: target sm_60 cannot compile this module
// SM_60-NEXT: error: 'nvvm.cluster.arrive' needs sm_90 or later; sm_60 does not have it
// SM_60-NEXT: error: 'gpu.cluster_id' needs clusters of workgroups
// SM_60-NEXT: error: 'rocdl.barrier' is an instruction of AMD GPUs
// SM_60-NEXT: error: memory of i4 elements is not supported; use i8
// SM_60-NEXT: error: 'gpu.printf': '%s' asks for a string
// SM_60-NEXT: error: 'gpu.warp_execute_on_lane_0' returns memref<?xf32>, which lanes cannot exchange

// SM_90: error: target sm_90 cannot compile this module
// SM_90-NEXT: error: 'rocdl.barrier' is an instruction of AMD GPUs
// SM_90-NEXT: error: memory of i4
// SM_90-NEXT: error: 'gpu.printf'

// GFX90A: error: target gfx90a cannot compile this module
// GFX90A-NEXT: error: 'nvvm.cluster.arrive' is an instruction of NVIDIA GPUs
// GFX90A-NEXT: error: 'gpu.cluster_id' needs clusters of workgroups
// GFX90A-NEXT: error: memory of i4
// GFX90A-NEXT: error: 'gpu.printf'
// GFX90A-NEXT: error: 'gpu.warp_execute_on_lane_0' of 32 work-items, where a subgroup has 64

// GFX700: error: 'gpu.subgroup_reduce' needs lanes to exchange values, which this chip cannot do
