"""Operations on sparse matrices that upstream would abort on or lower wrongly are refused with their location."""

# ruff: noqa: E501  (programs inside strings are not broken for width)

import pytest
from unit.engine.steps import refused

from gpubuild.engine.host import lowering
from gpubuild.engine.ir import contexts

CSR = "%a = gpu.create_csr %n, %n, %n, %i, %i, %v : memref<?xi32>, memref<?xi32>, memref<?xf32>\n"
TWO_TO_FOUR = "%a = gpu.create_2to4_spmat {NONE} %n, %n, %v : memref<?xf32>\n"
VECTOR = "%x = gpu.create_dn_tensor %v, %n : index into memref<?xf32>\n"
TENSOR = "%d = gpu.create_dn_tensor %v, %n, %n : index, index into memref<?xf32>\n"
MODULE = """func.func @f(%n: index, %k: i1, %i: memref<?xi32>, %v: memref<?xf32>, %j: memref<?xi8>, %l: memref<?xi64>,
  %m: memref<?xf32, strided<[2]>>, %r: memref<4x4xf32, strided<[8, 1]>>, %h: !gpu.sparse.spmat_handle) {
  BODY
  return
}"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("gpu.destroy_sp_mat %h", "'gpu.destroy_sp_mat' uses a handle that was passed on"),
        ("%x = gpu.create_dn_tensor %l, %n : index into memref<?xi64>", "on elements of type i64: allowed are f16,"),
        ("%x = gpu.create_coo_aos %n, %n, %n, %j, %v : memref<?xi8>, memref<?xf32>", "on elements of type i8: allowed are i32,"),
        ("%x = gpu.create_dn_tensor %m, %n : index into memref<?xf32, strided<[2]>>", "may not be contiguous"),
        ("%x = gpu.create_dn_tensor %r, %n, %n : index, index into memref<4x4xf32, strided<[8, 1]>>", "may not be contiguous"),
        ("%x = gpu.create_dn_tensor %v, %n, %n, %n : index, index, index into memref<?xf32>", "neither one nor two dimensions"),
        (CSR + VECTOR + "%b = gpu.spmv_buffer_size %a, %x, %x into i64", "'gpu.spmv_buffer_size' computes with type i64"),
        (CSR + TENSOR + "%b = gpu.spmv_buffer_size %a, %d, %d into f32", "needs dense tensors of 1 dimensions"),
        (CSR + VECTOR + "%b = gpu.spmm_buffer_size %a, %x, %x : index into f32", "needs dense tensors of 2 dimensions"),
        (TWO_TO_FOUR + VECTOR + "%b = gpu.spmv_buffer_size %a, %x, %x into f32", "does not support 2:4 matrices"),
        (TWO_TO_FOUR + TENSOR + "%b = gpu.spmm_buffer_size %a, %d, %d : index into f32", "needs 3 buffers for this matrix, not 1"),
        (CSR + TENSOR + "gpu.spmm %a, %d, %d, %j, %j, %j : memref<?xi8>, memref<?xi8>, memref<?xi8> into f32", "needs 1 buffers for this matrix, not 3"),
        (CSR.replace("%a", "%c") + TWO_TO_FOUR + TENSOR + "gpu.spmm %c, %d, %d, %j : memref<?xi8> into f32\n"
         "gpu.spmm %a, %d, %d, %j, %j, %j : memref<?xi8>, memref<?xi8>, memref<?xi8> into f32", "create one for the 2:4 matrix alone"),
    ],
)  # fmt: skip
def test_refused(body: str, message: str) -> None:
    with contexts.context():
        module = contexts.parse(MODULE.replace("BODY", body), source_name="user.mlir")
        error = refused(lowering.lower_host, module)
    (diagnostic, *_) = error.diagnostics
    assert message in diagnostic.message
    assert error.message == "host code uses sparse matrices in a way that cannot be lowered"


def test_a_memref_with_an_offset_is_passed_by_its_first_element() -> None:
    text = MODULE.replace("strided<[2]>", "strided<[1], offset: 3>").replace(
        "BODY", "%x = gpu.create_dn_tensor %m, %n : index into memref<?xf32, strided<[1], offset: 3>>"
    )
    with contexts.context():
        module = contexts.parse(text)
        lowering.lower_host(module)
        lines = str(module).splitlines()
    (call,) = (line for line in lines if "llvm.call @mgpuCreateDnVec" in line)
    pointer = call.partition("(")[2].split(", ")[1]
    (made,) = (line for line in lines if f"{pointer} = llvm.inttoptr" in line)
    (added,) = (line for line in lines if made.split()[3] + " = llvm.add" in line)
    (constant,) = (line for line in lines if added.split()[-3] + " = llvm.mlir.constant" in line)
    assert "constant(12 :" in constant
