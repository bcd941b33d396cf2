"""Every operation of nvvm and rocdl compiles for a chip that has it, or is refused as the table says."""

from __future__ import annotations

import re

import pytest
from kernels.operations import vendor_survey
from unit.engine.device_steps import compile_module

from gpubuild.errors import StepError


@pytest.mark.parametrize("dialect", ["nvvm", "rocdl"])
def test_no_operation_is_left_out(dialect):
    surveyed = [i.op for i in vendor_survey.INSTANCES if i.op.startswith(f"{dialect}.")]
    refused = [op for op in vendor_survey.REFUSED if op.startswith(f"{dialect}.")]
    assert sorted(surveyed + refused) == sorted(vendor_survey.operations(dialect))


@pytest.mark.parametrize("chip", vendor_survey.CHIPS)
def test_operations_compile(chip):
    built = compile_module(vendor_survey.module_text(chip), chip, opt_level=0)
    names = {re.sub(r"\W", "_", i.op) for i in vendor_survey.INSTANCES if i.chip == chip}
    assert {kernel["name"] for kernel in built.kernels} == names


@pytest.mark.parametrize(("op", "reason"), vendor_survey.REFUSED.items())
def test_is_refused_with_the_reason_in_the_table(op, reason):
    one = vendor_survey.Instance(op=op, chip="gfx90a", operands=("f32",), results=("f32",), attributes="")
    with pytest.raises(StepError) as caught:
        compile_module(f"gpu.module @k {{\n{one.text()}}}", "gfx90a", opt_level=0)
    assert any(reason in d.message for d in caught.value.diagnostics)
