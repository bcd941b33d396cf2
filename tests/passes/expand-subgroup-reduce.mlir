// RUN: sm_60 expand-subgroup-reduce
// RUN: gfx90a expand-subgroup-reduce
// RUN: cpu expand-subgroup-reduce

gpu.module @k {
  gpu.func @full(%x: f32) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %r = gpu.subgroup_reduce add %x : (f32) -> f32
    "test.full"(%r) : (f32) -> ()
    %s = gpu.subgroup_reduce maxnumf %x cluster(size = 4, stride = 8) : (f32) -> f32
    "test.cluster"(%s) : (f32) -> ()
    gpu.return
  }
  gpu.func @any(%v: vector<2xf16>) kernel {
    %r = gpu.subgroup_reduce mul %v : (vector<2xf16>) -> vector<2xf16>
    "test.use"(%r) : (vector<2xf16>) -> ()
    gpu.return
  }
}

// A butterfly where the workgroup fills its subgroups: one exchange for each doubling.
// SM_60-COUNT-5: gpu.shuffle {{ *}}xor
// SM_60-NOT: gpu.shuffle
// SM_60: "test.full"
// SM_60: arith.constant 8 : i32
// SM_60: gpu.shuffle {{ *}}xor
// SM_60: arith.constant 16 : i32
// SM_60: gpu.shuffle {{ *}}xor
// SM_60-NOT: gpu.shuffle
// SM_60: "test.cluster"
// Else a tree towards the first lane, which skips lanes that do not exist, for each element.
// SM_60: gpu.func @any
// SM_60-COUNT-12: gpu.shuffle {{ *}}idx
// SM_60-NOT: gpu.shuffle

// GFX90A-COUNT-6: gpu.shuffle {{ *}}xor
// GFX90A: "test.full"

// Which lane reads which must not depend on the size of the workgroup.
// CPU: gpu.func @any
// CPU: %[[INSIDE:.*]] = arith.cmpi ult
// CPU: arith.select %[[INSIDE]], {{.*}} : i32
// CPU: gpu.shuffle {{ *}}idx
