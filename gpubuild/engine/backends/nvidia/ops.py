"""NVIDIA ops: which chips have the instructions of the nvgpu and nvvm dialects.

LLVM ends the process when it is to select an instruction that a chip lacks. The numbers are those of
the PTX ISA manual, section "Target ISA Notes" of each instruction.
"""

from __future__ import annotations

import re

from mlir import ir

from gpubuild.engine.ir.query import matching
from gpubuild.targets.chips import sm_number

_TENSORS, _ASYNC, _HOPPER = 75, 80, 90
# The longest prefix that fits counts. True: of that architecture alone (sm_90a), not of later chips.
_SINCE: dict[str, tuple[int, bool]] = {
    "nvgpu.ldmatrix": (_TENSORS, False),
    "nvgpu.mma.sync": (_TENSORS, False),
    "nvgpu.mma.sp.sync": (_ASYNC, False),
    "nvgpu.device_async_": (_ASYNC, False),
    "nvgpu.mbarrier.": (_ASYNC, False),
    "nvgpu.mbarrier.arrive.expect_tx": (_HOPPER, False),
    "nvgpu.mbarrier.try_wait": (_HOPPER, False),
    "nvgpu.tma.": (_HOPPER, False),
    "nvgpu.warpgroup.": (_HOPPER, True),
    "nvvm.barrier.cluster": (_HOPPER, False),
    "nvvm.cluster.": (_HOPPER, False),
    "nvvm.clusterlaunchcontrol.": (100, False),
    "nvvm.cp.async.": (_ASYNC, False),
    "nvvm.cp.async.bulk.": (_HOPPER, False),
    "nvvm.convert.bf16x2.to.f8x2": (100, True),
    "nvvm.convert.f16x2.to.f8x2": (89, False),
    "nvvm.convert.f32x2.to.bf16x2": (_ASYNC, False),
    "nvvm.convert.f32x2.to.f16x2": (_ASYNC, False),
    "nvvm.convert.f32x2.to.f4x2": (100, True),
    "nvvm.convert.f32x2.to.f6x2": (100, True),
    "nvvm.convert.f32x2.to.f8x2": (89, False),
    "nvvm.convert.f32x4.": (100, True),
    "nvvm.convert.f4x2.": (100, True),
    "nvvm.convert.f6x2.": (100, True),
    "nvvm.convert.f8x2.": (89, False),
    "nvvm.convert.f8x2.to.bf16x2": (100, True),
    "nvvm.convert.float.to.tf32": (_ASYNC, False),
    "nvvm.dot.accumulate": (61, False),
    "nvvm.elect.sync": (_HOPPER, False),
    "nvvm.fence.mbarrier.init": (_HOPPER, False),
    "nvvm.fence.proxy": (_HOPPER, False),
    "nvvm.fence.sc.cluster": (_HOPPER, False),
    "nvvm.fence.sync_restrict": (_HOPPER, False),
    "nvvm.griddepcontrol": (_HOPPER, False),
    "nvvm.ldmatrix": (_TENSORS, False),
    "nvvm.mapa": (_HOPPER, False),
    "nvvm.match.sync": (70, False),
    "nvvm.mbarrier.": (_ASYNC, False),
    "nvvm.mbarrier.arrive.expect_tx": (_HOPPER, False),
    "nvvm.mbarrier.try_wait": (_HOPPER, False),
    "nvvm.mma.": (70, False),
    "nvvm.mma.block_scale": (120, True),
    "nvvm.mma.sp.": (_ASYNC, False),
    "nvvm.mma.sp.block_scale": (120, True),
    "nvvm.nanosleep": (70, False),
    "nvvm.prefetch": (_HOPPER, False),
    "nvvm.read.ptx.sreg.aggr.smem.size": (_HOPPER, False),
    "nvvm.read.ptx.sreg.cluster": (_HOPPER, False),
    "nvvm.read.ptx.sreg.nclusterid": (_HOPPER, False),
    "nvvm.redux.sync": (_ASYNC, False),
    "nvvm.setmaxregister": (_HOPPER, True),
    "nvvm.st.bulk": (100, False),
    "nvvm.stmatrix": (_HOPPER, False),
    "nvvm.tcgen05.": (100, True),
    "nvvm.wgmma.": (_HOPPER, True),
    "nvvm.wmma.": (70, False),
}
_BY_LENGTH = sorted(_SINCE, key=len, reverse=True)
# The PTX version of each, times ten, where what a chip's code is written in by default may be older.
_PTX = {
    "nvgpu.mbarrier.arrive.expect_tx": 80,
    "nvgpu.tma.": 80,
    "nvgpu.tma.fence.descriptor": 83,
    "nvvm.convert.f32x2.to.f8x2": 81,
    "nvvm.convert.f32x4.": 87,
    "nvvm.cp.async.bulk.": 80,
    "nvvm.elect.sync": 80,
    "nvvm.fence.mbarrier.init": 80,
    "nvvm.fence.proxy": 80,
    "nvvm.fence.proxy.acquire": 83,
    "nvvm.fence.proxy.release": 83,
    "nvvm.fence.proxy.sync_restrict": 86,
    "nvvm.fence.sync_restrict": 86,
    "nvvm.mbarrier.arrive.expect_tx": 80,
    "nvvm.mma.block_scale": 87,
    "nvvm.mma.sp.": 85,
    "nvvm.mma.sp.block_scale": 87,
    "nvvm.prefetch": 80,
    "nvvm.st.bulk": 86,
    "nvvm.tcgen05.mma.block_scale": 88,
    "nvvm.tcgen05.mma.sp.block_scale": 88,
}
_PTX_BY_LENGTH = sorted(_PTX, key=len, reverse=True)


def chip_refusal(op: ir.Operation, chip: str, ptx: int = 0) -> str:
    """Why NVIDIA's ``chip`` cannot do ``op`` of the nvgpu or nvvm dialect, or an empty string.

    ``ptx`` is the version, times ten, that the user settled; 0 when it may be what is needed.
    """
    if not op.name.startswith(("nvgpu.", "nvvm.")):
        return ""
    prefix = next((p for p in _BY_LENGTH if op.name.startswith(p)), "")
    if not prefix:
        return ""
    since, alone = _SINCE[prefix]
    if op.name == "nvgpu.mma.sync" and _is_large(op):
        since = _ASYNC
    if op.name == "nvvm.redux.sync" and isinstance(op.operands[0].type, ir.FloatType):
        since, alone = 100, True
    if alone:
        family = re.fullmatch(r"sm_(\d+)([af]?)", chip)
        if not (family and int(family[1]) // 10 == since // 10 and family[2]):
            return f"'{op.name}' needs sm_{since}a; {chip} does not have it"
    elif sm_number(chip) < since:
        return f"'{op.name}' needs sm_{since} or later; {chip} does not have it"
    needed = _ptx_of(op)
    if ptx and ptx < needed:
        return (
            f"'{op.name}' needs PTX {needed // 10}.{needed % 10}, and `features` of the target say "
            f"{ptx // 10}.{ptx % 10}"
        )
    return ""


def ptx_needed(module: ir.Operation) -> int:
    """Return the PTX version, times ten, that the nvgpu and nvvm ops of ``module`` are in; 0: any."""
    return max(map(_ptx_of, matching(module, lambda op: True)), default=0)


def _ptx_of(op: ir.Operation) -> int:
    if not op.name.startswith(("nvgpu.", "nvvm.")):
        return 0
    return next((_PTX[p] for p in _PTX_BY_LENGTH if op.name.startswith(p)), 0)


def _is_large(op: ir.Operation) -> bool:
    """Whether a shape or a type came with sm_80: sm_75 has m16n8k8 of f16 and m8n8 of integers."""
    element = str(ir.VectorType(op.operands[0].type).element_type)
    rows, _, depth = (int(n.value) for n in ir.ArrayAttr(op.attributes["mmaShape"]))
    return not ((element.startswith("i") and rows == 8) or (element == "f16" and depth == 8))
