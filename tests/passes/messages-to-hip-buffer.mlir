// RUN: gfx90a messages-to-hip-buffer

gpu.module @k {
  gpu.func @f(%n: i32, %c: i1) kernel {
    gpu.printf "n = %d\n", %n : i32
    cf.assert %c, "n must be positive"
    gpu.return
  }
}

// The text is in the code object; a message has its name, and eight bytes for each value.
// CHECK: gpu.module @k attributes {gpubuild.formats = ["{{[0-9a-f]+}},n = %d\0A", "{{[0-9a-f]+}},{{.*}}k: f: assertion failed: n must be positive
// CHECK: %[[N:.*]] = arith.extsi %arg0 : i32 to i64
// CHECK: %[[AT:.*]] = llvm.call @gpubuild_message(
// CHECK: llvm.call @gpubuild_message_value(%[[AT]], %{{.*}}, %[[N]])
// CHECK: scf.if
// CHECK: llvm.call @gpubuild_assertion_failed(
// CHECK: llvm.intr.trap
// CHECK-NOT: cf.assert
