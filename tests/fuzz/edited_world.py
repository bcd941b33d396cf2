"""A project on disk that is edited at random, with real plan, keys, state, receipts, cache and files."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fuzz import small_engine
from fuzz.random_project import Link, Model, write
from unit.fakes import FakeExecutor, MemoryStore
from unit.world import FakeTools

from gpubuild.build import null_build
from gpubuild.build.builder import Builder
from gpubuild.build.null_build_record import load_witnessed
from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.cache.store import Store
from gpubuild.model.events import Silent
from gpubuild.model.job import Job, JobResult
from gpubuild.model.project import BuildOptions
from gpubuild.model.result import BuildReport
from gpubuild.plan.layout import Layout

Tree = dict[str, bytes]


class Tools(FakeTools):
    """Tools are files of a folder, one for each name; a name without a file is always the same tool."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self.fingerprints = {path.name: path.read_text() for path in folder.iterdir()}

    def evidence(self) -> tuple[set[str], set[str]]:
        return {str(path) for path in self._folder.iterdir()}, set()


@dataclass
class World:
    """One project, its build folder and the cache that it shares with others."""

    model: Model
    cache: Path
    choose: random.Random
    history: list[Model] = field(default_factory=list)
    seen: dict[str, dict[str, str | Link]] = field(
        default_factory=dict
    )  # files when a step was last looked at
    exact: bool = False  # whether `seen` is what the build folder's state knows
    meddled: set[str] = field(default_factory=set)  # outputs that were edited: they may be the user's

    @property
    def root(self) -> Path:
        return self.model.root

    @property
    def tools(self) -> Path:
        return self.root.parent / f"{self.root.name}-tools"

    def write(self) -> None:
        write(self.model, self.choose, keep={"build", "clean"})
        self.tools.mkdir(exist_ok=True)
        for name, text in self.model.tools.items():
            path = self.tools / name
            if not path.exists() or path.read_text() != text:
                path.write_text(text)

    def build(
        self,
        store: Store | None = None,
        folder: str = "build",
        engine: Callable[[Job], JobResult] = small_engine.run,
        **options: object,
    ) -> BuildReport:
        """Raises ``ConfigError`` and ``UsageError``."""
        project, witness = load_witnessed(self.root / "targets.yaml")
        build_dir = self.root / folder
        mine = store is None
        store = store or DiskStore(self.cache)
        builder = Builder(
            project=project,
            options=BuildOptions(build_dir=build_dir, **{"keep_going": True, **options}),  # type: ignore[arg-type]
            layout=Layout(root=self.root, build_dir=build_dir),
            listener=Silent(),
            toolchain=Tools(self.tools),  # type: ignore[arg-type]
            store=store,
            executor=FakeExecutor(engine, workers=2),
            witness=witness,
        )
        try:
            return builder.build()
        finally:
            if mine:
                store.close()

    def proven(self) -> bool:
        """Whether `gpubuild build` would say, without looking, that there is nothing to do."""
        request = null_build.request_of(str(self.root / "targets.yaml"), str(self.root / "build"), (), ())
        found = null_build.read(null_build.path_for(request))
        return found is not None and found.proves(request)

    def clean(self) -> tuple[BuildReport, Tree]:
        shutil.rmtree(self.root / "clean", ignore_errors=True)
        report = self.build(MemoryStore(), "clean")
        return report, tree(self.root / "clean")


def tree(folder: Path) -> Tree:
    """Files that builds make, with whether they can be executed."""
    private = ("state.json", "tools.json", "lock", "builds.jsonl", "receipts/", "work/", "scons-sketch")
    found = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_file() and not name.removeprefix(".gpubuild/").startswith(private):
            executable = path.suffix == "" and path.stat().st_mode & 0o100
            found[name] = path.read_bytes() + (b" x" if executable else b"")
    return found
