"""``host:`` in targets.yaml: how C and C++ sources of programs are compiled, from the file to the program."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from e2e.command import build_project, execute, gpubuild, project_file, write

YAML = """\
version: 1
targets: {cpu: {}}
host:
  include: [inc, "more inc"]
  std: c11
  flags: [-Wall]
  sources: {src/same.c: {define: {SAME: 7}}}
programs:
  one: {sources: [src/main.c, src/same.c], host: {define: {LEVEL: 1, NAME: '"one"'}}}
  two: {sources: [src/main.c, src/same.c], host: {define: {LEVEL: 2, NAME: '"two"'}}}
"""
MAIN = """\
#include <stdio.h>
#include <value.h>
int same(void);
int main(void) {
    printf("%s %d %d %d %s\\n", NAME, LEVEL, VALUE, same(), __FILE__);
    return 0;
}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for folder in ("src", "inc", "more inc"):
        (root / folder).mkdir(parents=True)
    (root / "targets.yaml").write_text(YAML)
    (root / "src/main.c").write_text(MAIN)
    (root / "src/same.c").write_text("int same(void) { return SAME; }\n")
    (root / "more inc/value.h").write_text("#define VALUE 3\n")
    return root


def build(root: Path, *arguments: str) -> dict[str, dict[str, str]]:
    outcome = gpubuild("build", "--json", *arguments, cwd=root, seeded=True, code=0)
    return {step["id"]: step for step in outcome.document["steps"]}


def ran(steps: dict[str, dict[str, str]]) -> set[str]:
    return {name for name, step in steps.items() if step["status"] == "ran"}


def said(root: Path, program: str) -> str:
    return execute(root / f"build/{program}/{program}").out


def test_from_the_file_to_the_program(project: Path, tmp_path: Path) -> None:
    steps = build(project)
    assert {"cc/src/main.c", "cc/src/main.c#two", "cc/src/same.c"} <= ran(steps)
    assert steps["cc/src/same.c#two"]["reason"] == "first build; same as cc/src/same.c"
    assert said(project, "one") == "one 1 3 7 src/main.c\n"
    assert said(project, "two") == "two 2 3 7 src/main.c\n"

    # One program's macro: one source's object, whose text has it. A source's own is nothing to others.
    (project / "targets.yaml").write_text(YAML.replace("LEVEL: 2", "LEVEL: 22"))
    steps = build(project)
    assert ran(steps) == {
        "preprocess/src/main.c#two", "preprocess/src/same.c#two", "cc/src/main.c#two", "two/link"
    }  # fmt: skip
    changed = "['LEVEL=2', 'NAME=\"two\"'] → ['LEVEL=22', 'NAME=\"two\"']"
    assert steps["preprocess/src/main.c#two"]["reason"] == f"option define changed: {changed}"
    assert said(project, "two") == "two 22 3 7 src/main.c\n"

    # Another checkout compiles nothing.
    other = tmp_path / "elsewhere/deeper"
    shutil.copytree(project, other, ignore=shutil.ignore_patterns("build"))
    assert not ran(build(other))

    # One source's macro.
    (project / "targets.yaml").write_text(YAML.replace("SAME: 7", "SAME: 8"))
    steps = build(project, "one")
    assert ran(steps) == {"preprocess/src/same.c", "cc/src/same.c", "one/link"}
    changed = "['LEVEL=1', 'NAME=\"one\"', 'SAME=7'] → ['LEVEL=1', 'NAME=\"one\"', 'SAME=8']"
    assert steps["preprocess/src/same.c"]["reason"] == f"option define changed: {changed}"

    # A header that comes to stand before the one that was found.
    (project / "inc/value.h").write_text("#define VALUE 4\n")
    steps = build(project)
    assert steps["preprocess/src/main.c"]["reason"] == "headers may be found elsewhere now"
    assert said(project, "one") == "one 1 4 8 src/main.c\n"

    # What editors are told is what is compiled.
    gpubuild("compdb", cwd=project, code=0)
    entries = json.loads((project / "compile_commands.json").read_text())
    assert [e["file"] for e in entries] == ["src/main.c", "src/same.c"] * 2
    wanted = ["-std=c11", "-Wall", "-Iinc", "-Imore inc", "-DLEVEL=1", '-DNAME="one"']
    assert entries[0]["arguments"][-7:-1] == wanted
    done = subprocess.run(entries[0]["arguments"], cwd=entries[0]["directory"], check=False)
    assert done.returncode == 0


def test_what_is_wrong_is_told(project: Path) -> None:
    (project / "targets.yaml").write_text(YAML.replace("-Wall", "-Wall, -Werror, -fnone-such"))
    outcome = gpubuild("build", "one", cwd=project, code=1)
    assert "-fnone-such" in outcome.err
    assert "hint: `host:` in the project file gives these options: -std=c11 -Wall -Werror -fn" in outcome.err


def test_constants_of_mlir_sources(tmp_path: Path) -> None:
    """Two programs of one source have their own values, and -D replaces both."""
    programs = [
        f"{name}: {{sources: [k.mlir], constants: {{CODE: {n}}}}}" for name, n in (("one", 3), ("two", 4))
    ]
    source = (
        "func.func @main() -> i32 {\n"
        '  %code = arith.constant {gpubuild.constant = "CODE"} 9 : i32\n'
        "  return %code : i32\n}\n"
    )
    build_project(tmp_path, project_file(*programs), {"k.mlir": source})
    gpubuild("run", "one", "-q", cwd=tmp_path, code=3)
    gpubuild("run", "two", "-q", cwd=tmp_path, code=4)
    gpubuild("run", "two", "-q", "-D", "CODE=0x7", cwd=tmp_path, code=7)
    yaml = tmp_path / "targets.yaml"
    yaml.write_text(yaml.read_text().replace("CODE: 4", "CODE: 5"))
    assert ran(build(tmp_path)) == {"two/outline/k.mlir", "two/host", "two/link"}
    gpubuild("run", "two", "-q", cwd=tmp_path, code=5)


def test_folders_of_includes(tmp_path: Path) -> None:
    """Sources and build folders outside the project find headers, also where a warning is repeated."""
    root = tmp_path / "project"
    more = "host: {include: [inc], flags: [-Wall]}\n"
    more += "generate: {made: {command: [./make.sh], outputs: [made.c, made.h]}}\n"
    files = {
        "targets.yaml": project_file("p: {sources: [main.c, made.c, ../outside/out.c]}", more=more),
        "make.sh": "#!/bin/sh\necho '#define MADE 1' > made.h\n"
        'printf \'#include "made.h"\\n#include "own.h"\\n'
        "int made(void) { int x; return MADE + OWN; }\\n' > made.c\n",
        "inc/own.h": "#define OWN 2\n",
        "main.c": '#include "made.h"\nint made(void);\nint out(void);\n'
        "int main(void) { int y; return made() + out() + MADE; }\n",
        "../outside/out.c": '#include "own.h"\n#include "made.h"\n'
        "int out(void) { int z; return OWN + MADE; }\n",
    }
    write(root, files)
    (root / "make.sh").chmod(0o755)
    for arguments in ([], ["--build-dir", str(tmp_path / "elsewhere")]):
        outcome = gpubuild("build", *arguments, cwd=root, seeded=True, code=0)
        assert [name for name in "xyz" if f"unused variable '{name}'" in outcome.err] == [*"xyz"]
        gpubuild("run", "-q", *arguments, cwd=root, code=7)
        gpubuild("compdb", *arguments, cwd=root, code=0)
        for entry in json.loads((root / "compile_commands.json").read_text()):
            execute(*entry["arguments"], "-o", tmp_path / "x.o", cwd=entry["directory"])
    (root / "main.c").write_text('#include "made.h"\nint main(void) { retrun MADE; }\n')
    outcome = gpubuild("build", cwd=root)
    assert "main.c:2:18: error: " in outcome.err
