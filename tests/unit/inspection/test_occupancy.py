"""Occupancy against numbers of NVIDIA's calculator and of LLVM's own (waves per EU times SIMDs)."""

from __future__ import annotations

import pytest

from gpubuild.inspection.occupancy import estimate


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


@pytest.mark.parametrize(
    ("chip", "registers"),
    [(None, 8), ("sm_999", 8), ("x86-64-v3", 8), ("sm_80", None), ("sm_80", 0), ("gfx", 1)],
)
def test_what_is_not_known_is_not_guessed(chip, registers) -> None:
    assert estimate(chip, registers, 0) is None


def test_more_registers_or_memory_never_help() -> None:
    for chip in ("sm_60", "sm_90", "gfx90a", "gfx1100"):
        by_registers = [estimate(chip, n, 0).percent for n in range(1, 256)]
        by_memory = [estimate(chip, 16, n * 512).percent for n in range(96)]
        assert by_registers == sorted(by_registers, reverse=True)
        assert by_memory == sorted(by_memory, reverse=True)
