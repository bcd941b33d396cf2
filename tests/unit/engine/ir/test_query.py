"""Sizes of elements are those of LLVM's data layout."""

import pytest
from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.query import element_bytes


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("f32", 4), ("index", 8), ("i1", 1), ("vector<3xf32>", 16), ("vector<24xf32>", 128),
        ("vector<6xf16>", 16), ("vector<5x5xf32>", 160), ("vector<17x3xf32>", 272),
        ("vector<2x3x5xi16>", 96), ("vector<f64>", 8), ("complex<f32>", 8), ("vector<4xi1>", 1),
        ("vector<3xi24>", 16), ("vector<16xi1>", 2), ("vector<4xindex>", 32), ("i24", 4), ("i128", 16),
        ("bf16", 2), ("f8E5M2", 1), ("complex<i8>", 2), ("vector<2x3xf32>", 32),
        ("vector<[4]xf32>", None), ("!llvm.ptr", None),
    ],
)  # fmt: skip
def test_size(kind, size):
    with contexts.context():
        assert element_bytes(ir.Type.parse(kind)) == size
