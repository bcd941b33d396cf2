"""The reference page says what the loader does."""

import re
from pathlib import Path

import pytest
from reference.schema import full_schema
from reference.targets_yaml import PAGE, key_rows, replace_table

from gpubuild.config.load import loads


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
