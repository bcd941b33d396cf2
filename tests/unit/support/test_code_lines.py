"""Lines of code: comments and blank lines do not count, and nothing else is taken for one."""

import ast
import re
from pathlib import Path

import pytest

import gpubuild
from gpubuild.support.code_lines import MARK, describe, moved

SOURCE = """\
// a "comment
gpu.module @m {  // another // one

  "a // \\" // b"() : () -> ()  // "c"
}
"""
TABLE = f"{MARK}\t{describe(SOURCE)}\n12ab:3:4\ta:b.mlir:4:3\n@m::@k\ta:b.mlir:2:1\n"


def test_lines_get_new_numbers() -> None:
    edited = "\n" + SOURCE.replace("{  // another", "{\t").replace("\n\n", "\n// x\n//\n   \n")
    assert describe(SOURCE).endswith(" 2+1,4+2")
    assert moved(TABLE, edited) == (
        f"{MARK}\t{describe(edited)}\n12ab:3:4\ta:b.mlir:7:3\n@m::@k\ta:b.mlir:3:1\n"
    )
    assert moved(moved(TABLE, edited) or "", SOURCE) == TABLE


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("// b", "// c"),  # in a string
        ("  {", "   {"),
        ('  "a', ' "a'),  # another column
        ("@m", "@n"),
        ("}\n", ""),
        ("another", "an\rother"),  # which ends the comment
        ("another", "an\0other"),
        ("(", '"( //'),
    ],
)
def test_other_code_does_not(old: str, new: str) -> None:
    edited = SOURCE.replace(old, new) if old in SOURCE else SOURCE.replace("{", new)
    assert edited != SOURCE
    assert moved(TABLE, edited) is None


def test_a_table_of_no_known_code_is_left() -> None:
    assert moved("", SOURCE) is None
    assert moved("@m::@k\ta.mlir:2:1\n", SOURCE) is None
    assert moved(f"{MARK}\t{describe(SOURCE)}\n@m::@k\ta.mlir:3:1\n", SOURCE) is None  # no line of code
    assert describe('"a string without an end //') == ""


def test_no_pattern_is_possessive() -> None:
    """Before Python 3.11.5, which Debian 12 has, possessive quantifiers of groups match too much."""
    calls = [
        (path.name, node)
        for path in Path(gpubuild.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.") and node.args
    ]
    patterns = [(name, node.args[0].value) for name, node in calls if isinstance(node.args[0], ast.Constant)]
    assert len(patterns) > 100
    possessive = re.compile(r"[])][*+?]\+|\(\?>")
    assert not [(name, pattern) for name, pattern in patterns if possessive.search(str(pattern))]
