// RUN: sm_60 promote-printf-arguments
// RUN: gfx90a promote-printf-arguments
// RUN: cpu promote-printf-arguments

gpu.module @k {
  gpu.func @f(%a: i8, %b: i1, %c: i64, %d: f16, %e: index, %g: i32) kernel {
    gpu.printf "%d %d %d %f %ld %d %lld\n", %a, %b, %c, %d, %e, %e, %g : i8, i1, i64, f16, index, index, i32
    gpu.return
  }
}

// CHECK: %[[A:.*]] = arith.extsi %arg0 : i8 to i32
// CHECK: %[[B:.*]] = arith.extui %arg1 : i1 to i32
// CHECK: %[[C:.*]] = arith.trunci %arg2 : i64 to i32
// CHECK: %[[D:.*]] = arith.extf %arg3 : f16 to f32
// CHECK: %[[E:.*]] = arith.index_cast %arg4 : index to i32
// CHECK: %[[G:.*]] = arith.extsi %arg5 : i32 to i64
// CHECK: gpu.printf "{{.*}}", %[[A]], %[[B]], %[[C]], %[[D]], %arg4, %[[E]], %[[G]] : i32, i32, i32, f32, index, i32, i64
