"""Build tools to compare with: the graph of a generated project, written for each of them.

Every node is one file that `cp` makes of the node's first input; the other inputs are dependencies
only. So all of a peer's time is the build tool's own, but for the processes it starts.
"""

from __future__ import annotations

import json
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from timing import ROOT, put_aside, timed

REQUIREMENTS = ROOT / "bench/requirements.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One step: the file it makes and the files it reads, the first of which it copies."""

    output: str
    inputs: tuple[str, ...]
    target: int = -1  # a compile step's target, whose options may change


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The size of a generated project."""

    files: int
    modules: int
    targets: int

    def __str__(self) -> str:
        return f"{self.files} files x {self.modules} modules x {self.targets} targets"

    def nodes(self) -> list[Node]:
        """The steps of the project that `generate.py` writes, with the edges that gpubuild's plan has."""
        nodes = []
        hosts = []
        for f in range(self.files):
            nodes.append(Node(output=f"outline.{f}", inputs=(source_name(f),)))
            bundles = []
            for m in range(self.modules):
                objects = [f"compile.{f}.{m}.{t}" for t in range(self.targets)]
                for t, name in enumerate(objects):
                    nodes.append(Node(output=name, inputs=(f"outline.{f}",), target=t))
                bundles.append(f"bundle.{f}.{m}")
                nodes.append(Node(output=bundles[-1], inputs=tuple(objects)))
            hosts.append(f"host.{f}")
            nodes.append(Node(output=hosts[-1], inputs=(f"outline.{f}", *bundles)))
        nodes.append(Node(output="preprocess", inputs=("main.c",)))
        nodes.append(Node(output="cc", inputs=("preprocess",)))
        nodes.append(Node(output="runtime", inputs=("runtime.c",)))
        nodes.append(Node(output="link", inputs=(*hosts, "cc", "runtime")))
        return nodes

    def edges(self) -> int:
        """How many pairs of nodes there are of which one reads the other's output."""
        nodes = self.nodes()
        made = {node.output for node in nodes}
        return sum(len(made.intersection(node.inputs)) for node in nodes)


def source_name(file: int) -> str:
    """A source, named as the generator does."""
    return f"file{file}.mlir"


class Peer:
    """One build tool and its project folder."""

    def __init__(self, name: str, tools: Path, folder: Path, shape: Shape) -> None:
        self.name = name
        self._bin = tools / "bin"
        self._folder = folder
        self._shape = shape
        self._nodes = shape.nodes()
        self._texts = {source_name(f): f"source {f}\n" for f in range(shape.files)}
        self._texts |= {"main.c": "source\n", "runtime.c": "source\n"}
        self.checkout()
        self.describe(changed_target=-1)

    @property
    def cache(self) -> Path:
        """The cache of a tool that has one."""
        return self._folder.with_name(f"{self._folder.name}.cache")

    @property
    def version(self) -> str:
        """As the tool says."""
        package = "SCons" if self.name == "SCons" else self.name
        code = f"import importlib.metadata as m; print(m.version({package!r}))"
        return timed([self._bin / "python", "-c", code], self._folder)[1].strip()

    def checkout(self) -> None:
        """A folder with sources only; what a cache outside it has stays."""
        put_aside(self._folder)
        self._folder.mkdir(parents=True)
        for name, text in self._texts.items():
            (self._folder / name).write_text(text)

    def describe(self, changed_target: int) -> None:
        """Write the build description, with another command for one target's nodes."""
        writer = {"ninja": ninja_text, "doit": doit_text, "SCons": scons_text}[self.name]
        file, text = writer(self._nodes, changed_target, str(self.cache))
        (self._folder / file).write_text(text)

    def source(self, file: int) -> Path:
        """One of the sources."""
        return self._folder / source_name(file)

    def run(self, jobs: int = 1) -> tuple[float, str]:
        """Seconds of one build, and how many nodes it made, as the files say."""
        before = self._stats()
        seconds, _ = timed(self._command(jobs), self._folder)
        after = self._stats()
        ran = sum(a != b for a, b in zip(after, before, strict=True))
        return seconds, f"{ran} ran" if ran else "-"

    def _command(self, jobs: int) -> Sequence[str | Path]:
        if self.name == "ninja":
            return [self._bin / "ninja", "--quiet", f"-j{jobs}"]
        if self.name == "doit":
            return [self._bin / "doit", "--verbosity=0", *(["-n", str(jobs)] if jobs > 1 else [])]
        return [self._bin / "scons", "-Q", "-s", f"-j{jobs}"]

    def _stats(self) -> list[tuple[int, int]]:
        found = []
        for node in self._nodes:
            try:
                stat = (self._folder / node.output).stat()
                found.append((stat.st_ino, stat.st_mtime_ns))
            except OSError:
                found.append((0, 0))
        return found


def ninja_text(nodes: Sequence[Node], changed_target: int, cache: str) -> tuple[str, str]:
    """build.ninja; ninja has no cache."""
    lines = ["options = -T", "rule copy", "  command = cp $options $source $out"]
    for node in nodes:
        lines += [f"build {node.output}: copy {' '.join(node.inputs)}", f"  source = {node.inputs[0]}"]
        lines += ["  options = -f"] if 0 <= node.target == changed_target else []
    return "build.ninja", "\n".join(lines) + "\n"


def node_list(nodes: Sequence[Node], changed_target: int) -> str:
    """Python text: output, inputs, option of every node."""
    return repr([(n.output, n.inputs, "-f" if 0 <= n.target == changed_target else "-T") for n in nodes])


def doit_text(nodes: Sequence[Node], changed_target: int, cache: str) -> tuple[str, str]:
    """dodo.py; doit has no cache, and sees a changed command only where a task asks it to."""
    return "dodo.py", (
        f"NODES = {node_list(nodes, changed_target)}\n"
        "from doit.tools import config_changed\n"
        "def task_copy():\n"
        "    for output, inputs, option in NODES:\n"
        "        yield {'name': output, 'file_dep': list(inputs), 'targets': [output],\n"
        "               'uptodate': [config_changed(option)],\n"
        "               'actions': [['cp', option, inputs[0], output]]}\n"
    )


def scons_text(nodes: Sequence[Node], changed_target: int, cache: str) -> tuple[str, str]:
    """SConstruct, with SCons's cache beside the folder."""
    return "SConstruct", (
        f"NODES = {node_list(nodes, changed_target)}\n"
        "env = Environment(tools=[])\n"
        f"CacheDir({cache!r})\n"
        "for output, inputs, option in NODES:\n"
        "    env.Command(output, list(inputs), [['cp', option, '$SOURCE', '$TARGET']])\n"
    )


def install(folder: Path) -> Path:
    """The environment with the peers, made when it is not there."""
    if not (folder / "bin/ninja").exists():
        print(f"installing {REQUIREMENTS.name} into {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True)
        timed([folder / "bin/python", "-m", "pip", "install", "-q", "-r", REQUIREMENTS], ROOT)
    return folder


class Ccache:
    """A C file in ccache: what a hit costs there, process and all."""

    def __init__(self, program: str, compiler: str, folder: Path) -> None:
        self._command = [program, compiler, "-O2", "-c", "small.c", "-o", "small.o"]
        self._folder = folder
        self._environment = {"CCACHE_DIR": str(folder / "cache")}
        folder.mkdir(parents=True)
        (folder / "small.c").write_text("int twice(int x) { return 2 * x; }\n")
        timed(self._command, folder, self._environment)

    def hit(self) -> float:
        """Seconds of one compile that is in the cache."""
        return timed(self._command, self._folder, self._environment)[0]

    def miss(self) -> float:
        """Seconds of the same compile without ccache."""
        return timed(self._command[1:], self._folder)[0]

    def hits(self) -> int:
        """How many hits ccache counted."""
        command = [self._command[0], "--print-stats"]
        text = timed(command, self._folder, self._environment)[1]
        counts = dict(line.split("\t")[:2] for line in text.splitlines() if "\t" in line)
        return int(counts.get("direct_cache_hit", 0)) + int(counts.get("preprocessed_cache_hit", 0))


def planned(shape: Shape) -> dict[str, float]:
    """What `planning.py` measures for a project of this shape."""
    command = [sys.executable, ROOT / "bench/planning.py", "--files", str(shape.files)]
    command += ["--modules", str(shape.modules), "--targets", str(shape.targets)]
    found: dict[str, float] = json.loads(timed(command, ROOT)[1])
    return found
