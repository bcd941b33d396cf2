"""compile_commands.json: each command compiles the file it names."""

import json
import subprocess
from pathlib import Path

import pytest

from gpubuild.cli.main import main

YAML = """\
version: 1
defaults: {debug: true}
targets: {cpu: {}}
programs:
  a: {sources: [src/main.c, src/more.cpp, k.mlir]}
  b: {sources: [src/main.c]}
"""


def test_every_c_source_once_with_a_command_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "targets.yaml").write_text(YAML)
    (tmp_path / "src").mkdir()
    (tmp_path / "k.mlir").write_text("")
    (tmp_path / "src" / "h.h").write_text("#define ZERO 0\n")
    (tmp_path / "src" / "main.c").write_text('#include "h.h"\nint main(void) { return ZERO; }\n')
    (tmp_path / "src" / "more.cpp").write_text('#include "h.h"\nclass X {};\nint f() { return ZERO; }\n')
    monkeypatch.chdir(tmp_path)
    assert main(["compdb", "-q"]) == 0
    entries = json.loads((tmp_path / "compile_commands.json").read_text())
    assert [entry["file"] for entry in entries] == ["src/main.c", "src/more.cpp"]
    for entry in entries:
        assert "-g" in entry["arguments"]
        command = [*entry["arguments"], "-o", str(tmp_path / "out.o")]
        subprocess.run(command, cwd=entry["directory"], check=True)
        assert (tmp_path / "out.o").read_bytes().startswith(b"\x7fELF")
