// Memory that the function allocates is freed by upstream's pass, which refuses a memref.dealloc.
// RUN: linalg drop-deallocations
func.func @f(%x: f32, %given: memref<4xf32>) {
  %m = memref.alloc() : memref<4xf32>
  linalg.fill ins(%x : f32) outs(%m : memref<4xf32>)
  memref.dealloc %m : memref<4xf32>
  memref.dealloc %given : memref<4xf32>
  return
}
// CHECK: linalg.fill
// CHECK-NEXT: memref.dealloc %arg1
// CHECK-NEXT: return
