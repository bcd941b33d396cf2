"""Make rules as gcc and clang write them."""

import pytest

from gpubuild.engine.cc.preprocess import parse_depfile


def test_lines_are_joined_and_names_kept_once() -> None:
    text = "text: a.c /usr/include/stdio.h \\\n  sub/b.h \\\n a.c\n\n/usr/include/stdio.h:\n"
    assert parse_depfile(text) == ["a.c", "/usr/include/stdio.h", "sub/b.h"]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (r"with\ blank.h", "with blank.h"),
        (r"hash\#.h", "hash#.h"),
        ("dollar$$.h", "dollar$.h"),
        (r"back\slash.h", r"back\slash.h"),
        ("colon:colon.h", "colon:colon.h"),
        ("ünïcode.h", "ünïcode.h"),
    ],
)
def test_odd_names(written: str, name: str) -> None:
    assert parse_depfile(f"text: a.c {written} \\\n last.h\n") == ["a.c", name, "last.h"]


def test_no_rule_is_an_error() -> None:
    with pytest.raises(ValueError, match="without a rule"):
        parse_depfile("")
