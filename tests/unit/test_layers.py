"""The layers of the package: data here, enforced on the source text, printed into the design page.

``python tests/unit/test_layers.py`` writes the table of docs/design/architecture.md again.
"""

import ast
import re
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "gpubuild"
PAGE = PACKAGE.parent / "docs/design/architecture.md"
BEGIN, END = "<!-- layers -->", "<!-- /layers -->"

# Lowest first. Parts of one layer are siblings and do not import each other.
LAYERS: list[dict[str, str]] = [
    {"runtime": "`libgpubuild_rt`: C11 that builds compile"},
    {"support": "frozen records, text, file stamps"},
    {"environment": "the only reader of environment variables"},
    {"errors": "every error raised on purpose, as frozen values"},
    {"targets": "what a target is; the facts of each vendor: chips, features, suffixes"},
    {"model": "project, step, job, result, digest, events: the records that layers exchange"},
    {"settings": "what the environment says, with types"},
    {
        "config": "`targets.yaml` to a `Project`; JSON Schema",
        "plan": "a `Project` to the graph of its steps",
        "cache": "results by key: local, remote, none",
        "toolchain": "external tools: finding, identifying and running them",
    },
    {"engine": "one job to its outputs, in worker processes"},
    {"execute": "where jobs run: a process for each"},
    {"build": "the build core: plan, cache, executor and engine, joined by one builder"},
    {"inspect": "what a built file contains", "report": "reports and drawings of builds"},
    {"cli": "the command line", "scons": "the SCons tool", "api": "builds from Python"},
    {"__main__": "`python -m gpubuild`", "__init__": "what `import gpubuild` offers"},
]
ENGINE: list[dict[str, str]] = [
    {"ir": "MLIR and LLVM helpers: contexts, builders, queries, locations, passes, dumps",
     "mathlib": "C's functions as LLVM IR"},
    {"legalize": "what upstream's conversions lack or get wrong, one topic per module"},
    {"host": "host code, async tokens, `gpu.binary`, containers of images",
     "cc": "C and C++, the runtime library, linking"},
    {"backends": "a folder for each vendor"},
    {"source": "what is found out about a source before any target is known"},
    {"bisect": "which operation makes a compiler fail"},
    {"dispatch": "a job to the code that runs it"},
]  # fmt: skip

# Each heavy third-party package belongs to one of ours, and is imported inside functions only.
OWNER = {
    "yaml": {"config"},
    "networkx": {"plan", "report"},
    "mlir": {"engine"},
    "llvmlite": {"engine"},
    "elftools": {"engine", "inspect"},
    "msgpack": {"engine", "execute", "inspect"},
    "argcomplete": {"cli"},
    "rich": {"cli"},
    "SCons": {"scons"},
}
# These packages may import theirs at the top of a module: they are themselves imported lazily.
EAGER = {("engine", "mlir"), ("engine", "llvmlite"), ("engine", "msgpack"), ("scons", "SCons"),
         ("report", "networkx")}  # fmt: skip
UNPICKLERS = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
SHELLS = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"}

LONGEST_MODULE = 700
LARGEST_FOLDER = 30
MOST_TOP_LEVEL_MODULES = 8

FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "_version.py")  # written by builds
MODULES = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in FILES}


def _imports(tree: ast.Module) -> list[tuple[str, bool]]:
    """(module, at the top level and at run time) for every import, lazy and type-only ones too."""
    top = {id(node) for node in tree.body}
    found = []
    for node in ast.walk(tree):
        eager = id(node) in top  # not below `if TYPE_CHECKING`
        if isinstance(node, ast.Import):
            found += [(alias.name, eager) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(f"{node.module}.{alias.name}", eager) for alias in node.names]
    return found


@cache
def tree(name: str) -> ast.Module:
    """A module, parsed once: by the first test that asks, for each worker process imports this file."""
    return ast.parse(MODULES[name].read_text())


@cache
def imports() -> dict[str, list[tuple[str, bool]]]:
    """``_imports`` of each module."""
    return {name: _imports(tree(name)) for name in MODULES}


def _own(name: str) -> str | None:
    """The module of the package that the dotted ``name`` is, or is in; ``None`` for other packages."""
    if not name.startswith("gpubuild."):
        return None
    name = name.removeprefix("gpubuild.")
    for candidate in (name, f"{name}.__init__", name.rpartition(".")[0]):
        if candidate in MODULES:
            return candidate
    return None


@cache
def graph() -> dict[str, set[str]]:
    """Which modules of the package each one imports."""
    return {
        name: {own for full, _ in needs if (own := _own(full)) and own != name}
        for name, needs in imports().items()
    }


def _above(layers: list[dict[str, str]], prefix: str) -> list[str]:
    """Imports between parts below ``prefix`` that do not go down."""
    level = {part: number for number, layer in enumerate(layers) for part in layer}
    wrong = []
    for name, needs in graph().items():
        for other in needs:
            if name.startswith(prefix) and other.startswith(prefix):
                one, two = name.removeprefix(prefix).split(".")[0], other.removeprefix(prefix).split(".")[0]
                if "__init__" not in (one, two) and one != two and level[one] <= level[two]:
                    wrong.append(f"{name} imports {other}")
    return sorted(wrong)


def test_every_part_has_its_layer() -> None:
    parts = {path.stem for path in FILES if path.parent == PACKAGE}
    parts |= {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert parts == {part for layer in LAYERS for part in layer}
    engine = {path.stem for path in (PACKAGE / "engine").glob("*.py")} - {"__init__"}
    engine |= {path.parent.name for path in (PACKAGE / "engine").glob("*/__init__.py")}
    assert engine == {part for layer in ENGINE for part in layer}


def test_imports_go_down() -> None:
    assert _above(LAYERS, "") == []


def test_imports_inside_the_engine_go_down() -> None:
    assert _above(ENGINE, "engine.") == []


def test_no_back_end_imports_another() -> None:
    vendor = re.compile(r"engine\.backends\.(\w+)\.")
    wrong = [
        f"{name} imports {other}"
        for name, needs in graph().items()
        for other in needs
        if (one := vendor.match(name)) and (two := vendor.match(other)) and one[1] != two[1]
    ]
    assert wrong == []


def test_there_are_no_cycles() -> None:
    try:
        TopologicalSorter(graph()).prepare()
    except CycleError as error:
        pytest.fail(f"modules that import each other: {' → '.join(error.args[1])}")


def test_headers_of_the_runtime_have_no_cycles() -> None:
    root = PACKAGE / "runtime"
    includes = {
        path.relative_to(root).as_posix(): set(re.findall(r'^#include "(.+)"', path.read_text(), re.M))
        for path in root.rglob("*")
        if path.suffix in (".c", ".h", ".S")
    }
    assert {name for names in includes.values() for name in names} <= includes.keys(), "from the root"
    assert any(includes.values())
    TopologicalSorter(includes).prepare()


def test_third_party_packages_have_an_owner() -> None:
    for name, needs in imports().items():
        part = name.split(".", maxsplit=1)[0]
        for full, eager in needs:
            package = full.split(".")[0]
            # execute/ talks to its own children over a private pipe; nothing is unpickled from a file.
            assert part == "execute" or package not in UNPICKLERS, name
            if package in OWNER:
                assert part in OWNER[package], f"{name}: only {OWNER[package]} may import {package}"
                assert not eager or (part, package) in EAGER, (
                    f"{name}: import {package} inside the function that needs it"
                )


def test_no_module_starts_a_shell() -> None:
    for name, path in MODULES.items():
        assert "shell=True" not in path.read_text(), name
        for node in ast.walk(tree(name)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                called = ast.unparse(node.func)
                assert called not in SHELLS, name
                keywords = {k.arg for k in node.keywords} if called.startswith("subprocess.") else ()
                assert "shell" not in keywords, name


def test_sizes() -> None:
    root = PACKAGE.parent
    lines = {
        str(path.relative_to(root)): path.read_text().count("\n")
        for folder in ("gpubuild", "tests", "bench")
        for path in (root / folder).rglob("*.py")
    }
    assert len(lines) > 300
    assert {name: count for name, count in lines.items() if count > LONGEST_MODULE} == {}
    folders: dict[Path, int] = {}
    for path in FILES:
        folders[path.parent] = folders.get(path.parent, 0) + 1
    assert {str(folder): count for folder, count in folders.items() if count > LARGEST_FOLDER + 1} == {}
    assert sum(path.parent == PACKAGE for path in FILES) <= MOST_TOP_LEVEL_MODULES


def test_only_one_module_reads_the_environment() -> None:
    for name in MODULES.keys() - {"environment"}:
        for node in ast.walk(tree(name)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os":
                assert node.attr not in ("environ", "getenv", "environb", "putenv"), name


def test_mathlib_stands_alone() -> None:
    """CPUs and AMD GPUs share it, so it knows neither."""
    needs = {
        other for name, others in graph().items() if name.startswith("engine.mathlib.") for other in others
    }
    assert all(name.startswith(("engine.mathlib.", "support.")) for name in needs)


def table() -> str:
    """The layers as the Markdown tables of the design page."""
    lines = ["| layer | part | what it is |", "|---|---|---|"]
    for number, layer in enumerate(LAYERS):
        lines += [f"| {number} | `{part}` | {what} |" for part, what in layer.items()]
    lines += ["", "Inside `engine/`:", "", "| layer | part | what it is |", "|---|---|---|"]
    for number, layer in enumerate(ENGINE):
        lines += [f"| {number} | `{part}` | {what} |" for part, what in layer.items()]
    return "\n".join(lines)


def test_the_page_has_the_table() -> None:
    text = PAGE.read_text()
    found = text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip()
    assert found == table(), "run python tests/unit/test_layers.py"


if __name__ == "__main__":
    page = PAGE.read_text()
    PAGE.write_text(page[: page.index(BEGIN) + len(BEGIN)] + f"\n{table()}\n" + page[page.index(END) :])
    sys.exit(0)
