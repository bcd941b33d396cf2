// RUN: sm_60 expand-shuffles
// RUN: gfx90a expand-shuffles
// RUN: cpu expand-shuffles

gpu.module @k {
  gpu.func @f(%m: memref<?xf32>, %i: index, %x: f64, %o: i32, %w: i32) kernel {
    %c32 = arith.constant 32 : i32
    %r, %p = gpu.shuffle up %x, %o, %c32 : f64
    %s, %q = gpu.shuffle xor %o, %o, %w : i32
    %t, %u = gpu.rotate %o, 3, 16 : i32
    "test.use"(%r, %p, %s, %q, %t, %u) : (f64, i1, i32, i1, i32, i1) -> ()
    gpu.return
  }
  gpu.func @whole(%x: i32, %o: i32) kernel attributes {known_block_size = array<i32: 32, 3, 1>} {
    %c32 = arith.constant 32 : i32
    %r, %p = gpu.shuffle up %x, %o, %c32 : i32
    "test.use"(%r, %p) : (i32, i1) -> ()
    gpu.return
  }
}

// A lane reads another by its number; what is out of the width reads itself, and says so. So does a lane
// whose source is missing in the last subgroup of a workgroup. Wide values go in words of 32 bits.
// SM_60-NOT: gpu.rotate
// SM_60: %[[L:.*]] = arith.index_cast %{{.*}} : index to i32
// SM_60: %[[S:.*]] = arith.subi %[[L]], %{{.*}} : i32
// SM_60: %[[V:.*]] = arith.cmpi ult, %[[S]], %{{.*}} : i32
// SM_60: %[[P:.*]] = arith.cmpi ult, %[[S]], %{{.*}} : i32
// SM_60: %[[B:.*]] = arith.andi %[[V]], %[[P]] : i1
// SM_60: arith.select %[[B]], %[[S]], %[[L]] : i32
// SM_60-COUNT-2: gpu.shuffle {{ *}}idx {{.*}} : i32
// Lanes that take part must be there, others must not be waited for.
// SM_60: scf.if
// SM_60: gpu.shuffle {{ *}}idx {{.*}} {gpubuild.some_lanes}

// On AMD GPUs every lane can read any register.
// GFX90A-NOT: scf.if
// GFX90A-COUNT-4: gpu.shuffle {{ *}}idx
// GFX90A-NOT: gpubuild.some_lanes

// Where workgroups are known to fill their subgroups, no lane is missing.
// SM_60-LABEL: gpu.func @whole
// SM_60-NOT: block_dim
// SM_60: gpu.shuffle
// SM_60-NOT: block_dim
// SM_60: gpu.return

// CPU: scf.if
// CPU-NOT: block_dim
