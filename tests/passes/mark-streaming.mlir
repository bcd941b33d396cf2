// RUN: cpu mark-streaming

gpu.module @k {
  gpu.func @scale(%a: memref<?xf32>, %x: f32) kernel {
    %i = gpu.global_id x
    %v = memref.load %a[%i] : memref<?xf32>
    %w = arith.mulf %v, %x : f32
    memref.store %w, %a[%i] : memref<?xf32>
    gpu.return
  }
  gpu.func @computes(%a: memref<?xf32>) kernel {
    %i = gpu.global_id x
    %v = memref.load %a[%i] : memref<?xf32>
    %w = math.exp %v : f32
    memref.store %w, %a[%i] : memref<?xf32>
    gpu.return
  }
  // Neighbours find in a cache what others have loaded.
  gpu.func @stencil(%a: memref<?xf32>, %b: memref<?xf32>, %j: index) kernel {
    %i = gpu.global_id x
    %v = memref.load %a[%i] : memref<?xf32>
    %w = memref.load %a[%j] : memref<?xf32>
    %s = arith.addf %v, %w : f32
    memref.store %s, %b[%i] : memref<?xf32>
    gpu.return
  }
}

// CHECK: gpu.func @scale{{.*}} attributes {gpubuild.streaming}
// CHECK: gpu.func @computes({{.*}}) kernel {
// CHECK: gpu.func @stencil({{.*}}) kernel {
