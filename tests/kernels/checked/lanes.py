"""Cases like those of cases.py, for vector ops that some lanes take no part in."""

from __future__ import annotations

from kernels.checked.cases import Case, alone, one_writes

_F = "vector<4xf32>"
_I = "vector<4xi32>"
_HALF = "%k = arith.constant dense<[true, true, false, false]> : vector<4xi1>\n"
_GAPS = "%k = arith.constant dense<[true, false, true, true]> : vector<4xi1>\n"
_MASK3 = "%c3 = arith.constant 3 : index\n%k = vector.create_mask %c3 : vector<4xi1>\n"
_MASK4 = "%k = vector.create_mask %items : vector<4xi1>\n"  # all lanes, which the compiler does not know
_ITEMS = "%items = gpu.block_dim x\n"
_Z = "%z = arith.constant dense<0.0> : vector<4xf32>\n"
_TO_START = f"\nvector.store %v, %g[%c0] : memref<?xf32>, {_F}"
_ONCE = ("index 100 of dimension 0, which has 100 elements", "work-item (0, 0, 0)", "bounds: 1 (1 times)")


def _gather(moves: str, mark: str = "") -> str:
    return one_writes(
        f"%x = arith.constant dense<{moves}> : {_I}\n{_HALF}{_Z}"
        f"%v = vector.gather %g[%c0] [%x], %k, %z : memref<?xf32>, {_I}, vector<4xi1>, {_F} into {_F}{mark}"
        + _TO_START
    )


def _scatter(moves: str, mark: str = "") -> str:
    return one_writes(
        f"%x = arith.constant dense<{moves}> : {_I}\n{_HALF}{_Z}"
        f"vector.scatter %g[%c0] [%x], %k, %z : memref<?xf32>, {_I}, vector<4xi1>, {_F}{mark}"
    )


def _load(op: str, mask: str, index: str = "%c97", mark: str = "") -> str:
    types = f"memref<?xf32>, vector<4xi1>, {_F} into {_F}"
    return one_writes(f"{_ITEMS}{mask}{_Z}%v = vector.{op} %g[{index}], %k, %z : {types}{mark}{_TO_START}")


def _store(op: str, mask: str, index: str = "%c97", mark: str = "") -> str:
    types = f"memref<?xf32>, vector<4xi1>, {_F}"
    return one_writes(f"{_ITEMS}{mask}{_Z}vector.{op} %g[{index}], %k, %z : {types}{mark}")


def _transfers(mask: str, flag: str = "{in_bounds = [true]} ", mark: str = "") -> str:
    return one_writes(
        f"{_ITEMS}{mask}%v = vector.transfer_read %g[%c97], %one, %k {flag}: memref<?xf32>, {_F}{mark}\n"
        f"vector.transfer_write %v, %g[%c97], %k {flag}: {_F}, memref<?xf32>{mark}"
    )


def _gather_from_workgroup(mask: str, mark: str = "") -> str:
    return (
        "scf.if %lower { memref.store %one, %w[%t] : WG }\ngpu.barrier\nscf.if %lower {\n"
        "%x = arith.constant dense<[0, 16]> : vector<2xindex>\n"
        "%z = arith.constant dense<0.0> : vector<2xf32>\n"
        f"%k = arith.constant dense<{mask}> : vector<2xi1>\n"
        "%v = vector.gather %w[%t] [%x], %k, %z : "
        f"WG, vector<2xindex>, vector<2xi1>, vector<2xf32> into vector<2xf32>{mark}\n"
        "%e = vector.extract %v[0] : f32 from vector<2xf32>\nmemref.store %e, %g[%i] : memref<?xf32>\n}"
    )


def _digits(value: str, name: str, digits: int) -> str:
    """Asserts that the lanes of ``value`` are these ``digits``, the last of them lane 0."""
    return (
        f"%{name}p = arith.muli {value}, %tens : {_I}\n"
        f"%{name}s = vector.reduction <add>, %{name}p : {_I} into i32\n"
        f"%{name}d = arith.constant {digits} : i32\n"
        f"%{name}q = arith.cmpi eq, %{name}s, %{name}d : i32\n"
        f'cf.assert %{name}q, "{name}"\n'
    )


_VALUES = one_writes(
    f"%tens = arith.constant dense<[1, 10, 100, 1000]> : {_I}\n"
    f"%up = arith.constant dense<[1, 2, 3, 4]> : {_I}\n%nine = arith.constant dense<9> : {_I}\n"
    f"%c60 = arith.constant 60 : index\n%i5 = arith.constant 5 : i32\n{_GAPS}"
    f"vector.store %up, %n[%c0] : memref<?xi32>, {_I}\n"
    f"%x = arith.constant dense<[3, 0, 2, 3]> : {_I}\n"
    f"%v1 = vector.gather %n[%c0] [%x], %k, %nine : memref<?xi32>, {_I}, vector<4xi1>, {_I} into {_I}\n"
    f"{_digits('%v1', 'gather', 4394)}"
    f"%v2 = vector.maskedload %n[%c0], %k, %nine : memref<?xi32>, vector<4xi1>, {_I} into {_I}\n"
    f"{_digits('%v2', 'maskedload', 4391)}"
    f"%v3 = vector.expandload %n[%c0], %k, %nine : memref<?xi32>, vector<4xi1>, {_I} into {_I}\n"
    f"{_digits('%v3', 'expandload', 3291)}"
    f"%v4 = vector.transfer_read %n[%c0], %i5, %k : memref<?xi32>, {_I}\n"
    f"{_digits('%v4', 'transfer_read', 4351)}"
    f"vector.store %nine, %n[%c8] : memref<?xi32>, {_I}\n"
    f"vector.scatter %n[%c8] [%x], %k, %up : memref<?xi32>, {_I}, vector<4xi1>, {_I}\n"
    f"%v5 = vector.load %n[%c8] : memref<?xi32>, {_I}\n{_digits('%v5', 'scatter', 4399)}"
    f"vector.maskedstore %n[%c16], %k, %up : memref<?xi32>, vector<4xi1>, {_I}\n"
    "%c17 = arith.addi %c16, %c1 : index\nmemref.store %i5, %n[%c17] : memref<?xi32>\n"
    f"%v6 = vector.load %n[%c16] : memref<?xi32>, {_I}\n{_digits('%v6', 'maskedstore', 4351)}"
    f"vector.store %nine, %n[%c32] : memref<?xi32>, {_I}\n"
    f"vector.compressstore %n[%c32], %k, %up : memref<?xi32>, vector<4xi1>, {_I}\n"
    f"%v7 = vector.load %n[%c32] : memref<?xi32>, {_I}\n{_digits('%v7', 'compressstore', 9431)}"
    f"vector.store %nine, %n[%c60] : memref<?xi32>, {_I}\n"
    f"vector.transfer_write %up, %n[%c60], %k : {_I}, memref<?xi32>\n"
    f"%v8 = vector.load %n[%c60] : memref<?xi32>, {_I}\n{_digits('%v8', 'transfer_write', 4391)}"
    "%sq = arith.constant dense<[[0, 1], [2, 3]]> : vector<2x2xindex>\n"
    "%sk = arith.constant dense<[[true, false], [true, true]]> : vector<2x2xi1>\n"
    "%sz = arith.constant dense<9> : vector<2x2xi32>\n"
    "%v9 = vector.gather %n[%c0] [%sq], %sk, %sz : "
    "memref<?xi32>, vector<2x2xindex>, vector<2x2xi1>, vector<2x2xi32> into vector<2x2xi32>\n"
    f"%row = vector.shape_cast %v9 : vector<2x2xi32> to {_I}\n{_digits('%row', 'square', 4391)}"
)

LANES = {
    "lanes_have_their_values": Case(_VALUES),
    "gather_past_end": Case(_gather("[99, 100, 100, -1]", " // bounds"), says=_ONCE),
    "gather_past_end_masked_off": Case(_gather("[99, 0, 100, -1]")),
    "gather_before_begin": Case(_gather("[0, -1, 5, 5]", " // bounds"), says=("index -1 of dimension 0",)),
    "gather_of_squares": alone(
        "%x = arith.constant dense<[[0, 3], [4, -4]]> : vector<2x2xindex>\n"
        "%k = arith.constant dense<true> : vector<2x2xi1>\n"
        "%z = arith.constant dense<0.0> : vector<2x2xf32>\n"
        "%v = vector.gather %m[%c1, %c4] [%x], %k, %z : memref<16x8xf32>, vector<2x2xindex>, "
        "vector<2x2xi1>, vector<2x2xf32> into vector<2x2xf32> // bounds\n"
        "%e = vector.extract %v[0, 0] : f32 from vector<2x2xf32>\n"
        "memref.store %e, %g[%c0] : memref<?xf32>",
        says=("index 8 of dimension 1, which has 8 elements", "bounds: 1 (1 times)"),
    ),
    "gather_of_booleans": alone(
        "%x = arith.constant dense<[63, 64, 2, -1]> : vector<4xi64>\n"
        f"{_HALF}vector.scatter %p[%c0] [%x], %k, %k : "
        "memref<?xi1>, vector<4xi64>, vector<4xi1>, vector<4xi1> // bounds\n"
        "%z = arith.constant dense<false> : vector<4xi1>\n"
        "%c63 = arith.addi %c31, %c32 : index\nmemref.store %true, %p[%c0] : memref<?xi1>\n"
        "%y = arith.constant dense<[-63, 0, 1, 1]> : vector<4xi64>\n"
        "%v = vector.gather %p[%c63] [%y], %k, %z : "
        "memref<?xi1>, vector<4xi64>, vector<4xi1>, vector<4xi1> into vector<4xi1>\n"
        "%e = arith.constant dense<[true, true, false, false]> : vector<4xi1>\n"
        "%q = arith.cmpi eq, %v, %e : vector<4xi1>\n"
        '%all = vector.reduction <and>, %q : vector<4xi1> into i1\ncf.assert %all, "booleans"',
        says=("index 64 of dimension 0, which has 64 elements", "bounds: 1 (1 times)"),
    ),
    "scatter_past_end": Case(_scatter("[99, 100, 100, -1]", " // bounds"), says=_ONCE),
    "scatter_past_end_masked_off": Case(_scatter("[99, 0, 100, -1]")),
    "masked_load_past_end": Case(_load("maskedload", _MASK4, mark=" // bounds"), says=_ONCE),
    "masked_load_at_end": Case(_load("maskedload", _MASK3)),
    "masked_store_past_end": Case(_store("maskedstore", _MASK4, mark=" // bounds"), says=_ONCE),
    "masked_store_at_end": Case(_store("maskedstore", _MASK3)),
    "expand_past_end": Case(
        _load("expandload", "%c98 = arith.addi %c97, %c1 : index\n" + _GAPS, "%c98", " // bounds"), says=_ONCE
    ),
    "expand_to_end": Case(_load("expandload", _GAPS)),
    "compress_past_end": Case(
        _store("compressstore", "%c98 = arith.addi %c97, %c1 : index\n" + _GAPS, "%c98", " // bounds"),
        says=_ONCE,
    ),
    "compress_to_end": Case(_store("compressstore", _GAPS)),
    "masked_transfers_promise": Case(
        _transfers(_MASK4, mark=" // bounds"),
        says=("index 100 of dimension 0", "bounds: 2 (2 times)"),
    ),
    "masked_transfers_promise_lanes": Case(_transfers(_MASK3)),
    "masked_transfers_may_be_partial": Case(_transfers(_MASK4, flag="")),
    "scatter_to_one_place": Case(
        "%x = arith.constant dense<[0, 1]> : vector<2xi32>\n"
        "%v = vector.broadcast %i1 : i32 to vector<2xi32>\n"
        "%k = vector.create_mask %d : vector<2xi1>\n"
        "vector.scatter %n[%c4] [%x], %k, %v : "
        "memref<?xi32>, vector<2xi32>, vector<2xi1>, vector<2xi32> // race",
        says=("126 times", "global memory"),
    ),
    "scatter_of_lanes_apart": Case(
        "%x = arith.constant dense<[0, 1]> : vector<2xi32>\n"
        "%v = vector.broadcast %i1 : i32 to vector<2xi32>\n"
        "%k = arith.constant dense<[true, false]> : vector<2xi1>\n"
        "vector.scatter %n[%i] [%x], %k, %v : memref<?xi32>, vector<2xi32>, vector<2xi1>, vector<2xi32>"
    ),
    "gather_of_nothing": Case(
        _gather_from_workgroup("[true, true]", " // uninitialized"),
        shared="memref<32xf32, #gpu.address_space<workgroup>>",
        says=("32 times",),
        tier="fission",
    ),
    "gather_of_something": Case(
        _gather_from_workgroup("[true, false]"), shared="memref<32xf32, #gpu.address_space<workgroup>>"
    ),
}
