"""Target attributes are written as MLIR prints them."""

import pytest
from unit.engine.device_steps import in_child

from gpubuild.engine.host.gpu_binary import quoted, target_attr
from gpubuild.targets.amd import AMD
from gpubuild.targets.amd import TRIPLE as ROCDL_TRIPLE
from gpubuild.targets.nvidia import NVIDIA
from gpubuild.targets.nvidia import TRIPLE as NVVM_TRIPLE
from gpubuild.targets.target import Target

X86 = "x86_64-unknown-linux-gnu"


def params(kind: str, chip: str, **options: object) -> Target:
    triple = {"nvvm": NVVM_TRIPLE, "rocdl": ROCDL_TRIPLE, "cpu": X86}[kind]
    return Target(name="t", kind=kind, triple=triple, chip=chip, **options)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (params("nvvm", "sm_90"), '#nvvm.target<O = 3, chip = "sm_90">'),
        (
            params("nvvm", "sm_90", fast_math=True, flags=("ftz",), features="+ptx80", opt_level=0),
            '#nvvm.target<O = 0, chip = "sm_90", features = "+ptx80", flags = {fast, ftz}>',
        ),
        (params("rocdl", "gfx90a", fast_math=True), '#rocdl.target<O = 3, chip = "gfx90a", flags = {fast}>'),
        (params("cpu", "x86-64-v3"), f'#nvvm.target<O = 3, triple = "{X86}", chip = "x86-64-v3">'),
    ],
)
def test_text_is_stable_under_parsing(given: Target, text: str) -> None:
    assert target_attr(given) == text
    assert in_child(_printed, text) == text


def _printed(text: str) -> str:
    from mlir import ir

    from gpubuild.engine.ir import contexts

    with contexts.context():
        return str(ir.Attribute.parse(text))


def test_quoting_survives_mlirs_own_printer() -> None:
    odd = 'a"b\\c\nd é'
    assert in_child(_round_trip, quoted(odd)) == odd


def _round_trip(literal: str) -> str:
    from mlir import ir

    from gpubuild.engine.ir import contexts

    with contexts.context():
        return ir.StringAttr(ir.Attribute.parse(literal)).value


def test_what_an_attribute_without_a_chip_means() -> None:
    for vendor in (NVIDIA, AMD):
        written = f'#{vendor.attribute}.target<chip = "{vendor.attribute_chip}">'
        assert in_child(_printed, written) == f"#{vendor.attribute}.target"
