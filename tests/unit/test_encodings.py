"""Text of files is UTF-8 whatever the locale says, and what a terminal lacks is spelt out."""

import ast
from pathlib import Path

from gpubuild.cli.main import _prepare_streams

PACKAGE = Path(__file__).parents[2] / "gpubuild"
# Pure ASCII, both ways.
PLAIN = {"cache/local/folder.py", "cache/local/archive.py", "build/log.py", "build/state.py"}
# File names, which are bytes: read as the locale has them.
NAMES = {"engine/cc/link.py", "engine/cc/preprocess.py"}


def test_texts_have_an_encoding() -> None:
    for path in PACKAGE.rglob("*.py"):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(text)) if "_text(" in text else ():
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr not in ("read_text", "write_text"):
                continue
            given = {k.arg: k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)}
            if name in NAMES and given.get("errors") == "surrogateescape":
                continue
            assert "encoding" in given or name in PLAIN, f"{path}:{node.lineno}"


def test_what_an_encoding_lacks() -> None:
    _prepare_streams()
    text = "1 → 2 … 3 µs\udcff 中"
    assert text.encode("ascii", "gpubuild") == b"1 -> 2 ... 3 us\xff \\u4e2d"
    assert text.encode("utf-8", "gpubuild") == "1 → 2 … 3 µs".encode() + b"\xff " + "中".encode()
