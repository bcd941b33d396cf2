"""The tables agree with LLVM and ptxas; wrong names are refused with a suggestion."""

import re
import subprocess
import sys

import pytest
from unit.engine.device_steps import tools

from gpubuild.errors import UsageError
from gpubuild.targets import chips
from gpubuild.targets.target import Kind, kind_of_chip

X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"


def llvm_names(triple: str) -> tuple[set[str], set[str]]:
    """What LLVM lists for a target: it prints the list to stderr when asked for the chip "help"."""
    script = "from gpubuild.engine.ir import llvm; import sys; llvm.target_machine(sys.argv[1], 'help')"
    done = subprocess.run([sys.executable, "-c", script, triple], capture_output=True, text=True, check=True)
    cpus, _, features = done.stderr.partition("Available features")
    names = [set(re.findall(r"^  (\S+) +- ", part, re.MULTILINE)) for part in (cpus, features)]
    assert all(names)
    return names[0], names[1]


@pytest.mark.parametrize(
    ("kind", "triple"),
    [(Kind.ROCDL, "amdgcn-amd-amdhsa"), (Kind.CPU, X86), (Kind.CPU, ARM)],
)
def test_tables_are_what_llvm_lists(kind: Kind, triple: str) -> None:
    cpus, features = llvm_names(triple)
    if kind is Kind.ROCDL:
        cpus = {c for c in cpus if c.startswith("gfx")}
    assert chips.known_chips(kind, triple) - {chips.NATIVE} == cpus
    assert chips.known_features(kind, triple) == features


def test_nvidia_chips_are_what_both_llvm_and_ptxas_take() -> None:
    help_text = subprocess.run(
        [*tools()["ptxas"], "--help"], capture_output=True, text=True, check=True
    ).stdout
    assembler = set(re.findall(r"'(sm_\w+)'", help_text))
    cpus, features = llvm_names("nvptx64-nvidia-cuda")
    assert chips.known_chips(Kind.NVVM) == assembler & cpus
    assert chips.known_features(Kind.NVVM) <= features


def test_oldest_ptx_versions_are_llvms_own() -> None:
    script = """
import json, re
from gpubuild.engine.ir import llvm
from gpubuild.targets import chips
from gpubuild.targets.target import Kind, kind_of_chip
found = {}
for chip in chips.known_chips(Kind.NVVM):
    module = llvm.parse_assembly("define void @f() { ret void }", llvm.new_context())
    machine = llvm.target_machine("nvptx64-nvidia-cuda", chip)
    llvm.set_target(module, machine)
    major, minor = re.search(r"\\.version (\\d+)\\.(\\d+)", llvm.emit_assembly(module, machine)).groups()
    found[chip] = int(major) * 10 + int(minor)
assert found == chips._PTX_MINIMUM, found
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("kind", "chip", "features", "message", "hint"),
    [
        (Kind.NVVM, "sm_91", "", "unknown NVIDIA chip 'sm_91'", "sm_90"),
        (Kind.NVVM, "sm_30", "", "unknown NVIDIA chip 'sm_30'", "did you mean"),
        (Kind.NVVM, "sm_90", "+ptx8", "unknown feature 'ptx8'", "ptx88"),
        (Kind.NVVM, "sm_90", "+ptx90", "unknown feature 'ptx90'", "did you mean"),
        (Kind.NVVM, "sm_90a", "+ptx78", "needs PTX 8.0 or newer, not 7.8", "+ptx80"),
        (Kind.ROCDL, "gfx90A", "", "unknown AMD chip 'gfx90A'", "gfx90a"),
        (Kind.ROCDL, "gfx90a", "sramecc", "has no sign", "+sramecc"),
        (Kind.ROCDL, "gfx90a", "+sramec,-xnack", "unknown feature 'sramec'", "sramecc"),
        (Kind.CPU, "x86_64-v3", "", "unknown CPU chip", "x86-64-v3"),
        (Kind.CPU, "x86-64-v3", "+avx3", "unknown feature 'avx3'", "avx"),
        (Kind.CPU, "qqq", "", "unknown CPU chip", "known names are"),
    ],
)
def test_wrong_names_are_refused_with_a_way_out(
    kind: Kind, chip: str, features: str, message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        chips.check_chip(kind, chip, features)
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("kind", "chip", "features", "triple"),
    [
        (Kind.NVVM, "sm_60", "", ""),
        (Kind.NVVM, "sm_90a", "+ptx80", ""),
        (Kind.NVVM, "sm_120f", "", ""),
        (Kind.ROCDL, "gfx90a", "+sramecc,-xnack", ""),
        (Kind.ROCDL, "gfx9-4-generic", "", ""),
        (Kind.CPU, "x86-64-v4", "+avx512f", X86),
        (Kind.CPU, "native", "", X86),
        (Kind.CPU, "neoverse-n1", "+sve", ARM),
    ],
)
def test_right_names_pass(kind: Kind, chip: str, features: str, triple: str) -> None:
    chips.check_chip(kind, chip, features, triple=triple)


@pytest.mark.parametrize(
    ("chip", "features", "expected"),
    [
        ("sm_60", "", "+ptx78"),
        ("sm_90a", "", "+ptx80"),
        ("sm_120", "", "+ptx87"),
        ("sm_90", "+ptx86", "+ptx86"),
        ("sm_60", "-sm_61", "-sm_61,+ptx78"),
    ],
)
def test_ptx_version(chip: str, features: str, expected: str) -> None:
    assert chips.ptx_features(chip, features) == expected


@pytest.mark.parametrize(
    ("kind", "chip", "features", "size"),
    [
        (Kind.NVVM, "sm_90", "", 32),
        (Kind.CPU, "x86-64-v3", "", 32),
        (Kind.ROCDL, "gfx90a", "", 64),
        (Kind.ROCDL, "gfx1100", "", 32),
        (Kind.ROCDL, "gfx1100", "+wavefrontsize64", 64),
        (Kind.ROCDL, "gfx9-4-generic", "", 64),
    ],
)
def test_subgroup_size(kind: Kind, chip: str, features: str, size: int) -> None:
    assert chips.subgroup_size(kind, chip, features) == size


@pytest.mark.parametrize(
    ("chip", "version"),
    [
        ("gfx90a", (9, 0, 10)),
        ("gfx1100", (11, 0, 0)),
        ("gfx9-4-generic", (9, 4, 0)),
        ("gfx11-generic", (11, 0, 0)),
    ],
)
def test_gfx_version(chip: str, version: tuple[int, int, int]) -> None:
    assert chips.gfx_version(chip) == version


def test_every_gpu_chip_names_its_own_kind() -> None:
    for kind in (Kind.NVVM, Kind.ROCDL):
        assert {kind_of_chip(chip) for chip in chips.known_chips(kind)} == {kind}
