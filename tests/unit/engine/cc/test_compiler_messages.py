"""Diagnostics from the output of compilers."""

import pytest

from gpubuild.engine.cc.driver import parse_messages

GCC = """In file included from main.c:1:
sub/h.h:3:12: error: unknown type name 'foo'
    3 | extern foo x;
      |            ^
main.c: In function 'main':
main.c:7:5: warning: implicit declaration of function 'f' [-Wimplicit-function-declaration]
    7 |     f();
main.c:2:9: note: declared here
compilation terminated.
main.c:9:10: fatal error: none.h: No such file or directory
"""
ZIG = """/p/main.c:7:14: error: use of undeclared identifier 'y'
    7 |     return x y;
      |              ^
1 error generated.
"""


def lines(file: str, line: int) -> str:
    return f"<{file} {line}>"


def test_messages_keep_order_place_line_and_notes() -> None:
    header, warning, fatal = parse_messages(GCC, lines)
    assert (header.severity, str(header.location)) == ("error", "sub/h.h:3:12")
    assert header.message == "unknown type name 'foo'"
    assert header.source_line == "<sub/h.h 3>"
    assert warning.severity == "warning"
    (note,) = warning.notes
    assert (note.message, str(note.location)) == ("declared here", "main.c:2:9")
    assert (fatal.severity, fatal.message) == ("error", "none.h: No such file or directory")


def test_messages_of_zig() -> None:
    (error,) = parse_messages(ZIG, lines)
    assert str(error.location) == "/p/main.c:7:14"
    assert error.source_line == "</p/main.c 7>"


WIDE = "\t/* é 漢 */ return undeclared;"
GCC_WIDE = """a.c: In function 'f':
a.c:2:27: error: 'undeclared' undeclared (first use in this function)
    2 |         /* é 漢 */ return undeclared;
      |                           ^~~~~~~~~~
a.c:2:27: note: each undeclared identifier is reported only once
"""
OLD_GCC_WIDE = GCC_WIDE.replace("2:27", "2:22").replace("27", "22")
ZIG_WIDE = """a.c:2:22: error: use of undeclared identifier 'undeclared'
    2 |         /* é 漢 */ return undeclared;
      |                           ^~~~~~~~~~
1 error generated.
"""
BARE = "a.c:2:22: error: use of undeclared identifier 'undeclared'\n"


@pytest.mark.parametrize("text", [GCC_WIDE, OLD_GCC_WIDE, ZIG_WIDE, BARE])
def test_columns_are_characters_whatever_the_compiler_counts(text: str) -> None:
    """gcc since 11 counts a terminal's columns, others bytes."""
    (error,) = parse_messages(text, source_line=lambda file, line: WIDE)
    assert error.location is not None
    assert error.location.column == WIDE.index("undeclared") + 1


def test_a_caret_in_the_middle_of_a_range() -> None:
    text = 'a.c:1:12: error: no\n    1 | "é" a ~ + b;\n      |     ~~~~^~~\n'
    (error,) = parse_messages(text, source_line=lambda file, line: '"é" a ~ + b;')
    assert error.location is not None
    assert error.location.column == 9
