"""Included files, profiles and command-line options are merged, and errors name where each value is."""

from pathlib import Path

import pytest

from gpubuild.config.load import find_value, load_project
from gpubuild.errors import ConfigError, GpubuildError, UsageError
from gpubuild.model.project import Case, Project, Variant

FILE = """\
version: 1
include: [sub/common.yaml]
targets: {sm_60: , cpu: {opt_level: 1}}
programs:
  p:
    sources: [k.mlir, a.c]
    targets: [cpu]
    host: {define: {A: 1, C: 3}, sources: {a.c: {define: {A: 2}}}}
profiles:
  debug: {defaults: {opt_level: 0, debug: true}, targets: {cpu: {fast_math: true}}}
  wide: {programs: {p: {targets: [sm_60, cpu]}, r: {sources: [k.mlir]}}}
  none:
"""
COMMON = """\
include: [more.yaml]
defaults: {opt_level: 2}
targets: {cpu: {opt_level: 3, features: +avx}}
programs:
  q: {sources: [x.mlir, ../a.c], host: {include: [inc]}}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "sub/inc").mkdir(parents=True)
    for name in ("k.mlir", "a.c", "sub/x.mlir"):
        (tmp_path / name).touch()
    (tmp_path / "targets.yaml").write_text(FILE)
    (tmp_path / "sub/common.yaml").write_text(COMMON)
    (tmp_path / "sub/more.yaml").write_text("defaults: {opt_level: 1, fast_math: true}\n")
    return tmp_path


def load(root: Path, **changes: str | tuple[str, ...]) -> Project:
    return load_project(root / "targets.yaml", Variant(**changes))


def test_files_are_merged_in_order(root: Path) -> None:
    project = load(root)
    assert project.opt_level == 2  # common.yaml's over that of more.yaml
    cpu = project.targets["cpu"]
    assert (cpu.opt_level, cpu.fast_math, cpu.features) == (1, True, "+avx")
    # Paths start at the folder of the file that they are in.
    assert project.programs["q"].sources == (root / "sub/x.mlir", root / "a.c")
    assert project.programs["q"].host.include == ("sub/inc",)
    assert project.included == (root / "sub/common.yaml", root / "sub/more.yaml")


def test_a_profile(root: Path) -> None:
    project = load(root, profile="debug")
    assert (project.opt_level, project.debug, project.targets["sm_60"].opt_level) == (0, True, 0)
    assert (project.targets["cpu"].opt_level, project.targets["cpu"].fast_math) == (1, True)
    wide = load(root, profile="wide")
    assert wide.programs["p"].targets == ("sm_60", "cpu")  # a list replaces
    assert set(wide.programs) == {"p", "q", "r"}
    assert load(root, profile="none").programs == load(root).programs


def test_settings_come_last(root: Path) -> None:
    settings = ("defaults.opt_level=3", "programs.p.targets=[sm_60]", 'programs."p".offload=clang')
    project = load(root, profile="debug", settings=settings)
    assert (project.opt_level, project.debug) == (3, True)
    assert project.programs["p"].targets == ("sm_60",)
    assert project.programs["p"].offload == "clang"


def test_macros_of_the_command_line_replace_all_others(root: Path) -> None:
    p = load(root, defines=("A=7", "B", "D=", 'S="x y"')).programs["p"]
    macros = {"A=7", "B", "C=3", "D=", 'S="x y"'}
    assert set(p.host.of(cxx=False).define) == macros
    assert set(p.host_of(root / "a.c").define) == macros


def test_an_unlisted_target_is_added(root: Path) -> None:
    project = load(root, targets=("sm_80", "cpu", "nonsense", "sm_9"))
    assert list(project.targets) == ["cpu", "sm_60", "sm_80"]
    assert project.targets["sm_80"].opt_level == 2  # of `defaults:`
    assert project.programs["p"].targets == ("cpu", "sm_80")


@pytest.mark.parametrize(
    ("file", "old", "new", "changes", "expected"),
    [
        ("sub/common.yaml", "+avx", "avx", {}, "sub/common.yaml:3:41: expected features"),
        ("sub/more.yaml", "1,", "9,", {"settings": ("defaults.opt_level=8",)}, "--set:1:20: expected 0 to 3"),
        ("sub/more.yaml", "1,", "1", {}, "sub/more.yaml:1:34: not valid YAML"),
        ("sub/more.yaml", "defaults", "include: [common.yaml]\ndefaults", {},
         "sub/more.yaml:1:11: 'common.yaml' includes itself"),
        ("sub/more.yaml", "defaults", "version: 2\ndefaults", {}, "sub/more.yaml:1:10: version 2"),
        ("sub/common.yaml", "x.mlir", "z.mlir", {}, "sub/common.yaml:5:17: source 'z.mlir' does not exist"),
        ("sub/common.yaml", "more", "mare", {}, "sub/common.yaml:1:11: included file 'mare.yaml'"),
        ("targets.yaml", "true}, targets", "7}, targets", {}, "targets.yaml:10:43: expected true or false"),
        ("targets.yaml", "[k.mlir]}", "[]}", {"profile": "wide"}, "targets.yaml:11:62: the list is empty"),
        ("targets.yaml", "r: {s", "r: {version: 1, s", {}, "targets.yaml:11:53: unknown key 'version'"),
        ("targets.yaml", "", "", {"settings": ("targets.cpu.opt_level=yes",)}, "--set:1:23: expected a"),
        ("targets.yaml", "", "", {"settings": ("target.cpu=",)}, "--set:1:1: unknown key 'target'"),
        ("targets.yaml", "k.mlir, a.c", "z/*.c, a.c", {}, "targets.yaml:6:15: the pattern 'z/*.c'"),
        ("targets.yaml", "", "", {"defines": ("9=1",)}, "-D:1:1: expected a macro's name"),
    ],
)  # fmt: skip
def test_errors_name_where_the_value_is(
    root: Path, file: str, old: str, new: str, changes: dict[str, str], expected: str
) -> None:
    path = root / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        load(root, **changes)
    problem = caught.value.problems[0]
    assert problem.location is not None
    assert f"{problem.location}: {problem.message}".removeprefix(f"{root}/").startswith(expected)
    assert len(caught.value.problems) == 1


def test_a_missing_file_is_not_explained_by_the_one_that_includes_it(root: Path) -> None:
    path = root / "sub" / "common.yaml"
    path.write_text(path.read_text().replace("more.yaml", "commn.yaml", 1))
    with pytest.raises(ConfigError) as caught:
        load(root)
    assert "'common.yaml'" not in caught.value.problems[0].message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"profile": "debg"}, "(did you mean 'debug'?)"),
        ({"settings": ("defaults.debug",)}, "--set defaults.debug: expected KEY=VALUE"),
        ({"settings": ("=1",)}, "--set =1: expected KEY=VALUE"),
        ({"settings": ("targets.cpu.chip=[",)}, "--set targets.cpu.chip=[: the value is not valid YAML"),
        ({"settings": ("profiles.debug=",)}, "'profiles' can be in the project file only"),
    ],
)
def test_options_that_cannot_be_applied(root: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(root, **changes)
    assert message in caught.value.message


def test_an_include_that_many_files_share_is_read_once(root: Path) -> None:
    for number in range(40):
        (root / f"i{number}.yaml").write_text(f"include: [i{number + 1}.yaml, ./i{number + 1}.yaml]\n")
    (root / "i40.yaml").write_text("defaults: {opt_level: 0}\n")
    (root / "targets.yaml").write_text(FILE.replace("sub/common.yaml", "sub/common.yaml, i0.yaml"))
    try:
        assert load(root).opt_level == 0
    except GpubuildError as error:  # pragma: no cover - shows what is wrong
        raise AssertionError(error.render()) from error


def test_macros_in_pass_pipelines(root: Path) -> None:
    text = (
        "version: 1\nhost: {define: {TILE: 8, ON: }}\n"
        "targets: {cpu: {passes: 'a{${ON}}'}}\n"
        "programs:\n"
        "  p: {sources: [k.mlir], passes: {source: 'tile{sizes=${TILE},${TILE}}', host: '${W}'},"
        " host: {define: {W: 0x3}}}\n"
    )
    (root / "targets.yaml").write_text(text)
    project = load(root)
    assert project.targets["cpu"].passes == "a{1}"
    assert project.programs["p"].passes.source == "tile{sizes=8,8}"
    assert project.programs["p"].passes.host == "0x3"
    assert load(root, defines=("TILE=4", "W=")).programs["p"].passes.source == "tile{sizes=4,4}"
    # An error in the pipeline is shown where it is written.
    note = find_value(root / "targets.yaml", ["programs", "p", "passes", "source"], "tile{sizes=4,4}", "here")
    assert note.location.line == 5
    (root / "targets.yaml").write_text(text.replace("W:", "V:"))
    with pytest.raises(ConfigError, match=r"needs the macro 'W': define it with -D \(macros: TILE, ON, V\)"):
        load(root)


def test_constants(root: Path) -> None:
    program = "sources: [k.mlir], constants: {TILE: 8, ALPHA: 1e-3, ON: true}"
    (root / "targets.yaml").write_text(f"version: 1\ntargets: {{cpu: }}\nprograms: {{p: {{{program}}}}}\n")
    assert load(root).programs["p"].constants == ("TILE=8", "ALPHA=1e-3", "ON=true")
    changed = load(root, defines=("TILE=0x20", "OTHER=1", "ON")).programs["p"]
    assert changed.constants == ("TILE=0x20", "ALPHA=1e-3", "ON=1")
    (root / "targets.yaml").write_text(
        "version: 1\ntargets: {cpu: }\nprograms: {p: {sources: [k.mlir], constants: {A: 'x y'}}}\n"
    )
    with pytest.raises(ConfigError, match="3:50: error: expected a number"):
        load(root)


def test_generated_sources(root: Path) -> None:
    (root / "gen.sh").touch()
    text = """\
version: 1
targets: {cpu: }
generate:
  one: {command: [sh, -c, ""], inputs: ["sub/*.mlir", a.c], outputs: [g.c, g.h]}
  two: {command: [./gen.sh], outputs: [t.mlir]}
programs: {p: {sources: [k.mlir, g.c, t.mlir], host: {sources: {g.c: {std: c99}}}}}
"""
    (root / "targets.yaml").write_text(text)
    project = load(root)
    one, two = project.generate
    assert one.tool.name == "sh"
    assert one.inputs == {"sub/x.mlir": root / "sub/x.mlir", "a.c": root / "a.c"}
    assert (two.tool, two.outputs) == (root / "gen.sh", ("t.mlir",))
    assert project.programs["p"].sources == (root / "k.mlir", root / "g.c", root / "t.mlir")
    for old, new, message in (
        ("[sh, -c", "[no-such-program", "the program 'no-such-program' is not in PATH"),
        ("./gen.sh", "./gin.sh", "program './gin.sh' does not exist (did you mean 'gen.sh'?)"),
        ("[t.mlir]}", "[t.mlir, g.c]}", "'g.c' is made twice"),
        ("[t.mlir]}", "[t.mlir, a.c]}", "'a.c' exists in the project; generate another name"),
        ("a.c]", "/etc/passwd]", "the input '/etc/passwd' is outside the folder of this file"),
        ("a.c]", "'*.txt']", "the pattern '*.txt' matches no file"),
        ("[t.mlir]}", "[x/t.mlir]}", "expected the name of a file, without folders, got 'x/t.mlir'"),
    ):
        (root / "targets.yaml").write_text(text.replace(old, new, 1))
        with pytest.raises(ConfigError) as caught:
            load(root)
        assert caught.value.problems[0].message == message


def test_generated_sources_of_an_included_file(root: Path) -> None:
    """Inputs have the names that the included file gives them."""
    (root / "sub/common.yaml").write_text(
        "targets: {cpu: }\ngenerate: {g: {command: [sh, x.mlir], inputs: [x.mlir], outputs: [g.c]}}\n"
    )
    (root / "targets.yaml").write_text(
        "version: 1\ninclude: [sub/common.yaml]\nprograms: {p: {sources: [k.mlir, g.c]}}\n"
    )
    assert load(root).generate[0].inputs == {"x.mlir": root / "sub/x.mlir"}


def test_cases_of_a_program(root: Path) -> None:
    (root / "sub/ref.py").touch()
    text = """\
version: 1
targets: {cpu: }
programs:
  p:
    sources: [k.mlir]
    tests:
      plain:
      all: {args: [a, ""], files: [sub/x.mlir, ./sub/../a.c], stdin: i, stdout: "", check: sub/ref.py,
        exit_code: 3, devices: [cpu, "cuda:1"], sanitize: true, timeout: 5}
"""
    (root / "targets.yaml").write_text(text)
    plain, full = load(root).programs["p"].tests
    assert plain == Case(name="plain")
    assert full == Case(
        name="all",
        args=("a", ""),
        files={"sub/x.mlir": root / "sub/x.mlir", "a.c": root / "a.c"},
        stdin=b"i",
        stdout=b"",
        check=root / "sub/ref.py",
        exit_code=3,
        devices=("cpu", "cuda:1"),
        sanitize=True,
        timeout_seconds=5,
    )
    (root / "targets.yaml").write_text(text.replace('stdout: ""', "stdin_file: a.c, stdout_file: b.c"))
    with pytest.raises(ConfigError) as caught:
        load(root)
    assert [problem.message for problem in caught.value.problems] == [
        "give either this or 'stdin_file'",
        "file 'b.c' does not exist (did you mean 'a.c'?)",
    ]
    (root / "sub/a.c").touch()
    for old, new, message in (
        (
            "[k.mlir]",
            "[k.mlir]\n    product: shared",
            "'tests' run an executable, and this program has `product: shared`",
        ),
        ("./sub/../a.c", "a.c, ../{}/sub/a.c", "two files would be copied to 'a.c'"),
    ):
        (root / "targets.yaml").write_text(text.replace(old, new.format(root.name)))
        with pytest.raises(ConfigError) as caught:
            load(root)
        assert [problem.message for problem in caught.value.problems] == [message]


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ("'*.mlir'", "a[1].mlir k.mlir"),
        ("'**/*.mlir'", "a[1].mlir k.mlir sub/deep/z.mlir sub/x.mlir"),
        ("sub/x.mlir, '**/x.mlir', 'sub/?.mlir', k.mlir", "sub/x.mlir k.mlir"),
        ("'sub/*/*.mlir', '[k-x].mlir'", "sub/deep/z.mlir k.mlir"),
        ("'a[1].mlir'", "a[1].mlir"),  # the name of a file
        ("'sub/deep/loop/*.mlir'", "sub/deep/loop/x.mlir"),
    ],
)
def test_patterns_of_sources(root: Path, sources: str, expected: str) -> None:
    root = root / "a [x]"
    (root / "sub").mkdir(parents=True)
    for name in (
        "k.mlir",
        "sub/x.mlir",
        "sub/deep/z.mlir",
        "a[1].mlir",
        ".hidden.mlir",
        "build/k/k.mlir",
        "build/.gpubuild/k.mlir",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    (root / "folder.mlir").mkdir()
    (root / "sub/deep/loop").symlink_to(root / "sub")
    (root / "targets.yaml").write_text(
        f"version: 1\ntargets: {{cpu: }}\nprograms: {{p: {{sources: [{sources}]}}}}\n"
    )
    assert load(root).programs["p"].sources == tuple(root / name for name in expected.split())


def test_options_of_a_source_that_a_pattern_matches(root: Path) -> None:
    text = "programs: {p: {sources: ['*.c'], host: {sources: {a.c: {std: c99}}}}}"
    (root / "targets.yaml").write_text(f"version: 1\ntargets: {{cpu: }}\n{text}\n")
    assert load(root).programs["p"].host_of(root / "a.c").std == "c99"
    (root / "targets.yaml").write_text(f"version: 1\ntargets: {{cpu: }}\n{text.replace('a.c:', 'b.c:')}\n")
    with pytest.raises(ConfigError, match=r"'b.c' is no source of this program \(did you mean 'a.c'"):
        load(root)
