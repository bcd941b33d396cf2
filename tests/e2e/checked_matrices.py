"""Cases like those of checked_cases.py, for matrices: lanes wait between loads and a store."""

from __future__ import annotations

from e2e.checked_cases import Case

_A, _B, _C = (
    f'!gpu.mma_matrix<{shape}xf32, "{role}Op">'
    for shape, role in (("16x8", "A"), ("8x8", "B"), ("16x8", "C"))
)
_M = "memref<16x8xf32>"
_AT = "[%c0, %c0] {leadDimension = 8 : index}"
_LOADS = (
    f"%ma = gpu.subgroup_mma_load_matrix %m{_AT} : {_M} -> {_A}\n"
    f"%mb = gpu.subgroup_mma_load_matrix %m{_AT} : {_M} -> {_B}\n"
    f"%mc = gpu.subgroup_mma_constant_matrix %one : {_C}\n"
    f"%mr = gpu.subgroup_mma_compute %ma, %mb, %mc : {_A}, {_B} -> {_C}\n"
)
_STORE = f"gpu.subgroup_mma_store_matrix %mr, %m{_AT} : {_C}, {_M}"

MATRICES = {
    "matrix_stored_over": Case(_LOADS + _STORE, blocks=1, known=True, tier="fission"),
    # Not all of the workgroup waits, as far as is known.
    "matrix_stored_over_by_one_of_unknown": Case(f"{_LOADS}{_STORE} // race", blocks=1),
    "matrix_stored_over_by_two_subgroups": Case(f"{_LOADS}{_STORE} // race", blocks=1, items=64, known=True),
    "matrix_stored_over_by_two_workgroups": Case(
        _LOADS.replace(f"{_A}\n", f"{_A} // race\n", 1).replace(f"{_B}\n", f"{_B} // race\n", 1)
        + f"{_STORE} // race",
        known=True,
    ),
    "neighbour_without_the_wait": Case(
        "memref.store %one, %g[%t] : memref<?xf32> // race\n%x = memref.load %g[%right] : memref<?xf32>\n"
        f"{_LOADS}{_STORE}\nmemref.store %x, %g[%t] : memref<?xf32>",
        blocks=1,
        known=True,
    ),
}
