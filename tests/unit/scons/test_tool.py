"""The tool: what SCons compares and prints for a step, and what is done with its environments."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from SCons.Environment import Base
from unit.projects import TARGETS

from gpubuild.errors import StepError
from gpubuild.model.step import CompileParams, LinkParams, OutlineParams, RuntimeParams, Step, StepKind
from gpubuild.scons.node import Node, describe, node_of, signature
from gpubuild.scons.tool import StepAction, _by_content


def params(**options: object) -> CompileParams:
    return CompileParams(module="k", target=replace(TARGETS["sm_60"], **options))


STEP = Step(
    id="p/compile/k/old_gpu", kind=StepKind.COMPILE, params=params(), inputs=(), program="p", module="k",
    target="old_gpu", tools=("ptxas",),
)  # fmt: skip
OF_NO_PROGRAM = {"module": "", "target": "", "program": ""}


class FakeSession:
    def __init__(self, error: StepError | None = None, ptxas: str = "a" * 64) -> None:
        self.error = error
        self.ptxas = ptxas
        self.ran: list[str] = []

    def fingerprints(self, step: Step) -> list[tuple[str, str]]:
        return [(name, self.ptxas) for name in step.tools]

    def run(self, node: Node) -> StepError | None:
        self.ran.append(node.id)
        return self.error


def action(session: FakeSession, step: Step = STEP) -> StepAction:
    return StepAction(session, node_of(session, step))


def test_signature_covers_options_and_tools() -> None:
    before = signature(FakeSession(), STEP)
    changed = replace(STEP, params=params(opt_level=1))
    assert signature(FakeSession(), changed) != before
    assert signature(FakeSession(ptxas="b" * 64), STEP) != before
    assert signature(FakeSession(), STEP) == before
    renamed = replace(STEP, params=params(name="newer_name"))
    assert signature(FakeSession(), renamed) == before


def test_dollars_are_not_variables_of_scons() -> None:
    step = replace(STEP, params=params(passes="${HOME} $x"))
    assert "'$${HOME} $$x'" in signature(FakeSession(), step)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, "compile @k for old_gpu (p)"),
        ({"kind": StepKind.LINK, "params": LinkParams(), "module": "", "target": ""}, "link p"),
        (
            OF_NO_PROGRAM | {"id": "p/outline/a/b.mlir", "kind": StepKind.OUTLINE, "params": OutlineParams()},
            "split a/b.mlir",
        ),
        (
            OF_NO_PROGRAM | {"id": "runtime", "kind": StepKind.RUNTIME, "params": RuntimeParams()},
            "compile the runtime",
        ),
    ],
)
def test_what_is_printed(change: dict, text: str) -> None:
    step = replace(STEP, **change)
    assert describe(step) == text
    assert action(FakeSession(), step).strfunction([], [], None) == f"gpubuild: {text}"


def test_explanations_name_the_step_and_its_options() -> None:
    name = action(FakeSession()).__name__
    assert "compile @k for old_gpu (p): " in name
    assert "chip='sm_60'" in name
    assert "ptxas=aaaaaaaaaaaa " in name


def test_running(capsys: pytest.CaptureFixture[str]) -> None:
    session = FakeSession()
    assert action(session)([], [], None) == 0
    assert session.ran == ["p/compile/k/old_gpu"]
    failing = FakeSession(error=StepError("it broke", hint="mend it"))
    assert action(failing)([], [], None) == 1
    assert capsys.readouterr().err == "gpubuild: error: it broke\n  hint: mend it\n"


def test_overlay_offers_what_scons_asks_of_a_tool() -> None:
    import importlib.util

    import gpubuild

    path = Path(gpubuild.__file__).parents[1] / "gpubuild/scons/overlay/gpubuild.py"
    if not path.exists():  # an installed package has it in SCons' folder
        import SCons.Tool

        path = Path(SCons.Tool.__file__).parent / "gpubuild.py"
    spec = importlib.util.spec_from_file_location("SCons.Tool.gpubuild", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert callable(module.generate)
    assert module.exists(None) is True


def decided_by(env: Any) -> tuple[str, str]:
    return env.decide_source.__name__, env.decide_target.__name__


@pytest.mark.parametrize("over", [None, {}, {"GPUBUILD_DIR": "#other"}])
def test_steps_go_by_content_whatever_the_users_decider(over: dict[str, str] | None) -> None:
    env = Base(tools=[], GPUBUILD_DIR="#build")
    env.Decider("timestamp-newer")
    users = env if over is None else env.Override(over)
    before = decided_by(env)
    own = _by_content(users)
    assert decided_by(own) == ("_changed_content",) * 2 != before
    assert decided_by(own.Override({"X": 1})) == decided_by(own)  # a builder's, with its arguments
    assert decided_by(env) == decided_by(users) == before
    assert own["GPUBUILD_DIR"] == users["GPUBUILD_DIR"]
