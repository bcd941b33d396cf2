"""AMD: facts of the kind ``rocdl``. Names are LLVM 22's; ``tests/unit/targets/test_chips.py`` compares them.

Limits for occupancy are from LLVM's AMDGPUBaseInfo.cpp, namespace IsaInfo (waves per EU, vector registers
and their granule), against which a test holds every chip.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import MappingProxyType

from gpubuild.support.frozen import frozen
from gpubuild.targets.target import Target
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
    names,
)

TRIPLE = "amdgcn-amd-amdhsa"
_CHIP = re.compile(r"gfx[0-9a-f]+((-\d+)?-generic)?")
_GENERIC = re.compile(r"gfx(\d+)(?:-(\d+))?-generic")
# Features that tell code objects for one chip apart, in the order of a target id.
_TARGET_ID_FEATURES = ("sramecc", "xnack")
_ABI_6_CHIPS = frozenset({"gfx1250", "gfx1251"})
_WAVE32_SINCE = 10  # GFX10 and later run 32 work-items in a subgroup by default
_SWIZZLES_SINCE = 8  # GFX6 and 7 have no instruction that reads another lane's registers

# https://rocm.docs.amd.com/en/latest/reference/gpu-arch-specs.html, without spaces and "RX".
_PRODUCTS = {
    product: chip
    for chip, products in {
        "gfx906": "mi50 mi60",
        "gfx908": "mi100",
        "gfx90a": "mi210 mi250 mi250x",
        "gfx942": "mi300a mi300x mi325x",
        "gfx950": "mi350x mi355x",
        "gfx1030": "6800xt 6900xt",
        "gfx1100": "7900xt 7900xtx",
        "gfx1201": "9070 9070xt",
    }.items()
    for product in products.split()
}


class Amd(Vendor):
    """AMD's GPUs."""

    kind = "rocdl"
    maker = "AMD"
    noun = "an AMD chip"
    example = "gfx90a"
    triple = TRIPLE
    architectures = ("amdgcn", "amdgpu")
    attribute = "rocdl"
    attribute_chip = "gfx900"
    dialects = frozenset({"rocdl"})
    compiles_bitcode = True
    formats = (Format.BIN, Format.ASSEMBLY, Format.OFFLOAD)
    products = MappingProxyType(_PRODUCTS)
    flags = MappingProxyType(
        {
            "wave64": "subgroups of 64 work-items",
            "no_wave64": "subgroups of 32 work-items",
            "daz": "flush subnormal numbers of f32 to zero",
            "finite_only": "assume that no number is infinite or NaN",
            "unsafe_math": "approximate functions",
            "unsafe_sqrt": "square roots of f32 need not be rounded correctly",
            "correct_sqrt": "square roots of f32 are rounded correctly, with `fast` too",
        }
    )
    abis = ("600", "500", "400")
    asm_suffix, object_suffix, relocatable_suffix = "s", "hsaco", "bc"
    image_kinds = ImageKinds(ImageKind.OBJECT, OffloadKind.HIP)
    relocatable_kinds = ImageKinds(ImageKind.BITCODE, OffloadKind.HIP)
    elf_machine = 224  # EM_AMDGPU
    assembly_on_demand = True  # writing it would generate the code a second time
    tools = ("llvmlite", "ld.lld")
    disassembler_fix = "install a newer LLVM (Debian: llvm), or put ROCm's llvm-objdump on PATH"
    backend = "gpubuild.engine.backends.amd"
    image_reader = "gpubuild.inspect.hsaco"

    def implied_by(self, name: str) -> bool:
        # such as gfx90a, gfx9-4-generic
        return _CHIP.fullmatch(name) is not None

    def chips(self, triple: str) -> frozenset[str]:
        return _CHIPS

    def features(self, triple: str) -> frozenset[str]:
        return _FEATURES

    def flags_flaw(self, flags: Sequence[str], chip: str, features: str) -> Flaw | None:
        """Flags that contradict each other, a feature or the chip are wrong, too."""
        if flaw := super().flags_flaw(flags, chip, features):
            return flaw
        for one, other in (("wave64", "no_wave64"), ("correct_sqrt", "unsafe_sqrt")):
            if one in flags and other in flags:
                return Flaw(f"flags {one!r} and {other!r} contradict each other", "leave one of them out")
        if "no_wave64" in flags and gfx_version(chip)[0] < _WAVE32_SINCE:
            return Flaw(f"{chip} has no subgroups of 32 work-items", "leave 'no_wave64' out")
        for flag, feature in (("wave64", "+wavefrontsize32"), ("no_wave64", "+wavefrontsize64")):
            if flag in flags and feature in features:
                return Flaw(f"flag {flag!r} contradicts feature {feature!r}", "leave one of them out")
        return None

    def abi_flaw(self, abi: str, chip: str) -> Flaw | None:
        """The older versions do not know all chips."""
        flaw = super().abi_flaw(abi, chip)
        if flaw is None and abi != self.abis[0] and (chip.endswith("-generic") or chip in _ABI_6_CHIPS):
            return Flaw(f"code objects for {chip} have ABI version {self.abis[0]}", "leave 'abi' out")
        return flaw

    def workgroup_bytes(self, chip: str) -> int | None:
        # LLVM's AddressableLocalMemorySize
        return {"gfx950": 160 << 10, "gfx1250": 320 << 10, "gfx1251": 320 << 10}.get(chip, 64 << 10)

    def arch(self, chip: str, features: str) -> str:
        """AMD's name of a processor with its settings, such as ``gfx90a:sramecc+:xnack-``."""
        signs = {f[1:]: f[0] for f in features.replace(" ", "").split(",") if f[:1] in ("+", "-")}
        return ":".join([chip, *(f"{name}{signs[name]}" for name in _TARGET_ID_FEATURES if name in signs)])

    def linked_together(self, one: tuple[str, str], other: tuple[str, str]) -> bool:
        """An object that leaves a setting open goes into the image of either setting."""
        (chip, *settings), (other_chip, *other_settings) = (
            self.arch(*pair).split(":") for pair in (one, other)
        )
        contrary = {f[:-1] + ("-" if f[-1] == "+" else "+") for f in settings}
        return chip == other_chip and not contrary & set(other_settings)

    def subgroup_size(self, chip: str, features: str) -> int:
        if "+wavefrontsize64" in features:
            return 64
        if "+wavefrontsize32" in features:
            return 32
        return 64 if gfx_version(chip)[0] < _WAVE32_SINCE else 32

    def exchanges_lanes(self, chip: str) -> bool:
        return gfx_version(chip)[0] >= _SWIZZLES_SINCE

    def occupancy(
        self, chip: str, registers: int, shared_bytes: int, workgroup: int = WORKGROUP
    ) -> Occupancy | None:
        unit = _UNITS.get(chip.partition(":")[0])
        if unit is None:
            return None
        waves = -(-workgroup // unit.wave)
        total = unit.waves * unit.simds
        per_wave = -(-registers // unit.granule) * unit.granule
        found = {"registers": unit.registers // per_wave * unit.simds // waves}
        if shared_bytes:
            found["shared"] = unit.shared_bytes // shared_bytes
        return fitting(found, total // waves, waves, total)

    def why_no_occupancy(self, chip: str) -> str:
        chip = chip.partition(":")[0]
        if chip in _UNITS:
            return ""
        return f"{chip} " + (
            "stands for several chips" if "generic" in chip else "has limits that are not known here"
        )

    def disassemblers(self, chip: str) -> Iterator[tuple[str, ...]]:
        # objects say their chip, to newer LLVMs only
        chip = chip.partition(":")[0]
        yield ("llvm-objdump", "-d", *([f"--mcpu={chip}"] if chip else []))


def features_with_flags(features: str, flags: Sequence[str]) -> str:
    """Return ``features`` with those that flags of the target attribute stand for."""
    size = {"wave64": "+wavefrontsize64", "no_wave64": "+wavefrontsize32"}
    added = [size[flag] for flag in flags if flag in size and size[flag] not in features]
    return ",".join(filter(None, (features, *added)))


def rounds_roots(target: Target) -> bool:
    """Whether square roots of f32 are rounded correctly."""
    return "correct_sqrt" in target.flags or not (target.fast_math or "unsafe_sqrt" in target.flags)


def gfx_version(chip: str) -> tuple[int, int, int]:
    """Return major, minor and stepping of a chip; of a generic one, those of the first chip it covers."""
    if generic := _GENERIC.fullmatch(chip):
        return int(generic[1]), int(generic[2] or 0), 0
    digits = chip.removeprefix("gfx")
    return int(digits[:-2]), int(digits[-2], 16), int(digits[-1], 16)


@frozen
class _Unit:
    """Per SIMD: the most waves, vector registers of a lane and their granule; SIMDs of a unit."""

    waves: int
    registers: int
    granule: int
    simds: int = 4
    wave: int = 64
    shared_bytes: int = 64 << 10


_GCN = _Unit(waves=10, registers=256, granule=4)
_CDNA2 = _Unit(waves=8, registers=512, granule=8)
_CDNA4 = _Unit(waves=8, registers=512, granule=8, shared_bytes=160 << 10)
_RDNA1 = _Unit(waves=20, registers=1024, granule=8, simds=2, wave=32)
_RDNA2 = _Unit(waves=16, registers=1024, granule=16, simds=2, wave=32)
_RDNA3 = _Unit(waves=16, registers=1536, granule=24, simds=2, wave=32)
_UNITS = {
    **dict.fromkeys(("gfx900", "gfx902", "gfx904", "gfx906", "gfx908", "gfx909", "gfx90c"), _GCN),
    **dict.fromkeys(("gfx90a", "gfx942"), _CDNA2),
    "gfx950": _CDNA4,
    **dict.fromkeys(("gfx1010", "gfx1011", "gfx1012", "gfx1013"), _RDNA1),
    **dict.fromkeys((f"gfx103{n}" for n in range(7)), _RDNA2),
    **dict.fromkeys(("gfx1102", "gfx1103", "gfx1150", "gfx1152", "gfx1153"), _RDNA2),  # as many registers
    **dict.fromkeys(("gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201"), _RDNA3),
}

_CHIPS = names(
    """
    gfx10-1-generic gfx10-3-generic gfx1010 gfx1011 gfx1012 gfx1013 gfx1030 gfx1031 gfx1032 gfx1033
    gfx1034 gfx1035 gfx1036 gfx11-generic gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153
    gfx12-generic gfx1200 gfx1201 gfx1250 gfx1251 gfx600 gfx601 gfx602 gfx700 gfx701 gfx702 gfx703 gfx704
    gfx705 gfx801 gfx802 gfx803 gfx805 gfx810 gfx9-4-generic gfx9-generic gfx900 gfx902 gfx904 gfx906
    gfx908 gfx909 gfx90a gfx90c gfx942 gfx950
    """
)

_FEATURES = names(
    """
    1024-addressable-vgprs 16-bit-insts 45-bit-num-records-buffer-resource 64-bit-literals DumpCode a16
    add-min-max-insts add-no-carry-insts add-sub-u64-insts addressablelocalmemorysize163840
    addressablelocalmemorysize32768 addressablelocalmemorysize327680 addressablelocalmemorysize65536
    agent-scope-fine-grained-remote-memory-atomics allocate1_5xvgprs aperture-regs
    architected-flat-scratch architected-sgprs ashr-pk-insts assembler-permissive-wavesize
    atomic-buffer-global-pk-add-f16-insts atomic-buffer-global-pk-add-f16-no-rtn-insts
    atomic-buffer-pk-add-bf16-inst atomic-csub-no-rtn-insts atomic-ds-pk-add-16-insts
    atomic-fadd-no-rtn-insts atomic-fadd-rtn-insts atomic-flat-pk-add-16-insts atomic-fmin-fmax-flat-f32
    atomic-fmin-fmax-flat-f64 atomic-fmin-fmax-global-f32 atomic-fmin-fmax-global-f64
    atomic-global-pk-add-bf16-inst auto-waitcnt-before-barrier back-off-barrier bf16-cvt-insts
    bf16-pk-insts bf16-trans-insts bf8-cvt-scale-insts bitop3-insts block-vgpr-csr bvh-dual-bvh-8-insts
    ci-insts clusters cube-insts cumode cvt-fp8-vop1-bug cvt-norm-insts cvt-pk-f16-f32-inst
    cvt-pknorm-vop2-insts cvt-pknorm-vop3-insts d16-write-vgpr32 default-component-broadcast
    default-component-zero dl-insts dot1-insts dot10-insts dot11-insts dot12-insts dot13-insts dot2-insts
    dot3-insts dot4-insts dot5-insts dot6-insts dot7-insts dot8-insts dot9-insts dpp dpp-64bit
    dpp-src1-sgpr dpp8 ds-src2-insts dumpcode emulated-system-scope-atomics enable-ds128
    enable-flat-scratch enable-prt-strict-null extended-image-insts f16bf16-to-fp6bf6-cvt-scale-insts
    f32-to-f16bf16-cvt-sr-insts fast-denormal-f32 fast-fmaf flat-address-space flat-atomic-fadd-f32-inst
    flat-buffer-global-fadd-f64-inst flat-for-global flat-global-insts flat-gvs-mode flat-inst-offsets
    flat-scratch-insts flat-segment-offset-bug fma-mix-bf16-insts fma-mix-insts fmacf64-inst fmaf
    fp4-cvt-scale-insts fp64 fp6bf6-cvt-scale-insts fp8-conversion-insts fp8-cvt-scale-insts fp8-insts
    fp8e5m3-insts full-rate-64-ops g16 gcn3-encoding gds get-wave-id-inst gfx10 gfx10-3-insts gfx10-insts
    gfx10_a-encoding gfx10_b-encoding gfx11 gfx11-insts gfx12 gfx12-insts gfx1250-insts
    gfx7-gfx8-gfx9-insts gfx8-insts gfx9 gfx9-insts gfx90a-insts gfx940-insts gfx950-insts
    globally-addressable-scratch gws half-rate-64-ops ieee-minimum-maximum-insts image-gather4-d16-bug
    image-insts image-store-d16-bug inst-fwd-prefetch-bug int-clamp-insts inv-2pi-inline-imm
    kernarg-preload lds-barrier-arrive-atomic lds-branch-vmem-war-hazard lds-misaligned-bug ldsbankcount16
    ldsbankcount32 lerp-inst load-store-opt lshl-add-u64-inst mad-intra-fwd-bug mad-mac-f32-insts
    mad-mix-insts mad-u32-inst mai-insts max-hard-clause-length-32 max-hard-clause-length-63
    max-private-element-size-16 max-private-element-size-4 max-private-element-size-8 mcast-load-insts
    memory-atomic-fadd-f32-denormal-support mfma-inline-literal-bug mimg-r128 min3-max3-pkf16
    minimum3-maximum3-f16 minimum3-maximum3-f32 minimum3-maximum3-pkf16 movrel msaa-load-dst-sel-bug
    negative-scratch-offset-bug negative-unaligned-scratch-offset-bug no-data-dep-hazard no-sdst-cmpx
    nsa-clause-bug nsa-encoding nsa-to-vmem-bug offset-3f-bug packed-fp32-ops packed-tid
    partial-nsa-encoding permlane16-swap permlane32-swap pk-add-min-max-insts pk-fmac-f16-inst
    point-sample-accel precise-memory priv-enabled-trap2-nop-bug prng-inst promote-alloca
    pseudo-scalar-trans qsad-insts r128-a16 real-true16 relaxed-buffer-oob-mode required-export-priority
    requires-cov6 restricted-soffset s-memrealtime s-memtime-inst s-wakeup-barrier-inst sad-insts
    safe-cu-prefetch safe-smem-prefetch salu-float scalar-atomics scalar-dwordx3-loads
    scalar-flat-scratch-insts scalar-stores sdwa sdwa-mav sdwa-omod sdwa-out-mods-vopc sdwa-scalar
    sdwa-sdst sea-islands setprio-inc-wg-inst setreg-vgpr-msb-fixup sgpr-init-bug
    shader-cycles-hi-lo-registers shader-cycles-register si-scheduler smem-to-vector-write-hazard
    southern-islands sramecc sramecc-support tanh-insts tensor-cvt-lut-insts tgsplit
    transpose-load-f4f6-insts trap-handler trig-reduced-range true16 unaligned-access-mode
    unaligned-buffer-access unaligned-ds-access unaligned-scratch-access unpacked-d16-vmem
    unsafe-ds-offset-folding user-sgpr-init16-bug valu-trans-use-hazard vcmpx-exec-war-hazard
    vcmpx-permlane-hazard vgpr-align2 vgpr-index-mode vmem-pref-insts vmem-to-lds-load-insts
    vmem-to-scalar-write-hazard vmem-write-vgpr-in-order volcanic-islands vop3-literal vop3p vopd vscnt
    wait-xcnt waits-before-system-scope-stores wavefrontsize16 wavefrontsize32 wavefrontsize64 xf32-insts
    xnack xnack-support
    """
)

AMD = Amd()
