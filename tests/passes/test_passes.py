"""A FileCheck file for each pass: what it makes of a module, by itself.

``// RUN: TARGET PASS[..PASS] [option]`` runs passes of a target's table, or of a pipeline on tensors
(``linalg``), as ``gpubuild pass`` does; an option is ``--fast-math``, ``--debug``, ``--debug-full`` or
``--sanitize=CHECK[,CHECK]``. A pass of many parts has several files, ``PASS.TOPIC.mlir``. The lines of the
result, or of the error, are checked by the prefix CHECK, or by that of the target in capitals (``SM_60``)
where the file has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import file_check
import pytest
from unit.engine.device_steps import in_child

from gpubuild.cli.single_pass import target_params
from gpubuild.engine.backends.lowering import passes_of, run_range
from gpubuild.engine.ir.passes import Pass
from gpubuild.engine.source import tensors
from gpubuild.errors import StepError
from gpubuild.model.project import TENSOR_PIPELINES
from gpubuild.targets.registry import kinds
from gpubuild.targets.target import FULL

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*.mlir"))
RUN = "// RUN: "
SANITIZE = "--sanitize="


@dataclass(frozen=True)
class Run:
    target: str
    names: str
    options: tuple[str, ...]
    prefix: str


def pass_of(file: Path) -> str:
    return file.stem.partition(".")[0]


def prefix_of(target: str, text: str) -> str:
    own = target.upper().replace("-", "_")
    return own if f"// {own}" in text else "CHECK"


def runs(file: Path) -> list[Run]:
    text = file.read_text()
    lines = [line.split() for line in text.splitlines() if line.startswith(RUN)]
    return [
        Run(
            target=target,
            names=names,
            options=tuple(options),
            prefix=prefix_of(target, text),
        )
        for _, _, target, names, *options in lines
    ]


def results(text: str, wanted: list[Run]) -> list[str]:
    return [result(text, run) for run in wanted]


def result(text: str, run: Run) -> str:
    first, _, last = run.names.partition("..")
    if run.target in TENSOR_PIPELINES:
        return tensors.run_range(text, run.target, first, last, name="k.mlir")
    checks = [option.removeprefix(SANITIZE) for option in run.options if option.startswith(SANITIZE)]
    params = target_params(
        run.target,
        fast_math="--fast-math" in run.options,
        debug=FULL if "--debug-full" in run.options else "--debug" in run.options,
        sanitize=",".join(checks),
    )
    try:
        return run_range(text, params, first, last, name="k.mlir")
    except StepError as error:
        return f"error: {error.message}\n" + "".join(f"error: {d.message}\n" for d in error.diagnostics)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_file(file: Path, tmp_path: Path) -> None:
    wanted = runs(file)
    assert wanted, f"{file.name} has no RUN line"
    assert any(pass_of(file) in run.names.split("..") for run in wanted), "a file has the name of its pass"
    for run, output in zip(wanted, in_child(results, file.read_text(), wanted), strict=True):
        refusal = file_check.refusal(file, run.prefix, output, tmp_path)
        assert not refusal, f"{run}\n{refusal}\n{output}"


TABLES: dict[str, Sequence[Pass]] = {"tensors": tensors.PASSES, **{kind: passes_of(kind) for kind in kinds()}}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_pass_has_a_name_and_a_file(table: Sequence[Pass]) -> None:
    """All but those that are nothing but a pipeline of upstream's."""
    names = [one.name for one in table]
    assert len(set(names)) == len(names)
    own = {one.name for one in table if one.pipeline is None}
    assert own - {pass_of(file) for file in FILES} == set()


def test_every_file_is_of_a_pass() -> None:
    names = {one.name for table in TABLES.values() for one in table}
    assert {pass_of(file) for file in FILES} - names == set()
