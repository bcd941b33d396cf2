"""Source checks: what MLIR would crash on, or its bindings fail on, is refused with its place."""

import re

import pytest
from unit.engine.device_steps import in_child, outline_source
from unit.engine.steps import refused

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.source import source_checks
from gpubuild.engine.source.source_checks import MOST_LEVELS, check_source
from gpubuild.errors import Location, StepError


def refusal(text: str) -> StepError | None:
    try:
        check_source(text, SourceText(text, "a.mlir"), "a.mlir")
    except StepError as error:
        return error
    return None


def nested(opening: str, levels: int, inner: str, closing: str) -> str:
    return opening * levels + inner + closing * levels


CONDITIONALS = """\
module {
  func.func @main() {
    %%c = arith.constant true
    %s
    return
  }
}
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (CONDITIONALS % nested("scf.if %c {\n", 10_000, "", "}\n"), 1002),
        (f"func.func private @f({nested('tuple<', 100_000, 'i32', '>')})\n", 1),
        (f"module attributes {{a = {nested('[', 100_000, '', ']')}}} {{}}\n", 1),
        (f"module attributes {{a = {nested('{a = ', 100_000, '1', '}')}}} {{}}\n", 1),
        (f"module attributes {{a = affine_map<(d0) -> ({nested('(', 100_000, 'd0', ')')})>}} {{}}\n", 1),
        (f"func.func private @f({nested('() -> (', 100_000, 'i32', ')')})\n", 1),
    ],
    ids=["scf.if", "tuple", "array", "dictionary", "affine", "function type"],
)
def test_what_is_nested_too_deeply(text: str, line: int) -> None:
    error = refused(outline_source, text)
    (problem,) = error.diagnostics
    assert problem.message == "nested too deeply: this is level 1001, and 1000 can be compiled"
    assert problem.location.line == line
    assert len(error.render()) < 3000


@pytest.mark.parametrize("levels", [MOST_LEVELS - 2, MOST_LEVELS - 1])
def test_the_limit(levels: int) -> None:
    """The function and the module around it are levels, too."""
    text = CONDITIONALS % nested("scf.if %c {\n", levels, "", "}\n")
    if levels + 2 <= MOST_LEVELS:
        assert outline_source(text)
        return
    with pytest.raises(StepError, match="invalid MLIR"):
        outline_source(text)


@pytest.mark.parametrize(
    "text",
    [
        nested("// (\n", 5000, "", ""),
        nested('"a.b"() {s = "{<[(\\"//"} : () -> ()\n', 5000, "", ""),
        nested("affine_map<(d0) -> (d0)>\n", 5000, "", ""),
        nested("affine_set<(d0) : (d0 >= 0)>\n", 5000, "", ""),
        nested("affine_set<(d0) : (d0 <= 0)>\n", 5000, "", ""),
        "{-# dialect_resources: {builtin: {a: " + nested("<", 5000, "", ">") + "}} #-}",
    ],
)
def test_what_is_not_nested(text: str) -> None:
    assert refusal(text) is None


@pytest.mark.parametrize("closers", ["// }}}}", '"}}}}"'])
def test_brackets_in_comments_and_strings_hide_none(closers: str) -> None:
    error = refusal(nested(f"scf.if %c {{ {closers}\n", 1001, "", "}\n"))
    assert error.diagnostics[0].location == Location(file="a.mlir", line=1001, column=11)


MODULE = """\
module attributes {{gpu.container_module}} {{
  // not @"\\FF", which is a comment
  gpu.module @"{module}" {{
    gpu.func @"{kernel}"() kernel {{
      gpu.printf "{format}\\n"
      gpu.return
    }}
  }}
  llvm.mlir.global internal constant @data("\\FF\\FE") : !llvm.array<2 x i8>
}} loc("{file}":1:1)
"""
GOOD = {"module": "k", "kernel": "f", "format": "x", "file": "a"}


@pytest.mark.parametrize(
    ("part", "place", "what"),
    [
        ("module", (3, 15), "the name"),
        ("kernel", (4, 15), "the name"),
        ("format", (5, 18), "the format"),
        ("file", (10, 7), "the file name"),
    ],
)
@pytest.mark.parametrize("bytes_", ["\\FF", "a\\c3\\(", "\\ED\\A0\\80"])
def test_what_is_not_utf_8(part: str, place: tuple[int, int], what: str, bytes_: str) -> None:
    error = refused(outline_source, MODULE.format(**GOOD | {part: bytes_}))
    (problem,) = error.diagnostics
    assert problem.location == Location(file=problem.location.file, line=place[0], column=place[1])
    assert problem.message == f'{what} "{bytes_}{chr(92) + "n" if part == "format" else ""}" is not UTF-8'


def test_names_of_other_bytes_that_are_utf_8() -> None:
    text = MODULE.format(**dict.fromkeys(GOOD, "\\C3\\BC"))
    assert outline_source(text)


# ---- misspelt attributes ----


TEXT = """module attributes {gpu.containermodule, my.note = 1} {
  gpu.module @m attributes {target = 1, owner = "me", my.targets = 2} {
    // known_blocksize is wrong below
    gpu.func @k(%a: memref<4xf32> {llvm.noaliass, llvm.noalias, my.a = 1}) kernel attributes {
        known_blocksize = array<i32: 64, 1, 1>,
        nvvm.maxntidx = array<i32: 64, 1, 1>, nvvm.maxntid = array<i32: 64, 1, 1>,
        rocdl.waves_pereu = 2 : i32, kernel_id = 3, id = 1, gpubuild.fast, nvvm.speed = 3 : i32,
        my.known_block_siz = 1
    } {
      gpu.return
    }
    gpu.func @right(%a: memref<4xf32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>,
        known_grid_size = array<i32: 1, 1, 1>, gpu.known_block_size = array<i32: 1, 1, 1>,
        rocdl.waves_per_eu = 2 : i32, rocdl.flat_work_group_size = "1,64",
        rocdl.unsafe_fp_atomics = true, nvvm.minctasm = 1 : i32, nvvm.maxnreg = 32 : i32} {
      gpu.return
    }
  }
  func.func @host() attributes {llvm.emit_c_interfaces} { return }
  func.func private @other() attributes {emit_c_interface, llvm.emit_c_interface}
}
"""
TOLD = [
    "k.mlir:1:20: 'gpu.containermodule'; did you mean 'gpu.container_module'?",
    "k.mlir:2:29: 'target'; did you mean 'targets'?",
    "k.mlir:4:36: 'llvm.noaliass'; did you mean 'llvm.noalias'?",
    "k.mlir:5:9: 'known_blocksize'; did you mean 'known_block_size'?",
    "k.mlir:6:9: 'nvvm.maxntidx'; did you mean 'nvvm.maxntid'?",
    "k.mlir:7:9: 'rocdl.waves_pereu'; did you mean 'rocdl.waves_per_eu'?",
    "k.mlir:7:61: 'gpubuild.fast'",
    "k.mlir:7:76: 'nvvm.speed'",
    "k.mlir:19:33: 'llvm.emit_c_interfaces'; did you mean 'llvm.emit_c_interface'?",
    "k.mlir:20:42: 'emit_c_interface'; did you mean 'llvm.emit_c_interface'?",
]


def told(text: str) -> list[str]:
    with contexts.context():
        found = source_checks.find_misspelt(
            contexts.parse(text, source_name="k.mlir"), SourceText(text, "k.mlir")
        )
        return [
            f"{d.location}: {d.message.replace('the attribute ', '').replace(' means nothing here', '')}"
            for d in found
            if d.severity == "warning"
        ]


def test_what_is_told_and_what_is_the_users_own() -> None:
    def by_place(text: str) -> list[int]:
        return list(map(int, re.findall(r"\d+", text)[:2]))

    assert sorted(in_child(told, TEXT), key=by_place) == TOLD
