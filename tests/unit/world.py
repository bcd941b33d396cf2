"""World: a project on disk, a fake engine and fake tools, to build it over and over in milliseconds."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from unit.fakes import FakeExecutor, MemoryStore, finish_job
from unit.projects import TARGETS, make_program, make_project

from gpubuild.build.builder import Builder
from gpubuild.cache.store import Store
from gpubuild.errors import StepCrashedError, StepError, ToolNotFoundError
from gpubuild.model.digest import digest_bytes, encode
from gpubuild.model.events import Event, Silent
from gpubuild.model.job import Job, JobResult
from gpubuild.model.project import BuildOptions, Program, Project
from gpubuild.model.result import BuildReport, Status
from gpubuild.model.step import CompileParams, OutlineParams
from gpubuild.plan.layout import Layout
from gpubuild.toolchain import runtime_library
from gpubuild.toolchain.fingerprint import Tool


class FakeTools:
    """Every tool is there, except those in ``absent``; fingerprints can be changed."""

    def __init__(self) -> None:
        self.fingerprints: dict[str, str] = {}
        self.versions: dict[str, str] = {}
        self.absent: set[str] = set()

    def find_optional(self, name: str) -> Tool | None:
        return self.find(name)

    def runtime_files(self) -> dict[str, Path]:
        return runtime_library.sources()

    def why_missing(self, name: str) -> str:
        return "it is absent" if name in self.absent else ""

    def find(self, name: str) -> Tool | None:
        if name in self.absent:
            return None
        return Tool(
            name=name,
            command=(name,),
            version=self.versions.get(name, "1"),
            fingerprint=self.fingerprints.get(name, name),
        )

    def require(self, name: str) -> Tool:
        tool = self.find(name)
        if tool is None:
            raise ToolNotFoundError(f"{name} is missing", hint="install it")
        return tool


def fake_engine(job: Job) -> JobResult:
    """Outputs are a digest of what the step may depend on; sources list their modules, one a line.

    ``# …`` lines are comments: outlining drops them, as the real engine does.
    """
    inputs = {i.name: i.path.read_bytes() for i in job.inputs if i.name != "located"}
    if isinstance(job.params, OutlineParams):
        lines = [ln for ln in inputs["source"].decode().splitlines() if ln and not ln.startswith("#")]
        if "syntax error" in lines:
            raise StepError("the source does not parse")
        modules = [
            {
                "name": ln.split()[0],
                "index": n,
                "dialect": "gpu",
                "handler": "",
                "targets": [],
            }
            for n, ln in enumerate(lines)
        ]
        outputs = {
            "index.json": json.dumps({"schema": 2, "modules": modules}).encode(),
            "host.mlir": b"host",
            "host_located.mlir": inputs["source"],
        }
        for n, line in enumerate(lines):
            outputs[f"module.{n}.mlir"] = line.encode()
            outputs[f"located.{n}.mlir"] = inputs["source"]
        return finish_job(job, outputs)
    is_amd = isinstance(job.params, CompileParams) and job.params.target.chip == "gfx90a"
    if is_amd and b"unselectable" in inputs["module"]:
        raise StepCrashedError("the compiler crashed (SIGABRT)", stage="codegen", output="LLVM ERROR")
    seed = digest_bytes(encode((job.params, tuple(sorted(inputs.items())))))
    return finish_job(job, {n: f"{n} {seed}".encode() for n in job.output_names})


class Events(Silent):
    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_event(self, event: Event) -> None:
        self.events.append(event)


class World:
    """A project on disk and the means to build it over and over."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store: Store = MemoryStore()
        self.tools = FakeTools()
        self.engine: Callable[[Job], JobResult] = fake_engine
        self.jobs: list[Job] = []
        self.events = Events()
        self.project = make_project(root, make_program(root, "app", "app.mlir", "main.c"))
        (root / "app.mlir").write_text("k one\n")
        (root / "main.c").write_text("int main;")

    def programs(self, *programs: Program) -> None:
        self.project = make_project(self.root, *programs)

    def change_target(self, name: str, **options: object) -> None:
        targets = {n: replace(t, **options) if n == name else t for n, t in TARGETS.items()}
        self.project = make_project(self.root, *self.project.programs.values(), targets=targets)

    def build(self, project: Project | None = None, **options: object) -> BuildReport:
        builder = self.builder(project, **options)
        try:
            return builder.build()
        finally:
            self.jobs = self.executor.jobs

    def builder(self, project: Project | None = None, **options: object) -> Builder:
        build_dir = options.pop("build_dir", self.root / "build")
        self.executor = FakeExecutor(self.engine, workers=2)
        self.events = Events()
        return Builder(
            project=project or self.project,
            options=BuildOptions(build_dir=build_dir, **options),
            layout=Layout(root=self.root, build_dir=build_dir),
            listener=self.events,
            toolchain=self.tools,
            store=self.store,
            executor=self.executor,
        )

    def ran(self) -> set[str]:
        return {j.step_id for j in self.jobs}


def statuses(report: BuildReport) -> set[Status]:
    return {s.status for s in report.steps}
