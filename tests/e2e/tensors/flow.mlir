// Tensors through control flow: each loop carries them in buffers whose shape or place may change.

// Both arms have their own extents.
func.func @arms(%x: tensor<?xi32>, %y: tensor<?xi32>, %both: i1) -> tensor<?xi32> attributes {llvm.emit_c_interface} {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %y, %c0 : tensor<?xi32>
  %e = tensor.empty(%n) : tensor<?xi32>
  %r = scf.if %both -> tensor<?xi32> {
    %s = linalg.add ins(%x, %y : tensor<?xi32>, tensor<?xi32>) outs(%e : tensor<?xi32>) -> tensor<?xi32>
    scf.yield %s : tensor<?xi32>
  } else {
    %s = linalg.mul ins(%y, %y : tensor<?xi32>, tensor<?xi32>) outs(%e : tensor<?xi32>) -> tensor<?xi32>
    scf.yield %s : tensor<?xi32>
  }
  return %r : tensor<?xi32>
}

// The tensor is longer after each iteration.
func.func @grow(%x: tensor<?xi32>, %count: index) -> tensor<?xi32> attributes {llvm.emit_c_interface} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %seven = arith.constant 7 : i32
  %r = scf.for %i = %c0 to %count step %c1 iter_args(%t = %x) -> tensor<?xi32> {
    %p = tensor.pad %t low[0] high[%i] {
    ^bb0(%at: index):
      tensor.yield %seven : i32
    } : tensor<?xi32> to tensor<?xi32>
    scf.yield %p : tensor<?xi32>
  }
  return %r : tensor<?xi32>
}

// The two are swapped; the first is added to the second under a condition.
func.func @swap(%x: tensor<?xi32>, %y: tensor<?xi32>, %count: index, %add: i1) -> (tensor<?xi32>, tensor<?xi32>) attributes {llvm.emit_c_interface} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r:2 = scf.for %i = %c0 to %count step %c1 iter_args(%a = %x, %b = %y) -> (tensor<?xi32>, tensor<?xi32>) {
    %c = scf.if %add -> tensor<?xi32> {
      %s = linalg.add ins(%a, %b : tensor<?xi32>, tensor<?xi32>) outs(%b : tensor<?xi32>) -> tensor<?xi32>
      scf.yield %s : tensor<?xi32>
    } else {
      scf.yield %b : tensor<?xi32>
    }
    scf.yield %c, %a : tensor<?xi32>, tensor<?xi32>
  }
  return %r#0, %r#1 : tensor<?xi32>, tensor<?xi32>
}

// The first stays in one buffer, the second is the first of the iteration before.
func.func @follow(%x: tensor<?xi32>, %y: tensor<?xi32>, %count: index) -> (tensor<?xi32>, tensor<?xi32>) attributes {llvm.emit_c_interface} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r:2 = scf.for %i = %c0 to %count step %c1 iter_args(%a = %x, %b = %y) -> (tensor<?xi32>, tensor<?xi32>) {
    %n = tensor.dim %a, %c0 : tensor<?xi32>
    %e = tensor.empty(%n) : tensor<?xi32>
    %s = linalg.add ins(%a, %a : tensor<?xi32>, tensor<?xi32>) outs(%e : tensor<?xi32>) -> tensor<?xi32>
    scf.yield %s, %a : tensor<?xi32>, tensor<?xi32>
  }
  return %r#0, %r#1 : tensor<?xi32>, tensor<?xi32>
}

// Loops in loops: the inner one begins with what the outer one carries.
func.func @nest(%x: tensor<?xi32>, %count: index) -> tensor<?xi32> attributes {llvm.emit_c_interface} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %count step %c1 iter_args(%a = %x) -> tensor<?xi32> {
    %s = scf.for %j = %c0 to %count step %c1 iter_args(%b = %a) -> tensor<?xi32> {
      %t = linalg.add ins(%b, %x : tensor<?xi32>, tensor<?xi32>) outs(%b : tensor<?xi32>) -> tensor<?xi32>
      scf.yield %t : tensor<?xi32>
    }
    scf.yield %s : tensor<?xi32>
  }
  return %r : tensor<?xi32>
}

// Operations of arith on tensors; the two that are chosen from differ in shape.
func.func @choose(%x: tensor<?xi32>, %y: tensor<?xi32>, %first: i1) -> tensor<?xi32> attributes {llvm.emit_c_interface} {
  %r = arith.select %first, %x, %y : tensor<?xi32>
  %s = arith.addi %r, %r : tensor<?xi32>
  return %s : tensor<?xi32>
}

// A loop carries one of two tensors that it carries.
func.func @carry_one(%x: tensor<40xi32>, %y: tensor<40xi32>, %count: index, %first: i1) -> (tensor<40xi32>, tensor<40xi32>) attributes {llvm.emit_c_interface} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r:2 = scf.for %i = %c0 to %count step %c1 iter_args(%a = %x, %b = %y) -> (tensor<40xi32>, tensor<40xi32>) {
    %one = arith.select %first, %a, %b : tensor<40xi32>
    %s = linalg.add ins(%a, %b : tensor<40xi32>, tensor<40xi32>) outs(%a : tensor<40xi32>) -> tensor<40xi32>
    scf.yield %s, %one : tensor<40xi32>, tensor<40xi32>
  }
  return %r#0, %r#1 : tensor<40xi32>, tensor<40xi32>
}

// One value is two results.
func.func @twice(%x: tensor<?xi32>) -> (tensor<?xi32>, tensor<?xi32>) attributes {llvm.emit_c_interface} {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xi32>
  %e = tensor.empty(%n) : tensor<?xi32>
  %s = linalg.add ins(%x, %x : tensor<?xi32>, tensor<?xi32>) outs(%e : tensor<?xi32>) -> tensor<?xi32>
  return %s, %s : tensor<?xi32>, tensor<?xi32>
}
