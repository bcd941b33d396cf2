// RUN: spirv messages-to-opencl

gpu.module @k {
  gpu.func @f(%i: index, %v: f32, %right: i1) kernel {
    gpu.printf "%d of %f\0A", %i, %v : index, f32
    cf.assert %right, "100% right"
    gpu.return
  }
}

// CHECK: llvm.mlir.global external @gpubuild.assertion()
// CHECK: llvm.mlir.global internal constant @gpubuild.format.1("k.mlir:6:5: k: f: assertion failed: 100%% right\0A\00") {addr_space = 2 : i32}
// CHECK: llvm.mlir.global internal constant @gpubuild.format.0("%d of %f\0A\00") {addr_space = 2 : i32}
// CHECK: [[I:%.*]] = arith.index_cast %arg0 : index to i64
// CHECK: [[TEXT:%.*]] = llvm.mlir.addressof @gpubuild.format.0 : !llvm.ptr<2>
// CHECK: llvm.call @_Z18__spirv_ocl_printfPU3AS2Kcz([[TEXT]], [[I]], %arg1)
// CHECK: [[WRONG:%.*]] = arith.xori %arg2
// CHECK: scf.if [[WRONG]]
// CHECK: [[FLAG:%.*]] = llvm.mlir.addressof @gpubuild.assertion
// CHECK: llvm.store {{.*}}, [[FLAG]] : i32, !llvm.ptr
