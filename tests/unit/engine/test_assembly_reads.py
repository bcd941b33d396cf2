"""Files that inline assembly reads are part of a step's result."""

from pathlib import Path

import pytest
from unit.engine.steps import run_step, system_tools

from gpubuild.model.digest import digest_file
from gpubuild.model.params import CcParams, LlvmParams, Params
from gpubuild.model.step import StepKind

C = """static const char *help = ".include \\"no such file\\"";
__asm__(".data\\nblob: .inc" "bin \\"" "FILE" "\\"\\n.text\\n/* .incbin */");
const char *text(void) { return help; }
"""
LLVM = r"""module asm ".data"
module asm "blob: .incbin \22FILE\22"
"""


@pytest.mark.parametrize(
    ("kind", "params", "role", "source"),
    [
        (StepKind.CC, CcParams(language="c"), "text", C),
        (StepKind.LLVM, LlvmParams(triple="x86_64-unknown-linux-gnu"), "source", LLVM),
    ],
)
def test_a_file_that_the_assembler_reads(
    tmp_path: Path, kind: StepKind, params: Params, role: str, source: str
) -> None:
    blob = tmp_path / "blob.bin"
    blob.write_bytes(b"text")
    source = source.replace("FILE", str(blob))
    ran = run_step(tmp_path / "step", kind, params, {role: source}, ("object",), system_tools())
    assert ran.result.result.discovered == ((str(blob), digest_file(blob)),)
