"""`export`: link elsewhere, without gpubuild, with the commands of docs/reference/cli.md."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from e2e.command import ROOT, execute, gpubuild, quick_compiler


def test_export_links_with_a_plain_compiler_elsewhere(tmp_path: Path, shared_cache: dict[str, str]) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler of the system's")
    section = (ROOT / "docs/reference/cli.md").read_text().partition("## `export`\n")[2]
    [block] = re.findall(r"^```console\n(.*?)^```$", section.partition("\n## ")[0], re.M | re.S)
    export, link, run, shown = block.splitlines()
    gpubuild("init", "demo", cwd=tmp_path, code=0)
    folder, elsewhere = tmp_path / "demo", tmp_path / "else where"
    done = gpubuild("export", "-o", tmp_path / "out it", cwd=folder, env=shared_cache, code=0)
    assert done.out.endswith(f"run: sh '{tmp_path}/out it/link.sh'\n")
    gpubuild("export", "-o", folder, cwd=folder, code=2)
    gpubuild(*export.split()[2:], cwd=folder, env=shared_cache, code=0)
    elsewhere.mkdir()
    shutil.move(folder / "DIR", elsewhere)
    shutil.rmtree(folder)
    files = {
        "host.o",
        "host.ll",
        "main.o",
        "link.sh",
        "runtime",
        "scale.places.txt",
        "scale_kernels.images.o",
    }
    for exported in (elsewhere / "DIR", tmp_path / "out it"):
        assert {p.name for p in exported.iterdir()} == files
    environment = {"PATH": os.defpath, "CC": quick_compiler(tmp_path)}
    command = link.removeprefix("$ ").replace("DIR", "'else where/DIR'")
    execute("sh", "-c", command, cwd=tmp_path, env=environment)
    command = run.removeprefix("$ ")
    ran = execute("sh", "-c", command, cwd=elsewhere, code=None)
    assert (ran.code, ran.out) == (0, f"{shown}\n"), ran.err
