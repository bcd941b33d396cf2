// RUN: sm_60 separate-all-reduces
// RUN: gfx90a separate-all-reduces

gpu.module @k {
  gpu.func @f(%x: f32, %n: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %a = gpu.all_reduce add %x uniform {} : (f32) -> f32
    "test.once"(%a) : (f32) -> ()
    scf.for %k = %c0 to %n step %c1 {
      %b = gpu.all_reduce add %x uniform {} : (f32) -> f32
      "test.again"(%b) : (f32) -> ()
    }
    gpu.return
  }
  func.func @called(%x: f32) -> f32 {
    %c = gpu.all_reduce add %x uniform {} : (f32) -> f32
    return %c : f32
  }
}

// A fast subgroup that comes again must not overwrite what a slow one has not read.
// CHECK: gpu.all_reduce
// CHECK-NOT: gpu.barrier
// CHECK: "test.once"
// CHECK: gpu.all_reduce
// CHECK: gpu.barrier
// CHECK: "test.again"
// CHECK: gpu.all_reduce
// CHECK: gpu.barrier
// CHECK: return

// A fast subgroup that comes again must not overwrite what a slow one has not read.
