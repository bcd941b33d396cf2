# ruff: noqa: E501 — kernel text reads better unbroken
"""Programs of the nvgpu, nvvm, amdgpu and rocdl dialects: each for its own chips."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from kernels.program import (
    AMD,
    AMD_CHIPS,
    AMD_OLD,
    BLOCK,
    CPU,
    NVIDIA,
    NVIDIA_CHIPS,
    NVIDIA_OLD,
    WORKGROUP,
    Programs,
    floats,
    integers,
)

PROGRAMS = Programs()

FOR_NVIDIA, FOR_AMD = "is an instruction of NVIDIA GPUs", "is an instruction of AMD GPUs"
NOT_ON_CPUS = "CPU kernels do not support it"
SINCE_SM_80, SINCE_SM_90 = "needs sm_80 or later", "needs sm_90 or later"
_F16, _TILE = f"memref<64x64xf16, {WORKGROUP}>", f"memref<128x64xf16, {WORKGROUP}>"
_BARRIER = f"!nvgpu.mbarrier.group<memorySpace = {WORKGROUP}>"
_DESCRIPTOR = f"!nvgpu.tensormap.descriptor<tensor = {_F16}, swizzle = swizzle_128b, l2promo = none, oob = zero, interleave = none>"


def _nvidia(name: str, op: str, body: str, args: Mapping[str, str], *, old: str = "", **more) -> None:
    refused = {**dict.fromkeys(AMD_CHIPS, FOR_NVIDIA), **({NVIDIA_OLD: old} if old else {})}
    refused[CPU] = more.pop("cpu", NOT_ON_CPUS)
    PROGRAMS.unrun(name, op, body, args, refused=refused, **more)


def _amd(name: str, op: str, body: str, args: Mapping[str, str], *, old: str = "", **more) -> None:
    refused = {**dict.fromkeys((*NVIDIA_CHIPS, CPU), FOR_AMD), **({AMD_OLD: old} if old else {})}
    PROGRAMS.unrun(name, op, body, args, refused=refused, **more)


def _tensor_cores() -> None:
    shapes = [
        ("f16_f32", (16, 8, 16), "vector<4x2xf16>", "vector<2x2xf16>", "vector<2x2xf32>"),
        ("f16_k8", (16, 8, 8), "vector<2x2xf16>", "vector<1x2xf16>", "vector<2x2xf16>"),
        ("bf16", (16, 8, 16), "vector<4x2xbf16>", "vector<2x2xbf16>", "vector<2x2xf32>"),
        ("i8", (16, 8, 32), "vector<4x4xi8>", "vector<2x4xi8>", "vector<2x2xi32>"),
        ("i4", (16, 8, 64), "vector<4x8xi4>", "vector<2x8xi4>", "vector<2x2xi32>"),
        ("f64", (8, 8, 4), "vector<1x1xf64>", "vector<1x1xf64>", "vector<1x2xf64>"),
    ]  # fmt: skip
    for kind, shape, a, b, c in shapes:
        text = "x".join(map(str, shape))
        old = "needs sm_75 or later" if kind == "f16_k8" else SINCE_SM_80
        element = c.rpartition("x")[2].removesuffix(">")
        result = f"memref<{c.removeprefix('vector<')}"
        assert element in result
        _nvidia(
            f"nvgpu_mma_{kind}",
            f"nvgpu.mma.sync {kind.replace('_', ' ')} {text}",
            f"%d = nvgpu.mma.sync (%a, %b, %c) {{mmaShape = {list(shape)}}} : ({a}, {b}, {c}) -> {c}\n"
            f"    vector.store %d, %out[%c0, %c0] : {result}, {c}",
            {"a": a, "b": b, "c": c, "out": result},
            old=old,
        )
    _nvidia(
        "nvgpu_mma_tf32",
        "nvgpu.mma.sync tf32 16x8x8",
        "%d = nvgpu.mma.sync (%a, %b, %c) {mmaShape = [16, 8, 8], tf32Enabled} : (vector<4x1xf32>, vector<2x1xf32>, vector<2x2xf32>) -> vector<2x2xf32>\n"
        "    vector.store %d, %out[%c0, %c0] : memref<2x2xf32>, vector<2x2xf32>",
        {"a": "vector<4x1xf32>", "b": "vector<2x1xf32>", "c": "vector<2x2xf32>", "out": "memref<2x2xf32>"},
        old=SINCE_SM_80,
    )
    _nvidia(
        "nvgpu_mma_sparse",
        "nvgpu.mma.sp.sync f16 16x8x16",
        "%d = nvgpu.mma.sp.sync (%a, %b, %c) metadata(%m) {mmaShape = [16, 8, 16]} : (vector<2x2xf16>, vector<2x2xf16>, vector<2x2xf16>) -> vector<2x2xf16>\n"
        "    vector.store %d, %out[%c0, %c0] : memref<2x2xf16>, vector<2x2xf16>",
        {"a": "vector<2x2xf16>", "b": "vector<2x2xf16>", "c": "vector<2x2xf16>", "m": "vector<2xi16>", "out": "memref<2x2xf16>"},
        cpu="inline assembly is written for one kind of processor",
        old=SINCE_SM_80,
    )  # fmt: skip
    _nvidia(
        "nvgpu_ldmatrix",
        "nvgpu.ldmatrix, nvgpu.device_async_copy, create_group, wait",
        f"""%s = memref.get_global @nv_ld : memref<16x16xf16, {WORKGROUP}>
    %k = nvgpu.device_async_copy %from[%c0, %c0], %s[%c0, %c0], 8 : memref<16x16xf16> to memref<16x16xf16, {WORKGROUP}>
    %g = nvgpu.device_async_create_group %k
    nvgpu.device_async_wait %g {{numGroups = 0 : i32}}
    gpu.barrier
    %a = nvgpu.ldmatrix %s[%c0, %c0] {{numTiles = 4 : i32, transpose = false}} : memref<16x16xf16, {WORKGROUP}> -> vector<4x2xf16>
    %u = nvgpu.ldmatrix %s[%c0, %c0] {{numTiles = 2 : i32, transpose = true}} : memref<16x16xf16, {WORKGROUP}> -> vector<2x2xf16>
    vector.store %a, %out[%c0, %c0] : memref<4x2xf16>, vector<4x2xf16>
    vector.store %u, %out[%c2, %c0] : memref<4x2xf16>, vector<2x2xf16>""",
        {"from": "memref<16x16xf16>", "out": "memref<4x2xf16>"},
        module=f'  memref.global "private" @nv_ld : memref<16x16xf16, {WORKGROUP}>',
        old=SINCE_SM_80,
    )


def _tile(name: str) -> str:
    return f'  memref.global "private" @{name} : {_F16} {{alignment = 1024 : i64}}'


def _hopper() -> None:
    hopper = {NVIDIA: "sm_90a"}
    _nvidia(
        "nvgpu_mbarrier",
        "nvgpu.mbarrier.create, init, arrive, test.wait",
        f"""%b = nvgpu.mbarrier.create -> {_BARRIER}
    nvgpu.mbarrier.init %b[%c0], %c4 : {_BARRIER}
    gpu.barrier
    %k = nvgpu.mbarrier.arrive %b[%c0] : {_BARRIER} -> !nvgpu.mbarrier.token
    %done = nvgpu.mbarrier.test.wait %b[%c0], %k : {_BARRIER}, !nvgpu.mbarrier.token
    memref.store %done, %out[%t] : memref<?xi1>""",
        {"out": "memref<?xi1>"},
        old=SINCE_SM_80,
    )
    wait = f"""%false = arith.constant false
    %bytes = arith.constant 8192 : index
    %b = nvgpu.mbarrier.create -> {_BARRIER}
    nvgpu.mbarrier.init %b[%c0], %c1 : {_BARRIER}
    gpu.barrier
    nvgpu.mbarrier.arrive.expect_tx %b[%c0], %bytes : {_BARRIER}
"""
    _nvidia(
        "nvgpu_tma_load",
        "nvgpu.tma.async.load, tma.prefetch.descriptor, mbarrier.arrive.expect_tx, try_wait.parity",
        wait
        + f"""    %s = memref.get_global @nv_tma : {_F16}
    nvgpu.tma.prefetch.descriptor %map : {_DESCRIPTOR}
    nvgpu.tma.async.load %map[%c0, %c0], %b[%c0] to %s : {_DESCRIPTOR}, {_BARRIER} -> {_F16}
    nvgpu.mbarrier.try_wait.parity %b[%c0], %false, %bytes : {_BARRIER}
    %v = memref.load %s[%c0, %t] : {_F16}
    memref.store %v, %out[%t] : memref<?xf16>""",
        {"map": _DESCRIPTOR, "out": "memref<?xf16>"},
        module=_tile("nv_tma"),
        old=SINCE_SM_90,
        chips=hopper,
    )
    _nvidia(
        "nvgpu_mbarrier_get",
        "nvgpu.mbarrier.get, arrive.nocomplete, tma.fence.descriptor",
        f"""%b = nvgpu.mbarrier.create -> {_BARRIER}
    nvgpu.mbarrier.init %b[%c0], %c4 : {_BARRIER}
    gpu.barrier
    %p = nvgpu.mbarrier.get %b[%c0] : {_BARRIER} -> i64
    %k = nvgpu.mbarrier.arrive.nocomplete %b[%c0], %c4 : {_BARRIER} -> !nvgpu.mbarrier.token
    nvgpu.tma.fence.descriptor %map : {_DESCRIPTOR}
    memref.store %p, %out[%c0] : memref<?xi64>""",
        {"map": _DESCRIPTOR, "out": "memref<?xi64>"},
        old=SINCE_SM_90,
        chips=hopper,
    )
    _nvidia(
        "nvgpu_tma_store",
        "nvgpu.tma.async.store, nvvm.cp.async.bulk.commit.group, wait_group",
        f"""%s = memref.get_global @nv_tma_store : {_F16}
    nvgpu.tma.async.store %s to %map[%c0, %c0] : {_F16} -> {_DESCRIPTOR}
    nvvm.cp.async.bulk.commit.group
    nvvm.cp.async.bulk.wait_group 0""",
        {"map": _DESCRIPTOR},
        module=_tile("nv_tma_store"),
        old=SINCE_SM_90,
        chips=hopper,
    )
    accumulator = "!nvgpu.warpgroup.accumulator<fragmented = vector<64x64xf32>>"
    matrix = f"!nvgpu.warpgroup.descriptor<tensor = {_F16}>"
    _nvidia(
        "nvgpu_warpgroup",
        "nvgpu.warpgroup.generate.descriptor, mma.init.accumulator, mma, mma.store",
        f"""%s = memref.get_global @nv_warpgroup : {_F16}
    %l = nvgpu.warpgroup.generate.descriptor %s, %map : {_F16}, {_DESCRIPTOR} -> {matrix}
    %zero = nvgpu.warpgroup.mma.init.accumulator -> {accumulator}
    %d = nvgpu.warpgroup.mma %l, %l, %zero {{transposeB}} : {matrix}, {matrix}, {accumulator} -> {accumulator}
    nvgpu.warpgroup.mma.store %d, %out : {accumulator} to memref<64x64xf32>""",
        {"map": _DESCRIPTOR, "out": "memref<64x64xf32>"},
        module=_tile("nv_warpgroup"),
        old="needs sm_90a",
        chips=hopper,
    )
    _nvidia(
        "nvvm_setmaxregister",
        "nvvm.setmaxregister, nvvm.wgmma.fence.aligned, commit, wait",
        """nvvm.setmaxregister increase 232
    nvvm.wgmma.fence.aligned
    nvvm.wgmma.commit.group.sync.aligned
    nvvm.wgmma.wait.group.sync.aligned 0""",
        {},
        old="needs sm_90a",
        chips=hopper,
    )


def _nvvm() -> None:
    """What CPUs do too."""
    x = floats(np.float32, count=BLOCK)
    n = integers(np.int32, count=BLOCK)
    greater = x[np.arange(BLOCK) ^ 1] > x
    programs = [
        (
            "nvvm_cluster", "nvvm.cluster.arrive, wait, nvvm.elect.sync",
            """nvvm.cluster.arrive {aligned}
    nvvm.cluster.wait {aligned}
    %p = nvvm.elect.sync -> i1
    memref.store %p, %out[%t] : memref<?xi1>""",
            {}, np.arange(BLOCK) == 0, {NVIDIA_OLD: SINCE_SM_90}, {}, 0,
        ),
        (
            "nvvm_shfl_vote", "nvvm.shfl.sync, nvvm.vote.sync, nvvm.bar.warp.sync",
            """%all = arith.constant -1 : i32
    %clamp = arith.constant 31 : i32
    %one = arith.constant 1 : i32
    nvvm.bar.warp.sync %all : i32
    %x = memref.load %xs[%t] : memref<?xf32>
    %v = nvvm.shfl.sync bfly %all, %x, %one, %clamp : f32 -> f32
    %p = arith.cmpf ogt, %v, %x : f32
    %n = nvvm.vote.sync ballot %all, %p -> i32
    memref.store %n, %out[%t] : memref<?xi32>""",
            {"xs": x}, np.full(BLOCK, np.sum(greater.astype(np.uint32) << np.arange(BLOCK, dtype=np.uint32), dtype=np.uint32)).view(np.int32), {}, {}, 0,
        ),
        (
            "nvvm_redux", "nvvm.redux.sync",
            """%all = arith.constant -1 : i32
    %n = memref.load %ns[%t] : memref<?xi32>
    %r = nvvm.redux.sync add %n, %all : i32 -> i32
    memref.store %r, %out[%t] : memref<?xi32>""",
            {"ns": n}, np.full(BLOCK, n.sum(), np.int32), {NVIDIA_OLD: SINCE_SM_80}, {}, 0,
        ),
        (
            "nvgpu_rcp", "nvgpu.rcp",
            """%x = vector.load %xs[%t] : memref<?xf32>, vector<1xf32>
    %r = nvgpu.rcp %x {rounding = approx, ftz} : vector<1xf32>
    vector.store %r, %out[%t] : memref<?xf32>, vector<1xf32>""",
            {"xs": x}, 1 / x.astype(np.float64), {}, {}, 2,
        ),
    ]  # fmt: skip
    for name, op, body, args, want, refused, chips, ulp in programs:
        dtype = np.float32 if want.dtype == np.float64 else want.dtype
        PROGRAMS.add(
            name=name,
            op=op,
            body="\n    " + body,
            args={**args, "out": np.zeros(BLOCK, dtype)},
            expect={"out": want},
            refused={**dict.fromkeys(AMD_CHIPS, FOR_NVIDIA), **refused},
            chips=chips,
            tolerance_ulp=ulp,
        )


def _mfma() -> None:
    shapes = [
        ("f32", "32x32x2", "f32", "vector<16xf32>"), ("f16", "16x16x16", "vector<4xf16>", "vector<4xf32>"),
        ("bf16", "32x32x8", "vector<4xbf16>", "vector<16xf32>"), ("f64", "16x16x4", "f64", "vector<4xf64>"),
    ]  # fmt: skip
    for kind, shape, a, c in shapes:
        memory = f"memref<?x{c.removeprefix('vector<')}"
        _amd(
            f"amdgpu_mfma_{kind}",
            f"amdgpu.mfma {kind} {shape}",
            f"%d = amdgpu.mfma {shape} %a * %a + %c {{abid = 0 : i32, cbsz = 0 : i32}} blgp = none : {a}, {a}, {c}\n"
            f"    vector.store %d, %out[%t, %c0] : {memory}, {c}",
            {"a": a, "c": c, "out": memory},
        )
    for kind in ("f8E4M3FNUZ", "f8E5M2FNUZ", "i8"):
        a, c = f"vector<8x{kind}>", f"vector<4x{'i32' if kind == 'i8' else 'f32'}>"
        memory = f"memref<?x{c.removeprefix('vector<')}"
        _amd(
            f"amdgpu_mfma_{kind}",
            f"amdgpu.mfma {kind} 16x16x32",
            f"%d = amdgpu.mfma 16x16x32 %a * %a + %c {{abid = 0 : i32, cbsz = 0 : i32}} blgp = none : {a}, {a}, {c}\n"
            f"    vector.store %d, %out[%t, %c0] : {memory}, {c}",
            {"a": a, "c": c, "out": memory},
            old="no intrinsic matching MFMA size on given chipset",
        )
    _amd(
        "amdgpu_wmma",
        "amdgpu.wmma f16 16x16x16",
        "%d = amdgpu.wmma 16x16x16 %a * %a + %c : vector<16xf16>, vector<16xf16>, vector<8xf32>\n"
        "    vector.store %d, %out[%t, %c0] : memref<?x8xf32>, vector<8xf32>",
        {"a": "vector<16xf16>", "c": "vector<8xf32>", "out": "memref<?x8xf32>"},
        old="WMMA only supported on gfx11 and gfx12",
        chips={AMD: "gfx1100"},
    )


def _amd_memory() -> None:
    _amd(
        "amdgpu_raw_buffer",
        "amdgpu.raw_buffer_load, store, atomic_fadd, atomic_smax, atomic_umin, lds_barrier, sched_barrier",
        f"""%s = memref.get_global @amd_lds : memref<64xf32, {WORKGROUP}>
    %x = amdgpu.raw_buffer_load {{boundsCheck = true}} %f[%j] : memref<64xf32>, i32 -> f32
    memref.store %x, %s[%t] : memref<64xf32, {WORKGROUP}>
    amdgpu.lds_barrier
    %y = memref.load %s[%t] : memref<64xf32, {WORKGROUP}>
    amdgpu.raw_buffer_store {{boundsCheck = true}} %y -> %f[%j] : f32 -> memref<64xf32>, i32
    amdgpu.raw_buffer_atomic_fadd {{boundsCheck = true}} %x -> %f[%j] : f32 -> memref<64xf32>, i32
    amdgpu.raw_buffer_atomic_smax {{boundsCheck = true}} %j -> %n[%j] : i32 -> memref<64xi32>, i32
    amdgpu.raw_buffer_atomic_umin {{boundsCheck = true}} %j -> %n[%j] : i32 -> memref<64xi32>, i32
    amdgpu.sched_barrier allow = <none>""",
        {"f": "memref<64xf32>", "n": "memref<64xi32>", "j": "i32"},
        module=f'  memref.global "private" @amd_lds : memref<64xf32, {WORKGROUP}>',
    )
    _amd(
        "amdgpu_fat_buffer",
        "amdgpu.fat_raw_buffer_cast",
        """%b = amdgpu.fat_raw_buffer_cast %f : memref<64xf32> to memref<64xf32, #amdgpu.address_space<fat_raw_buffer>>
    %x = memref.load %b[%t] : memref<64xf32, #amdgpu.address_space<fat_raw_buffer>>
    memref.store %x, %f[%c0] : memref<64xf32>""",
        {"f": "memref<64xf32>"},
    )
    _amd(
        "amdgpu_lanes",
        "amdgpu.dpp, amdgpu.swizzle_bitmode, rocdl.ds_bpermute, rocdl.readfirstlane",
        """%r = amdgpu.dpp %v %v quad_perm([1, 0, 3, 2]) : i32
    %w = amdgpu.swizzle_bitmode %r 1 2 4 : i32
    %p = rocdl.ds_bpermute %w, %r : (i32, i32) -> i32
    %q = rocdl.readfirstlane %p : i32
    memref.store %q, %out[%t] : memref<?xi32>""",
        {"v": "i32", "out": "memref<?xi32>"},
    )
    _amd(
        "amdgpu_fp8",
        "amdgpu.ext_packed_fp8, amdgpu.packed_trunc_2xfp8",
        """%e = amdgpu.ext_packed_fp8 %a[0] : vector<4xf8E4M3FNUZ> to f32
    %p = amdgpu.packed_trunc_2xfp8 %e, %e into undef[word 0] : f32 to vector<4xf8E4M3FNUZ>
    vector.store %p, %out[%c0] : memref<?xf8E4M3FNUZ>, vector<4xf8E4M3FNUZ>""",
        {"a": "vector<4xf8E4M3FNUZ>", "out": "memref<?xf8E4M3FNUZ>"},
        old="no conversion knows it, or not with these types",
    )


_tensor_cores()
_hopper()
_nvvm()
_mfma()
_amd_memory()
