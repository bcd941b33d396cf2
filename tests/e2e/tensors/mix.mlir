#id = affine_map<(i) -> (i)>
#none = affine_map<(i) -> ()>

// The sum of squares: the loop over all elements has no parallel dimension.
func.func @sum_of_squares(%x: tensor<?xf32>) -> tensor<f32> attributes {llvm.emit_c_interface} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %s = tensor.empty(%n) : tensor<?xf32>
  %sq = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<?xf32>) outs(%s : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.mulf %a, %a : f32
    linalg.yield %p : f32
  } -> tensor<?xf32>
  %r = linalg.reduce ins(%sq : tensor<?xf32>) outs(%z : tensor<f32>) dimensions = [0]
    (%a: f32, %b: f32) { %q = arith.addf %a, %b : f32 linalg.yield %q : f32 }
  return %r : tensor<f32>
}

func.func private @step(%t: tensor<?xf32>, %x: tensor<?xf32>, %f: f32) -> tensor<?xf32> {
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<?xf32>) outs(%t : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.mulf %o, %f : f32
    %q = arith.addf %p, %a : f32
    linalg.yield %q : f32
  } -> tensor<?xf32>
  return %r : tensor<?xf32>
}

// A loop that carries a tensor; the host reads an element in each iteration.
func.func @iterate(%x: tensor<?xf32>, %count: index) -> tensor<?xf32> attributes {llvm.emit_c_interface} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %half = arith.constant 0.5 : f32
  %r = scf.for %i = %c0 to %count step %c1 iter_args(%t = %x) -> tensor<?xf32> {
    %next = func.call @step(%t, %x, %half) : (tensor<?xf32>, tensor<?xf32>, f32) -> tensor<?xf32>
    %first = tensor.extract %next[%c0] : tensor<?xf32>
    %large = arith.cmpf ogt, %first, %half : f32
    %out = scf.if %large -> tensor<?xf32> {
      %u = func.call @step(%next, %x, %first) : (tensor<?xf32>, tensor<?xf32>, f32) -> tensor<?xf32>
      scf.yield %u : tensor<?xf32>
    } else {
      %v = tensor.insert %half into %next[%c0] : tensor<?xf32>
      scf.yield %v : tensor<?xf32>
    }
    scf.yield %out : tensor<?xf32>
  }
  return %r : tensor<?xf32>
}

// Parts of tensors: rows, a border, a transposed copy.
func.func @parts(%x: tensor<6x8xi32>) -> tensor<8x10xi32> attributes {llvm.emit_c_interface} {
  %seven = arith.constant 7 : i32
  %low = tensor.extract_slice %x[0, 0] [3, 8] [1, 1] : tensor<6x8xi32> to tensor<3x8xi32>
  %odd = tensor.extract_slice %x[1, 0] [3, 8] [2, 1] : tensor<6x8xi32> to tensor<3x8xi32>
  %e = tensor.empty() : tensor<3x8xi32>
  %sum = linalg.add ins(%low, %odd : tensor<3x8xi32>, tensor<3x8xi32>) outs(%e : tensor<3x8xi32>) -> tensor<3x8xi32>
  %whole = tensor.insert_slice %sum into %x[2, 0] [3, 8] [1, 1] : tensor<3x8xi32> into tensor<6x8xi32>
  %f = tensor.empty() : tensor<8x6xi32>
  %turned = linalg.transpose ins(%whole : tensor<6x8xi32>) outs(%f : tensor<8x6xi32>) permutation = [1, 0]
  %padded = tensor.pad %turned low[0, 1] high[0, 3] {
  ^bb0(%i: index, %j: index):
    tensor.yield %seven : i32
  } : tensor<8x6xi32> to tensor<8x10xi32>
  return %padded : tensor<8x10xi32>
}

// Two results, one of them the argument; a change of shape.
func.func @two(%x: tensor<4x6xf32>) -> (tensor<24xf32>, tensor<4x6xf32>) attributes {llvm.emit_c_interface} {
  %e = tensor.empty() : tensor<4x6xf32>
  %y = linalg.exp ins(%x : tensor<4x6xf32>) outs(%e : tensor<4x6xf32>) -> tensor<4x6xf32>
  %flat = tensor.collapse_shape %y [[0, 1]] : tensor<4x6xf32> into tensor<24xf32>
  return %flat, %x : tensor<24xf32>, tensor<4x6xf32>
}

// Sums of rows of a tensor with four dimensions.
func.func @batch(%x: tensor<2x3x5x7xf32>) -> tensor<2x3x5xf32> attributes {llvm.emit_c_interface} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x3x5xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %r = linalg.reduce ins(%x : tensor<2x3x5x7xf32>) outs(%z : tensor<2x3x5xf32>) dimensions = [3]
    (%a: f32, %b: f32) { %q = arith.addf %a, %b : f32 linalg.yield %q : f32 }
  return %r : tensor<2x3x5xf32>
}

// A product in a loop, which cannot be computed in place.
func.func @power(%x: tensor<4x4xf32>, %count: index) -> tensor<4x4xf32> attributes {llvm.emit_c_interface} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %r = scf.for %i = %c0 to %count step %c1 iter_args(%t = %x) -> tensor<4x4xf32> {
    %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
    %next = linalg.matmul ins(%t, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
    scf.yield %next : tensor<4x4xf32>
  }
  return %r : tensor<4x4xf32>
}

// Memory whose uses are not all known: a variable, a memref with gaps, one of two memrefs, branches.
memref.global "private" @state : memref<64xf32> = dense<1.0>

func.func @double_state(%times: index) -> f32 attributes {llvm.emit_c_interface} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %two = arith.constant 2.0 : f32
  scf.for %i = %c0 to %times step %c1 {
    %state = memref.get_global @state : memref<64xf32>
    linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%state : memref<64xf32>) {
    ^bb0(%a: f32):
      %p = arith.mulf %a, %two : f32
      linalg.yield %p : f32
    }
  }
  %again = memref.get_global @state : memref<64xf32>
  %last = arith.constant 63 : index
  %r = memref.load %again[%last] : memref<64xf32>
  return %r : f32
}

!gaps = memref<?xf32, strided<[?], offset: ?>>
func.func @one_of(%a: !gaps, %b: !gaps, %first: i1, %done: i1) attributes {llvm.emit_c_interface} {
  %two = arith.constant 2.0 : f32
  cf.cond_br %done, ^end, ^work
^work:
  %one = arith.select %first, %a, %b : !gaps
  linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%one : !gaps) {
  ^bb0(%x: f32):
    %p = arith.mulf %x, %two : f32
    linalg.yield %p : f32
  }
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%a : !gaps) outs(%b : !gaps) {
  ^bb0(%x: f32, %y: f32):
    %p = arith.addf %x, %y : f32
    linalg.yield %p : f32
  }
  cf.br ^end
^end:
  return
}

// Writes to an argument where that is allowed.
func.func @increment(%x: memref<?xf32>) attributes {llvm.emit_c_interface} {
  %one = arith.constant 1.0 : f32
  %t = bufferization.to_tensor %x restrict writable : memref<?xf32> to tensor<?xf32>
  %r = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%t : tensor<?xf32>) {
  ^bb0(%o: f32):
    %q = arith.addf %o, %one : f32
    linalg.yield %q : f32
  } -> tensor<?xf32>
  bufferization.materialize_in_destination %r in restrict writable %x : (tensor<?xf32>, memref<?xf32>) -> ()
  return
}
