"""The published schema is current, valid, and agrees with the loader."""

import json
import random
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from reference.schema import SCHEMA_FILE, full_schema, json_schema, schema_text
from reference.targets_yaml import PAGE, key_rows, replace_table

from gpubuild.cli.main import main
from gpubuild.config.keys import document
from gpubuild.config.load import loads
from gpubuild.config.spec import check
from gpubuild.config.yaml_tree import Problems, parse
from gpubuild.errors import ConfigError

PROGRAM = "programs: {p: {sources: [k.mlir]}}"
TARGETS = "targets: {cpu: }"


def of_target(options: str) -> str:
    return f"version: 1\ntargets: {{sm_90: {options}}}\n{PROGRAM}\n"


def of_program(keys: str) -> str:
    return f"version: 1\n{TARGETS}\nprograms: {{p: {{sources: [k.mlir], {keys}}}}}\n"


def with_section(section: str) -> str:
    return f"version: 1\n{TARGETS}\n{PROGRAM}\n{section}\n"


GOOD = [
    with_section(""),
    with_section("cache: "),
    with_section("cache: {dir: x, max_size: 12, remote: {url: 'https://h/c', mode: write-only}}"),
    with_section("cache: {max_size: 1.5 TiB}"),
    with_section("defaults: "),
    with_section("defaults: {opt_level: 0, fast_math: true, debug: false}"),
    of_target("{}"),
    of_target("{features: ''}"),
    of_target("{features: '+ptx80,-ptx78'}"),
    of_target("{features: [+ptx80, -ptx78]}"),
    of_target("{kind: nvvm, chip: sm_90a, triple: nvptx64-nvidia-cuda, passes: x, device_libs: [l.bc]}"),
    of_program("targets: [cpu], offload: clang"),
    of_program("offload: select_object, select: 0"),
    of_program("offload: select_object, select: cpu"),
    of_program("modules: {a: , b: {targets: [cpu], debug: true, device_libs: []}}"),
    of_program("modules: "),
    of_program("device_libs: []"),
    of_program("device_libs: "),
    of_program("device_libs: [l.bc]"),
    of_program("device_libs: {nvvm: [l.bc], cpu: []}"),
    of_program("passes: {source: x, host: y}"),
    of_program("passes: , link: "),
    of_program("link: {libraries: [m], flags: [-s]}"),
    with_section("host: "),
    with_section("host: {include: [.], define: {A: , B: 1, C: -0x10, D: 1.5, E: '', _f9: 'a b'}, std: c11}"),
    with_section("host: {define: , flags: [-Wall, -Wall], std: [gnu17, c++20]}"),
    with_section("host: {flags: {c: [-w], c++: [-fno-rtti]}}"),
    with_section("profiles: {a: , b: {defaults: {opt_level: 0}, programs: {p: {offload: clang}, q: }}}"),
]
# One for each rule of a schema: test_mistakes.py has the loader's errors.
BAD = [
    "",
    "[]",
    f"{TARGETS}\n{PROGRAM}",
    f"version: 2\n{TARGETS}\n{PROGRAM}",
    f"version: 1\ntargets: {{}}\n{PROGRAM}",
    f"version: 1\ntargets: \n{PROGRAM}",
    f"version: 1\ntargets: {{'a b': {{kind: cpu}}}}\n{PROGRAM}",
    f"version: 1\n{TARGETS}\nprograms: {{p: {{sources: []}}}}",
    f"version: 1\n{TARGETS}\nprograms: {{p: {{sources: [k.mlir, k.mlir]}}}}",
    with_section("unknown: 1"),
    with_section("cache: {max_size: -1}"),
    with_section("defaults: {opt_level: 4}"),
    with_section("defaults: {fast_math: 'true'}"),
    of_target("{kind: cuda}"),
    of_target("{features: ptx80}"),
    of_target("{device_libs: [x.so]}"),
    of_program("offload: select_object, select: 1.5"),
    of_program("modules: {'@a': }"),
    of_program("passes: {device: x}"),
    of_program("link: {libraries: [-lm]}"),
    with_section("host: {define: {A: true}}"),
    with_section("host: {std: c++12}"),
    with_section("host: {flags: {cpp: [-w]}}"),
    with_section("include: x.yaml"),
    with_section("workspace: [a]"),
    with_section("profiles: {a: {defaults: {opt_level: 4}}}"),
    with_section("profiles: {a: {programs: {p: {sources: [k.cu]}}}}"),
    with_section("profiles: {a: {version: 1}}"),
]


VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def schema_accepts(text: str) -> bool:
    return VALIDATOR.is_valid(yaml.safe_load(text))


def loader_accepts(text: str, root: Path) -> bool:
    try:
        loads(text, root / "targets.yaml")
    except ConfigError:
        return False
    return True


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "k.mlir").touch()
    (tmp_path / "l.bc").touch()
    return tmp_path


def test_the_file_is_current() -> None:
    assert SCHEMA_FILE.read_text() == schema_text(), "run `python tests/reference/schema.py`"


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    assert json.loads(schema_text()) == json_schema()


@pytest.mark.parametrize("text", GOOD)
def test_good_documents(text: str, root: Path) -> None:
    assert schema_accepts(text)
    assert loader_accepts(text, root)


@pytest.mark.parametrize("text", BAD)
def test_bad_documents(text: str, root: Path) -> None:
    assert not schema_accepts(text)
    assert not loader_accepts(text, root)


def references(schema: object) -> list[str]:
    parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    own = [schema["$ref"]] if isinstance(schema, dict) and isinstance(schema.get("$ref"), str) else []
    return own + [found for part in parts for found in references(part)]


def test_references_lead_to_schemas() -> None:
    whole: Any = json_schema()
    found = references(whole)
    assert len(found) > 30
    for reference in set(found):
        node = whole
        for step in reference.removeprefix("#/").split("/"):
            node = node[int(step)] if isinstance(node, list) else node[step]
        assert {"type", "anyOf", "enum", "const", "$ref"} & node.keys()


ATOMS = [
    None, True, False, 0, 3, 7, -1, 2.5, "", "x", "a b", "@k", "cpu", "sm_90", "l.bc", "k.mlir", "+a",
    "-lm",
]  # fmt: skip
ATOMS += ["10 MB", "read-only", "dispatch", [], {}, ["cpu"], ["cpu", "cpu"], ["l.bc"], {"cpu": None}]
KEYS = ["cpu", "sm_90", "targets", "chip", "kind", "opt_level", "a b", "@k", ".x", "sources", "version"]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [path] * bool(path) + [p for k in keys for p in places(value[k], (*path, k))]


def mutated(document: Any, rng: random.Random) -> Any:
    document = json.loads(json.dumps(document))
    *parents, last = rng.choice(places(document))
    holder = document
    for key in parents:
        holder = holder[key]
    match rng.choice(("replace", "replace", "delete", "rename")):
        case "replace":
            holder[last] = rng.choice(ATOMS)
        case "delete":
            del holder[last]
        case "rename" if isinstance(holder, dict):
            holder[rng.choice(KEYS)] = holder.pop(last)
        case _:
            holder.append(rng.choice(ATOMS))
    return document


def test_agreement_on_mutated_documents() -> None:
    """Only structure is compared: a schema cannot know which files and targets exist."""
    rng = random.Random(2)
    seeds = [yaml.safe_load(text) for text in GOOD]
    accepted = 0
    for _ in range(500):
        text = yaml.safe_dump(mutated(rng.choice(seeds), rng))
        problems = Problems("targets.yaml", text)
        tree = parse(text, problems)
        assert tree is not None
        check(tree, document(), problems)
        valid = schema_accepts(text)
        assert valid is not bool(problems), text
        accepted += valid
    assert 50 < accepted < 450


def test_the_command_line_names_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--schema"]) == 0
    assert json.loads(Path(capsys.readouterr().out.strip()).read_text()) == json_schema()


# ---- the reference page ----


def test_the_table_is_current() -> None:
    text = PAGE.read_text()
    assert replace_table(text) == text, "run python tests/reference/targets_yaml.py"


def test_every_key_has_a_meaning() -> None:
    rows = list(key_rows(full_schema()))
    assert {"programs.NAME.modules.NAME.opt_level", "cache.remote.url"} <= {key for key, *_ in rows}
    assert all(meaning for *_, meaning in rows)


@pytest.mark.parametrize("number", [0, 1])
def test_the_examples_load(number: int, tmp_path: Path) -> None:
    text = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)[number]
    for name in ("saxpy.mlir", "solver.mlir", "main.c", "tables.ll", "lib/my.bc", "lib/nv.bc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    project = loads(text, tmp_path / "targets.yaml")
    assert project.programs
