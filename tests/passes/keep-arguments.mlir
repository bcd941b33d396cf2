// The caller's tensors are not written, unless the source says that they may be.
// RUN: linalg keep-arguments
func.func @f(%a: tensor<4xf32>, %n: index, %b: tensor<4xf32> {bufferization.writable = true}) {
  return
}
func.func private @declared(tensor<4xf32>)
// CHECK: @f(%arg0: tensor<4xf32> {bufferization.writable = false}, %arg1: index, %arg2: tensor<4xf32> {bufferization.writable = true})
// CHECK: @declared(tensor<4xf32>)

// CHECK: func.func private @printMemrefF32(tensor<*xf32> {bufferization.access = "read"})
// CHECK: func.func private @printAll(tensor<*xf32>)
func.func private @printMemrefF32(tensor<*xf32>)
func.func private @printAll(tensor<*xf32>)
