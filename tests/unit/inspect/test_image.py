import os
import re
import struct
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from unit.inspect import samples

from gpubuild.inspect import cpu_image
from gpubuild.inspect.elf import DamagedError
from gpubuild.inspect.records import Kernel, describe_image
from gpubuild.toolchain.run import run_tool

CASES = int(os.environ.get("GPUBUILD_TEST_UNTRUSTED", "150"))


@pytest.mark.parametrize(
    ("chip", "told"),
    # The flags of an image do not tell f variants of sm_100 and later from plain chips.
    [(c, c) for c in ("sm_60", "sm_75", "sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120")]
    + [("sm_100f", "sm_100")],
)
def test_cubin(chip: str, told: str) -> None:
    facts = describe_image(samples.cubin(chip) if chip != "sm_100f" else _newer_ptx(chip))
    found = (facts.kind, facts.triple, facts.chip, facts.format)
    assert found == ("nvvm", "nvptx64-nvidia-cuda", told, "bin")
    kernels = {k.name: k for k in facts.kernels}
    assert kernels.keys() == {"store_id", "nothing"}
    # What the system keeps of workgroup memory on sm_90 and later is not the kernel's.
    assert kernels["store_id"].shared_bytes == 1024
    assert kernels["nothing"].shared_bytes == 0
    for kernel in facts.kernels:
        assert 1 <= kernel.registers <= 32
        assert kernel.spill_bytes == 0
        assert kernel.tier is None


def _newer_ptx(chip: str) -> bytes:
    text = samples.PTX.format(chip=chip).replace(".version 8.7", ".version 8.8")
    return samples._with_tool("ptxas", f"-arch={chip}", "in", "-o", "out", content=text.encode())


def test_cubin_agrees_with_ptxas(tmp_path: Path) -> None:
    for chip in ("sm_60", "sm_90", "sm_120"):
        (tmp_path / "k.ptx").write_text(samples.PTX.format(chip=chip))
        command = (*samples.TOOLS.require("ptxas").command, "-v", f"-arch={chip}", "k.ptx", "-o", "k.cubin")
        output = run_tool(command, cwd=tmp_path).output
        told = {}
        for part in output.split("Compiling entry function ")[1:]:
            shared = re.search(r"(\d+) bytes smem", part)
            registers = re.search(r"Used (\d+) registers", part)
            told[part.split("'")[1]] = (int(registers[1]), int(shared[1]) if shared else 0)
        facts = describe_image((tmp_path / "k.cubin").read_bytes())
        assert {k.name: (k.registers, k.shared_bytes) for k in facts.kernels} == told


@pytest.mark.parametrize(
    ("chip", "features", "told"),
    [
        ("gfx90a", "", "gfx90a"),
        ("gfx90a", "+sramecc,-xnack", "gfx90a:sramecc+:xnack-"),
        ("gfx942", "", "gfx942"),
        ("gfx1100", "", "gfx1100"),
    ],
)
def test_hsaco(chip: str, features: str, told: str) -> None:
    assert [k.name for k in describe_image(samples.amd_object(chip, features)).kernels] == ["store_id"]
    facts = describe_image(samples.hsaco(chip, features))  # linked
    assert (facts.kind, facts.triple, facts.chip, facts.format) == ("rocdl", "amdgcn-amd-amdhsa", told, "bin")
    (kernel,) = facts.kernels
    assert kernel.registers > 0
    assert kernel.code_bytes > 16
    rest = replace(kernel, registers=None, code_bytes=None)
    assert rest == Kernel(name="store_id", shared_bytes=256, spill_bytes=0)


def test_cpu_object() -> None:
    facts = describe_image(samples.cpu_object())
    assert (facts.kind, facts.module, facts.format) == ("cpu", "kernels_of_cpu", "bin")
    assert facts.triple in ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
    assert [kernel.code_bytes > 0 for kernel in facts.kernels] == [True, True]
    assert tuple(replace(kernel, code_bytes=None) for kernel in facts.kernels) == (
        Kernel(name="scale", shared_bytes=0, tier="loop"),
        Kernel(name="reduce", shared_bytes=512, tier="fibers"),
    )


def test_the_layout_of_cpu_images_is_that_of_the_header() -> None:
    """A change of the header without its version would make us misread new objects."""
    header = (samples.RUNTIME / "cpu" / "cpu_image.h").read_text()
    assert f"#define GB_CPU_IMAGE_ABI {cpu_image.ABI}u" in header
    assert f'#define GB_CPU_IMAGE_SYMBOL "{cpu_image.SYMBOL}"' in header
    for number, tier in enumerate(cpu_image.TIERS):
        assert f"GB_CPU_TIER_{tier.upper()} = {number}" in header


def test_ptx_names_kernels_but_not_those_in_comments() -> None:
    facts = describe_image(samples.PTX.format(chip="sm_90a").encode() + b"\0")
    assert (facts.chip, facts.format) == ("sm_90a", "assembly")
    assert facts.kernels == (Kernel(name="store_id"), Kernel(name="nothing"))


def fatbin(*entries: tuple[int, int, int, bytes]) -> bytes:
    """Return a fat binary of entries: kind, number of the chip, flags, code."""
    body = b"".join(
        struct.pack("<HHIQ12xI8xQ16x", kind, 0x101, 64, len(code), chip, flags) + code
        for kind, chip, flags, code in entries
    )
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


COMPRESSED = 0x8011
PTX = samples.PTX.format(chip="sm_90a").encode() + b"\0"


@pytest.mark.parametrize(
    ("entries", "chip", "listed", "kernels"),
    [
        ([], None, [], 0),
        ([(2, 90, 0x11, b"cubin"), (1, 90, 0x11, b"text")], "sm_90", ["bin sm_90", "assembly sm_90"], 0),
        ([(1, 90, 0x100011, PTX)], "sm_90a", ["assembly sm_90a"], 2),
        ([(1, 90, 0x100000 | COMPRESSED, PTX)], "sm_90a", ["assembly sm_90a"], 0),
        ([(2, 100, 0x200011, b""), (2, 90, 0x11, b"")], None, ["bin sm_100f", "bin sm_90"], 0),
        ([(8, 90, 0x11, b"of another kind"), (1, 90, 0x100011, PTX)], "sm_90a", ["assembly sm_90a"], 2),
    ],
)
def test_a_fat_binary_lists_its_entries(
    entries: list[tuple[int, int, int, bytes]], chip: str | None, listed: list[str], kernels: int
) -> None:
    facts = describe_image(fatbin(*entries))
    assert (facts.kind, facts.format, facts.chip, len(facts.kernels)) == ("nvvm", "fatbin", chip, kernels)
    assert [f"{entry.format} {entry.chip}" for entry in facts.entries] == listed


@pytest.mark.parametrize("data", [b"", b"hello", b"\0\xff", b"#!/bin/sh\n", b"\xff" * 100])
def test_other_things_are_not_images(data: bytes) -> None:
    assert describe_image(data) is None


def test_no_truncation_of_an_image_raises_anything_else() -> None:
    fat = fatbin((2, 90, 0x11, samples.cubin("sm_90")), (1, 90, 0x100011, PTX))
    for data in (samples.cubin("sm_90"), fat, samples.hsaco("gfx90a"), samples.cpu_object()):
        step = max(1, 3 * len(data) // CASES)
        sizes = {*range(0, 80), *range(0, len(data), step), *range(len(data) - 70, len(data))}
        for size in sorted(sizes):
            with suppress(DamagedError):
                describe_image(data[:size])
