"""`gpubuild watch --run`, as a person uses it: edit, look, mend, Ctrl-C."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

from e2e.command import gpubuild, shared_cache, without_settings

PATIENCE_SECONDS = 120.0


class Watch:
    """A running command whose lines are read as they come."""

    def __init__(self, folder: Path, *arguments: str, cache: dict[str, str]) -> None:
        environment = without_settings()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gpubuild", "watch", *arguments],
            cwd=folder,
            env=environment | cache | {"GPUBUILD_DEVICE": "cpu", "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))

    def until(self, part: str) -> list[str]:
        """All lines up to one that contains ``part``."""
        seen = []
        while not seen or part not in seen[-1]:
            seen.append(self._lines.get(timeout=PATIENCE_SECONDS))
        return seen

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.with_suffix(".new").write_text(text.replace(old, new))
    path.with_suffix(".new").replace(path)


def test_edit_break_mend_stop(tmp_path: Path) -> None:
    gpubuild("init", "demo", cwd=tmp_path, code=0)
    demo = tmp_path / "demo"
    edit(demo / "targets.yaml", (demo / "targets.yaml").read_text(), TARGETS)
    with Watch(demo, "--run", "--", "given", cache=shared_cache()) as watch:
        assert any("scale: OK" in line for line in watch.until("exited with 0"))
        edit(demo / "main.c", "elements wrong", "elements are wrong")
        seen = watch.until("exited with 0")
        assert seen[0] == "changed: main.c"
        assert any("elements are wrong" in line for line in seen)
        edit(demo / "targets.yaml", "sources", "sauces")
        assert any("did you mean 'sources'?" in line for line in watch.until("watching for changes"))
        edit(demo / "targets.yaml", "sauces", "sources")
        watch.until("exited with 0")
        # A program that does not end is stopped when a file changes, and by Ctrl-C.
        edit(
            demo / "main.c",
            "int main(void) {",
            '#include <unistd.h>\nint main(void) { puts("on"); fflush(stdout); pause();',
        )
        watch.until("on")
        edit(demo / "main.c", '"on"', '"again"')
        watch.until("again")
        os.killpg(watch.process.pid, signal.SIGINT)  # as a terminal does
        assert watch.process.wait(timeout=PATIENCE_SECONDS) == 130
        watch._reader.join(PATIENCE_SECONDS)  # ends when nobody holds the pipe any more
        assert not watch._reader.is_alive()


TARGETS = """\
version: 1
targets: {cpu: {}}
programs:
  scale:
    sources: [scale.mlir, main.c]
"""


def test_what_to_run_must_be_clear(tmp_path: Path) -> None:
    outcome = gpubuild("watch", cwd=tmp_path, code=2)
    assert "gpubuild init" in outcome.err
    outcome = gpubuild("watch", "--", "x", cwd=tmp_path)
    assert (outcome.code, "--run" in outcome.err) == (2, True)
