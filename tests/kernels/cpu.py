"""Kernels that several tests run on the CPU device."""

WG = "#gpu.address_space<workgroup>"

KERNELS = f"""
gpu.module @k {{
  memref.global "private" @scratch : memref<32xi32, {WG}> = uninitialized
  gpu.func @vecadd(%a: memref<?xf32>, %b: memref<?xf32>, %c: memref<?xf32>, %n: index) kernel {{
    %i = gpu.global_id x
    %in = arith.cmpi ult, %i, %n : index
    scf.if %in {{
      %x = memref.load %a[%i] : memref<?xf32>
      %y = memref.load %b[%i] : memref<?xf32>
      %s = arith.addf %x, %y : f32
      memref.store %s, %c[%i] : memref<?xf32>
    }}
    gpu.return
  }}
  gpu.func @matmul(%A: memref<?x?xf32>, %B: memref<?x?xf32>, %C: memref<?x?xf32>)
      workgroup(%sa : memref<8x8xf32, {WG}>, %sb : memref<8x8xf32, {WG}>) kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %K = memref.dim %A, %c1 : memref<?x?xf32>
    %tx = gpu.thread_id x
    %ty = gpu.thread_id y
    %col = gpu.global_id x
    %row = gpu.global_id y
    %zero = arith.constant 0.0 : f32
    %r = scf.for %k = %c0 to %K step %c8 iter_args(%acc = %zero) -> f32 {{
      %kx = arith.addi %k, %tx : index
      %ky = arith.addi %k, %ty : index
      %a = memref.load %A[%row, %kx] : memref<?x?xf32>
      memref.store %a, %sa[%ty, %tx] : memref<8x8xf32, {WG}>
      %b = memref.load %B[%ky, %col] : memref<?x?xf32>
      memref.store %b, %sb[%ty, %tx] : memref<8x8xf32, {WG}>
      gpu.barrier
      %r2 = scf.for %j = %c0 to %c8 step %c1 iter_args(%acc2 = %acc) -> f32 {{
        %x = memref.load %sa[%ty, %j] : memref<8x8xf32, {WG}>
        %y = memref.load %sb[%j, %tx] : memref<8x8xf32, {WG}>
        %p = arith.mulf %x, %y : f32
        %s = arith.addf %acc2, %p : f32
        scf.yield %s : f32
      }}
      gpu.barrier
      scf.yield %r2 : f32
    }}
    memref.store %r, %C[%row, %col] : memref<?x?xf32>
    gpu.return
  }}
  gpu.func @reverse(%A: memref<?xf32>, %C: memref<?xf32>) kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %tx = gpu.thread_id x
    %n = gpu.block_dim x
    %g = gpu.global_id x
    %d = gpu.dynamic_shared_memory : memref<?xi8, {WG}>
    %v = memref.view %d[%c0][%n] : memref<?xi8, {WG}> to memref<?xf32, {WG}>
    %a = memref.load %A[%g] : memref<?xf32>
    memref.store %a, %v[%tx] : memref<?xf32, {WG}>
    gpu.barrier
    %n1 = arith.subi %n, %c1 : index
    %q = arith.subi %n1, %tx : index
    %b = memref.load %v[%q] : memref<?xf32, {WG}>
    memref.store %b, %C[%g] : memref<?xf32>
    gpu.return
  }}
  gpu.func @diverge(%C: memref<?xi32>, %D: memref<?xi32>) workgroup(%count : memref<1xi32, {WG}>)
      private(%p : memref<4xi32, #gpu.address_space<private>>) kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %i0 = arith.constant 0 : i32
    %i1 = arith.constant 1 : i32
    %tx = gpu.thread_id x
    %g = gpu.global_id x
    %first = arith.cmpi eq, %tx, %c0 : index
    scf.if %first {{ memref.store %i0, %count[%c0] : memref<1xi32, {WG}> }}
    gpu.barrier
    %par = arith.remui %tx, %c2 : index
    %odd = arith.cmpi eq, %par, %c1 : index
    memref.store %i0, %p[%par] : memref<4xi32, #gpu.address_space<private>>
    scf.if %odd {{
      %r = memref.atomic_rmw addi %i1, %count[%c0] : (i32, memref<1xi32, {WG}>) -> i32
    }} else {{
      scf.for %k = %c0 to %tx step %c1 {{
        %o = memref.load %p[%c0] : memref<4xi32, #gpu.address_space<private>>
        %o2 = arith.addi %o, %i1 : i32
        memref.store %o2, %p[%c0] : memref<4xi32, #gpu.address_space<private>>
      }}
    }}
    %res = memref.load %p[%par] : memref<4xi32, #gpu.address_space<private>>
    memref.store %res, %C[%g] : memref<?xi32>
    gpu.barrier
    %f = memref.load %count[%c0] : memref<1xi32, {WG}>
    memref.store %f, %D[%g] : memref<?xi32>
    gpu.return
  }}
  gpu.func @atomics(%i: memref<?xi32>, %f: memref<?xf32>, %m: memref<?xi32>) kernel {{
    %c0 = arith.constant 0 : index
    %g = gpu.global_id x
    %gi = arith.index_cast %g : index to i32
    %one = arith.constant 1 : i32
    %half = arith.constant 0.5 : f32
    %a = memref.atomic_rmw addi %one, %i[%c0] : (i32, memref<?xi32>) -> i32
    %b = memref.atomic_rmw addf %half, %f[%c0] : (f32, memref<?xf32>) -> f32
    %c = memref.atomic_rmw maxs %gi, %m[%c0] : (i32, memref<?xi32>) -> i32
    gpu.return
  }}
  func.func private @swap(%v: i32) -> i32 {{
    %t = gpu.thread_id x
    %s = memref.get_global @scratch : memref<32xi32, {WG}>
    memref.store %v, %s[%t] : memref<32xi32, {WG}>
    gpu.barrier
    %c1 = arith.constant 1 : index
    %n = gpu.block_dim x
    %t1 = arith.addi %t, %c1 : index
    %next = arith.remui %t1, %n : index
    %r = memref.load %s[%next] : memref<32xi32, {WG}>
    gpu.barrier
    return %r : i32
  }}
  gpu.func @calls(%out: memref<?xi32>) kernel {{
    %t = gpu.thread_id x
    %v = arith.index_cast %t : index to i32
    %a = func.call @swap(%v) : (i32) -> i32
    %b = func.call @swap(%a) : (i32) -> i32
    %g = gpu.global_id x
    memref.store %b, %out[%g] : memref<?xi32>
    gpu.return
  }}
  gpu.func @params(%b: i1, %c: i8, %s: i16, %i: i32, %n: index, %h: f16, %bf: bf16, %f: f32, %d: f64,
                   %out: memref<?xf64>) kernel {{
    %bi = arith.extui %b : i1 to i32
    %ci = arith.extsi %c : i8 to i32
    %si = arith.extsi %s : i16 to i32
    %nl = arith.index_cast %n : index to i64
    %v0 = arith.sitofp %bi : i32 to f64
    %v1 = arith.sitofp %ci : i32 to f64
    %v2 = arith.sitofp %si : i32 to f64
    %v3 = arith.sitofp %i : i32 to f64
    %v4 = arith.sitofp %nl : i64 to f64
    %v5 = arith.extf %h : f16 to f64
    %v6 = arith.extf %bf : bf16 to f64
    %v7 = arith.extf %f : f32 to f64
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c5 = arith.constant 5 : index
    %c6 = arith.constant 6 : index
    %c7 = arith.constant 7 : index
    %c8 = arith.constant 8 : index
    memref.store %v0, %out[%c0] : memref<?xf64>
    memref.store %v1, %out[%c1] : memref<?xf64>
    memref.store %v2, %out[%c2] : memref<?xf64>
    memref.store %v3, %out[%c3] : memref<?xf64>
    memref.store %v4, %out[%c4] : memref<?xf64>
    memref.store %v5, %out[%c5] : memref<?xf64>
    memref.store %v6, %out[%c6] : memref<?xf64>
    memref.store %v7, %out[%c7] : memref<?xf64>
    memref.store %d, %out[%c8] : memref<?xf64>
    gpu.return
  }}
}}
"""
