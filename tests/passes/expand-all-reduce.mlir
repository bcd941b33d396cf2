// RUN: gfx90a expand-all-reduce
// RUN: gfx1100 expand-all-reduce

gpu.module @k {
  gpu.func @f(%x: f32) kernel {
    %a = gpu.all_reduce add %x uniform {} : (f32) -> f32
    "test.use"(%a) : (f32) -> ()
    gpu.return
  }
}

// A tree in each subgroup, then all read what the subgroups have come to.
// GFX90A: memref.global "private" @all_reduce_0 : memref<16xf32, #gpu.address_space<workgroup>>
// GFX90A-COUNT-6: gpu.shuffle {{ *}}idx
// GFX90A: scf.if
// GFX90A: memref.store
// GFX90A: gpu.barrier
// GFX90A: scf.for
// GFX90A: arith.addf
// GFX90A-NOT: gpu.all_reduce

// GFX1100: memref<32xf32, #gpu.address_space<workgroup>>
// GFX1100-COUNT-5: gpu.shuffle {{ *}}idx
// GFX1100-NOT: gpu.shuffle
