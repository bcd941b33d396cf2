// A tensor that a loop carries is written back to where it was: it stays in one buffer.
// RUN: linalg keep-carried-tensors
func.func @f(%a: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> tensor<4xf32> {
    %e = tensor.empty() : tensor<4xf32>
    %y = linalg.exp ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %y : tensor<4xf32>
  }
  %same = scf.for %i = %c0 to %n step %c1 iter_args(%x = %r) -> tensor<4xf32> {
    scf.yield %x : tensor<4xf32>
  }
  return %same : tensor<4xf32>
}
// CHECK: scf.for {{.*}} iter_args([[X:%.*]] = %arg0)
// CHECK: [[Y:%.*]] = linalg.exp
// CHECK: [[Z:%.*]] = bufferization.materialize_in_destination [[Y]] in [[X]]
// CHECK: scf.yield [[Z]]
// CHECK: scf.for {{.*}} iter_args([[SAME:%.*]] = 
// CHECK-NEXT: scf.yield [[SAME]]

// Tensors that are swapped are read before they are written; one whose shape may change gets new buffers.
func.func @g(%a: tensor<?xf32>, %b: tensor<?xf32>, %n: index) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %r:3 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a, %y = %b, %z = %a)
      -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
    %m = tensor.dim %a, %c0 : tensor<?xf32>
    %e = tensor.empty(%m) : tensor<?xf32>
    %s = linalg.exp ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) -> tensor<?xf32>
    %w = tensor.pad %z low[0] high[1] {
    ^bb0(%at: index):
      tensor.yield %zero : f32
    } : tensor<?xf32> to tensor<?xf32>
    scf.yield %s, %x, %w : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
  }
  return %r#0, %r#1, %r#2 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
// CHECK-LABEL: func.func @g
// CHECK: iter_args([[X:%.*]] = %arg0, [[Y:%.*]] = %arg1, [[Z:%.*]] = %arg0)
// CHECK: [[S:%.*]] = linalg.exp
// CHECK: [[W:%.*]] = tensor.pad
// CHECK: [[COPY:%.*]] = bufferization.alloc_tensor() copy([[X]])
// CHECK: [[S_IN_X:%.*]] = bufferization.materialize_in_destination [[S]] in [[X]]
// CHECK: scf.yield [[S_IN_X]], [[COPY]], [[W]]

// The inner loop keeps what the outer one carries where it is.
func.func @nested(%a: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> tensor<4xf32> {
    %s = scf.for %j = %c0 to %n step %c1 iter_args(%y = %x) -> tensor<4xf32> {
      %z = linalg.exp ins(%y : tensor<4xf32>) outs(%y : tensor<4xf32>) -> tensor<4xf32>
      scf.yield %z : tensor<4xf32>
    }
    scf.yield %s : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
// CHECK-LABEL: func.func @nested
// CHECK: scf.for
// CHECK: [[S:%.*]] = scf.for
// CHECK: materialize_in_destination
// CHECK-NOT: materialize_in_destination
// CHECK: scf.yield [[S]]

// So do loops in loops in loops.
func.func @deeper(%a: tensor<4xf32>, %n: index, %v: f32) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> tensor<4xf32> {
    %s = scf.for %j = %c0 to %n step %c1 iter_args(%y = %x) -> tensor<4xf32> {
      %t = scf.for %k = %c0 to %n step %c1 iter_args(%z = %y) -> tensor<4xf32> {
        %w = tensor.insert %v into %z[%k] : tensor<4xf32>
        scf.yield %w : tensor<4xf32>
      }
      scf.yield %t : tensor<4xf32>
    }
    scf.yield %s : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
// CHECK-LABEL: func.func @deeper
// CHECK: materialize_in_destination
// CHECK-NOT: materialize_in_destination
// CHECK: return

// What is yielded twice, and what may be computed in the buffer of another carried tensor, is copied. Branches
// have buffers of their own.
func.func @h(%a: tensor<4xf32>, %b: tensor<4xf32>, %n: index, %p: i1) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r:3 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a, %y = %b, %z = %a)
      -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %s = linalg.exp ins(%b : tensor<4xf32>) outs(%y : tensor<4xf32>) -> tensor<4xf32>
    %w = scf.if %p -> tensor<4xf32> {
      %e = tensor.empty() : tensor<4xf32>
      %t = linalg.exp ins(%a : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
      scf.yield %t : tensor<4xf32>
    } else {
      scf.yield %b : tensor<4xf32>
    }
    scf.yield %s, %s, %w : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  return %r#0, %r#1, %r#2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
// CHECK-LABEL: func.func @h
// CHECK: iter_args([[X:%.*]] = %arg0, [[Y:%.*]] = %arg1, [[Z:%.*]] = %arg0)
// CHECK: [[S:%.*]] = linalg.exp ins(%arg1 : tensor<4xf32>) outs([[Y]]
// CHECK: bufferization.alloc_tensor()
// CHECK: [[COPY:%.*]] = bufferization.alloc_tensor() copy([[S]])
// CHECK: bufferization.materialize_in_destination [[COPY]] in [[X]]
// CHECK: bufferization.materialize_in_destination [[S]] in [[Y]]

// Of a choice, the arm that is carried is copied.
func.func @choice(%a: tensor<4xf32>, %b: tensor<4xf32>, %n: index, %p: i1) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> tensor<4xf32> {
    %y = arith.select %p, %b, %x : tensor<4xf32>
    scf.yield %y : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
// CHECK-LABEL: func.func @choice
// CHECK: iter_args([[X:%.*]] = %arg0)
// CHECK: [[COPY:%.*]] = bufferization.alloc_tensor() copy([[X]])
// CHECK: [[Y:%.*]] = arith.select %arg3, %arg1, [[COPY]]
// CHECK: bufferization.materialize_in_destination [[Y]] in [[X]]

// What a while loop returns may be in the buffer that it began with.
func.func @while(%a: tensor<4xf32>, %n: index, %p: i1) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> tensor<4xf32> {
    %y = scf.while (%z = %x) : (tensor<4xf32>) -> tensor<4xf32> {
      scf.condition(%p) %z : tensor<4xf32>
    } do {
    ^bb0(%z: tensor<4xf32>):
      scf.yield %z : tensor<4xf32>
    }
    scf.yield %y : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
// CHECK-LABEL: func.func @while
// CHECK: [[Y:%.*]] = scf.while
// CHECK: bufferization.alloc_tensor() copy([[Y]])
