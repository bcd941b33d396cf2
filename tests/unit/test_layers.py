"""The import rule of docs/design/architecture.md, enforced on the source text."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "gpubuild"

LAYER = {
    "columns": -1,
    "frozen": -1,
    "errors": 0,
    "wording": 0,
    "alike": 2,
    "model": 1,
    "environment": 1,
    "receipt": 2,
    "settings": 2,
    "events": 2,
    "textdiff": 1,
    "explain": 2,
    "config": 3,
    "graph": 3,
    "toolchain": 3,
    "cache": 3,
    "engine": 4,
    "inspection": 4,
    "headers": 4,
    "lock": 4,
    "checking": 4,
    "drawing": 4,
    "quote": 4,
    "state": 4,
    "execute": 5,
    "native": 5,
    "reproducer": 4,
    "blame": 5,
    "leftovers": 5,
    "missing": 5,
    "dumpfolders": 5,
    "options": 5,
    "prepared": 5,
    "outputs": 5,
    "runner": 6,
    "proof": 6,
    "buildlog": 6,
    "watching": 6,
    "explanation": 7,
    "reporting": 7,
    "schedule": 7,
    "build": 8,
    "opening": 9,
    "aside": 5,
    "cli": 10,
    "scons": 10,
    "api": 10,
    "__main__": 11,
    "__init__": 11,  # SCons finds its tool here
}

# Each heavy third-party package belongs to one of ours, and is imported inside functions only.
OWNER = {
    "yaml": {"config"},
    "networkx": {"graph"},
    "diskcache": {"cache"},
    "mlir": {"engine"},
    "llvmlite": {"engine"},
    "elftools": {"inspection"},
    "msgpack": {"inspection"},
    "rich": {"cli"},
    "SCons": {"scons"},
}
# These packages may import theirs at the top of a module: they are themselves imported lazily.
EAGER = {("engine", "mlir"), ("engine", "llvmlite"), ("scons", "SCons"), ("cache", "diskcache")}

FILES = sorted(PACKAGE.rglob("*.py"))


def _part(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def _imports(tree: ast.Module) -> list[tuple[str, bool]]:
    """(module, at the top level and at run time) for every import."""
    found = []
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        eager = id(node) in top and id(node) not in typing_only
        if isinstance(node, ast.Import):
            found += [(alias.name, eager) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(f"{node.module}.{alias.name}", eager) for alias in node.names]
    return found


@pytest.mark.parametrize("part", [name for name in LAYER if not name.startswith("__")])
def test_every_part_is_on_the_page(part: str) -> None:
    page = PACKAGE.parent / "docs/design/architecture.md"
    name = part if (PACKAGE / f"{part}.py").is_file() else f"{part}/"
    assert f"`{name}`" in page.read_text(), f"say in {page} where {part} stands, and why"


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_imports_go_down(path: Path) -> None:
    part = _part(path)
    for name, eager in _imports(ast.parse(path.read_text())):
        pieces = name.split(".")
        if pieces[0] == "gpubuild" and len(pieces) > 1:
            other = pieces[1]
            if other in LAYER and other != part:
                assert LAYER[other] < LAYER[part], f"{part} must not import {other}"
        elif pieces[0] in OWNER:
            assert part in OWNER[pieces[0]], f"only {OWNER[pieces[0]]} may import {pieces[0]}"
            assert not eager or (part, pieces[0]) in EAGER, (
                f"import {pieces[0]} inside the function that needs it"
            )


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_modules_are_short(path: Path) -> None:
    assert path.read_text().count("\n") <= 400


def test_modules_of_tests_and_benchmarks_are_short() -> None:
    root = PACKAGE.parent
    files = [path for folder in ("tests", "bench") for path in (root / folder).rglob("*.py")]
    lines = {str(path.relative_to(root)): path.read_text().count("\n") for path in files}
    assert len(lines) > 100
    assert not {name: count for name, count in lines.items() if count > 400}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_only_one_module_reads_the_environment(path: Path) -> None:
    if path.name == "environment.py":
        return
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
            assert node.attr not in ("environ", "getenv", "environb", "putenv")


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_no_pickle_and_no_shell(path: Path) -> None:
    # execute/ talks to its own children over a private pipe; nothing is ever unpickled from a file.
    for name, _ in _imports(ast.parse(path.read_text())):
        assert _part(path) == "execute" or name.split(".")[0] not in (
            "pickle",
            "marshal",
            "shelve",
            "dill",
            "cloudpickle",
        )
    assert "shell=True" not in path.read_text()


def test_mathematics_stands_alone() -> None:
    """CPUs and AMD GPUs share it, so that it knows neither."""
    for path in (PACKAGE / "engine" / "mathematics").glob("*.py"):
        ours = [n for n, _ in _imports(ast.parse(path.read_text())) if n.startswith("gpubuild.")]
        assert all(name.startswith("gpubuild.engine.mathematics.") for name in ours), path
