"""Names of values in located text: what the text says, and nothing for others that read it."""

import re

from unit.engine.device_steps import compile_module, outline_source

SOURCE = """\
gpu.module @k {
  gpu.func @f(%m: memref<8xf32>, %n: index) workgroup(%tile: memref<8xf32, #gpu.address_space<workgroup>>)
      kernel {
    %i, %j = affine.delinearize_index %n into (2, 4) : index, index
    %2:2 = arith.addui_extended %i, %n : index, i1
    %0 = arith.constant 1 : index
    %sum = // behind a comment
      arith.addi %i, %j : index
    %e = arith.constant 2 : index %last = arith.addi %sum, %2#0 : index
    %named = arith.addi %last, %n : index loc("other"("f.py":1:2))
    cf.br ^end(%named : index)
  ^end(%arg-1: index):
    scf.for %k = %i to %arg-1 step %j {
      %x = memref.load %m[%k] : memref<8xf32>
      memref.store %x, %tile[%k] : memref<8xf32, #gpu.address_space<workgroup>>
    }
    gpu.return
  }
}
func.func @main(%m: memref<8xf32>, %c: index) {
  %t = gpu.wait async
  %d = gpu.launch async [%t] blocks(%bx, %by, %bz) in (%gx = %c, %gy = %c, %gz = %c)
       threads(%tx, %ty, %tz) in (%lx = %c, %ly = %c, %lz = %c)
       workgroup(%w: memref<4xf32, #gpu.address_space<workgroup>>) {
    %x = memref.load %m[%tx] : memref<8xf32>
    memref.store %x, %w[%by] : memref<4xf32, #gpu.address_space<workgroup>>
    memref.store %x, %m[%lx] : memref<8xf32>
    gpu.terminator
  }
  return
}
"""


def test_names_are_those_of_the_text() -> None:
    outputs = outline_source(SOURCE, names=True)
    text = outputs["named.0.mlir"]
    assert 'gpubuild.argument_names = ["m", "n", "tile", "arg-1"]' in text
    assert '{gpubuild.argument_names = ["k"]}' in text
    for operation, name in [
        ("affine.delinearize_index", "i"),
        ("arith.constant 1", "%0"),
        ("arith.constant 2", "e"),
        ("memref.load", "x"),
    ]:
        assert re.search(rf'{operation}[^\n]* loc\("{name}"\("k.mlir"', text), operation
    assert re.search(r'arith.addi[^\n]* loc\("last"\("k.mlir"', text)
    assert 'loc("other"("f.py":1:2))' in text  # those of the file's author stay
    assert '"sum"' not in text and '"2"' not in text


def test_kernels_of_launches_have_the_names_of_these() -> None:
    text = outline_source(SOURCE, names=True)["named.1.mlir"]
    for operation, name in [("thread_id  x", "tx"), ("block_id  y", "by"), ("block_dim  x", "lx")]:
        assert re.search(rf'gpu.{operation} loc\("{name}"\("k.mlir"', text), operation
    assert '["m", "w"]' in text


def test_names_change_no_other_code() -> None:
    """Located texts of other targets have names, too, but what is compiled of them has not."""
    plain, named = outline_source(SOURCE), outline_source(SOURCE, names=True)
    assert named.keys() - plain.keys() == {"named.0.mlir", "named.1.mlir"}
    same = [name for name in plain if not name.startswith(("located", "host_located"))]
    assert {name: named[name] for name in same} == {name: plain[name] for name in same}
    objects = {
        compile_module(outputs["located.0.mlir"], "sm_60", debug=True).object for outputs in (plain, named)
    }
    assert len(objects) == 1
