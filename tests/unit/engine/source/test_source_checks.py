"""Sources on which MLIR would crash or its bindings fail are refused."""

from __future__ import annotations

import pytest
from unit.engine.device_steps import outline_source

from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.source.source_checks import MOST_LEVELS, check_nesting
from gpubuild.errors import Location, StepError


def refusal(text: str) -> StepError | None:
    try:
        check_nesting(text, SourceText(text, "a.mlir"), "a.mlir")
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
    with pytest.raises(StepError) as caught:
        outline_source(text)
    (problem,) = caught.value.diagnostics
    assert problem.message == "nested too deeply: this is level 1001, and 1000 can be compiled"
    assert problem.location is not None
    assert problem.location.line == line
    assert len(caught.value.render()) < 3000


@pytest.mark.parametrize("levels", [MOST_LEVELS - 2, MOST_LEVELS - 1])
def test_the_limit(levels: int) -> None:
    """The function and the module around it are levels, too."""
    text = CONDITIONALS % nested("scf.if %c {\n", levels, "", "}\n")
    if levels + 2 <= MOST_LEVELS:
        assert outline_source(text)
        return
    with pytest.raises(StepError, match="cannot parse"):
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
    assert error is not None
    assert error.diagnostics[0].location == Location(file="a.mlir", line=1001, column=11)


@pytest.mark.parametrize("name", ["\\FF", "\\ED\\A0\\80"])
def test_names_that_are_not_utf_8(name: str) -> None:
    with pytest.raises(StepError, match="not UTF-8"):
        outline_source(f'gpu.module @"{name}" {{}}')


def test_names_of_other_bytes_that_are_utf_8() -> None:
    assert outline_source('gpu.module @"\\C3\\BC" {}')
