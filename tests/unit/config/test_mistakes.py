"""A wrong targets.yaml: every mistake, where it is, and what to do about it."""
# ruff: noqa: E501 - a table reads best with one row a line

import pickle
from pathlib import Path

import pytest
import yaml

from gpubuild.config.load import load_project, loads
from gpubuild.errors import EXIT_USAGE, ConfigError

GOOD = """\
version: 1
cache: {dir: cache, max_size: 2 GiB, remote: {url: "http://h/", mode: read-only}}
defaults: {opt_level: 3, fast_math: false}
targets: {sm_60: {}, sm_90: {features: "+ptx80"}, cpu: {chip: x86-64-v3}}
programs:
  p:  # größer
    sources: [k.mlir]
    targets: [sm_60, cpu]
    modules: {m: {targets: [cpu], opt_level: 2}}
    link: {libraries: [m]}
"""
BASE = {"version": "1", "targets": "{sm_60: {}, sm_90: {}, cpu: }", "programs": "{p: {sources: [k.mlir]}}"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "k.mlir").touch()
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "mine.bc").touch()
    (tmp_path / "a.c").touch()
    (tmp_path / "x.cpp").touch()
    return tmp_path


def document(**sections: str) -> str:
    return "".join(f"{key}: {value}\n" for key, value in (BASE | sections).items() if value)


def problems(text: str | bytes, root: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loads(text, root / "targets.yaml")
    assert caught.value.exit_code == EXIT_USAGE
    assert all(p.location and p.location.line and p.location.column for p in caught.value.problems)
    return [
        f"{p.location.line}:{p.location.column}: {p.message}" for p in caught.value.problems if p.location
    ]


def program(keys: str) -> str:
    return document(programs=f"{{p: {{sources: [k.mlir], {keys}}}}}")


def host(keys: str, source: str = "a.c") -> str:
    return document(programs=f"{{p: {{sources: [{source}], host: {{{keys}}}}}}}")


def of_source(options: str, sources: str = "a.c") -> str:
    return document(programs=f"{{p: {{sources: [{sources}]}}}}", host=f"{{sources: {{{options}}}}}")


MISTAKES = {
    # Structure.
    "checks on a GPU": (
        document(targets="{sm_60: {sanitize: [race]}}"),
        "2:19: 'sanitize' is for targets of kind cpu; 'sm_60' is of kind nvvm; add a checked CPU target beside it",
    ),
    "checks of foreign passes": (
        document(targets="{cpu: {sanitize: [race], passes: x}}"),
        "2:17: target 'cpu' has passes of its own, which 'sanitize' cannot be added to",
    ),
    "unknown key": (document(targets="{sm_60: {chips: x}}"), "2:19: unknown key 'chips' (did you mean 'chip'?)"),
    "key of another tool": (document(targets="{sm_60: {arch: x}}"), "unknown key 'arch' (did you mean 'chip'?)"),
    "nothing close": (document(zzz="1"), "4:1: unknown key 'zzz' (known: version, cache, execute, defaults,"),
    "duplicate key": (document(targets="{cpu: , cpu: }"), "2:18: key 'cpu' is given twice"),
    "missing targets": (document(targets=""), "missing 'targets'"),
    "missing sources": (document(programs="{p: {targets: [cpu]}}"), "3:12: missing 'sources' in a program"),
    "missing url": (document(cache="{remote: {mode: read-only}}"), "4:9: missing 'url' in remote"),
    "empty programs": (document(programs="{}"), "3:1: 'programs' is empty; name at least one"),
    "null programs": (document(programs="~"), "3:11: 'programs' is empty; name at least one"),
    "targets in a list": (document(targets="[sm_60, cpu]"), "got a list; write {sm_60: {}, cpu: {}}"),
    "programs in a list": (document(programs="[{name: p}]"), "got a list; write a name and a colon, with its keys indented below"),
    "keys unwritten": (program("link: m"), "got 'm'; write `key: value`, with the keys libraries, flags"),
    "no version": (document(version=""), "missing 'version' in targets.yaml; write `version: 1`"),
    "colon forgotten": (document(programs="\n  p\n    sources: [k.mlir]"), "5:12: not valid YAML: a `:` is not allowed here; one may be missing at the end of the line before"),
    "other indentation": (document(programs="\n    p: {}\n  q: {}"), "5:3: not valid YAML: the indentation of this line does not match"),
    "null program": (document(programs="{p: }"), "expected a mapping, got nothing"),
    "empty sources": (document(programs="{p: {sources: []}}"), "3:25: the list is empty; name a source file"),
    "several words, not a list": (program("link: {flags: '-lm, -ldl -lx'}"), "write [-lm, -ldl, -lx]"),
    "not a list": (document(programs="{p: {sources: k.mlir}}"), "expected a list, got 'k.mlir'; write [k.mlir]"),
    "not text": (document(targets="{h: {chip: 90}}"), 'expected text, got 90; to mean the text, write "90"'),
    "quoted number": (document(defaults='{opt_level: "3"}'), "got '3'; write it without quotes"),
    "octal number": (document(defaults="{opt_level: 02}"), "got 02; write it in plain decimal digits"),
    "underscored": (document(cache="{max_size: 1_000}"), "expected a whole number or text, got 1_000; write it in"),
    "fraction": (document(defaults="{opt_level: 2.5}"), "expected a whole number, got 2.5"),
    "enormous number": (document(defaults=f"{{opt_level: {'9' * 5000}}}"), "expected a whole number, got 9999"),
    "yes": (document(defaults="{debug: yes}"), "4:19: expected true or false or full, got 'yes'; write true,"),
    "off": (document(defaults="{debug: off}"), "write false"),
    "out of range": (document(defaults="{opt_level: 4}"), "4:23: expected 0 to 3, got 4"),
    "bad word": (program("offload: dispach"), "unknown word 'dispach' (did you mean 'dispatch'?)"),
    "bad size": (document(cache="{max_size: 2 gigs}"), "expected a size, got '2 gigs'; write a number of bytes or"),
    "bad url": (document(cache="{remote: {url: cache.example}}"), "expected an http:// or https:// address"),
    "other version": ("version: 2\nprogrammes: {}\n", "1:10: version 2 of this format is not supported"),
    "text version": (document(version='"1"'), "1:10: expected a whole number, got '1'; write it without quotes"),
    "top level list": ("- a\n", "1:1: expected a mapping, got a list"),
    # Names.
    "program name": (document(programs="{a/b: {sources: [k.mlir]}}"), "3:12: expected a name made of letters"),
    "program name ..": (document(programs="{..: {sources: [k.mlir]}}"), "expected a name made of letters"),
    "target name": (document(targets="{a b: {kind: cpu}}"), "2:11: expected a name made of letters"),
    "null key": (document(targets="{~: {kind: cpu}, cpu: }"), "2:11: a key must be a plain word"),
    "complex key": (document(targets="{[a]: {kind: cpu}, cpu: }"), "2:11: a key must be a plain word"),
    "module name": (program('modules: {"@k": }'), "expected the name of a gpu.module, without '@', got '@k'"),
    # Targets.
    "no kind": (document(targets="{hopper: }"), "2:11: the name 'hopper' does not imply the kind of target 'hopper'"),
    "no kind of chip": (document(targets="{h: {chip: sm90}}"), "2:21: the chip 'sm90' does not imply the kind of target 'h'; did you mean sm_90?"),
    "chip in capitals": (document(targets="{GFX90a: }"), "2:11: the name 'GFX90a' does not imply the kind of target 'GFX90a'; did you mean gfx90a?"),
    "no chip but an interface": (document(targets="{opencl: }"), "the chip of opencl is spirv: write that"),
    "a folder": (document(programs="{p: {sources: [src]}}"), "write the files of a folder as src/*.c"),
    "absurd chip": (document(targets="{cpu: {chip: 'x y'}}"), "expected a chip such as"),
    "no chip": (document(targets="{h: {kind: nvvm}}"), "2:11: target 'h' needs a chip, such as `chip: sm_90`"),
    "kind and chip": (document(targets="{h: {kind: rocdl, chip: sm_60}}"), "'sm_60' is an NVIDIA chip, but target 'h' is of kind rocdl"),
    "kind and name": (document(targets="{sm_60: {kind: rocdl}}"), "2:11: 'sm_60' is the name of an NVIDIA chip"),
    "name and chip": (document(targets="{cpu: {chip: sm_60}}"), "'cpu' is the name of a CPU"),
    "native GPU": (document(targets="{gfx90a: {chip: native}}"), "'gfx90a' is the name of an AMD chip"),
    "triple": (document(targets="{cpu: {triple: nvptx64-nvidia-cuda}}"), "triple 'nvptx64-nvidia-cuda' does not belong"),
    "features": (document(targets="{sm_90: {features: ptx80}}"), "got 'ptx80'; write +name or -name"),
    "target id": (document(targets="{gfx90a: {features: [xnack+]}}"), "expected a feature, got 'xnack+'"),
    "feature twice": (document(targets="{gfx90a: {features: [-xnack, -xnack]}}"), "'-xnack' is listed twice"),
    "unknown chip": (document(targets="{x: {kind: nvvm, chip: sm_999}}"), "2:33: unknown NVIDIA chip 'sm_999' (did you mean"),
    "chip of no CPU": (document(targets="{c: {kind: cpu, chip: x86_64-v3}}"), "2:32: unknown CPU chip 'x86_64-v3' (did you mean x86-64-v3"),
    "chip of another architecture": (document(targets="{c: {kind: cpu, chip: znver4, triple: aarch64-unknown-linux-gnu}}"), "2:32: unknown CPU chip 'znver4'"),
    "unknown feature": (document(targets="{sm_90: {features: '+ptx800'}}"), "2:29: unknown feature 'ptx800' for sm_90 (did you mean ptx80"),
    "unknown feature in a list": (document(targets="{gfx90a: {features: [+sramecc, -xnak]}}"), "2:41: unknown feature 'xnak' for gfx90a (did you mean xnack"),
    "unknown flag": (document(targets="{sm_90: {flags: [ftzz]}}"), "2:26: unknown flag 'ftzz' for an NVIDIA chip (did you mean ftz"),
    "format of another kind": (document(targets="{cpu: {format: assembly}}"), "targets of kind cpu have no objects of format assembly (use bin)"),
    "contradicting flags": (document(targets="{gfx1100: {flags: [wave64, no_wave64]}}"), "flags 'wave64' and 'no_wave64' contradict each other"),
    "unknown ABI": (document(targets="{gfx90a: {abi: 700}}"), "2:25: unknown ABI version '700' for an AMD chip (use 600, 500 or 400)"),
    "ABI of another kind": (document(targets="{sm_90: {abi: 600}}"), "targets of kind nvvm have no ABI version"),
    "old ABI of a new chip": (document(targets="{gfx1250: {abi: 500}}"), "code objects for gfx1250 have ABI version 600"),
    "options of another assembler": (document(targets="{gfx90a: {ptxas_options: [-v]}}"), "2:20: 'ptxas_options' is not for targets of kind rocdl, as 'gfx90a' is"),
    "a file for ptxas": (document(targets="{sm_90: {ptxas_options: [-o, x.cubin]}}"), "ptxas option '-o' is not allowed"),
    "PTX too old": (document(targets="{sm_90a: {features: +ptx78}}"), "2:30: sm_90a needs PTX 8.0 or newer, not 7.8 (write +ptx80, or leave the PTX version out)"),
    "size that subgroups never have": (document(targets="{spirv: {flags: [subgroup64]}}"), "unknown flag 'subgroup64' for a SPIR-V version"),
    # Programs.
    "unknown target": (program("targets: [sm_91]"), "unknown target 'sm_91' (did you mean 'sm_90'?)"),
    "unrelated target": (program("targets: [gfx1100]"), "unknown target 'gfx1100' (declared: sm_60, sm_90, cpu)"),
    "suffix": (document(programs="{p: {sources: [k.cu]}}"), "expected a source file (.mlir .mlirbc .c"),
    "no such source": (document(programs="{p: {sources: [kk.mlir]}}"), "3:26: source 'kk.mlir' does not exist (did you mean 'k.mlir'?)"),
    "source twice": (document(programs="{p: {sources: [k.mlir, ./k.mlir]}}"), "3:34: './k.mlir' is listed twice"),
    "no such folder": (document(programs="{p: {sources: [libs/k.mlir]}}"), "there is no folder 'libs'; did you mean 'lib'?"),
    "source with NUL": (document(programs='{p: {sources: ["\\0.mlir"]}}'), "NUL"),
    "endless name": (document(programs=f"{{p: {{sources: [{'k' * 300}.mlir]}}}}"), "File name too long"),
    "library suffix": (program("device_libs: [k.mlir]"), "expected a device library (.bc .ll), got 'k.mlir'"),
    "two pipelines": (program("pipeline: linalg, passes: {source: builtin.module(cse)}"), "'pipeline' replaces `passes: {source: …}`: write one of them"),
    "unknown pipeline": (program("pipeline: torch"), "unknown word 'torch' (one of: linalg, tosa)"),
    "select alone": (program("select: cpu"), "'select' needs `offload: select_object` beside it"),
    "select undeclared here": (program("targets: [cpu], offload: select_object, select: sm_60"), "this program is not compiled for target 'sm_60' (cpu)"),
    "select index": (program("offload: select_object, select: 3"), "this program has 3 targets, so there is no index 3"),
    "select in module": (program("offload: select_object, select: sm_60, modules: {m: {targets: [cpu]}}"), "module 'm' is not compiled for target 'sm_60'"),
    "select negative": (program("offload: select_object, select: -1"), "expected at least 0, got -1"),
    "flags in a file": (program("link: {flags: ['@more.txt']}"), "expected a linker flag, got '@more.txt'; write the"),
    "linker flags in a file": (program("link: {flags: ['-Wl,-z,now,@more.txt']}"), "write the flags themselves"),
    "library flag": (program("link: {libraries: [-lm]}"), "expected a library's name, got '-lm'; write m for -lm"),
    # How C and C++ are compiled.
    "key of a compiler": (host("includes: [lib]"), "3:39: unknown key 'includes' (did you mean 'include'?)"),
    "host's key elsewhere": (program("include: [lib]"), "unknown key 'include' (did you mean 'host: {include: …}'?)"),
    "host's key in other words": (program("cflags: [-O2]"), "unknown key 'cflags' (did you mean 'host: {flags: …}'?)"),
    "no such include folder": (host("include: [libb]"), "3:49: include folder 'libb' does not exist; did you mean 'lib'?"),
    "no include folder near": (host("include: [x/y]"), "include folder 'x/y' does not exist: there is no folder 'x'"),
    "include of a file": (host("include: [a.c]"), "include folder 'a.c' is a file, not a folder"),
    "include in home": (host("include: [~/lib]"), "'~' is not expanded"),
    "include as on Windows": (host(r"include: ['.\lib']"), r"include folder '.\lib' does not exist; did you mean 'lib'?"),
    "macro's name": (host("define: {A-B: 1}"), "3:48: expected a macro's name: letters, digits and '_', not a digit first, got 'A-B'"),
    "function-like macro": (host("define: {'A(x)': x}"), "expected a macro's name"),
    "macro of truth": (host("define: {A: yes, B: true}"), 'expected a number or text, got true; to mean the text, write "true"'),
    "macro of lines": (host('define: {A: "1\\n2"}'), "expected a macro's value, on one line"),
    "standard": (host("std: c12"), "3:44: expected a C or C++ standard, got 'c12'; write c11, gnu17, c++17 and the like"),
    "two standards": (host("std: [c11, c17]"), "3:50: this is a second standard for C"),
    "standard of the other language": (host("std: c++17"), "3:39: 'c++17' is for C++; this program's sources are C"),
    "host of no C": (host("std: c11", "k.mlir"), "3:35: 'host' is for C and C++ sources, and this program has none"),
    "flags in one text": (host("flags: [-Wall -Wextra]"), "'-Wall -Wextra' cannot be given here: write each option as an item of its own"),
    "no flag": (host("flags: [Wall]"), "expected a compiler option, got 'Wall'; each item is one option, beginning with '-'"),
    "flags of no language": (host("flags: {cxx: [-w]}"), "unknown key 'cxx' (did you mean 'c++'?)"),
    "flag with a key": (host("flags: {c: [-w, -Ilib]}"), "3:55: '-Ilib' cannot be given here: folders go under `include:`"),
    # Options of one source.
    "options of no source": (document(programs="{p: {sources: [a.c], host: {sources: {aa.c: {std: c11}}}}}"), "3:49: 'aa.c' is no source of this program (did you mean 'a.c'?)"),
    "options of no program's source": (of_source("b.c: "), "4:18: 'b.c' is no source of any program (did you mean 'a.c'?)"),
    "options of a kernel": (of_source("k.mlir: ", "a.c, k.mlir"), "4:18: expected a C or C++ source (.c .cpp .cc .cxx), got 'k.mlir'"),
    "options given twice": (of_source("a.c: , ./a.c: "), "4:25: './a.c' is given twice"),
    "standard of C++ for C": (of_source("a.c: {std: c++17}"), "4:24: 'c++17' is for C++; this source is C"),
    "flag of one source": (of_source("a.c: {flags: [-march=native]}"), "4:32: '-march=native' cannot be given here"),
    "sources of a source": (of_source("a.c: {sources: {}}"), "4:24: unknown key 'sources'"),
    "misspelt source with options": (document(programs="{p: {sources: [a.c, bb.c], host: {sources: {bb.c: {std: c11}}}}}"), "source 'bb.c' does not exist"),
    # YAML itself.
    "empty file": ("", "1:1: the file is empty; `gpubuild init`"),
    "tab": ("version: 1\ntargets:\n\tcpu: {}\n", "3:1: a tab in the indentation; YAML needs spaces"),
    "unclosed": ("version: 1\ntargets: {cpu: {}\n", "not valid YAML"),
    "two documents": (document() + "---\n" + document(), "4:1: a second document starts here"),
    "control character": (document(programs="{p\x07: {}}"), "3:13: control character U+0007"),
    "python object": (document(cache="!!python/object/apply:os.system [id]"), "4:8: the tag"),
    "local tag": (document(programs="{p: {sources: [!secret k.mlir]}}"), "the tag !secret is not supported"),
    "contains itself": (document(programs="&a {p: *a}"), "3:11: this anchor contains an alias to itself"),
    "unknown alias": (document(programs="*nowhere"), "3:11: not valid YAML: found undefined alias"),
    "merge of text": (document(targets="{<<: x, cpu: }"), "2:15: `<<` takes a mapping"),
    "latin-1": ("version: 1\n# gr\xf6sse\n".encode("latin-1"), "2:5: the file is not UTF-8"),
    "utf-16": ("version: 1\n".encode("utf-16"), "1:1: the file is not UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), MISTAKES.values(), ids=MISTAKES)
def test_mistake(text: str | bytes, expected: str, root: Path) -> None:
    found = problems(text, root)
    assert any(expected in problem for problem in found), found
    # One mistake, one message.
    assert len(found) == 1, found


def test_all_mistakes_at_once_in_file_order(root: Path) -> None:
    text = """\
programs: {p: {sources: [k.mlir, gone.mlir], targets: [cpuu]}}
targets: {cpu: {opt_levl: 1}, sm_90: {opt_level: 7}}
version: 1
zzz: 1
"""
    assert [p.split(": ", 1)[0] for p in problems(text, root)] == ["1:34", "1:56", "2:17", "2:50", "4:1"]


def test_rendering_has_line_and_caret(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    (root / "targets.yaml").write_text(document(targets="{sm_60: {chips: x}}"))
    with pytest.raises(ConfigError) as caught:
        load_project(Path("targets.yaml"))
    assert caught.value.render() == (
        "targets.yaml:2:19: error: unknown key 'chips' (did you mean 'chip'?)\n"
        "  targets: {sm_60: {chips: x}}\n"
        "                    ^"
    )
    assert pickle.loads(pickle.dumps(caught.value)).render() == caught.value.render()


@pytest.mark.parametrize(
    ("lines", "places"),
    [
        ("  sm_91: {}\n  cpu: {opt_level: 2\nprograms: {}", ["3:3", "5:9"]),
        ("  big: {chip: sm_91}\nprograms:\n  p: {sources: [k.mlir}", ["3:15", "5:23"]),
        ("  sm_91: {}\n  big:\n    chip: [a\nprograms: {}", ["3:3", "6:9"]),  # `big` is not complete
        ("  sm_90: {passes: '${BELOW}'}\nhost: [a", ["5:1"]),
        ("  cpu: {}\nprograms:\n    p: {}\n  q: {}", ["6:3"]),
    ],
)
def test_targets_above_a_syntax_error(lines: str, places: list[str], root: Path) -> None:
    found = problems(f"version: 1\ntargets:\n{lines}\n", root)
    assert [text.split(": ", 1)[0] for text in found] == places, found


@pytest.mark.parametrize(
    ("text", "place", "note"),
    [
        ("programs: [k.mlir\n", "1:11", "the list begins here"),
        ('a: 1\nb: "x\n', "2:4", "the text begins here"),
    ],
)
def test_what_is_not_closed_is_shown_where_it_begins(text: str, place: str, note: str, root: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        loads(text, root / "targets.yaml")
    (problem,) = caught.value.problems
    (shown,) = problem.notes
    assert str(shown.location).endswith(f"targets.yaml:{place}")
    assert shown.message == note
    assert "is missing; the file seems to be cut off" in problem.message


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("p/targets.yml", "did you mean targets.yml? Rename it, or name it with -f"),
        ("targets.yaml", "there is one in a folder above: go there, or use -f ../targets.yaml"),
        ("other.txt", "go to the project's folder, name the file with -f, or start one with `gpubuild init`"),
    ],
)
def test_a_project_file_nearby(name: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path / "p")
    with pytest.raises(ConfigError) as caught:
        load_project(Path("targets.yaml"))
    assert caught.value.hint == hint


def test_duplicate_names_the_first_place(root: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        loads("version: 1\nversion: 1\n" + document(version=""), root / "targets.yaml")
    (problem,) = caught.value.problems
    assert str(problem.notes[0].location).endswith("targets.yaml:1:1")


def test_columns_count_characters_not_bytes(root: Path) -> None:
    assert problems(document(programs='{"größe": {}}'), root)[0].startswith("3:12: ")
    assert problems(document(programs='{p: {sources: ["größe.mlir", x.cu]}}'), root)[1].startswith("3:40: ")


def test_absent_and_unreadable_files(root: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_project(root / "nothing.yaml")
    assert "gpubuild init" in caught.value.render()
    with pytest.raises(ConfigError, match="folder"):
        load_project(root)


def test_alias_bomb_is_stopped(root: Path) -> None:
    lines = ["version: 1", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert any("use fewer aliases" in p for p in problems("\n".join(lines), root))


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_deep_nesting_is_stopped(opening: str, root: Path) -> None:
    assert problems("version: 1\nprograms:\n " + opening * 20_000, root)


def test_without_the_c_parser(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyYAML may come without libyaml; its own parser recurses and must not take us with it."""
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert list(loads(GOOD, root / "targets.yaml").targets) == ["sm_60", "sm_90", "cpu"]
    assert problems("[" * 700, root) == ["1:1: cannot read this as YAML: nested too deeply"]
    assert problems("version: 1\ntargets: {", root)[0].startswith("2:11: not valid YAML: ")


def test_folder_that_cannot_be_listed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    found = problems(document(programs="{p: {sources: [kk.mlir]}}"), root)
    assert found == ["3:26: source 'kk.mlir' does not exist"]


def test_huge_file_is_refused(root: Path) -> None:
    assert "larger than 1 MiB" in problems("#" * (2 << 20), root)[0]
