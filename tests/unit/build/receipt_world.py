"""A project whose receipts are looked at: files, tools and a clock that a test may change."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from unit.fakes import FakeExecutor, MemoryStore, finish_job
from unit.projects import make_program, make_project
from unit.world import FakeTools, fake_engine

from gpubuild.build import null_build
from gpubuild.build.builder import Builder
from gpubuild.build.null_build_record import Witness
from gpubuild.model.digest import digest_bytes
from gpubuild.model.events import Silent
from gpubuild.model.job import Job, JobResult
from gpubuild.model.project import BuildOptions, Project
from gpubuild.model.result import BuildReport
from gpubuild.model.step import StepKind
from gpubuild.plan.layout import Layout
from gpubuild.support import file_stamp

TICK = 0.04  # seconds; more than a tick of any clock these tests meet


class KnownTools(FakeTools):
    """Tools that are the files of a folder; ``optional`` is looked for there, too."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        folder.mkdir()
        (folder / "ptxas").write_bytes(b"one")

    def evidence(self) -> tuple[set[str], set[str]]:
        return {str(self.folder / "ptxas")}, {str(self.folder / "optional")}


class World:
    """A project that is built by a fake engine and asked about by receipts."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tools = KnownTools(root / "tools")
        self.store = MemoryStore()
        self.engine = self.run
        self.during = lambda: None
        self.warnings: tuple[str, ...] = ()
        (root / "inc").mkdir()
        for name, text in {"app.mlir": "k one\n", "main.c": "int main;", "inc/x.h": "1"}.items():
            (root / name).write_text(text)
        (root / "targets.yaml").write_text("version: 1")
        time.sleep(TICK)

    def run(self, job: Job) -> JobResult:
        self.during()
        done = fake_engine(job)
        if job.kind is StepKind.PREPROCESS:
            header = self.root / "inc/x.h"
            text = (self.root / "main.c").read_bytes() + header.read_bytes()
            done = finish_job(job, {"text": text, "deps": b"[]"})
            found = ((str(header), digest_bytes(header.read_bytes())),)
            done = replace(done, result=replace(done.result, discovered=found, warnings=self.warnings))
        return done

    @property
    def project(self) -> Project:
        return make_project(self.root, make_program(self.root, "app", "app.mlir", "main.c"))

    def build(self, *, targets: tuple[str, ...] = ()) -> BuildReport:
        config = self.root / "targets.yaml"
        at = time.time_ns()
        known = (file_stamp.stat_of(config), at, digest_bytes(config.read_bytes()))
        builder = Builder(
            project=self.project,
            options=BuildOptions(build_dir=self.root / "build", targets=targets),
            layout=Layout(root=self.root, build_dir=self.root / "build"),
            listener=Silent(),
            toolchain=self.tools,  # type: ignore[arg-type]
            store=self.store,
            executor=FakeExecutor(self.engine, workers=2),
            witness=Witness((str(config), known)),
        )
        report = builder.build()
        time.sleep(TICK)
        return report

    def good_build(self) -> None:
        """Build, and see that the receipt is there to be proven wrong."""
        self.build()
        assert self.proven()

    def request(self, *targets: str) -> null_build.Request:
        return null_build.request_of(str(self.root / "targets.yaml"), str(self.root / "build"), [], targets)

    def receipt(self, *targets: str) -> null_build.Receipt | None:
        return null_build.read(null_build.path_for(self.request(*targets)))

    def proven(self, *targets: str) -> bool:
        found = self.receipt(*targets)
        return found is not None and found.proves(self.request(*targets))


def keep_times(path: Path, change: bytes) -> None:
    """Write ``change`` in place, with the old modification time."""
    old = path.stat()
    path.write_bytes(change)
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))


def settled_world(folder: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which a file is settled after half a ``TICK``."""
    monkeypatch.setattr(file_stamp, "RACY_NS", int(TICK * 1e9 / 2))
    return World(folder)
