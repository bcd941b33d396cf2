from __future__ import annotations

import pytest

from gpubuild.engine.ir import llvm
from gpubuild.errors import StepError


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("llvm.sqrt", True),
        ("llvm.sqrt.f32", True),
        ("llvm.nvvm.shfl.sync.bfly.i32", True),
        ("llvm.amdgcn.rcp.f32", True),
        ("llvm.no.such", False),
        ("llvm.nvvm.no.such", False),
        ("llvm.", False),
        ("llvm", False),  # LLVM ends the process when it is asked about it
    ],
)
def test_what_llvm_knows(name: str, known: bool) -> None:
    assert llvm.is_known(name) is known


def verify(name: str) -> None:
    text = f"declare void @{name}()\ndefine void @f() {{\n  call void @{name}()\n  ret void\n}}\n"
    llvm.verify(llvm.parse_assembly(text, llvm.new_context()))


def test_a_call_of_an_unknown_intrinsic_is_no_valid_ir() -> None:
    with pytest.raises(StepError, match="LLVM has no intrinsic 'llvm.no.such'"):
        verify("llvm.no.such")


def test_names_of_earlier_releases_are_taken() -> None:
    """LLVM 22 renamed it, and renames it in the IR that it reads."""
    assert not llvm.is_known("llvm.nvvm.barrier0")
    verify("llvm.nvvm.barrier0")
