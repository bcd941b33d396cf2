"""Blame: linkers' messages about numbered objects name the user's files."""

from pathlib import Path

import pytest

from gpubuild.build.diagnosis import blame
from gpubuild.errors import StepError
from gpubuild.model.step import Input, LinkParams, Step, StepKind

ROOT = Path("/project")
LINK = Step(
    id="app/link",
    kind=StepKind.LINK,
    params=LinkParams(),
    inputs=(
        Input(name="object.0", path=ROOT / "build/host.o", producer="app/host", origin=ROOT / "k.mlir"),
        Input(name="object.1", path=ROOT / "build/x.o", producer="cc/src/main.c", origin=ROOT / "src/main.c"),
        Input(name="archive.2", path=Path("/elsewhere/libx.a"), origin=Path("/elsewhere/libx.a")),
        Input(name="object.4", path=ROOT / "by_scons.o"),
        Input(name="runtime", path=ROOT / "build/runtime.a", producer="runtime"),
    ),
    program="app",
)
MESSAGES = {
    "function": ("ld: object1.o: in function `main':", "ld: src/main.c: in function `main':"),
    "text": (
        "source.i:(.text+0x0): multiple definition of `main'; object0.o:host.ll:(.text+0x0): first here",
        "(.text+0x0): multiple definition of `main'; k.mlir:(.text+0x0): first here",
    ),
    "archive": (">>> archive2.a(x.o) and object4.o", ">>> /elsewhere/libx.a(x.o) and by_scons.o"),
    "not ours": ("ld: myobject1.obj, object9.o", "ld: myobject1.obj, object9.o"),
}


@pytest.mark.parametrize(("said", "told"), MESSAGES.values(), ids=MESSAGES)
def test_files_are_the_users(said: str, told: str) -> None:
    error = StepError("cannot link", output=said)
    blame(error, LINK, ROOT)
    assert error.output == told
    assert error.program == "app"
