"""Time incremental builds of generated projects, beside ninja, doit, SCons and ccache in one run.

Usage: python bench/incremental.py [--rounds 5] [--quick] [--peers DIR] [--output FILE]

Every figure is the wall time of a whole process, start to end: median and range. gpubuild compiles
real kernels; the peers build the same graph, node for node and edge for edge, with `cp` in place of
every action, so what they show is what a build tool itself costs. Contenders take turns within each
round, so that a busy moment of the machine does not favour one, and nothing is deleted before the end
(see timing.put_aside). Absolute times depend on the
machine; ratios travel better.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from generate import expected_output, generate
from peers import Ccache, Peer, Shape, install, planned, source_name
from report import Goal, results_text, scenario_table
from server import nginx, nginx_program
from timing import ROOT, Samples, bare_python, gpubuild_command, put_aside, timed

SHAPES = (Shape(files=83, modules=2, targets=4), Shape(files=16, modules=2, targets=4))
PEERS = ("ninja", "doit", "SCons")
PLANNED = (Shape(files=83, modules=2, targets=4), Shape(files=833, modules=2, targets=4))
NULLS = 5  # null builds a round
CHANGED = ("sm_90", 1)  # the target whose options change, and its number
# The options that rounds set, each different from all before, so that nothing is in the cache.
OPTIONS = [(level, fast) for fast in ("false", "true") for level in (3, 2, 1, 0)][1:]
SETTLE_SECONDS = 2.2  # files older than this are known by their stat data alone

Found = dict[str, dict[str, Samples]]  # scenario, contender


class Product:
    """gpubuild in a generated project."""

    def __init__(self, scratch: Path, shape: Shape) -> None:
        self.shape = shape
        self.scratch = scratch
        self.cache = scratch / "cache"
        self.folder = scratch / "project"
        self._checkouts = 0
        self.fresh(self.folder)

    def fresh(self, folder: Path, remote: str = "") -> None:
        """The project as generated, with a remote cache if ``remote`` has its URL."""
        put_aside(folder)
        generate(folder, files=self.shape.files, modules=self.shape.modules, targets=self.shape.targets)
        if remote:
            with (folder / "targets.yaml").open("a") as stream:
                stream.write(f'cache: {{remote: {{url: "{remote}", mode: read-write}}}}\n')

    def checkout(self) -> Path:
        """Another folder with the sources as they are now."""
        self._checkouts += 1
        folder = self.scratch / f"checkout{self._checkouts}"
        shutil.copytree(self.folder, folder, ignore=shutil.ignore_patterns("build"))
        return folder

    def run(self, folder: Path | None = None, cache: Path | None = None) -> tuple[float, str]:
        """Seconds of one build, and what it says its steps did."""
        command = [*gpubuild_command(), "build", "--cache-dir", str(cache or self.cache)]
        seconds, output = timed(command, folder or self.folder)
        return seconds, closing(output)

    def program(self, folder: Path | None = None) -> Path:
        """What is built."""
        return (folder or self.folder) / "build/app/app"

    def source(self) -> Path:
        """The source that edits are made in."""
        return self.folder / source_name(0)

    def edit_kernel(self, number: int) -> None:
        """Add another constant in the first kernel of the first source."""
        text, count = re.subn(
            r"(%c = arith.constant) \S+", rf"\1 {1000 + number}.5", self.source().read_text(), count=1
        )
        assert count == 1
        self.source().write_text(text)

    def change_option(self, number: int) -> None:
        """Compile for one target in another way."""
        path = self.folder / "targets.yaml"
        level, fast = OPTIONS[number % len(OPTIONS)]
        line = f"  {CHANGED[0]}: {{opt_level: {level}, fast_math: {fast}}}"
        text, count = re.subn(rf"^  {CHANGED[0]}: .*$", line, path.read_text(), flags=re.MULTILINE)
        assert count == 1
        path.write_text(text)

    def verify(self, folder: Path, expected: str) -> None:
        """Run the program. Ends the benchmark if it prints anything else."""
        _, printed = timed([self.program(folder)], folder, {"GPUBUILD_DEVICE": "cpu"})
        if printed != expected:
            sys.exit(f"{self.program(folder)} printed {printed!r}, expected {expected!r}")


def closing(output: str) -> str:
    """`5 ran, 191 up to date` of the line that ends a build."""
    match = re.search(r"^\d+ steps?: (.*) in \d", output, re.MULTILINE)
    return match[1] if match else "?"


class Race:
    """Contenders that take turns, and their times by scenario."""

    def __init__(self, product: Product, peers: list[Peer], jobs: int) -> None:
        self.product = product
        self.peers = peers
        self.jobs = jobs
        self.found: Found = {}

    def note(self, scenario: str, contender: str, result: tuple[float, str]) -> None:
        self.found.setdefault(scenario, {}).setdefault(contender, Samples()).add(*result)

    def start_from(self, cache: Path) -> None:
        """Instead of :meth:`cold`: build with a cache from an earlier run; nothing is timed."""
        shutil.copytree(cache, self.product.cache)
        self.product.run()
        for peer in self.peers:
            peer.run(self.jobs)

    def each(
        self, scenario: str, ours: Callable[[], object] | None, theirs: Callable[[Peer], object] | None
    ) -> None:
        """Change something everywhere, then time one build of each contender."""
        if ours:
            ours()
        self.note(scenario, "gpubuild", self.product.run())
        for peer in self.peers:
            if theirs:
                theirs(peer)
            self.note(scenario, peer.name, peer.run())

    def cold(self) -> None:
        """Everything from nothing, with empty caches."""
        product = self.product
        put_aside(product.cache)
        product.fresh(product.folder)
        self.note("cold", "gpubuild", product.run())
        product.verify(product.folder, expected_output(product.shape.files, product.shape.modules))
        for peer in self.peers:
            put_aside(peer.cache)
            peer.checkout()
            peer.describe(-1)
            self.note("cold", peer.name, peer.run(self.jobs))

    def null(self) -> None:
        """Nothing to do, long after the last build."""
        time.sleep(SETTLE_SECONDS)
        self.product.run()
        for _ in range(NULLS):
            self.note("null", "python -c ''", (bare_python(), ""))
            self.each("null", None, None)

    def round(self, number: int) -> None:
        """All changes, one after the other."""
        product = self.product
        self.null()
        self.each("touch", lambda: product.source().touch(), lambda p: p.source(0).touch())
        self.each(
            "comment edit",
            lambda: append(product.source(), f"// comment {number}\n"),
            lambda p: append(p.source(0), f"comment {number}\n"),
        )
        self.each(
            "one-kernel edit",
            lambda: product.edit_kernel(number),
            lambda p: append(p.source(0), f"kernel {number}\n"),
        )
        self.each("null right after a build", None, None)
        self.each(
            "one target's options",
            lambda: product.change_option(number),
            lambda p: p.describe(CHANGED[1]),  # a checkout has set it back
        )
        self.warm_checkout()

    def warm_checkout(self) -> None:
        """A clean checkout elsewhere with a warm local cache; then the bytes must be the same."""
        product = self.product
        folder = product.checkout()
        self.note("clean checkout, warm cache", "gpubuild", product.run(folder))
        if product.program(folder).read_bytes() != product.program().read_bytes():
            sys.exit("an incremental build and a clean checkout differ")
        self.note("copy the same files", "gpubuild", copy_outputs(folder / "build", folder / "copy"))
        for peer in self.peers:
            peer.checkout()
            peer.describe(-1)
            self.note("clean checkout, warm cache", peer.name, peer.run(self.jobs))

    def remote(self, rounds: int) -> None:
        """A clean checkout with an empty local cache and a remote one that has everything."""
        product = self.product
        folder, cache = product.scratch / "remote", product.scratch / "remote-cache"
        with nginx(product.scratch / "nginx") as url:
            for number in range(rounds + 1):
                put_aside(cache)
                product.fresh(folder, remote=url)
                name = "clean checkout, warm remote cache" if number else "cold, filling a remote cache"
                self.note(name, "gpubuild", product.run(folder, cache))
                product.verify(folder, expected_output(product.shape.files, product.shape.modules))


def append(path: Path, text: str) -> None:
    with path.open("a") as stream:
        stream.write(text)


def copy_outputs(build: Path, copy: Path) -> tuple[float, str]:
    """Seconds to copy all outputs of a build with Python, one file after the other."""
    files = [p for p in build.rglob("*") if p.is_file() and p.name not in ("state.json", "tools.json")]
    copy.mkdir()
    start = time.perf_counter()
    for number, path in enumerate(files):
        shutil.copyfile(path, copy / str(number))
    seconds = time.perf_counter() - start
    size = sum(path.stat().st_size for path in files)
    return seconds, f"{len(files)} files, {size / 1e6:.1f} MB"


def race(shape: Shape, tools: Path, jobs: int, scratch: Path) -> Race:
    """Contenders for one shape, in a folder that outlives the race (see `put_aside`)."""
    scratch.mkdir()
    peers = [Peer(peer, tools, scratch / peer, shape) for peer in PEERS]
    return Race(Product(scratch, shape), peers, jobs)


def time_ccache(rounds: int) -> dict[str, Samples]:
    """ccache's hit beside the compile it saves; empty where there is no ccache."""
    program, compiler = shutil.which("ccache"), shutil.which("gcc")
    if not program or not compiler:
        return {}
    found = {"ccache hit, small C file": Samples(), "gcc -c of it": Samples()}
    with tempfile.TemporaryDirectory() as scratch:
        ccache = Ccache(program, compiler, Path(scratch) / "ccache")
        for _ in range(rounds):
            found["ccache hit, small C file"].add(ccache.hit())
            found["gcc -c of it"].add(ccache.miss())
        if ccache.hits() < rounds:
            sys.exit("ccache did not hit")
    return found


def hits_of(samples: Samples) -> int:
    """How many steps came from the cache or are the same as one that did."""
    return sum(int(n) for n in re.findall(r"(\d+) (?:from|hit|up to date)", samples.did))


def goals(found: dict[Shape, Found], plans: dict[Shape, dict[str, float]]) -> list[Goal]:
    """What the project promises, with what was measured."""
    result = []
    for shape, times in found.items():
        steps = len(shape.nodes())
        null, cold = times["null"]["gpubuild"], times.get("cold", {}).get("gpubuild")
        warm, copy = (
            times["clean checkout, warm cache"]["gpubuild"],
            times["copy the same files"]["gpubuild"],
        )
        if steps >= 1000:
            result.append(Goal(f"null build of {steps:,} steps", null.median * 1000, 50, "ms"))
        if cold is not None:
            result.append(
                Goal(
                    f"warm clean checkout / cold, {steps:,} steps",
                    100 * warm.median / cold.median,
                    5,
                    "%",
                )
            )
        result.append(
            Goal(
                f"a hit, whole process less copying, {steps:,} steps",
                1000 * (warm.median - copy.median) / (hits_of(warm) or steps),
                2,
                "ms",
            )
        )
    for plan in plans.values():
        if plan["steps"] >= 10_000:
            result.append(Goal(f"planning {plan['steps']:,} steps", plan["seconds"], 2, "s"))
            result.append(Goal("memory of that, Python and all", plan["peak_mb"], 300, "MB"))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help=f"at most {len(OPTIONS)}")
    parser.add_argument("--cold-rounds", type=int, default=2)
    parser.add_argument(
        "--seed",
        type=Path,
        metavar="CACHE",
        help="start the large project from this cache of an earlier build: no cold build, no remote cache",
    )
    parser.add_argument("--quick", action="store_true", help="the small project only, one round")
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--peers", type=Path, default=ROOT / "build/bench-venv", metavar="DIR")
    parser.add_argument("--output", type=Path, default=ROOT / "bench/results/incremental.md")
    options = parser.parse_args()
    rounds = 1 if options.quick else min(options.rounds, len(OPTIONS))
    tools = install(options.peers.absolute())
    found: dict[Shape, Found] = {}
    versions: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        for shape in SHAPES[1:] if options.quick else SHAPES:
            contest = race(shape, tools, options.jobs, Path(scratch).resolve() / str(len(shape.nodes())))
            versions = [f"{peer.name} {peer.version}" for peer in contest.peers]
            seed = options.seed.absolute() if options.seed and shape == SHAPES[0] else None
            if seed:
                contest.start_from(seed)
            else:
                for _ in range(1 if options.quick else options.cold_rounds):
                    contest.cold()
            for number in range(rounds):
                contest.round(number)
            if nginx_program() and not seed:
                contest.remote(min(rounds, options.cold_rounds))
            found[shape] = contest.found
            print(scenario_table(shape, found[shape], PEERS), file=sys.stderr, flush=True)
    plans = {shape: planned(shape) for shape in PLANNED}
    for shape, plan in plans.items():
        counted = (len(shape.nodes()), shape.edges())
        if counted != (plan["steps"], plan["edges"]):
            sys.exit(f"the peers' graph has {counted}, gpubuild's {plan['steps'], plan['edges']}")
    text = results_text(found, PEERS, versions, plans, time_ccache(20 * rounds), goals(found, plans))
    print(text)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(text)


if __name__ == "__main__":
    main()
