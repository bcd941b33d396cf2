// RUN: linalg map-to-launches
func.func @f(%a: memref<1000xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 1000 : index
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {
    %v = memref.load %a[%i] : memref<1000xf32>
    %w = math.exp %v : f32
    memref.store %w, %a[%i] : memref<1000xf32>
  }
  return
}
// CHECK: [[GROUPS:%.*]] = arith.ceildivsi %c1000, %c256
// CHECK: gpu.launch {{.*}} in ({{.*}} = [[GROUPS]], {{.*}} module(@f_kernels)
// CHECK: [[I:%.*]] = arith.addi {{.*}}, %arg4
// CHECK: [[INSIDE:%.*]] = arith.cmpi slt, [[I]], %c1000
// CHECK: scf.if [[INSIDE]]
// CHECK: memref.store {{.*}}, %arg0{{.}}[[I]]{{.}}
