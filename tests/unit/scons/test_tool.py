"""Tool: what it does with SCons' environments."""

from typing import Any

import pytest
from SCons.Environment import Base

from gpubuild.scons.tool import _by_content


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
