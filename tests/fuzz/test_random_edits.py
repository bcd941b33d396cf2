"""Random edits and disturbances, step by step: a build always makes what a clean build without a cache makes.

Plan, keys, state, receipts, cache and files are the real ones; the engine is a small one, so that
thousands of builds take seconds. GPUBUILD_TEST_EDITS (default 30) sets how many for each seed,
GPUBUILD_TEST_SEED (default 1) the first seed; a failure names both and repeats.
"""

from __future__ import annotations

import copy
import os
import random
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import Counted
from fault.test_cache_processes import exit_status, in_child
from fuzz import small_engine
from fuzz.random_project import Link, Model, edit, write
from unit.fakes import FakeExecutor, MemoryStore
from unit.world import FakeTools

from gpubuild import receipt
from gpubuild.build import Builder
from gpubuild.cache.disk import DiskStore
from gpubuild.cache.protocol import Store
from gpubuild.cache.upkeep import collect
from gpubuild.errors import ConfigError, InterruptedBuildError, UsageError
from gpubuild.events import Silent
from gpubuild.graph.layout import Layout
from gpubuild.model.job import Job, JobResult
from gpubuild.model.result import BuildReport, Status
from gpubuild.options import BuildOptions
from gpubuild.proof import load_witnessed

STEPS = int(os.environ.get("GPUBUILD_TEST_EDITS", "30"))
SEED = int(os.environ.get("GPUBUILD_TEST_SEED", "1"))
DAY_NS = 86_400 * 10**9
_CLAIM = re.compile(r"(?:header |file )?([\w/]+\.(?:c|h|mlir|bin)) (?:changed|is gone)(?:;|$)")
_GONE_WRONG = (Status.FAILED, Status.SKIPPED)
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
        request = receipt.request_of(str(self.root / "targets.yaml"), str(self.root / "build"), (), ())
        found = receipt.read(receipt.path_for(request))
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


def warnings(report: BuildReport) -> list[str]:
    return sorted({warning for step in report.steps for warning in step.warnings})


def check(world: World) -> None:
    """Build, and compare with a clean build beside it."""
    try:
        wanted, right = world.clean()
    except (ConfigError, UsageError) as error:
        with pytest.raises(type(error)):
            world.build()
        return
    proven = world.proven()
    before = tree(world.root / "build") if proven else {}
    report = world.build()
    made = tree(world.root / "build")
    assert report.ok == wanted.ok, [step.reason for step in (*report.failed, *wanted.failed)]
    states = {step.id: step.status for step in report.steps}
    assert {i for i, s in states.items() if s in _GONE_WRONG} == {
        step.id for step in wanted.steps if step.status in _GONE_WRONG
    }
    for name, data in right.items():
        assert made.get(name) == data, name
    if report.ok:
        assert warnings(report) == warnings(wanted)
        assert {n for n in made.keys() - right.keys() if not n.startswith(".gpubuild/")} <= world.meddled
        again = world.build().steps
        assert not {s.id: s.reason for s in again if s.status is not Status.UP_TO_DATE}
    else:
        for program in world.model.config["programs"]:  # nobody can run what the sources are not
            assert made.get(f"{program}/{program}") == right.get(f"{program}/{program}")
    if proven:
        assert wanted.ok
        assert before == made
        assert set(states.values()) == {Status.UP_TO_DATE}
    for step in report.steps:
        assert step.status is Status.UP_TO_DATE or step.reason not in ("", "unchanged"), step
        if world.exact and (claim := _CLAIM.match(step.reason)):
            assert world.seen[step.id].get(claim[1]) != world.model.files.get(claim[1]), step.reason
        world.seen[step.id] = dict(world.model.files)
    world.exact = True


def disturb(world: World) -> str:
    """Do something that a later build must not mind; what it was."""
    do = world.choose.choice(_DISTURBANCES)
    do(world)
    return do.__name__


def _some_file(world: World, folder: Path) -> Path | None:
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "lock"]
    return world.choose.choice(found) if found else None


def _spoil(world: World, path: Path | None) -> None:
    """Flip a bit or cut the file."""
    if path is not None and (data := bytearray(path.read_bytes())):
        at = world.choose.randrange(len(data))
        data[at] ^= 1 << world.choose.randrange(8)
        path.chmod(0o644)
        path.write_bytes(data if world.choose.random() < 0.6 else data[:at])


def touched(world: World) -> None:
    for name in world.model.files:
        if world.choose.random() < 0.5:
            os.utime(world.root / name)


def spoilt_cache(world: World) -> None:
    _spoil(world, _some_file(world, world.cache))


def spoilt_state(world: World) -> None:
    """State, receipts, memo."""
    world.exact = False
    folder = world.root / "build/.gpubuild"
    found = [*folder.glob("receipts/*"), *folder.glob("state.json")]
    _spoil(world, world.choose.choice(found) if found else None)
    _nobody_knows_the_outputs(world)


def _nobody_knows_the_outputs(world: World) -> None:
    """What no later build can know to be its own stays where it is when no step makes it any more."""
    world.meddled.update(tree(world.root / "build"))


def no_cache_any_more(world: World) -> None:
    shutil.rmtree(world.cache, ignore_errors=True)


def collected(world: World) -> None:
    store = DiskStore(world.cache)
    collect(store, max_size_bytes=world.choose.choice((0, 2000, 5000)))
    store.close()


def no_outputs_any_more(world: World) -> None:
    world.exact = False
    shutil.rmtree(world.root / "build", ignore_errors=True)


def output_deleted(world: World) -> None:
    if path := _some_file(world, world.root / "build"):
        path.unlink()


def output_edited(world: World) -> None:
    """With its size and modification time kept, perhaps, or exchanged with another."""
    one, other = (_some_file(world, world.root / "build") for _ in range(2))
    if one is None or other is None or ".gpubuild" in {one.parent.name, other.parent.name}:
        return
    world.meddled.update(str(path.relative_to(world.root / "build")) for path in (one, other))
    way = world.choose.random()
    stat = one.stat()
    if way < 0.3:
        one.chmod(0o600)
    elif way < 0.6:
        data, others = one.read_bytes(), other.read_bytes()
        one.write_bytes(others)
        other.write_bytes(data)
    else:
        one.write_bytes(bytes(byte ^ 1 for byte in one.read_bytes()))
        os.utime(one, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def at_job(number: int, do: Callable[[], object]) -> Callable[[Job], JobResult]:
    """An engine that does something else before one of its jobs."""
    left = [number]

    def engine(job: Job) -> JobResult:
        left[0] -= 1
        if left[0] == 0:
            do()
        return small_engine.run(job)

    return engine


def killed(world: World) -> None:
    world.exact = False
    engine = at_job(world.choose.randint(1, 9), lambda: os._exit(9))
    assert exit_status(in_child(lambda: quietly(world, engine=engine))) in (0, 9)
    _nobody_knows_the_outputs(world)


def interrupted(world: World) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    world.exact = False
    quietly(world, engine=at_job(world.choose.randint(1, 9), stop))


def edited_meanwhile(world: World) -> None:
    def change() -> None:
        edit(world.model, world.choose, world.history)
        world.write()

    world.exact = False
    quietly(world, engine=at_job(world.choose.randint(1, 6), change))


def quietly(world: World, **options: object) -> None:
    """Build something, whatever comes of it."""
    world.exact = False
    with suppress(ConfigError, UsageError, InterruptedBuildError, FileNotFoundError):
        world.build(**options)  # type: ignore[arg-type]


def some_programs(world: World) -> None:
    quietly(world, programs=(world.choose.choice(list(world.model.config["programs"])),))


def some_targets(world: World) -> None:
    quietly(world, targets=(world.choose.choice(list(world.model.config["targets"])),))


def dry(world: World) -> None:
    quietly(world, dry_run=True)


def without_cache(world: World) -> None:
    quietly(world, store=MemoryStore())


def stopping_at_the_first_failure(world: World) -> None:
    quietly(world, keep_going=False)


def clock_off(world: World) -> None:
    now, days = time.time_ns, world.choose.choice((-1, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: now() + days * DAY_NS)
        quietly(world)


def copied(world: World) -> None:
    """Every file is a new one, with its old times."""
    place = world.root.with_name("moved")
    shutil.copytree(world.root, place, symlinks=True)
    shutil.rmtree(world.root)
    place.rename(world.root)


def beside_another(world: World) -> None:
    """A checkout elsewhere is built with the same cache at the same time."""
    other = copy.deepcopy(world)
    other.model.root = world.root.with_name("other")
    write(other.model, other.choose, keep=set())
    shutil.rmtree(other.tools, ignore_errors=True)
    other.write()
    pid = in_child(lambda: quietly(other))
    quietly(world)
    assert exit_status(pid) == 0


_DISTURBANCES = (
    touched, spoilt_cache, spoilt_cache, spoilt_state, spoilt_state, no_cache_any_more, collected,
    no_outputs_any_more, output_deleted, output_deleted, output_edited, output_edited, killed, killed,
    interrupted, edited_meanwhile, edited_meanwhile, some_programs, some_targets, dry, without_cache,
    stopping_at_the_first_failure, clock_off, copied, beside_another,
)  # fmt: skip


@pytest.fixture
def small_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], World]]:
    """Two files of the runtime instead of fifty, and no waiting for disks."""
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    (runtime / "mgpu.c").write_text("mgpu.c")
    monkeypatch.setattr("gpubuild.build.RUNTIME_DIR", runtime)
    monkeypatch.setattr(os, "fsync", lambda handle: None)

    def make(seed: int) -> World:
        model = Model.first(tmp_path / f"{seed}" / "project")
        model.root.mkdir(parents=True)
        world = World(model, tmp_path / f"{seed}" / "cache", random.Random(seed))
        world.write()
        return world

    yield make


@pytest.mark.parametrize("seed", [SEED, SEED + 1])
def test_random_edits(
    small_world: Callable[[int], World], seed: int, monkeypatch: pytest.MonkeyPatch, counted: Counted
) -> None:
    # Of two seeds, one has times that prove something a moment after a change, as hours later.
    pause = 0.03 * (seed % 2)
    if pause:
        monkeypatch.setattr(receipt, "RACY_NS", int(pause * 1e9 / 2))
    world = small_world(seed)
    done: list[str] = []
    for step in range(STEPS):
        done = []
        try:
            if step:
                done += [
                    edit(world.model, world.choose, world.history) for _ in range(world.choose.randint(0, 2))
                ]
                world.write()
                done += [disturb(world) for _ in range(world.choose.choice((0, 0, 1, 2)))]
            time.sleep(pause)
            check(world)
        except BaseException as error:
            error.add_note(f"GPUBUILD_TEST_SEED={seed}, edit {step}: {', '.join(done)}; {world.root}")
            raise
        world.history = [*world.history[-5:], copy.deepcopy(world.model)]
    counted("builds after random edits compared with clean ones", STEPS, at_least=STEPS)
