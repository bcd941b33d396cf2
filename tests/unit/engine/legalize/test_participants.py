"""Who comes to a gpu.all_reduce; what is refused is in test_refusals."""

import pytest
from unit.engine.legalized import prepared

from gpubuild.errors import StepError

BARE = "%r = gpu.all_reduce add %n {} : (i32) -> (i32)"


def test_outside_of_branches_all_work_items_come() -> None:
    """Upstream lowers only what says so."""
    assert "gpu.all_reduce  add %arg4 uniform" in prepared(BARE)


def test_what_says_uniform_is_believed_in_a_branch() -> None:
    body = f"%c = arith.cmpi slt, %n, %n : i32\nscf.if %c {{\n{BARE.replace('{}', 'uniform {}')}\n}}"
    assert "uniform" in prepared(body)


@pytest.mark.parametrize("body", [f"cf.br ^b\n^b:\n{BARE}", f"scf.execute_region {{\n{BARE}\nscf.yield\n}}"])
def test_elsewhere_it_must_be_said(body: str) -> None:
    with pytest.raises(StepError) as caught:
        prepared(body)
    assert "without `uniform`" in caught.value.diagnostics[0].message


@pytest.mark.parametrize(
    "body",
    [
        "%r, %v = gpu.rotate %n, 3, 64 : i32",
        "%r = gpu.subgroup_reduce add %n cluster(size = 64) : (i32) -> (i32)",
    ],
)
def test_a_subgroup_of_64_is_enough_for_64(body: str) -> None:
    assert prepared(body, "gfx90a")
