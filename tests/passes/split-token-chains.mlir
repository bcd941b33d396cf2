// Launches on different memory are in different chains; a launch that needs both joins them.
// RUN: linalg async-regions..split-token-chains
module attributes {gpu.container_module} {
  gpu.module @k {
    gpu.func @double(%x: memref<8xf32>, %y: memref<8xf32>) kernel {
      %i = gpu.thread_id x
      %v = memref.load %x[%i] : memref<8xf32>
      %w = arith.addf %v, %v : f32
      memref.store %w, %y[%i] : memref<8xf32>
      gpu.return
    }
    gpu.func @sum(%x: memref<8xf32>, %y: memref<8xf32>, %z: memref<8xf32>) kernel {
      %i = gpu.thread_id x
      %v = memref.load %x[%i] : memref<8xf32>
      %w = memref.load %y[%i] : memref<8xf32>
      %s = arith.addf %v, %w : f32
      memref.store %s, %z[%i] : memref<8xf32>
      gpu.return
    }
  }
  func.func @two(%a: memref<8xf32>, %b: memref<8xf32>, %r: memref<8xf32> {bufferize.result}) {
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %a1 = gpu.alloc () : memref<8xf32>
    %a2 = gpu.alloc () : memref<8xf32>
    %b1 = gpu.alloc () : memref<8xf32>
    %b2 = gpu.alloc () : memref<8xf32>
    %out = gpu.alloc () : memref<8xf32>
    gpu.memcpy %a1, %a : memref<8xf32>, memref<8xf32>
    gpu.launch_func @k::@double blocks in (%c1, %c1, %c1) threads in (%c8, %c1, %c1)
        args(%a1 : memref<8xf32>, %a2 : memref<8xf32>)
    gpu.memcpy %b1, %b : memref<8xf32>, memref<8xf32>
    gpu.launch_func @k::@double blocks in (%c1, %c1, %c1) threads in (%c8, %c1, %c1)
        args(%b1 : memref<8xf32>, %b2 : memref<8xf32>)
    gpu.launch_func @k::@sum blocks in (%c1, %c1, %c1) threads in (%c8, %c1, %c1)
        args(%a2 : memref<8xf32>, %b2 : memref<8xf32>, %out : memref<8xf32>)
    gpu.memcpy %r, %out : memref<8xf32>, memref<8xf32>
    gpu.dealloc %a1 : memref<8xf32>
    gpu.dealloc %b2 : memref<8xf32>
    gpu.dealloc %out : memref<8xf32>
    return
  }
  // All depends on what is before it.
  func.func @one(%a: memref<8xf32>, %r: memref<8xf32> {bufferize.result}) {
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %x = gpu.alloc () : memref<8xf32>
    %y = gpu.alloc () : memref<8xf32>
    gpu.memcpy %x, %a : memref<8xf32>, memref<8xf32>
    gpu.launch_func @k::@double blocks in (%c1, %c1, %c1) threads in (%c8, %c1, %c1)
        args(%x : memref<8xf32>, %y : memref<8xf32>)
    gpu.launch_func @k::@double blocks in (%c1, %c1, %c1) threads in (%c8, %c1, %c1)
        args(%y : memref<8xf32>, %x : memref<8xf32>)
    gpu.memcpy %r, %x : memref<8xf32>, memref<8xf32>
    gpu.dealloc %x : memref<8xf32>
    gpu.dealloc %y : memref<8xf32>
    return
  }
  // What stands for %a on the device may be the same memory: a kernel that writes it follows a copy of %a.
  func.func @mirrored(%a: memref<8xf32>, %r: memref<8xf32> {bufferize.result}) {
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %x = gpu.alloc () {gpubuild.mirror} : memref<8xf32>
    %y = gpu.alloc () : memref<8xf32>
    %z = gpu.alloc () : memref<8xf32>
    gpu.memcpy %x, %a : memref<8xf32>, memref<8xf32> {gpubuild.mirror}
    gpu.launch_func @k::@double blocks in (%c1, %c1, %c1) threads in (%c8, %c1, %c1)
        args(%x : memref<8xf32>, %y : memref<8xf32>)
    gpu.memcpy %z, %a : memref<8xf32>, memref<8xf32>
    gpu.launch_func @k::@double blocks in (%c1, %c1, %c1) threads in (%c8, %c1, %c1)
        args(%y : memref<8xf32>, %x : memref<8xf32>)
    gpu.memcpy %r, %z : memref<8xf32>, memref<8xf32>
    return
  }
  // Three kernels read what was copied once; nobody waits for another, and the memory goes at the end.
  func.func @shared(%a: memref<8xf32>) {
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %x = gpu.alloc () : memref<8xf32>
    %y = gpu.alloc () : memref<8xf32>
    %z = gpu.alloc () : memref<8xf32>
    gpu.memcpy %x, %a : memref<8xf32>, memref<8xf32>
    gpu.launch_func @k::@double blocks in (%c1, %c1, %c1) threads in (%c8, %c1, %c1)
        args(%x : memref<8xf32>, %y : memref<8xf32>)
    gpu.launch_func @k::@double blocks in (%c1, %c1, %c1) threads in (%c8, %c1, %c1)
        args(%x : memref<8xf32>, %z : memref<8xf32>)
    gpu.dealloc %x : memref<8xf32>
    return
  }
  // What no kernel uses.
  func.func @unused(%a: memref<8xf32>) {
    %x = gpu.alloc () : memref<8xf32>
    %y = gpu.alloc () : memref<8xf32>
    gpu.memcpy %x, %a : memref<8xf32>, memref<8xf32>
    gpu.dealloc %y : memref<8xf32>
    gpu.dealloc %x : memref<8xf32>
    return
  }
}
// CHECK-LABEL: func.func @two
// CHECK: [[START_A:%.*]] = gpu.wait async
// CHECK-NEXT: {{%.*}}, [[T1:%.*]] = gpu.alloc async {{\[}}[[START_A]]]
// CHECK: [[DONE_A:%.*]] = gpu.launch_func async {{.*}} @k::@double
// CHECK-NEXT: [[START_B:%.*]] = gpu.wait async
// CHECK-NEXT: {{%.*}}, [[T2:%.*]] = gpu.alloc async {{\[}}[[START_B]]]
// CHECK: [[COPIED:%.*]] = gpu.memcpy async {{.*}}, %arg1
// CHECK-NEXT: [[DONE_B:%.*]] = gpu.launch_func async {{\[}}[[COPIED]]] @k::@double
// CHECK-NEXT: [[BOTH:%.*]] = gpu.wait async {{\[}}[[DONE_A]], [[DONE_B]]]
// CHECK-NEXT: {{%.*}}, [[ROOM:%.*]] = gpu.alloc async {{\[}}[[BOTH]]]
// CHECK-NEXT: [[SUM:%.*]] = gpu.launch_func async {{\[}}[[ROOM]]] @k::@sum
// CHECK-NEXT: [[T3:%.*]] = gpu.memcpy async {{\[}}[[SUM]]] %arg2
// CHECK-NEXT: [[T4:%.*]] = gpu.dealloc async {{\[}}[[T3]]]
// CHECK-NEXT: [[T5:%.*]] = gpu.dealloc async {{\[}}[[T4]]]
// CHECK-NEXT: [[T6:%.*]] = gpu.dealloc async {{\[}}[[T5]]]
// CHECK-NEXT: gpu.wait {{\[}}[[T6]]]
// CHECK-NEXT: return

// CHECK-LABEL: func.func @one
// CHECK: gpu.wait async
// CHECK-NOT: gpu.wait async
// CHECK: gpu.wait [
// CHECK-NEXT: return

// CHECK-LABEL: func.func @mirrored
// CHECK: [[COPIED:%.*]] = gpu.memcpy async {{.*}} %arg0 : memref<8xf32>, memref<8xf32>{{$}}
// CHECK: gpu.launch_func async {{.}}[[COPIED]]] @k::@double
// CHECK-LABEL: func.func @shared
// CHECK: [[HERE:%.*]] = gpu.memcpy async
// CHECK-NEXT: [[ONE:%.*]] = gpu.launch_func async {{\[}}[[HERE]]]
// CHECK-NEXT: {{%.*}}, [[T1:%.*]] = gpu.alloc async {{\[}}[[HERE]]]
// CHECK-NEXT: [[OTHER:%.*]] = gpu.launch_func async {{\[}}[[T1]]]
// CHECK-NEXT: [[ENDS:%.*]] = gpu.wait async {{\[}}[[ONE]], [[OTHER]]]
// CHECK-NEXT: [[GONE:%.*]] = gpu.dealloc async {{\[}}[[ENDS]]]
// CHECK-NEXT: gpu.wait {{\[}}[[GONE]]]

// CHECK-LABEL: func.func @unused
// CHECK: gpu.wait async
// CHECK-NOT: gpu.wait async
// CHECK: gpu.dealloc
// CHECK-NEXT: [[LAST:%.*]] = gpu.dealloc
// CHECK-NEXT: gpu.wait {{\[}}[[LAST]]]
