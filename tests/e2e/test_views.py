"""Commands that show a project, on one that was really built."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from e2e.command import gpubuild


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("views")
    assert gpubuild("init", "demo", cwd=folder).code == 0
    assert gpubuild("build", "-q", cwd=folder / "demo").code == 0
    return folder / "demo"


def test_graph_shows_every_step_and_its_state(built: Path, tmp_path: Path) -> None:
    built_steps = gpubuild("build", "--json", cwd=built).document["steps"]
    outcome = gpubuild("graph", "--format", "json", cwd=built)
    assert outcome.code == 0, outcome.err
    assert {n["id"] for n in outcome.document["nodes"]} == {s["id"] for s in built_steps}
    assert {n["status"] for n in outcome.document["nodes"]} == {"up-to-date"}
    assert gpubuild("graph", "-o", tmp_path / "g.svg", cwd=built).out == f"wrote {tmp_path / 'g.svg'}\n"
    picture = (tmp_path / "g.svg").read_text()
    assert len(ElementTree.fromstring(picture).findall("{http://www.w3.org/2000/svg}g")) == len(built_steps)
    (built / "main.c").write_text((built / "main.c").read_text() + "int more(void) { return 1; }\n")
    after = json.loads(gpubuild("graph", "--format", "json", "scale", cwd=built).out)
    changed = {n["id"] for n in after["nodes"] if n["status"] == "would-run"}
    # Scanning has run the preprocessor: what it made differs, so the rest must follow.
    assert changed == {"cc/main.c", "scale/link"}


def test_graph_corrects_wrong_names(built: Path, tmp_path: Path) -> None:
    outcome = gpubuild("graph", "--module", "scale_kernel", cwd=built)
    assert (outcome.code, outcome.out) == (2, "")
    assert "there is no gpu.module 'scale_kernel' (did you mean 'scale_kernels'?)" in outcome.err
    outcome = gpubuild("graph", "-o", tmp_path / "x.png", cwd=built)
    assert outcome.code == 2
    assert "--format svg, dot, mermaid, json" in outcome.err
    assert gpubuild("graph", "-o", tmp_path / "no" / "x.svg", cwd=built).code == 2
