"""Fills and copies of device memory by host code, of every width and of tiles; run on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e.stream_programs import ORDERS, assert_all_destroyed, build, program, run


def fills() -> tuple[str, str]:
    """A program that fills memory of every width, and what it prints."""
    lines, expected = ["    %c12 = arith.constant 12 : index"], []
    values = {"i8": -3, "i16": 300, "i32": 70000, "i64": 1 << 40, "index": 5, "i1": 1}
    for kind, value in values.items():
        literal = "true" if kind == "i1" else f"{value} : {kind}"
        cast = {"i64": "", "index": "arith.index_cast", "i1": "arith.extui"}.get(kind, "arith.extsi")
        name = f"%{kind}"
        memref = f"memref<13x{kind}>"
        lines.append(f"""
    {name}_v = arith.constant {literal}
    {name}_h = memref.alloc() : {memref}
    {name}_d = gpu.alloc () : {memref}
    gpu.memset {name}_d, {name}_v : {memref}, {kind}
    gpu.memcpy {name}_h, {name}_d : {memref}, {memref}
    gpu.dealloc {name}_d : {memref}
    {name}_x = memref.load {name}_h[%c12] : {memref}""")
        if cast:
            lines.append(f"    {name}_w = {cast} {name}_x : {kind} to i64")
        lines.append(f"    call @show({name}_{'w' if cast else 'x'}) : (i64) -> ()")
        expected.append(str(value))
    return program(main="\n".join(lines) + "\n"), "\n".join(expected) + "\n"


FILLS, FILLED = fills()
# A 2 x 3 tile at (1, 2) of a 4 x 8 matrix: set, and copied there and back.
TILES = program(
    main="""
    %seven = arith.constant 7 : i32
    %one = arith.constant 1 : i32
    %m = gpu.alloc host_shared () : memref<4x8xi32>
    gpu.memset %m, %one : memref<4x8xi32>, i32
    %tile = memref.subview %m[1, 2] [2, 3] [1, 1]
      : memref<4x8xi32> to memref<2x3xi32, strided<[8, 1], offset: 10>>
    gpu.memset %tile, %seven : memref<2x3xi32, strided<[8, 1], offset: 10>>, i32
    %h = memref.alloc() : memref<2x3xi32>
    gpu.memcpy %h, %tile : memref<2x3xi32>, memref<2x3xi32, strided<[8, 1], offset: 10>>
    %column = memref.subview %m[0, 7] [4, 1] [1, 1]
      : memref<4x8xi32> to memref<4xi32, strided<[8], offset: 7>>
    %row = memref.subview %m[1, 1] [1, 4] [1, 1] : memref<4x8xi32> to memref<4xi32, strided<[1], offset: 9>>
    %t0 = gpu.wait async
    %t1 = gpu.memcpy async [%t0] %column, %row
      : memref<4xi32, strided<[8], offset: 7>>, memref<4xi32, strided<[1], offset: 9>>
    gpu.wait [%t1]
    %um = memref.cast %m : memref<4x8xi32> to memref<*xi32>
    %uh = memref.cast %h : memref<2x3xi32> to memref<*xi32>
    call @printMemrefI32(%um) : (memref<*xi32>) -> ()
    call @printMemrefI32(%uh) : (memref<*xi32>) -> ()
    gpu.dealloc %m : memref<4x8xi32>
""",
    before="""
  func.func private @printMemrefI32(memref<*xi32>) attributes {llvm.emit_c_interface}
""",
)
MATRIX = "[[1,1,1,1,1,1,1,1],[1,1,7,7,7,1,1,7],[1,1,7,7,7,1,1,7],[1,1,1,1,1,1,1,7]]"
TILE = "[[7,7,7],[7,7,7]]"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, shared_cache: dict[str, str]) -> Path:
    return build(tmp_path_factory.mktemp("memory"), {"fills": FILLS, "tiles": TILES}, shared_cache)


@pytest.mark.parametrize("threads", ["", *ORDERS])
def test_fills_of_every_width(built: Path, threads: str) -> None:
    assert run(built, "fills", threads).out == FILLED


@pytest.mark.parametrize("threads", ["", *ORDERS])
def test_copies_and_fills_of_tiles(built: Path, threads: str) -> None:
    """Upstream would copy and set the first 6 elements of the matrix."""
    printed = "".join(line for line in run(built, "tiles", threads).out.splitlines() if "base@" not in line)
    assert "".join(printed.split()) == MATRIX + TILE


@pytest.mark.parametrize("name", ["fills", "tiles"])
def test_every_stream_and_event_is_destroyed(built: Path, name: str) -> None:
    assert_all_destroyed(built, name)
