// Edge detection on an RGB picture: the Sobel operator on its brightness, in whole numbers.
!rgb = memref<?x?x3xi8>
!gray = memref<?x?xi8>

module attributes {gpu.container_module} {
  gpu.module @edges_kernels {
    // Brightness of a pixel: (77 red + 150 green + 29 blue) / 256.
    gpu.func @brightness(%picture: !rgb, %gray: !gray) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %height = memref.dim %gray, %c0 : !gray
      %width = memref.dim %gray, %c1 : !gray
      %x = gpu.global_id x
      %y = gpu.global_id y
      %x_inside = arith.cmpi ult, %x, %width : index
      %y_inside = arith.cmpi ult, %y, %height : index
      %inside = arith.andi %x_inside, %y_inside : i1
      scf.if %inside {
        %red8 = memref.load %picture[%y, %x, %c0] : !rgb
        %green8 = memref.load %picture[%y, %x, %c1] : !rgb
        %blue8 = memref.load %picture[%y, %x, %c2] : !rgb
        %red = arith.extui %red8 : i8 to i32
        %green = arith.extui %green8 : i8 to i32
        %blue = arith.extui %blue8 : i8 to i32
        %of_red = arith.constant 77 : i32
        %of_green = arith.constant 150 : i32
        %of_blue = arith.constant 29 : i32
        %bits = arith.constant 8 : i32
        %r = arith.muli %red, %of_red : i32
        %g = arith.muli %green, %of_green : i32
        %b = arith.muli %blue, %of_blue : i32
        %rg = arith.addi %r, %g : i32
        %rgb = arith.addi %rg, %b : i32
        %scaled = arith.shrui %rgb, %bits : i32
        %value = arith.trunci %scaled : i32 to i8
        memref.store %value, %gray[%y, %x] : !gray
      }
      gpu.return
    }

    // |horizontal| + |vertical| difference, at most 255. Pixels beyond the border repeat it.
    gpu.func @sobel(%gray: !gray, %edges: !gray) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %height = memref.dim %gray, %c0 : !gray
      %width = memref.dim %gray, %c1 : !gray
      %x = gpu.global_id x
      %y = gpu.global_id y
      %x_inside = arith.cmpi ult, %x, %width : index
      %y_inside = arith.cmpi ult, %y, %height : index
      %inside = arith.andi %x_inside, %y_inside : i1
      scf.if %inside {
        %last_x = arith.subi %width, %c1 : index
        %last_y = arith.subi %height, %c1 : index
        %x_before = arith.subi %x, %c1 : index
        %x_after = arith.addi %x, %c1 : index
        %y_before = arith.subi %y, %c1 : index
        %y_after = arith.addi %y, %c1 : index
        %left = arith.maxsi %x_before, %c0 : index
        %right = arith.minsi %x_after, %last_x : index
        %above = arith.maxsi %y_before, %c0 : index
        %below = arith.minsi %y_after, %last_y : index

        %al = func.call @pixel(%gray, %above, %left) : (!gray, index, index) -> i32
        %am = func.call @pixel(%gray, %above, %x) : (!gray, index, index) -> i32
        %ar = func.call @pixel(%gray, %above, %right) : (!gray, index, index) -> i32
        %ml = func.call @pixel(%gray, %y, %left) : (!gray, index, index) -> i32
        %mr = func.call @pixel(%gray, %y, %right) : (!gray, index, index) -> i32
        %bl = func.call @pixel(%gray, %below, %left) : (!gray, index, index) -> i32
        %bm = func.call @pixel(%gray, %below, %x) : (!gray, index, index) -> i32
        %br = func.call @pixel(%gray, %below, %right) : (!gray, index, index) -> i32

        %right_side = func.call @weighted(%ar, %mr, %br) : (i32, i32, i32) -> i32
        %left_side = func.call @weighted(%al, %ml, %bl) : (i32, i32, i32) -> i32
        %lower_side = func.call @weighted(%bl, %bm, %br) : (i32, i32, i32) -> i32
        %upper_side = func.call @weighted(%al, %am, %ar) : (i32, i32, i32) -> i32
        %horizontal = arith.subi %right_side, %left_side : i32
        %vertical = arith.subi %lower_side, %upper_side : i32
        %h = math.absi %horizontal : i32
        %v = math.absi %vertical : i32
        %sum = arith.addi %h, %v : i32
        %white = arith.constant 255 : i32
        %limited = arith.minui %sum, %white : i32
        %value = arith.trunci %limited : i32 to i8
        memref.store %value, %edges[%y, %x] : !gray
      }
      gpu.return
    }

    func.func private @pixel(%gray: !gray, %y: index, %x: index) -> i32 {
      %value = memref.load %gray[%y, %x] : !gray
      %wide = arith.extui %value : i8 to i32
      return %wide : i32
    }

    // a + 2 b + c
    func.func private @weighted(%a: i32, %b: i32, %c: i32) -> i32 {
      %ends = arith.addi %a, %c : i32
      %twice = arith.addi %b, %b : i32
      %sum = arith.addi %ends, %twice : i32
      return %sum : i32
    }
  }

  // Called from main.c as _mlir_ciface_detect_edges.
  func.func @detect_edges(%picture: !rgb, %edges: !gray) attributes {llvm.emit_c_interface} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %height = memref.dim %edges, %c0 : !gray
    %width = memref.dim %edges, %c1 : !gray
    %groups_x = arith.ceildivui %width, %c16 : index
    %groups_y = arith.ceildivui %height, %c16 : index
    %start = gpu.wait async
    %in, %t1 = gpu.alloc async [%start] (%height, %width) : !rgb
    %gray, %t2 = gpu.alloc async [%t1] (%height, %width) : !gray
    %out, %t3 = gpu.alloc async [%t2] (%height, %width) : !gray
    %t4 = gpu.memcpy async [%t3] %in, %picture : !rgb, !rgb
    %t5 = gpu.launch_func async [%t4] @edges_kernels::@brightness
        blocks in (%groups_x, %groups_y, %c1) threads in (%c16, %c16, %c1)
        args(%in : !rgb, %gray : !gray)
    %t6 = gpu.launch_func async [%t5] @edges_kernels::@sobel
        blocks in (%groups_x, %groups_y, %c1) threads in (%c16, %c16, %c1)
        args(%gray : !gray, %out : !gray)
    %t7 = gpu.memcpy async [%t6] %edges, %out : !gray, !gray
    %t8 = gpu.dealloc async [%t7] %in : !rgb
    %t9 = gpu.dealloc async [%t8] %gray : !gray
    %t10 = gpu.dealloc async [%t9] %out : !gray
    gpu.wait [%t10]
    return
  }
}
