"""What differs between kinds of targets is asked of their vendors: no other code compares kinds."""

import ast
from collections.abc import Iterator
from pathlib import Path

import gpubuild
from gpubuild.targets.registry import kinds, vendors

PACKAGE = Path(gpubuild.__file__).parent
# Here the words are names of MLIR dialects and of LLVM's families of intrinsics, not kinds.
DIALECTS = {"engine/backends/lowering.py", "engine/legalize/unsupported_ops.py"}


def comparisons(tree: ast.Module) -> Iterator[int]:
    """The lines that compare with the word of a kind, or look one up."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(comparators=others):
                sides = [word for side in (node.left, *others) for word in ast.walk(side)]
                if any(_is_kind(word) for word in sides):
                    yield node.lineno
            case ast.MatchValue(value=value) if _is_kind(value):
                yield node.lineno
            case ast.Subscript(slice=key) if _is_kind(key):
                yield node.lineno
            case ast.Dict(keys=keys) if any(_is_kind(key) for key in keys if key):
                yield node.lineno


def _is_kind(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value in kinds()


def test_no_code_compares_kinds() -> None:
    folders = tuple(v.backend.removeprefix("gpubuild.").replace(".", "/") for v in vendors())
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        if file.startswith(("targets/", *folders)):
            continue
        if lines := sorted(comparisons(ast.parse(path.read_text()))):
            found[file] = lines
    assert {file: lines for file, lines in found.items() if file not in DIALECTS} == {}
    assert not DIALECTS - set(found), "take it out of the list"


def test_comparisons_are_recognised() -> None:
    for line in (
        "t.kind == 'cpu'",
        "'rocdl' in kinds",
        "t.kind in ('nvvm', 'cpu')",
        "table['cpu']",
        "{'nvvm': 1}[t.kind]",
        "match t.kind:\n  case 'nvvm': pass",
    ):
        assert list(comparisons(ast.parse(line))), line
    assert not list(comparisons(ast.parse("vendor(t.kind).tools == ('ptxas',)")))
