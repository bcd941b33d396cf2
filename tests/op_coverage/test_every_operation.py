"""Every operation of every dialect that kernels and their hosts are written in has its place in the table."""

from __future__ import annotations

import re

import pytest
from kernels.operations import groups, vendor_survey
from op_coverage import host_ops
from unit.test_pages import defined_in

from gpubuild.engine.ir import contexts

DIALECTS = (
    "affine", "amdgpu", "arith", "cf", "complex", "func", "gpu", "index", "linalg", "math", "memref", "nvgpu",
    "scf", "ub", "vector",
)  # fmt: skip
# Ends of regions and functions, which all programs have under these names or under none.
ENDS = {"affine.yield": "affine.for", "func.return": "return", "vector.yield": "vector.mask"}


def test_no_operation_is_left_out() -> None:
    programs = [program for listed in groups.GROUPS.values() for program in listed]
    written = {word for p in programs for word in re.findall(r"[\w.]+", p.text() + p.module)}
    known = {*written, *host_ops.SHOWN, *host_ops.OF_TENSORS}
    for dialect in DIALECTS:
        names = vendor_survey.operations(dialect)
        assert names, dialect
        assert [n for n in names if n not in known and ENDS.get(n) not in written] == []


def test_rows_name_what_their_programs_have() -> None:
    named = re.compile(rf"\b(?:{'|'.join((*DIALECTS, 'nvvm', 'rocdl'))})\.\w[\w.]*")
    for programs in groups.GROUPS.values():
        for program in programs:
            text = program.text()
            missing = [op for op in named.findall(program.op) if not re.search(rf"(?<![\w.]){op}", text)]
            assert not missing, program.name


def test_what_is_said_of_host_operations_is_so() -> None:
    assert {*host_ops.SHOWN, *host_ops.OF_TENSORS} <= {
        name for dialect in DIALECTS for name in vendor_survey.operations(dialect)
    }
    for test in host_ops.SHOWN.values():
        file, _, name = test.partition("::")
        assert name in defined_in(file), test


@pytest.mark.parametrize("op", ["linalg.pack"])
def test_operations_of_tensors_take_no_memory(op: str) -> None:
    text = f"""func.func @f(%m: memref<4x4xf32>, %p: memref<2x2x2x2xf32>) {{
      {op} %m inner_dims_pos = [0, 1] inner_tiles = [2, 2] into %p : memref<4x4xf32> -> memref<2x2x2x2xf32>
      return
    }}"""
    with contexts.context(), pytest.raises(Exception, match="invalid MLIR"):
        contexts.parse(text)
