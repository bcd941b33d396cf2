// y = a * x + y: one kernel, compiled once for every target of the program.
module attributes {gpu.container_module} {
  gpu.module @saxpy_kernels {
    // One work-item per element; the last workgroup may reach past the end.
    gpu.func @saxpy(%n: index, %a: f32, %x: memref<?xf32>, %y: memref<?xf32>) kernel {
      %i = gpu.global_id x
      %inside = arith.cmpi ult, %i, %n : index
      scf.if %inside {
        %xi = memref.load %x[%i] : memref<?xf32>
        %yi = memref.load %y[%i] : memref<?xf32>
        %ax = arith.mulf %a, %xi : f32
        %sum = arith.addf %ax, %yi : f32
        memref.store %sum, %y[%i] : memref<?xf32>
      }
      gpu.return
    }
  }

  // Called from main.c as _mlir_ciface_saxpy. Copies x and y to the device, launches the kernel
  // and copies y back; each operation waits for the one whose token it names.
  func.func @saxpy(%a: f32, %x: memref<?xf32>, %y: memref<?xf32>)
      attributes {llvm.emit_c_interface} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c256 = arith.constant 256 : index
    %n = memref.dim %x, %c0 : memref<?xf32>
    %groups = arith.ceildivui %n, %c256 : index

    %start = gpu.wait async
    %dx, %t1 = gpu.alloc async [%start] (%n) : memref<?xf32>
    %dy, %t2 = gpu.alloc async [%t1] (%n) : memref<?xf32>
    %t3 = gpu.memcpy async [%t2] %dx, %x : memref<?xf32>, memref<?xf32>
    %t4 = gpu.memcpy async [%t3] %dy, %y : memref<?xf32>, memref<?xf32>
    %t5 = gpu.launch_func async [%t4] @saxpy_kernels::@saxpy
        blocks in (%groups, %c1, %c1) threads in (%c256, %c1, %c1)
        args(%n : index, %a : f32, %dx : memref<?xf32>, %dy : memref<?xf32>)
    %t6 = gpu.memcpy async [%t5] %y, %dy : memref<?xf32>, memref<?xf32>
    %t7 = gpu.dealloc async [%t6] %dx : memref<?xf32>
    %t8 = gpu.dealloc async [%t7] %dy : memref<?xf32>
    gpu.wait [%t8]
    return
  }
}
