// RUN: sm_60 call-libraries-directly
// RUN: gfx90a call-libraries-directly

gpu.module @k {
  llvm.func @numbers(%x: f32) -> f32 {
    %r = llvm.call @_mlir_ciface_numbers(%x) : (f32) -> f32
    llvm.return %r : f32
  }
  llvm.func @_mlir_ciface_numbers(f32) -> f32
  llvm.func @memory(%p: !llvm.ptr, %n: i64) {
    llvm.call @_mlir_ciface_memory(%p) : (!llvm.ptr) -> ()
    llvm.return
  }
  llvm.func @_mlir_ciface_memory(!llvm.ptr)
}

// CHECK-NOT: _mlir_ciface_numbers
// CHECK: llvm.func @numbers(f32) -> f32
// Memrefs go by pointer.
// CHECK: llvm.func @memory(%arg0
// CHECK: llvm.func @_mlir_ciface_memory(!llvm.ptr)
// Memrefs go by pointer.
