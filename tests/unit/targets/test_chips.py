"""The tables agree with LLVM and ptxas; wrong names are refused with a suggestion."""

import re
import subprocess
import sys

import pytest
from unit.engine.device_steps import tools

from gpubuild.errors import UsageError
from gpubuild.targets.amd import AMD
from gpubuild.targets.cpu import CPU, NATIVE
from gpubuild.targets.nvidia import NVIDIA, ptx_features
from gpubuild.targets.registry import kinds, of_name, of_triple, register, vendors
from gpubuild.targets.spirv import SPIRV
from gpubuild.targets.vendor import Vendor

X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"


def llvm_names(triple: str) -> tuple[set[str], set[str]]:
    """What LLVM lists for a target: it prints the list to stderr when asked for the chip "help"."""
    script = "from gpubuild.engine.ir import llvm; import sys; llvm.target_machine(sys.argv[1], 'help')"
    done = subprocess.run([sys.executable, "-c", script, triple], capture_output=True, text=True, check=True)
    cpus, _, features = done.stderr.partition("Available features")
    names = [set(re.findall(r"^  (\S+) +- ", part, re.MULTILINE)) for part in (cpus, features)]
    assert all(names)
    return names[0], names[1]


@pytest.mark.parametrize(("vendor", "triple"), [(AMD, "amdgcn-amd-amdhsa"), (CPU, X86), (CPU, ARM)])
def test_tables_are_what_llvm_lists(vendor: Vendor, triple: str) -> None:
    cpus, features = llvm_names(triple)
    if vendor is AMD:
        cpus = {c for c in cpus if c.startswith("gfx")}
    assert vendor.chips(triple) - {NATIVE} == cpus
    assert vendor.features(triple) == features


def test_nvidia_chips_are_what_both_llvm_and_ptxas_take() -> None:
    help_text = subprocess.run(
        [*tools()["ptxas"], "--help"], capture_output=True, text=True, check=True
    ).stdout
    assembler = set(re.findall(r"'(sm_\w+)'", help_text))
    cpus, features = llvm_names("nvptx64-nvidia-cuda")
    assert NVIDIA.chips("") == assembler & cpus
    assert NVIDIA.features("") <= features


def test_oldest_ptx_versions_are_llvms_own() -> None:
    script = """
import json, re
from gpubuild.engine.ir import llvm
from gpubuild.targets import nvidia
found = {}
for chip in nvidia.NVIDIA.chips(""):
    module = llvm.parse_assembly("define void @f() { ret void }", llvm.new_context())
    machine = llvm.target_machine("nvptx64-nvidia-cuda", chip)
    llvm.set_target(module, machine)
    major, minor = re.search(r"\\.version (\\d+)\\.(\\d+)", llvm.emit_assembly(module, machine)).groups()
    found[chip] = int(major) * 10 + int(minor)
assert found == nvidia._PTX_MINIMUM, found
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("vendor", "chip", "features", "message", "hint"),
    [
        (NVIDIA, "sm_30", "", "unknown NVIDIA chip 'sm_30'", "did you mean"),
        (NVIDIA, "sm_90", "+ptx90", "unknown feature 'ptx90'", "did you mean"),
        (AMD, "gfx90A", "", "unknown AMD chip 'gfx90A'", "gfx90a"),
        (AMD, "gfx90a", "sramecc", "has no sign", "+sramecc"),
        (CPU, "x86-64-v3", "+avx3", "unknown feature 'avx3'", "avx"),
        (CPU, "qqq", "", "unknown CPU chip", "known names are"),
    ],
)
def test_wrong_names_are_refused_with_a_way_out(
    vendor: Vendor, chip: str, features: str, message: str, hint: str
) -> None:
    """More of them are in tests/unit/config/test_mistakes.py."""
    with pytest.raises(UsageError) as caught:
        vendor.check(chip, features, "")
    assert message in caught.value.message
    assert hint in caught.value.hint


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
    assert ptx_features(chip, features) == expected


@pytest.mark.parametrize(
    ("vendor", "chip", "features", "size"),
    [
        (NVIDIA, "sm_90", "", 32),
        (CPU, "x86-64-v3", "", 32),
        (AMD, "gfx90a", "", 64),
        (AMD, "gfx1100", "", 32),
        (AMD, "gfx1100", "+wavefrontsize64", 64),
        (AMD, "gfx9-4-generic", "", 64),
    ],
)
def test_subgroup_size(vendor: Vendor, chip: str, features: str, size: int) -> None:
    assert vendor.subgroup_size(chip, features) == size


def test_every_gpu_chip_names_its_own_kind() -> None:
    for vendor in (NVIDIA, AMD):
        assert {of_name(chip) for chip in vendor.chips("")} == {vendor}
        assert vendor.implied_by(vendor.example)


@pytest.mark.parametrize(
    ("triple", "vendor"),
    [
        ("nvptx64-nvidia-cuda", NVIDIA),
        ("nvptx-nvidia-cuda", NVIDIA),
        ("amdgcn-amd-amdpal", AMD),
        (X86, CPU),
        (ARM, CPU),
        ("spirv64v1.3-unknown-unknown", SPIRV),
        ("", None),
        (None, None),
    ],
)
def test_triples_belong_to_one_kind(triple: str | None, vendor: Vendor | None) -> None:
    assert of_triple(triple) is vendor
    assert [v for v in vendors() if triple and v.owns(triple)] == ([vendor] if vendor else [])


def test_a_kind_has_one_vendor() -> None:
    before = kinds()
    with pytest.raises(ValueError, match="kind cpu has a vendor"):
        register(CPU)
    assert kinds() == before == ("nvvm", "rocdl", "spirv", "cpu")


def test_llvm_knows_the_extensions_of_spirv() -> None:
    script = (
        "import sys; from gpubuild.engine.ir import llvm; llvm.target_machine(sys.argv[1], '');"
        "[llvm.set_option('--spirv-ext=+' + name) for name in sys.argv[2:]]"
    )
    names = [*SPIRV.features(""), "SPV_KHR_unknown"]
    command = [sys.executable, "-c", script, "spirv64v1.3-unknown-unknown", *names]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.findall(r"Unknown SPIR-V extension: \+(\w+)", done.stderr) == ["SPV_KHR_unknown"]
