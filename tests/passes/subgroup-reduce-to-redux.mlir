// RUN: sm_75 subgroup-reduce-to-redux
// RUN: sm_80 subgroup-reduce-to-redux

gpu.module @k {
  gpu.func @f(%n: i32, %v: vector<2xi32>, %h: i16, %w: i64, %x: f32) kernel {
    %a = gpu.subgroup_reduce add %n uniform : (i32) -> i32
    %b = gpu.subgroup_reduce add %n : (i32) -> i32
    %c = gpu.subgroup_reduce mul %n uniform : (i32) -> i32
    %d = gpu.subgroup_reduce minui %v uniform : (vector<2xi32>) -> vector<2xi32>
    %e = gpu.subgroup_reduce add %n uniform cluster(size = 16) : (i32) -> i32
    %f = gpu.subgroup_reduce maxsi %n uniform cluster(size = 32) : (i32) -> i32
    %g = gpu.subgroup_reduce add %h uniform : (i16) -> i16
    %i = gpu.subgroup_reduce add %w uniform : (i64) -> i64
    %j = gpu.subgroup_reduce add %x uniform : (f32) -> f32
    "test.use"(%a, %b, %c, %d, %e, %f, %g, %i, %j) : (i32, i32, i32, vector<2xi32>, i32, i32, i16, i64, f32) -> ()
    gpu.return
  }
  gpu.func @full(%n: i32) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %a = gpu.subgroup_reduce xor %n uniform : (i32) -> i32
    "test.use"(%a) : (i32) -> ()
    gpu.return
  }
}

// SM_75-NOT: nvvm.redux.sync

// Lanes that do not exist must not be waited for: their bits are shifted out of the mask.
// SM_80: %[[M:.*]] = arith.shrui %{{.*}} : i32
// SM_80: nvvm.redux.sync {{ *}}add %arg0, %[[M]] : i32 -> i32
// Without `uniform` some lanes may not come; there is no product, and none of part of a subgroup.
// SM_80: gpu.subgroup_reduce {{ *}}add %arg0 : (i32) -> i32
// SM_80: gpu.subgroup_reduce {{ *}}mul %arg0
// SM_80-COUNT-2: nvvm.redux.sync {{ *}}umin
// SM_80: gpu.subgroup_reduce {{ *}}add %arg0 {{.*}}cluster(size = 16)
// SM_80: nvvm.redux.sync {{ *}}max
// There is one for words only.
// SM_80-COUNT-3: gpu.subgroup_reduce {{ *}}add
// SM_80-LABEL: gpu.func @full
// SM_80-NOT: arith.shrui
// SM_80: nvvm.redux.sync {{ *}}xor
