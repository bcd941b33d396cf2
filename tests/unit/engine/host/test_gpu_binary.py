"""Target attributes are written as MLIR prints them."""

from unit.engine.device_steps import in_child

from gpubuild.engine.host.gpu_binary import quoted
from gpubuild.targets.amd import AMD
from gpubuild.targets.nvidia import NVIDIA


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
