"""Occupancy against numbers of NVIDIA's calculator and of LLVM's own (waves per EU times SIMDs)."""

import re

import pytest

from gpubuild.targets import amd
from gpubuild.targets.registry import of_name, vendors
from gpubuild.targets.vendor import Occupancy


def estimate(chip: str, registers: int, shared: int, workgroup: int = 256) -> Occupancy | None:
    vendor = of_name(chip.partition(":")[0])
    assert vendor
    return vendor.occupancy(chip, registers, shared, workgroup)


def why_unknown(chip: str) -> str:
    vendor = of_name(chip.partition(":")[0])
    assert vendor
    return vendor.why_no_occupancy(chip)


@pytest.mark.parametrize(
    ("chip", "registers", "shared", "workgroup", "percent", "limit"),
    [
        # NVIDIA's occupancy calculator.
        ("sm_80", 32, 0, 256, 100, ""),
        ("sm_80", 40, 0, 256, 75, "registers"),
        ("sm_80", 64, 0, 256, 50, "registers"),
        ("sm_80", 255, 0, 256, 12, "registers"),
        ("sm_80", 32, 48 * 1024, 256, 38, "shared"),  # 3 workgroups of 8 warps, of 64
        ("sm_75", 64, 0, 256, 100, ""),
        ("sm_86", 32, 0, 1024, 67, "workgroups"),  # one of 32 warps, of 48
        ("sm_90a", 168, 0, 128, 19, "registers"),
        ("sm_60", 32, 0, 32, 50, "workgroups"),  # 32 workgroups of one warp
        ("sm_87", 32, 0, 64, 67, "workgroups"),  # 16 workgroups of two warps, of 48
        ("sm_120a", 32, 48 * 1024, 256, 33, "shared"),  # 2 workgroups of 49 KiB in 100
        ("gfx950", 32, 32 * 1024, 256, 62, "shared"),  # 5 workgroups of 4 waves in 160 KiB, of 32 waves
        # gfx90a: 8 waves at up to 64 registers, 4 at 128, 2 at 256, 1 at 512.
        ("gfx90a", 64, 0, 64, 100, ""),
        ("gfx90a:sramecc+:xnack-", 65, 0, 64, 88, "registers"),
        ("gfx90a", 128, 0, 256, 50, "registers"),
        ("gfx90a", 512, 0, 64, 12, "registers"),
        ("gfx90a", 32, 32 * 1024, 256, 25, "shared"),
        ("gfx906", 24, 0, 64, 100, ""),
        ("gfx906", 25, 0, 64, 90, "registers"),  # granule 4: 28 of 256, 9 waves
        ("gfx1030", 64, 0, 32, 100, ""),
        ("gfx1030", 65, 0, 32, 75, "registers"),  # granule 16: 80 of 1024, 12 waves of 16
    ],
)
def test_estimates(chip, registers, shared, workgroup, percent, limit) -> None:
    found = estimate(chip, registers, shared, workgroup)
    assert (found.percent, found.limit) == (percent, limit)


def test_what_is_not_known_is_not_guessed() -> None:
    for chip in ("sm_999", "x86-64-v3", "gfx9999"):
        assert estimate(chip, 8, 0) is None
    assert [vendor.occupancy("", 8, 0) for vendor in vendors()] == [None] * 4


def test_every_amd_chip_against_llvm() -> None:
    """LLVM writes the waves per SIMD of a kernel with so many vector registers into its assembly."""
    binding = pytest.importorskip("llvmlite.binding")
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    counts = (8, 24, 25, 48, 49, 64, 65, 84, 96, 97, 128, 129, 168, 200)
    kernels = "".join(
        f"define amdgpu_kernel void @k{n}() #0 {{\n"
        f'  call void asm sideeffect "; ", "~{{v{n - 1}}}"()\n  ret void\n}}\n'
        for n in counts
    )
    text = f'{kernels}attributes #0 = {{ "amdgpu-flat-work-group-size"="1,32" }}\n'
    target = binding.Target.from_triple("amdgcn-amd-amdhsa")
    for chip, machine in amd._UNITS.items():
        compiler = target.create_target_machine(cpu=chip, opt=1)
        compiler.set_asm_verbosity(True)
        assembly = compiler.emit_assembly(binding.parse_assembly(text))
        waves = [int(found) for found in re.findall(r"; Occupancy: (\d+)", assembly)]
        ours = [round(estimate(chip, n, 0, machine.wave).percent * machine.waves / 100) for n in counts]
        assert ours == waves, chip


def test_why_there_is_none() -> None:
    assert why_unknown("sm_121").endswith("has no column for sm_121")
    assert why_unknown("gfx9-4-generic") == "gfx9-4-generic stands for several chips"
    assert why_unknown("gfx1250:xnack+") == "gfx1250 has limits that are not known here"
    for chip in ("x86-64-v3", "sm_90a", "gfx90a:sramecc+"):
        assert why_unknown(chip) == ""
