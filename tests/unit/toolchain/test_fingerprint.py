"""Our own code in keys: each step has what it imports in its key, and an edit changes no other keys."""

import ast
import shutil
from functools import cache
from pathlib import Path

import pytest
from unit.projects import TARGETS, make_program, make_project

import gpubuild
from gpubuild.model.project import Offload
from gpubuild.plan.layout import Layout
from gpubuild.plan.planner import Planner
from gpubuild.plan.sources import ScannedModule, ScannedSource
from gpubuild.targets.registry import vendors
from gpubuild.targets.target import Target
from gpubuild.toolchain.fingerprint import SHAPING, SHARED, own_code, part_files
from gpubuild.toolchain.memo import Memo

PACKAGE = Path(gpubuild.__file__).parent
CODE = ("engine", "model", "targets")
REGISTRY = "targets/registry.py"  # leads to the facts of all vendors; what asks it names its kind
ENTRIES = {
    "outline": "engine/source/outline.py",
    "bundle": "engine/host/gpu_binary.py",
    "host": "engine/host/lowering.py",
    "llvm": "engine/host/object_code.py",
    "cc": "engine/cc/compile.py",
    "link": "engine/cc/link.py",
}


def tools_of_steps() -> dict[str, tuple[str, ...]]:
    """Tools by the name of the step's kind; of compile steps by the kind of their target."""
    root = Path("/project")
    spirv = Target(name="spirv", kind="spirv", chip="spirv1.3", triple="spirv64v1.3-unknown-unknown")
    targets = {**TARGETS, "spirv": spirv}
    program = make_program(root, "app", "app.mlir", "main.c", "more.ll", targets=tuple(targets))
    project = make_project(root, program, targets=targets)
    planner = Planner(
        project=project,
        layout=Layout(root=root, build_dir=root / "build"),
        triple="x86_64-unknown-linux-gnu",
        runtime_files={},
    )
    scans = {"outline/app.mlir": ScannedSource(modules=(ScannedModule(name="k", index=0),))}
    plan = planner.full_plan((project.programs["app"],), scans)
    assert project.programs["app"].offload is Offload.DISPATCH
    return {
        str(targets[step.target].kind if step.target else step.kind): step.tools
        for step in plan.steps.values()
    }


TOOLS = tools_of_steps()


# A file, and the kinds of steps whose keys have it.
EDITS = {
    "engine/backends/cpu/compile.py": {"cpu"},
    "targets/cpu.py": {"cpu", "outline", "bundle", "host"},
    "engine/backends/nvidia/compile.py": {"nvvm"},
    "targets/nvidia.py": {"nvvm", "outline", "bundle", "host"},
    "engine/backends/amd/printf.ll": {"rocdl"},
    "engine/backends/lowering.py": set(TOOLS),
    "targets/vendor.py": set(TOOLS),
    "settings.py": set(TOOLS),
    "cli/__init__.py": set(),
}


def own(name: str) -> list[str]:
    """The parts of our code in the key of a step."""
    return [tool.partition("/")[2] for tool in TOOLS[name] if tool.partition("/")[0] == "gpubuild"]


@cache
def imports(file: str) -> frozenset[str]:
    """The modules of the package that ``file`` imports, lazily too, but for what only type checkers do."""
    found: set[str] = set()
    tree = ast.parse((PACKAGE / file).read_text())
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in typing_only:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")[1:] if name.startswith("gpubuild.") else []
            choices = ("/".join(parts) + ".py", "/".join(parts[:-1]) + ".py")
            found |= {choice for choice in choices if parts and (PACKAGE / choice).is_file()}
    return frozenset(found)


def reached(*entries: str) -> set[str]:
    todo, found = list(entries), set(entries)
    while todo:
        file = todo.pop()
        ends = file == REGISTRY or file.partition("/")[0] not in CODE  # those are in SHAPING, alone
        new = set() if ends else imports(file) - found
        found |= new
        todo += new
    return found


def files(part: str) -> set[str]:
    return {file for _, names in part_files(PACKAGE, part) for file in names}


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_what_a_step_imports_is_in_its_key(name: str) -> None:
    needed = reached(ENTRIES[name])
    assert needed <= {file for part in own(name) for file in files(part)}
    assert REGISTRY not in needed or "targets" in own(name)


@pytest.mark.parametrize("vendor", vendors(), ids=lambda v: v.kind)
def test_what_a_compile_step_imports_is_in_its_key(vendor) -> None:
    entry = vendor.backend.removeprefix("gpubuild.").replace(".", "/") + "/compile.py"
    missing = reached(entry, "engine/dispatch.py") - {f for part in own(vendor.kind) for f in files(part)}
    # Steps of other kinds are dispatched there too, and all facts are loaded, but not asked.
    others = {file for name in ENTRIES for part in own(name) for file in files(part)}
    assert missing <= others
    assert not {file for file in missing if file.startswith("engine/")}


def test_every_file_is_in_one_part() -> None:
    parts = [files(part) for part in ("", *(vendor.kind for vendor in vendors()))]
    everything = {
        path.relative_to(PACKAGE).as_posix()
        for folder in CODE
        for suffix in ("py", "ll")
        for path in (PACKAGE / folder).rglob(f"*.{suffix}")
    }
    assert set().union(*parts) == everything | set(SHAPING)
    assert sum(map(len, parts)) == len(everything | set(SHAPING))
    assert all((PACKAGE / file).is_file() for file in (*SHAPING, *SHARED))


def test_only_what_others_import_is_shared() -> None:
    folders = {v.backend.removeprefix("gpubuild.").replace(".", "/") + "/" for v in vendors()}
    imported = set()
    for path in PACKAGE.rglob("*.py"):
        file = path.relative_to(PACKAGE).as_posix()
        for other in imports(file):
            folder = next((f for f in folders if other.startswith(f)), None)
            if folder and file.startswith("engine/") and (file in SHARED or not file.startswith(folder)):
                imported.add(other)
    assert imported - set(SHARED) == set()
    assert set(SHARED) - imported == set(), "nothing imports these any more"


def test_an_edit_changes_the_keys_of_its_vendor(tmp_path: Path) -> None:
    copy = tmp_path / "gpubuild"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))

    def fingerprints() -> dict[str, list[str]]:
        found = {part: own_code(copy, Memo(None), part).fingerprint for name in TOOLS for part in own(name)}
        return {name: [found[part] for part in own(name)] for name in TOOLS}

    before = fingerprints()
    for file, changed in EDITS.items():
        with (copy / file).open("a") as stream:
            stream.write("\n")
        after = fingerprints()
        assert {name for name in TOOLS if before[name] != after[name]} == changed, file
        before = after


def test_steps_that_generate_code_have_the_llvm_that_does_so_in_their_keys() -> None:
    """The tool ``mlir`` covers the LLVM library that MLIR has loaded."""
    for name in ("nvvm", "rocdl", "cpu", "bundle", "host", "llvm"):
        assert "mlir" in TOOLS[name], name
    assert [name for name, tools in TOOLS.items() if "llvmlite" in tools] == ["rocdl", "spirv"]
