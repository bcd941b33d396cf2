"""Occupancy: how many subgroups of a kernel can be resident on one unit, of the most there could be.

An estimate from registers and workgroup memory alone, for workgroups of a given size: what a
profiler measures depends on the launch, too. Only chips whose limits are published are told of.

Sources: CUDA C++ Programming Guide, "Technical specifications per compute capability" (release 11
for what came before sm_75, 13 for the rest); the CUDA occupancy calculator (registers are given to
a subgroup in units of 256, to multiples of 4 subgroups; since sm_80 the system keeps 1 KiB of
workgroup memory per workgroup); LLVM's AMDGPUBaseInfo.cpp, namespace IsaInfo (waves per EU, vector
registers and their granule), against which a test holds every AMD chip.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

WORKGROUP = 256  # work-items of a workgroup, unless told otherwise
_KIB = 1024
_WARP = 32
_NVIDIA_REGISTERS = 65536
_NVIDIA_UNIT = 256
_NVIDIA_GRANULE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """``percent`` of the subgroups that fit; ``limit`` is what keeps it from being more."""

    percent: int
    limit: str  # registers, shared, workgroups; empty when all fit


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nvidia:
    warps: int
    workgroups: int
    shared_bytes: int
    reserved_bytes: int = 0


_NVIDIA = {
    50: _Nvidia(warps=64, workgroups=32, shared_bytes=64 * _KIB),
    52: _Nvidia(warps=64, workgroups=32, shared_bytes=96 * _KIB),
    53: _Nvidia(warps=64, workgroups=32, shared_bytes=64 * _KIB),
    60: _Nvidia(warps=64, workgroups=32, shared_bytes=64 * _KIB),
    61: _Nvidia(warps=64, workgroups=32, shared_bytes=96 * _KIB),
    62: _Nvidia(warps=64, workgroups=32, shared_bytes=64 * _KIB),
    70: _Nvidia(warps=64, workgroups=32, shared_bytes=96 * _KIB),
    72: _Nvidia(warps=64, workgroups=32, shared_bytes=96 * _KIB),
    75: _Nvidia(warps=32, workgroups=16, shared_bytes=64 * _KIB),
    80: _Nvidia(warps=64, workgroups=32, shared_bytes=164 * _KIB, reserved_bytes=_KIB),
    86: _Nvidia(warps=48, workgroups=16, shared_bytes=100 * _KIB, reserved_bytes=_KIB),
    87: _Nvidia(warps=48, workgroups=16, shared_bytes=164 * _KIB, reserved_bytes=_KIB),
    89: _Nvidia(warps=48, workgroups=24, shared_bytes=100 * _KIB, reserved_bytes=_KIB),
    90: _Nvidia(warps=64, workgroups=32, shared_bytes=228 * _KIB, reserved_bytes=_KIB),
    100: _Nvidia(warps=64, workgroups=32, shared_bytes=228 * _KIB, reserved_bytes=_KIB),
    110: _Nvidia(warps=48, workgroups=24, shared_bytes=228 * _KIB, reserved_bytes=_KIB),
    120: _Nvidia(warps=48, workgroups=24, shared_bytes=100 * _KIB, reserved_bytes=_KIB),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Amd:
    """Per SIMD: the most waves, vector registers of a lane and their granule; SIMDs of a unit."""

    waves: int
    registers: int
    granule: int
    simds: int = 4
    wave: int = 64
    shared_bytes: int = 64 * _KIB


_GCN = _Amd(waves=10, registers=256, granule=4)
_CDNA2 = _Amd(waves=8, registers=512, granule=8)
_CDNA4 = _Amd(waves=8, registers=512, granule=8, shared_bytes=160 * _KIB)
_RDNA1 = _Amd(waves=20, registers=1024, granule=8, simds=2, wave=32)
_RDNA2 = _Amd(waves=16, registers=1024, granule=16, simds=2, wave=32)
_RDNA3 = _Amd(waves=16, registers=1536, granule=24, simds=2, wave=32)
_AMD = {
    **dict.fromkeys(("gfx900", "gfx902", "gfx904", "gfx906", "gfx908", "gfx909", "gfx90c"), _GCN),
    **dict.fromkeys(("gfx90a", "gfx942"), _CDNA2),
    "gfx950": _CDNA4,
    **dict.fromkeys(("gfx1010", "gfx1011", "gfx1012", "gfx1013"), _RDNA1),
    **dict.fromkeys((f"gfx103{n}" for n in range(7)), _RDNA2),
    **dict.fromkeys(("gfx1102", "gfx1103", "gfx1150", "gfx1152", "gfx1153"), _RDNA2),  # as many registers
    **dict.fromkeys(("gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201"), _RDNA3),
}


def estimate(
    chip: str | None, registers: int | None, shared_bytes: int | None, workgroup: int = WORKGROUP
) -> Occupancy | None:
    """The estimate; ``None`` where the chip's limits or the kernel's registers are not known.

    ``chip`` may be an AMD target id such as ``gfx90a:xnack-``; ``shared_bytes`` is static memory.
    """
    if chip is None or not registers or workgroup < 1:
        return None
    nvidia = re.fullmatch(r"sm_(\d+)[af]?", chip)
    if nvidia:
        limits = _NVIDIA.get(int(nvidia[1]))
        return _on_nvidia(limits, registers, shared_bytes or 0, workgroup) if limits else None
    machine = _AMD.get(chip.partition(":")[0])
    return _on_amd(machine, registers, shared_bytes or 0, workgroup) if machine else None


def why_unknown(chip: str | None) -> str:
    """Why there is no estimate for a GPU's chip; empty where there is one, and for CPUs."""
    if chip is None or estimate(chip, 1, 0) is not None:
        return ""
    if re.fullmatch(r"sm_\d+[af]?", chip):
        return f"NVIDIA's table of limits per compute capability has no column for {chip}"
    if chip.startswith("gfx"):
        kind = "stands for several chips" if "generic" in chip else "has limits that are not known here"
        return f"{chip.partition(':')[0]} {kind}"
    return ""


def _on_nvidia(limits: _Nvidia, registers: int, shared_bytes: int, workgroup: int) -> Occupancy:
    warps = -(-workgroup // _WARP)
    per_warp = -(-registers * _WARP // _NVIDIA_UNIT) * _NVIDIA_UNIT
    by_registers = _NVIDIA_REGISTERS // per_warp // _NVIDIA_GRANULE * _NVIDIA_GRANULE // warps
    most = min(limits.workgroups, limits.warps // warps)
    found = {"registers": by_registers}
    if shared_bytes or limits.reserved_bytes:
        found["shared"] = limits.shared_bytes // (shared_bytes + limits.reserved_bytes)
    return _result(found, most, warps, limits.warps)


def _on_amd(machine: _Amd, registers: int, shared_bytes: int, workgroup: int) -> Occupancy:
    waves = -(-workgroup // machine.wave)
    total = machine.waves * machine.simds
    per_wave = -(-registers // machine.granule) * machine.granule
    found = {"registers": machine.registers // per_wave * machine.simds // waves}
    if shared_bytes:
        found["shared"] = machine.shared_bytes // shared_bytes
    return _result(found, total // waves, waves, total)


def _result(found: dict[str, int], most: int, subgroups: int, total: int) -> Occupancy:
    """``found`` are workgroups that fit by each resource, ``most`` those that fit at all."""
    least = min(found, key=lambda name: found[name])
    resident = min(found[least], most)
    percent = round(100 * resident * subgroups / total)
    full = "workgroups" if percent < 100 else ""
    limit = least if resident < most else full
    return Occupancy(percent=percent, limit=limit)
