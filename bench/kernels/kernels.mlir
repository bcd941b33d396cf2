// The kernels of bench/cpu_kernels.py as a user of the gpu dialect writes them; kernels.cl is the same in OpenCL C.
// Products and sums may become one operation, as C and OpenCL C allow it.
gpu.module @bench {
  gpu.func @vecadd(%a: memref<?xf32>, %b: memref<?xf32>, %c: memref<?xf32>) kernel {
    %i = gpu.global_id x
    %x = memref.load %a[%i] : memref<?xf32>
    %y = memref.load %b[%i] : memref<?xf32>
    %z = arith.addf %x, %y : f32
    memref.store %z, %c[%i] : memref<?xf32>
    gpu.return
  }

  gpu.func @exp(%a: memref<?xf32>, %b: memref<?xf32>) kernel {
    %i = gpu.global_id x
    %x = memref.load %a[%i] : memref<?xf32>
    %y = math.exp %x : f32
    memref.store %y, %b[%i] : memref<?xf32>
    gpu.return
  }

  gpu.func @matmul_naive(%A: memref<?x?xf32>, %B: memref<?x?xf32>, %C: memref<?x?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %n = memref.dim %A, %c1 : memref<?x?xf32>
    %col = gpu.global_id x
    %row = gpu.global_id y
    %r = scf.for %k = %c0 to %n step %c1 iter_args(%sum = %zero) -> f32 {
      %a = memref.load %A[%row, %k] : memref<?x?xf32>
      %b = memref.load %B[%k, %col] : memref<?x?xf32>
      %p = arith.mulf %a, %b fastmath<contract> : f32
      %s = arith.addf %sum, %p fastmath<contract> : f32
      scf.yield %s : f32
    }
    memref.store %r, %C[%row, %col] : memref<?x?xf32>
    gpu.return
  }

  gpu.func @matmul_tiled(%A: memref<?x?xf32>, %B: memref<?x?xf32>, %C: memref<?x?xf32>)
      workgroup(%sa : memref<16x16xf32, #gpu.address_space<workgroup>>,
                %sb : memref<16x16xf32, #gpu.address_space<workgroup>>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %tile = arith.constant 16 : index
    %zero = arith.constant 0.0 : f32
    %n = memref.dim %A, %c1 : memref<?x?xf32>
    %tx = gpu.thread_id x
    %ty = gpu.thread_id y
    %col = gpu.global_id x
    %row = gpu.global_id y
    %r = scf.for %k = %c0 to %n step %tile iter_args(%acc = %zero) -> f32 {
      %kx = arith.addi %k, %tx : index
      %ky = arith.addi %k, %ty : index
      %a = memref.load %A[%row, %kx] : memref<?x?xf32>
      memref.store %a, %sa[%ty, %tx] : memref<16x16xf32, #gpu.address_space<workgroup>>
      %b = memref.load %B[%ky, %col] : memref<?x?xf32>
      memref.store %b, %sb[%ty, %tx] : memref<16x16xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %r2 = scf.for %j = %c0 to %tile step %c1 iter_args(%acc2 = %acc) -> f32 {
        %x = memref.load %sa[%ty, %j] : memref<16x16xf32, #gpu.address_space<workgroup>>
        %y = memref.load %sb[%j, %tx] : memref<16x16xf32, #gpu.address_space<workgroup>>
        %p = arith.mulf %x, %y fastmath<contract> : f32
        %s = arith.addf %acc2, %p fastmath<contract> : f32
        scf.yield %s : f32
      }
      gpu.barrier
      scf.yield %r2 : f32
    }
    memref.store %r, %C[%row, %col] : memref<?x?xf32>
    gpu.return
  }

  gpu.func @reduce(%a: memref<?xf32>, %out: memref<?xf32>)
      workgroup(%s : memref<256xf32, #gpu.address_space<workgroup>>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %half = arith.constant 128 : index
    %t = gpu.thread_id x
    %g = gpu.global_id x
    %v = memref.load %a[%g] : memref<?xf32>
    memref.store %v, %s[%t] : memref<256xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    %end = scf.for %i = %c0 to %c8 step %c1 iter_args(%n = %half) -> index {
      %in = arith.cmpi ult, %t, %n : index
      scf.if %in {
        %o = arith.addi %t, %n : index
        %x = memref.load %s[%t] : memref<256xf32, #gpu.address_space<workgroup>>
        %y = memref.load %s[%o] : memref<256xf32, #gpu.address_space<workgroup>>
        %z = arith.addf %x, %y : f32
        memref.store %z, %s[%t] : memref<256xf32, #gpu.address_space<workgroup>>
      }
      gpu.barrier
      %next = arith.shrui %n, %c1 : index
      scf.yield %next : index
    }
    %first = arith.cmpi eq, %t, %c0 : index
    scf.if %first {
      %b = gpu.block_id x
      %sum = memref.load %s[%c0] : memref<256xf32, #gpu.address_space<workgroup>>
      memref.store %sum, %out[%b] : memref<?xf32>
    }
    gpu.return
  }

  gpu.func @all_reduce(%a: memref<?xf32>, %out: memref<?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %t = gpu.thread_id x
    %g = gpu.global_id x
    %v = memref.load %a[%g] : memref<?xf32>
    %sum = gpu.all_reduce add %v uniform {} : (f32) -> (f32)
    %first = arith.cmpi eq, %t, %c0 : index
    scf.if %first {
      %b = gpu.block_id x
      memref.store %sum, %out[%b] : memref<?xf32>
    }
    gpu.return
  }

  gpu.func @softmax(%a: memref<?x?xf32>, %out: memref<?x?xf32>) kernel {
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %least = arith.constant 0xFF800000 : f32
    %n = memref.dim %a, %c1 : memref<?x?xf32>
    %row = gpu.block_id x
    %t = gpu.thread_id x
    %items = gpu.block_dim x
    %m = scf.for %i = %t to %n step %items iter_args(%best = %least) -> f32 {
      %x = memref.load %a[%row, %i] : memref<?x?xf32>
      %b = arith.maximumf %best, %x : f32
      scf.yield %b : f32
    }
    %max = gpu.all_reduce maximumf %m uniform {} : (f32) -> (f32)
    %s = scf.for %i = %t to %n step %items iter_args(%sum = %zero) -> f32 {
      %x = memref.load %a[%row, %i] : memref<?x?xf32>
      %d = arith.subf %x, %max : f32
      %e = math.exp %d : f32
      memref.store %e, %out[%row, %i] : memref<?x?xf32>
      %b = arith.addf %sum, %e : f32
      scf.yield %b : f32
    }
    %sum = gpu.all_reduce add %s uniform {} : (f32) -> (f32)
    scf.for %i = %t to %n step %items {
      %x = memref.load %out[%row, %i] : memref<?x?xf32>
      %y = arith.divf %x, %sum : f32
      memref.store %y, %out[%row, %i] : memref<?x?xf32>
    }
    gpu.return
  }

  gpu.func @stencil(%a: memref<?x?x?xf32>, %out: memref<?x?x?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %centre = arith.constant 0.4 : f32
    %side = arith.constant 0.1 : f32
    %nz = memref.dim %a, %c0 : memref<?x?x?xf32>
    %ny = memref.dim %a, %c1 : memref<?x?x?xf32>
    %nx = memref.dim %a, %c2 : memref<?x?x?xf32>
    %gx = gpu.global_id x
    %gy = gpu.global_id y
    %gz = gpu.global_id z
    %x = arith.addi %gx, %c1 : index
    %y = arith.addi %gy, %c1 : index
    %z = arith.addi %gz, %c1 : index
    %ex = arith.subi %nx, %c1 : index
    %ey = arith.subi %ny, %c1 : index
    %ez = arith.subi %nz, %c1 : index
    %inx = arith.cmpi ult, %x, %ex : index
    %iny = arith.cmpi ult, %y, %ey : index
    %inz = arith.cmpi ult, %z, %ez : index
    %inxy = arith.andi %inx, %iny : i1
    %in = arith.andi %inxy, %inz : i1
    scf.if %in {
      %xm = arith.subi %x, %c1 : index
      %xp = arith.addi %x, %c1 : index
      %ym = arith.subi %y, %c1 : index
      %yp = arith.addi %y, %c1 : index
      %zm = arith.subi %z, %c1 : index
      %zp = arith.addi %z, %c1 : index
      %v0 = memref.load %a[%z, %y, %x] : memref<?x?x?xf32>
      %v1 = memref.load %a[%z, %y, %xm] : memref<?x?x?xf32>
      %v2 = memref.load %a[%z, %y, %xp] : memref<?x?x?xf32>
      %v3 = memref.load %a[%z, %ym, %x] : memref<?x?x?xf32>
      %v4 = memref.load %a[%z, %yp, %x] : memref<?x?x?xf32>
      %v5 = memref.load %a[%zm, %y, %x] : memref<?x?x?xf32>
      %v6 = memref.load %a[%zp, %y, %x] : memref<?x?x?xf32>
      %s1 = arith.addf %v1, %v2 fastmath<contract> : f32
      %s2 = arith.addf %s1, %v3 fastmath<contract> : f32
      %s3 = arith.addf %s2, %v4 fastmath<contract> : f32
      %s4 = arith.addf %s3, %v5 fastmath<contract> : f32
      %s5 = arith.addf %s4, %v6 fastmath<contract> : f32
      %p = arith.mulf %v0, %centre fastmath<contract> : f32
      %q = arith.mulf %s5, %side fastmath<contract> : f32
      %r = arith.addf %p, %q fastmath<contract> : f32
      memref.store %r, %out[%z, %y, %x] : memref<?x?x?xf32>
    }
    gpu.return
  }

  gpu.func @histogram(%a: memref<?xi32>, %bins: memref<?xi32>)
      workgroup(%s : memref<256xi32, #gpu.address_space<workgroup>>) kernel {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %c0 = arith.constant 0 : index
    %n = memref.dim %a, %c0 : memref<?xi32>
    %t = gpu.thread_id x
    %first = gpu.global_id x
    %items = gpu.block_dim x
    %groups = gpu.grid_dim x
    %step = arith.muli %items, %groups : index
    memref.store %zero, %s[%t] : memref<256xi32, #gpu.address_space<workgroup>>
    gpu.barrier
    scf.for %i = %first to %n step %step {
      %v = memref.load %a[%i] : memref<?xi32>
      %bin = arith.index_cast %v : i32 to index
      %old = memref.atomic_rmw addi %one, %s[%bin] : (i32, memref<256xi32, #gpu.address_space<workgroup>>) -> i32
    }
    gpu.barrier
    %count = memref.load %s[%t] : memref<256xi32, #gpu.address_space<workgroup>>
    %before = memref.atomic_rmw addi %count, %bins[%t] : (i32, memref<?xi32>) -> i32
    gpu.return
  }

  gpu.func @transpose(%a: memref<?x?xf32>, %out: memref<?x?xf32>)
      workgroup(%s : memref<32x33xf32, #gpu.address_space<workgroup>>) kernel {
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c32 = arith.constant 32 : index
    %tx = gpu.thread_id x
    %ty = gpu.thread_id y
    %bx = gpu.block_id x
    %by = gpu.block_id y
    %x0 = arith.muli %bx, %c32 : index
    %y0 = arith.muli %by, %c32 : index
    %x = arith.addi %x0, %tx : index
    %ox = arith.addi %y0, %tx : index
    scf.for %j = %c0 to %c32 step %c8 {
      %r = arith.addi %ty, %j : index
      %y = arith.addi %y0, %r : index
      %v = memref.load %a[%y, %x] : memref<?x?xf32>
      memref.store %v, %s[%r, %tx] : memref<32x33xf32, #gpu.address_space<workgroup>>
    }
    gpu.barrier
    scf.for %j = %c0 to %c32 step %c8 {
      %r = arith.addi %ty, %j : index
      %oy = arith.addi %x0, %r : index
      %v = memref.load %s[%tx, %r] : memref<32x33xf32, #gpu.address_space<workgroup>>
      memref.store %v, %out[%oy, %ox] : memref<?x?xf32>
    }
    gpu.return
  }
}
