"""Commands that show a project, on one that was really built."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from e2e.command import cpu_demo, execute, gpubuild


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cpu_demo(tmp_path_factory.mktemp("views"))


def test_graph_shows_every_step_and_its_state(built: Path, tmp_path: Path) -> None:
    built_steps = gpubuild("build", "--json", cwd=built).document["steps"]
    outcome = gpubuild("graph", "--format", "json", cwd=built, code=0)
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
    outcome = gpubuild("graph", "-o", tmp_path / "x.png", cwd=built, code=2)
    assert "--format svg, dot, mermaid, json" in outcome.err
    gpubuild("graph", "-o", tmp_path / "no" / "x.svg", cwd=built, code=2)


def test_graph_shows_what_failed(built: Path, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    shutil.copytree(built, folder, symlinks=True)

    def failed() -> dict[str, str]:
        outcome = gpubuild("graph", "--format", "json", cwd=folder, code=0)
        return {n["id"]: n["reason"] for n in outcome.document["nodes"] if n["status"] == "failed"}

    host, kernels = (folder / "main.c").read_text(), (folder / "scale.mlir").read_text()
    (folder / "main.c").write_text(host + "int wrong(void) { return nothing; }\n")
    assert failed() == {}  # not tried yet
    gpubuild("build", "-q", cwd=folder, code=1)
    ((step, reason),) = failed().items()
    assert (step, reason) == ("cc/main.c", "cannot compile main.c")
    (folder / "main.c").write_text(host)
    gpubuild("build", "-q", cwd=folder, code=0)
    assert failed() == {}
    (folder / "scale.mlir").write_text(kernels.replace("gpu.return", "gpu.retrun"))
    ((step, reason),) = failed().items()  # no later step can be known
    assert (step, "invalid MLIR" in reason) == ("outline/scale.mlir", True)


@pytest.fixture(scope="module")
def report(built: Path) -> Path:
    (built / "main.c").write_text((built / "main.c").read_text() + "// seen\nint other(void) { return 2; }\n")
    gpubuild("build", "-q", cwd=built, code=0)
    gpubuild("run", cwd=built, env={"GPUBUILD_DEVICE": "cpu", "GPUBUILD_PROFILE": "run.json"}, code=0)
    outcome = gpubuild("report", "--profile", "run.json", cwd=built)
    assert (outcome.code, outcome.out, outcome.err) == (0, "wrote report.html\n", "")
    return built / "report.html"


def test_report_tells_of_the_real_build(report: Path) -> None:
    text = report.read_text()
    parts = ("main.c changed", "scale_kernels", "sm_90", "worker 1", "scale/link", "critical path")
    for part in (*parts, "Run time: run.json", "GB/s"):
        assert part in text
    assert "first build" not in text  # that was the build before the last


def test_report_needs_a_build(tmp_path: Path) -> None:
    outcome = gpubuild("report", cwd=tmp_path)
    assert (outcome.code, outcome.out) == (2, "")
    assert "the build folder build has no record of a build" in outcome.err
    assert list(tmp_path.iterdir()) == []


BROWSERS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_report_in_a_browser(report: Path, tmp_path: Path) -> None:
    picture = tmp_path / "page.png"
    look = "--headless --no-sandbox --disable-gpu --hide-scrollbars --enable-logging=stderr"
    folder, size = f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1200,900"
    done = execute(BROWSER, *look.split(), folder, size, f"--screenshot={picture}", report.as_uri())
    assert "CONSOLE" not in done.err  # where a refused style or script is complained of
    assert "Content Security Policy" not in done.err
    assert picture.read_bytes().startswith(b"\x89PNG")
