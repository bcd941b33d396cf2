"""A right targets.yaml becomes the Project it describes."""

from dataclasses import replace
from pathlib import Path

import pytest

from gpubuild.config.load import load_project, loads
from gpubuild.errors import ConfigError
from gpubuild.model.project import (
    CacheConfig,
    CompilerOptions,
    ModuleOverride,
    Offload,
    Passes,
    RemoteCache,
    RemoteMode,
)
from gpubuild.targets.registry import kinds
from gpubuild.targets.target import Target

FULL = """\
version: 1
cache: {dir: kept, max_size: 1.5 GiB, remote: {url: "http://cache.example:8080/", mode: read-only}}
defaults: {opt_level: 2, fast_math: true}
targets:
  sm_60:
  sm_90:  {features: "+ptx80", opt_level: 3, fast_math: false, debug: true}
  mi210:  {chip: gfx90a, features: [+sramecc, -xnack], device_libs: [lib/amd.bc], passes: "any"}
  cpu:    {chip: x86-64-v3}
programs:
  saxpy:
    sources: [src/saxpy.mlir, src/main.c]
    targets: [cpu, sm_60]
    offload: select_object
    select: sm_60
    modules: {reduce: {targets: [sm_60, cpu], opt_level: 0, device_libs: [lib/my.ll]}, scan: }
    device_libs: {nvvm: [lib/my.ll]}
    passes: {source: "a", nvvm: "b", rocdl: "c", cpu: "d", host: "e"}
    link: {libraries: [m], flags: ["-Wl,-z,now"]}
  all:
    sources: [src/saxpy.mlir]
    device_libs: [lib/my.ll]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("src/saxpy.mlir", "src/main.c", "lib/my.ll", "lib/amd.bc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def minimal(targets: str) -> str:
    return f"version: 1\ntargets: {targets}\nprograms: {{p: {{sources: [src/saxpy.mlir]}}}}\n"


def test_every_key(root: Path) -> None:
    (root / "targets.yaml").write_text(FULL)
    project = load_project(root / "targets.yaml")
    assert (project.root, project.file) == (root, root / "targets.yaml")
    assert (project.opt_level, project.debug) == (2, False)
    assert project.cache == CacheConfig(
        directory=root / "kept",
        max_size_bytes=3 << 29,
        remote=RemoteCache(url="http://cache.example:8080", mode=RemoteMode.READ_ONLY),
    )
    assert list(project.targets) == ["sm_60", "sm_90", "mi210", "cpu"]
    assert [target.name for target in project.targets.values()] == list(project.targets)
    assert project.targets["mi210"].device_libs == (root / "lib/amd.bc",)
    sm_60 = Target(
        name="sm_60",
        kind="nvvm",
        chip="sm_60",
        triple="nvptx64-nvidia-cuda",
        opt_level=2,
        fast_math=True,
        flags=("ftz",),
    )
    assert project.targets["sm_60"] == sm_60
    assert project.targets["sm_90"] == replace(
        sm_60,
        name="sm_90",
        chip="sm_90",
        features="+ptx80",
        opt_level=3,
        fast_math=False,
        flags=(),
        debug=True,
    )
    assert project.targets["mi210"] == Target(
        name="mi210",
        kind="rocdl",
        chip="gfx90a",
        triple="amdgcn-amd-amdhsa",
        features="+sramecc,-xnack",
        opt_level=2,
        fast_math=True,
        passes="any",
    )
    saxpy = project.programs["saxpy"]
    assert saxpy.sources == (root / "src/saxpy.mlir", root / "src/main.c")
    assert saxpy.targets == ("cpu", "sm_60")
    assert (saxpy.offload, saxpy.select) == (Offload.SELECT_OBJECT, "sm_60")
    assert saxpy.modules == {
        "reduce": ModuleOverride(targets=("sm_60", "cpu"), opt_level=0, device_libs=(root / "lib/my.ll",)),
        "scan": ModuleOverride(),
    }
    assert saxpy.device_libs == {"nvvm": (root / "lib/my.ll",)}
    assert saxpy.passes == Passes(source="a", host="e", kinds={"nvvm": "b", "rocdl": "c", "cpu": "d"})
    assert (saxpy.link_libraries, saxpy.link_flags) == (("m",), ("-Wl,-z,now",))
    everything = project.programs["all"]
    assert everything.targets == tuple(project.targets)
    assert everything.device_libs == dict.fromkeys(kinds(), (root / "lib/my.ll",))
    assert (everything.offload, everything.select) == (Offload.DISPATCH, None)


def test_defaults(root: Path) -> None:
    project = loads(minimal("{sm_90: {}}"), root / "targets.yaml")
    assert project.cache == CacheConfig(directory=None)
    target = project.targets["sm_90"]
    assert (target.opt_level, target.fast_math, target.debug) == (3, False, False)
    assert (project.opt_level, project.debug) == (3, False)


@pytest.mark.parametrize(
    ("entry", "machine", "kind", "chip", "triple"),
    [
        ("cpu:", "x86_64", "cpu", "x86-64-v2", "x86_64-unknown-linux-gnu"),
        ("cpu:", "aarch64", "cpu", "generic", "aarch64-unknown-linux-gnu"),
        ("cpu: {chip: native}", "x86_64", "cpu", "native", "x86_64-unknown-linux-gnu"),
        ("here: {chip: native}", "aarch64", "cpu", "native", "aarch64-unknown-linux-gnu"),
        ("x86-64-v4:", "x86_64", "cpu", "x86-64-v4", "x86_64-unknown-linux-gnu"),
        ("cpu: {chip: x86-64-v3}", "aarch64", "cpu", "x86-64-v3", "x86_64-unknown-linux-gnu"),
        ("zen: {kind: cpu, chip: znver4}", "x86_64", "cpu", "znver4", "x86_64-unknown-linux-gnu"),
        ("plain: {kind: cpu}", "x86_64", "cpu", "x86-64-v2", "x86_64-unknown-linux-gnu"),
        ("hopper: {chip: sm_90a}", "x86_64", "nvvm", "sm_90a", "nvptx64-nvidia-cuda"),
        ("sm_120f:", "x86_64", "nvvm", "sm_120f", "nvptx64-nvidia-cuda"),
        (
            "arm: {kind: cpu, chip: neoverse-n1, features: +sve}",
            "aarch64",
            "cpu",
            "neoverse-n1",
            "aarch64-unknown-linux-gnu",
        ),
        ("gfx9-4-generic:", "x86_64", "rocdl", "gfx9-4-generic", "amdgcn-amd-amdhsa"),
        ("mine: {kind: rocdl}", "x86_64", "rocdl", None, None),
        ("gfx942: {triple: amdgcn-amd-amdpal}", "x86_64", "rocdl", "gfx942", "amdgcn-amd-amdpal"),
    ],
)
def test_kind_chip_and_triple_follow(
    root: Path, entry: str, machine: str, kind: str, chip: str | None, triple: str | None
) -> None:
    text = f"version: 1\ntargets:\n  {entry}\nprograms: {{p: {{sources: [src/saxpy.mlir]}}}}\n"
    if chip is None:
        with pytest.raises(Exception, match="needs a chip"):
            loads(text, root / "targets.yaml", machine=machine)
        return
    (target,) = loads(text, root / "targets.yaml", machine=machine).targets.values()
    assert (target.kind, target.chip, target.triple) == (kind, chip, triple)


def test_words_mean_what_yaml_1_2_says(root: Path) -> None:
    """YAML 1.1 would read the names as true and false, and the flag as a sixty-based number."""
    text = """\
version: 1
targets: {on: {kind: cpu}, no: {kind: cpu}}
programs: {yes: {sources: [src/saxpy.mlir], link: {flags: [1:30]}}}
"""
    project = loads(text, root / "targets.yaml")
    assert list(project.targets) == ["on", "no"]
    assert project.programs["yes"].link_flags == ("1:30",)


def test_anchors_and_merge_keys(root: Path) -> None:
    text = """\
version: 1
targets: {sm_60: &nvidia {opt_level: 1, debug: true}, sm_90: {<<: *nvidia, opt_level: 2}, cpu: }
programs:
  a: {sources: &sources [src/saxpy.mlir]}
  b: {sources: *sources}
"""
    project = loads(text, root / "targets.yaml")
    assert (project.targets["sm_90"].opt_level, project.targets["sm_90"].debug) == (2, True)
    assert project.programs["b"].sources == project.programs["a"].sources


def test_sources_outside_the_project_and_a_byte_order_mark(root: Path) -> None:
    (root / "sub").mkdir()
    (root / "sub" / "targets.yaml").write_bytes(
        b"\xef\xbb\xbf" + minimal("{cpu: }").replace("src/", "../src/").encode()
    )
    project = load_project(root / "sub" / "targets.yaml")
    assert project.programs["p"].sources == (root / "src/saxpy.mlir",)
    assert project.root == root / "sub"


def test_a_cache_below_the_home_folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = minimal("{cpu: }") + "cache: {dir: ~/kept/x}\n"
    monkeypatch.setenv("HOME", "/home/me")
    assert loads(text, root / "targets.yaml").cache.directory == Path("/home/me/kept/x")
    monkeypatch.delenv("HOME")
    with pytest.raises(ConfigError, match="4:14.*HOME is not set"):
        loads(text, root / "targets.yaml")


HOST = """\
version: 1
targets: {cpu: }
host: {include: [inc], define: {A: , B: 0x1F, C: "x y"}, std: [c11, c++17], flags: [-Wall]}
programs:
  one:
    sources: [src/main.c]
    host:
      include: [lib, ../out, ABOVE/out, ROOT/src, inc]
      define: {B: '"text"', D: ""}
      std: gnu17
      flags: {c: [-O1], c++: [-fno-rtti]}
  two: {sources: [src/main.c]}
"""


def test_a_programs_host_options_go_before_its_projects(root: Path) -> None:
    (root / "inc").mkdir()
    (root.parent / "out").mkdir(exist_ok=True)
    text = HOST.replace("ABOVE", str(root.parent)).replace("ROOT", str(root))
    programs = loads(text, root / "targets.yaml").programs
    include = ("lib", "../out", str(root.parent / "out"), "src", "inc")
    define = ("A", 'B="text"', "C=x y", "D=")
    assert programs["one"].host.of(cxx=False) == CompilerOptions(
        std="gnu17", include=include, define=define, flags=("-Wall", "-O1")
    )
    assert programs["one"].host.of(cxx=True) == CompilerOptions(
        std="c++17", include=include, define=define, flags=("-Wall", "-fno-rtti")
    )
    assert programs["two"].host.of(cxx=False) == CompilerOptions(
        std="c11", include=("inc",), define=("A", "B=0x1F", "C=x y"), flags=("-Wall",)
    )
