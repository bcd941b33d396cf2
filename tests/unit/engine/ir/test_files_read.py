"""Files that inline assembly, assembly it includes, and passes read are part of a step's result."""

from pathlib import Path

import pytest
from unit.engine.steps import ZIG, run_step, system_tools

from gpubuild.errors import StepError
from gpubuild.model.digest import digest_file
from gpubuild.model.step import CcParams, CompileParams, LlvmParams, OutlineParams, Params, StepKind
from gpubuild.targets.amd import TRIPLE as ROCDL_TRIPLE
from gpubuild.targets.target import Target

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


def test_what_included_assembly_reads(tmp_path: Path) -> None:
    blob, included = tmp_path / "blob.bin", tmp_path / "included.s"
    blob.write_bytes(b"text")
    included.write_text(f'.data\nblob: .INCBIN "{blob}"\n.text\n')
    source = f'__asm__(".include \\"{included}\\"");\n'
    ran = run_step(
        tmp_path / "step", StepKind.CC, CcParams(language="c"), {"text": source}, ("object",), system_tools()
    )
    assert dict(ran.result.result.discovered) == {str(f): digest_file(f) for f in (blob, included)}


KERNEL = r"""module { gpu.module @m {
  func.func private @touch() gpu.func @k() kernel { ASSEMBLY gpu.return } } }"""
INLINE = r"""llvm.inline_asm has_side_effects
  ".pushsection .rodata\0A.incbin \22FILE\22\0A.popsection", "" : () -> ()
"""
LIBRARY = r"""define void @touch() {
  call void asm sideeffect ".pushsection .rodata\0A.incbin \22FILE\22\0A.popsection", ""()
  ret void
}
"""


@pytest.mark.parametrize(
    ("kind", "triple", "chip", "inline", "library"),
    [
        ("rocdl", ROCDL_TRIPLE, "gfx90a", INLINE, ""),
        ("cpu", "x86_64-unknown-linux-gnu", "x86-64-v2", "func.call @touch() : () -> ()", LIBRARY),
    ],
)
def test_a_file_that_a_kernel_s_assembly_reads(
    tmp_path: Path, kind: str, triple: str, chip: str, inline: str, library: str
) -> None:
    blob = tmp_path / "blob.bin"
    blob.write_bytes(b"text")
    params = CompileParams(module="m", target=Target(name=chip, kind=kind, triple=triple, chip=chip))
    texts = {"module": KERNEL.replace("ASSEMBLY", inline), "lib.0": library}
    inputs = {name: text.replace("FILE", str(blob)) for name, text in texts.items() if text}
    ran = run_step(tmp_path / "step", StepKind.COMPILE, params, inputs, (), {"ld.lld": (ZIG, "ld.lld")})
    assert ran.result.result.discovered == ((str(blob), digest_file(blob)),)


def test_a_library_that_passes_read(tmp_path: Path) -> None:
    library = tmp_path / "library.mlir"
    library.write_text(
        "module attributes {transform.with_named_sequence} {\n"
        "  transform.named_sequence @__transform_main(%r: !transform.any_op) { transform.yield }\n}\n"
    )
    passes = f"transform-preload-library{{transform-library-paths={library}}},transform-interpreter"
    params = OutlineParams(passes=f"builtin.module({passes})")
    ran = run_step(tmp_path / "step", StepKind.OUTLINE, params, {"source": "module {}"}, ())
    assert ran.result.result.discovered == ((str(library), digest_file(library)),)
    params = OutlineParams(passes=f"builtin.module({passes})".replace(str(library), str(tmp_path)))
    with pytest.raises(StepError, match="names the folder"):
        run_step(tmp_path / "other", StepKind.OUTLINE, params, {"source": "module {}"}, ())
