# ruff: noqa: E501 — kernel text reads better unbroken
"""Programs of the amdgpu dialect for chips newer than gfx942, and what older chips say of them."""

from __future__ import annotations

from collections.abc import Mapping

from kernels.program import AMD, AMD_OLD, CPU, NVIDIA_CHIPS, WORKGROUP, Programs

PROGRAMS = Programs()
_LDS = f"memref<64x64xi32, {WORKGROUP}>"
_UNKNOWN = "no conversion knows it, or not with these types"
_SCALES = "vector<4xf8E8M0FNU>"
_TENSORS = "is only supported on gfx1250"


def _add(
    name: str,
    op: str,
    chip: str,
    body: str,
    args: Mapping[str, str],
    *,
    old: str = "",
    lds: str = "",
) -> None:
    """A program that is compiled only, for ``chip``; ``args`` are types of parameters, ``lds`` is that of %s.

    ``old`` is what gfx90a says.
    """
    variable = f"%s = memref.get_global @{name}_lds : {lds}\n    " if lds else ""
    refused = dict.fromkeys((*NVIDIA_CHIPS, CPU), "is an instruction of AMD GPUs")
    PROGRAMS.unrun(
        f"amdgpu_{name}",
        op,
        variable + body.strip(),
        args,
        module=f'  memref.global "private" @{name}_lds : {lds}' if lds else "",
        refused={**refused, **({AMD_OLD: old} if old else {})},
        chips={AMD: chip} if chip != AMD else {},
    )


def _store(value: str, kind: str) -> str:
    """Lines that keep ``value``, a vector of type ``kind``, from being left out."""
    element = kind.rpartition("x")[2].removesuffix(">")
    return f"    vector.store {value}, %out[%c0] : memref<64x{element}>, {kind}"


def _memory() -> None:
    _add(
        "gather_to_lds",
        "amdgpu.gather_to_lds",
        "gfx950",
        f"amdgpu.gather_to_lds %f[%c0], %s[%c0] : vector<4xf32>, memref<64xf32>, memref<64xf32, {WORKGROUP}>",
        {"f": "memref<64xf32>"},
        lds=f"memref<64xf32, {WORKGROUP}>",
        old="12-byte and 16-byte load widths are only supported on gfx950",
    )
    half = f"memref<16x16xf16, {WORKGROUP}>"
    _add(
        "transpose_load",
        "amdgpu.transpose_load",
        "gfx950",
        f"%v = amdgpu.transpose_load %s[%c0, %c0] : {half} -> vector<4xf16>\n"
        + _store("%v", "vector<4xf16>"),
        {"out": "memref<64xf16>"},
        lds=half,
        old="Non-gfx950 chipset not supported",
    )
    _add(
        "cmpswap",
        "amdgpu.raw_buffer_atomic_cmpswap, amdgpu.memory_counter_wait",
        AMD,
        """%r = amdgpu.raw_buffer_atomic_cmpswap {boundsCheck = true} %j, %j -> %n[%j] : i32 -> memref<64xi32>, i32
    amdgpu.memory_counter_wait load(1) store(2) ds(3) exp(4)
    memref.store %r, %n[%c0] : memref<64xi32>""",
        {"j": "i32", "n": "memref<64xi32>"},
    )
    _add(
        "fmax",
        "amdgpu.raw_buffer_atomic_fmax f64",
        AMD,
        "amdgpu.raw_buffer_atomic_fmax {boundsCheck = true} %x -> %n[%j] : f64 -> memref<64xf64>, i32",
        {"x": "f64", "j": "i32", "n": "memref<64xf64>"},
    )
    _add(
        "fmax_f32",
        "amdgpu.raw_buffer_atomic_fmax f32",
        "gfx1100",
        "amdgpu.raw_buffer_atomic_fmax {boundsCheck = true} %x -> %n[%j] : f32 -> memref<64xf32>, i32",
        {"x": "f32", "j": "i32", "n": "memref<64xf32>"},
        old="of f32 is an instruction that gfx90a does not have",
    )
    _add(
        "tensor",
        "amdgpu.make_dma_base, make_dma_descriptor, tensor_load_to_lds, tensor_store_from_lds, memory_counter_wait tensor",
        "gfx1250",
        f"""%base = amdgpu.make_dma_base %f[%c0, %c0], %s[%c0, %c0] : memref<64x64xi32>, {_LDS} -> !amdgpu.tdm_base<i32>
    %d = amdgpu.make_dma_descriptor %base globalSize [64, 64] globalStride [64, 1] sharedSize [64, 64] : !amdgpu.tdm_base<i32> -> !amdgpu.tdm_descriptor
    amdgpu.tensor_load_to_lds %d : !amdgpu.tdm_descriptor
    amdgpu.memory_counter_wait tensor(0)
    amdgpu.tensor_store_from_lds %d : !amdgpu.tdm_descriptor""",
        {"f": "memref<64x64xi32>"},
        lds=_LDS,
        old=_TENSORS,
    )
    gathered = "!amdgpu.tdm_gather_base<i32, i16>"
    _add(
        "tensor_gather",
        "amdgpu.make_gather_dma_base, make_gather_dma_descriptor",
        "gfx1250",
        f"""%base = amdgpu.make_gather_dma_base %f[%c0, %c0], %s[%c0, %c0] : memref<64x64xi32>, {_LDS} -> {gathered}
    %d = amdgpu.make_gather_dma_descriptor %base[%rows] globalSize [64, 64] globalStride [64, 1] sharedSize [16, 64] : {gathered}, vector<16xi16> -> !amdgpu.tdm_descriptor
    amdgpu.tensor_load_to_lds %d : !amdgpu.tdm_descriptor""",
        {"f": "memref<64x64xi32>", "rows": "vector<16xi16>"},
        lds=_LDS,
        old=_TENSORS,
    )


def _numbers() -> None:
    _add(
        "permlane_swap",
        "amdgpu.permlane_swap",
        "gfx950",
        """%r = amdgpu.permlane_swap %x 16 : f16
    %q = amdgpu.permlane_swap %r 32 {fetch_inactive = true, bound_ctrl = true} : f16
    memref.store %q, %out[%c0] : memref<64xf16>""",
        {"x": "f16", "out": "memref<64xf16>"},
        old="permlane_swap is only supported on gfx950+",
    )
    _add(
        "stochastic",
        "amdgpu.packed_stoch_round_fp8",
        AMD,
        "%r = amdgpu.packed_stoch_round_fp8 %x + %j into undef[1] : f32 to vector<4xf8E4M3FNUZ>\n"
        + _store("%r", "vector<4xf8E4M3FNUZ>"),
        {"x": "f32", "j": "i32", "out": "memref<64xf8E4M3FNUZ>"},
        old=_UNKNOWN,
    )
    _add(
        "scaled_trunc",
        "amdgpu.packed_scaled_trunc, scaled_ext_packed",
        "gfx950",
        """%r = amdgpu.packed_scaled_trunc %x into undef[1], %scale : vector<2xf32> to vector<8xf4E2M1FN>
    %e = amdgpu.scaled_ext_packed %r[0], %scale : vector<8xf4E2M1FN> to vector<2xf32>
"""
        + _store("%e", "vector<2xf32>"),
        {"x": "vector<2xf32>", "scale": "f32", "out": "memref<64xf32>"},
        old=_UNKNOWN,
    )
    _add(
        "scaled_ext_matrix",
        "amdgpu.scaled_ext_packed_matrix",
        "gfx1250",
        f"%r = amdgpu.scaled_ext_packed_matrix %x scale(%scales) blockSize(32) firstScaleLane(0) firstScaleByte(0) : vector<8xf8E4M3FN>, {_SCALES} -> vector<8xf32>\n"
        + _store("%r", "vector<8xf32>"),
        {"x": "vector<8xf8E4M3FN>", "scales": _SCALES, "out": "memref<64xf32>"},
        old=_UNKNOWN,
    )


def _matrices() -> None:
    for kind, shape, a, c in (
        ("f6", "32x32x64", "vector<32xf6E2M3FN>", "vector<16xf32>"),
        ("f4", "16x16x128", "vector<32xf4E2M1FN>", "vector<4xf32>"),
    ):
        _add(
            f"scaled_mfma_{kind}",
            f"amdgpu.scaled_mfma {kind} {shape}",
            "gfx950",
            f"%r = amdgpu.scaled_mfma {shape} (%scales[0] * %a) * (%scales[1] * %a) + %c : {_SCALES}, {a}, {_SCALES}, {a}, {c}\n"
            + _store("%r", c),
            {"a": a, "scales": _SCALES, "c": c, "out": "memref<64xf32>"},
            old="scaled MFMA only supported on",
        )
    a, c = "vector<64xf8E4M3FN>", "vector<8xf32>"
    _add(
        "scaled_wmma",
        "amdgpu.scaled_wmma f8 16x16x128",
        "gfx1250",
        f"%r = amdgpu.scaled_wmma 16x16x128 (%scales * %a) * (%scales * %a) + %c {{a_first_scale_lane = 0 : i32, b_first_scale_lane = 0 : i32}} : {_SCALES}, {a}, {_SCALES}, {a}, {c}\n"
        + _store("%r", c),
        {"a": a, "scales": _SCALES, "c": c, "out": "memref<64xf32>"},
        old="WMMA scale only supported on gfx1250+",
    )
    for kind, shape, chip, a, b, c, index in (
        ("f16", "16x16x32", AMD, "vector<4xf16>", "vector<8xf16>", "vector<4xf32>", "vector<4xi8>"),
        ("i8", "32x32x64", "gfx950", "vector<16xi8>", "vector<32xi8>", "vector<16xi32>", "vector<2xi16>"),
    ):
        _add(
            f"sparse_mfma_{kind}",
            f"amdgpu.sparse_mfma {kind} {shape}",
            chip,
            f"%r = amdgpu.sparse_mfma {shape} %a * %b + %c sparse(%which : {index}) : {a}, {b}, {c}\n"
            + _store("%r", c),
            {"a": a, "b": b, "c": c, "which": index, "out": f"memref<64x{c[-4:-1]}>"},
            old="sparse MFMA (smfmac) only supported on gfx942+",
        )


_memory()
_numbers()
_matrices()
