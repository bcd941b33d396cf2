"""Which arguments of exported functions are written."""

import pytest

from gpubuild.engine.ir import contexts
from gpubuild.engine.source import exports

TEXT = """
func.func private @{callee}(memref<*xf32>)
func.func @call(%x: memref<4xf32>) attributes {{llvm.emit_c_interface}} {{
  %u = memref.cast %x : memref<4xf32> to memref<*xf32>
  call @{callee}(%u) : (memref<*xf32>) -> ()
  return
}}
"""


@pytest.mark.parametrize(
    ("callee", "written"),
    [
        ("printMemrefF32", False),
        ("printMemrefShapeBF16", False),
        ("printMemref2dC64", False),
        ("printMemrefInd", False),
        ("printMemrefOfTheirs", True),  # of a user
        ("fill", True),
    ],
)
def test_functions_of_the_runtime_that_print_write_nothing(callee: str, written: bool) -> None:
    with contexts.context():
        found = exports.describe(contexts.parse(TEXT.format(callee=callee)), {})
    assert found is not None
    (function,) = found["functions"]
    assert [argument["written"] for argument in function["arguments"]] == [written]


VIEW = """
func.func @get(%x: memref<4xf32>, %i: index) -> f32 attributes {llvm.emit_c_interface} {
  %view = memref.assume_alignment %x, 16 : memref<4xf32>
  %v = memref.load %view[%i] : memref<4xf32>
  return %v : f32
}
"""


def test_reads_through_a_view_write_nothing() -> None:
    with contexts.context():
        found = exports.describe(contexts.parse(VIEW), {})
    assert found is not None
    (function,) = found["functions"]
    assert [argument["written"] for argument in function["arguments"]] == [False, False]
