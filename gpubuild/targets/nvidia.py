"""NVIDIA: facts of the kind ``nvvm``.

Limits for occupancy are from the CUDA C++ Programming Guide, "Technical specifications per compute
capability" (release 11 for what came before sm_75, 13 for the rest), and from the CUDA occupancy calculator:
registers are given to a subgroup in units of 256, to multiples of 4 subgroups; since sm_80 the system keeps
1 KiB of workgroup memory per workgroup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import MappingProxyType

from gpubuild.support.frozen import frozen
from gpubuild.targets.vendor import (
    WORKGROUP,
    Flaw,
    Format,
    ImageKind,
    ImageKinds,
    Occupancy,
    OffloadKind,
    Vendor,
    fitting,
    split_features,
)

TRIPLE = "nvptx64-nvidia-cuda"
# Chips that both LLVM 22 and ptxas 12.9 take, with the oldest PTX version LLVM emits for each.
_PTX_MINIMUM = {
    "sm_50": 40, "sm_52": 41, "sm_53": 42, "sm_60": 50, "sm_61": 50, "sm_62": 50, "sm_70": 60,
    "sm_72": 61, "sm_75": 63, "sm_80": 70, "sm_86": 71, "sm_87": 74, "sm_89": 78, "sm_90": 78,
    "sm_90a": 80, "sm_100": 86, "sm_100a": 86, "sm_100f": 88, "sm_101": 86, "sm_101a": 86,
    "sm_101f": 88, "sm_103": 88, "sm_103a": 88, "sm_103f": 88, "sm_120": 87, "sm_120a": 87,
    "sm_120f": 88, "sm_121": 88, "sm_121a": 88, "sm_121f": 88,
}  # fmt: skip
PTX_PREFERRED = 78  # shuffles with a mask and bar.red need more than what old chips default to
PTX_NEWEST = 88  # what ptxas 12.9 reads
_PTX_VERSIONS = frozenset(
    {32, 40, 41, 42, 43, 50, *range(60, 66), *range(70, 79), *range(80, PTX_NEWEST + 1)}
)
_PTX_FEATURE = re.compile(r"\+ptx(\d+)")
_CHIPS = frozenset(_PTX_MINIMUM)
_FEATURES = frozenset({f"ptx{version}" for version in _PTX_VERSIONS} | _CHIPS)
_CHIP = re.compile(r"sm_(\d+)[af]?")
# Options of ptxas that name files, or make something else than a cubin of the target's chip.
_PTXAS_REFUSED = frozenset({
    "-o", "--output-file", "-c", "--compile-only", "-ewp", "--extensible-whole-program", "-optf",
    "--options-file", "-ias", "--input-as-string", "-arch", "--gpu-name", "-m", "--machine", "-h", "--help",
    "-V", "--version",
})  # fmt: skip
_CLUSTERS_SINCE, _MATRIX_UNITS_SINCE = 90, 70
_REGISTERS, _REGISTER_UNIT, _GRANULE = 65536, 256, 4  # of a unit; given to a subgroup; subgroups

# https://developer.nvidia.com/cuda-gpus, without spaces and "RTX".
_PRODUCTS = {
    product: chip
    for chip, products in {
        "sm_60": "p100",
        "sm_70": "v100",
        "sm_75": "t4",
        "sm_80": "a100 a30",
        "sm_86": "a10 a40 a6000 3060 3070 3080 3090",
        "sm_87": "orin",
        "sm_89": "l4 l40 l40s 4060 4070 4080 4090",
        "sm_90": "h100 h200 gh200",
        "sm_100": "b200 gb200",
        "sm_120": "5070 5080 5090",
    }.items()
    for product in products.split()
}


class Nvidia(Vendor):
    """NVIDIA's GPUs."""

    kind = "nvvm"
    maker = "NVIDIA"
    noun = "an NVIDIA chip"
    example = "sm_90"
    products = MappingProxyType(_PRODUCTS)
    triple = TRIPLE
    architectures = ("nvptx64", "nvptx")
    attribute_chip = "sm_50"
    dialects = frozenset({"nvvm"})
    compiles_bitcode = True
    upstream_serializes = True
    formats = (Format.BIN, Format.ASSEMBLY, Format.FATBIN, Format.OFFLOAD)
    loaded_formats = (Format.BIN, Format.ASSEMBLY, Format.FATBIN)
    fatbin_tools = ("nvfatbin",)
    flags = MappingProxyType({"ftz": "flush subnormal numbers of f32 to zero"})
    fast_flags = ("ftz",)
    assembler_flag, assembler_key = "ptxas-cmd-options", "ptxas_options"
    asm_suffix, object_suffix, relocatable_suffix = "ptx", "cubin", "o"
    image_kinds = relocatable_kinds = ImageKinds(ImageKind.CUBIN, OffloadKind.CUDA)
    asm_kind = ImageKind.PTX
    elf_machine = 190  # EM_CUDA
    tools = ("ptxas",)
    optional_tools = ("libdevice",)
    clang_tools = ("cuda-linker",)
    disassembler_fix = "install nvdisasm: pip install nvidia-cuda-nvdisasm"
    backend = "gpubuild.engine.backends.nvidia"
    image_reader = "gpubuild.inspect.cubin"

    def implied_by(self, name: str) -> bool:
        # such as sm_90a
        return _CHIP.fullmatch(name) is not None

    def chips(self, triple: str) -> frozenset[str]:
        return _CHIPS

    def features(self, triple: str) -> frozenset[str]:
        return _FEATURES

    def feature_flaw(self, feature: str, chip: str, triple: str) -> Flaw | None:
        # a PTX version must know the chip
        version, oldest = ptx_asked(feature), _PTX_MINIMUM.get(chip, 0)
        flaw = super().feature_flaw(feature, chip, triple)
        if flaw is not None or not version or version >= oldest:
            return flaw
        return Flaw(
            f"{chip} needs PTX {oldest // 10}.{oldest % 10} or newer, not {version // 10}.{version % 10}",
            f"write +ptx{oldest}, or leave the PTX version out",
        )

    def assembler_flaw(self, options: Sequence[str]) -> Flaw | None:
        """Refuse options that name files or change what ptxas makes."""
        after_option = False
        for option in options:
            is_option = option.startswith("-")
            if option.partition("=")[0] in _PTXAS_REFUSED:
                return Flaw(f"ptxas option {option!r} is not allowed", "gpubuild sets input, output and chip")
            if not is_option and (not after_option or "/" in option):
                return Flaw(f"{option!r} is not an option of ptxas", "options begin with '-'")
            after_option = is_option and "=" not in option
        return None

    def carries_assembly(self, chip: str) -> bool:
        # not so for sm_90a, sm_100f and the like
        return chip[-1:].isdigit()

    def has_clusters(self, chip: str) -> bool:
        return sm_number(chip) >= _CLUSTERS_SINCE

    def workgroup_bytes(self, chip: str) -> int | None:
        # ptxas: more is possible as dynamic memory alone
        return 48 << 10

    def multiplies_matrices(self, chip: str) -> bool:
        return sm_number(chip) >= _MATRIX_UNITS_SINCE

    def occupancy(
        self, chip: str, registers: int, shared_bytes: int, workgroup: int = WORKGROUP
    ) -> Occupancy | None:
        unit = _UNITS.get(sm_number(chip))
        if unit is None:
            return None
        size = self.subgroup_size(chip, "")
        warps = -(-workgroup // size)
        per_warp = -(-registers * size // _REGISTER_UNIT) * _REGISTER_UNIT
        found = {"registers": _REGISTERS // per_warp // _GRANULE * _GRANULE // warps}
        if shared_bytes or unit.reserved_bytes:
            found["shared"] = unit.shared_bytes // (shared_bytes + unit.reserved_bytes)
        return fitting(found, min(unit.workgroups, unit.warps // warps), warps, unit.warps)

    def why_no_occupancy(self, chip: str) -> str:
        if sm_number(chip) in _UNITS:
            return ""
        return f"NVIDIA's table of limits per compute capability has no column for {chip}"

    def disassemblers(self, chip: str) -> Iterator[tuple[str, ...]]:
        yield "nvdisasm", "--print-code"
        yield "cuobjdump", "-sass"


def sm_number(chip: str) -> int:
    """Return the number in a chip's name: 90 of ``sm_90a``."""
    return int(re.sub(r"\D", "", chip) or 0)


def ptx_asked(features: str) -> int:
    """Return the PTX version that ``features`` name, times ten; 0 when they name none."""
    return max((int(match[1]) for match in _PTX_FEATURE.finditer(features)), default=0)


def ptx_features(chip: str, features: str = "", *, needed: int = 0) -> str:
    """Return ``features`` with a PTX version: the user's, or the oldest that the chip and ``needed`` allow.

    Old PTX is preferred because a driver reads any PTX up to its own version.
    """
    if ptx_asked(features):
        return features
    version = f"+ptx{max(_PTX_MINIMUM[chip], PTX_PREFERRED, needed)}"
    return ",".join([*split_features(features), version])


@frozen
class _Unit:
    warps: int
    workgroups: int
    shared_bytes: int
    reserved_bytes: int = 0


_KIB = 1024
_UNITS = {
    50: _Unit(warps=64, workgroups=32, shared_bytes=64 * _KIB),
    52: _Unit(warps=64, workgroups=32, shared_bytes=96 * _KIB),
    53: _Unit(warps=64, workgroups=32, shared_bytes=64 * _KIB),
    60: _Unit(warps=64, workgroups=32, shared_bytes=64 * _KIB),
    61: _Unit(warps=64, workgroups=32, shared_bytes=96 * _KIB),
    62: _Unit(warps=64, workgroups=32, shared_bytes=64 * _KIB),
    70: _Unit(warps=64, workgroups=32, shared_bytes=96 * _KIB),
    72: _Unit(warps=64, workgroups=32, shared_bytes=96 * _KIB),
    75: _Unit(warps=32, workgroups=16, shared_bytes=64 * _KIB),
    80: _Unit(warps=64, workgroups=32, shared_bytes=164 * _KIB, reserved_bytes=_KIB),
    86: _Unit(warps=48, workgroups=16, shared_bytes=100 * _KIB, reserved_bytes=_KIB),
    87: _Unit(warps=48, workgroups=16, shared_bytes=164 * _KIB, reserved_bytes=_KIB),
    89: _Unit(warps=48, workgroups=24, shared_bytes=100 * _KIB, reserved_bytes=_KIB),
    90: _Unit(warps=64, workgroups=32, shared_bytes=228 * _KIB, reserved_bytes=_KIB),
    100: _Unit(warps=64, workgroups=32, shared_bytes=228 * _KIB, reserved_bytes=_KIB),
    110: _Unit(warps=48, workgroups=24, shared_bytes=228 * _KIB, reserved_bytes=_KIB),
    120: _Unit(warps=48, workgroups=24, shared_bytes=100 * _KIB, reserved_bytes=_KIB),
}

NVIDIA = Nvidia()
