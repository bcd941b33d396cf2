"""The runtime's archive: complete and reproducible."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.engine.steps import COMPILERS, Tools, failing_step, run_step

from gpubuild.build.builder import runtime_sources
from gpubuild.engine.cc.compile import _NEVER_HOT
from gpubuild.model.step import RuntimeParams, StepKind


@pytest.fixture(params=["system", "zig"])
def tools(request: pytest.FixtureRequest) -> Tools:
    return COMPILERS[request.param]()


RUNTIME = {
    "x/a.c": '#include "y/a.h"\nint rt_a(void) { return rt_b() + A; }\n',
    "y/b.c": '#include "y/a.h"\nint rt_b(void) { return 2; }\n',
    "x/c.S": '.text\n.globl rt_c\nrt_c:\n  ret\n.section .note.GNU-stack,"",@progbits\n',
    "y/a.h": "#define A 1\nint rt_b(void);\n",
}


def test_runtime_archive_has_every_source_and_no_paths(tmp_path: Path, tools: Tools) -> None:
    one = run_step(tmp_path / "1", StepKind.RUNTIME, RuntimeParams(), RUNTIME, ("archive",), tools)
    two = run_step(tmp_path / "x/2", StepKind.RUNTIME, RuntimeParams(), RUNTIME, ("archive",), tools)
    archive = one.outputs["archive"]
    assert archive == two.outputs["archive"]
    assert archive.startswith(b"!<arch>\n")
    for word in (b"rt_a", b"rt_b", b"rt_c", b"a.c.o", b"b.c.o", b"c.S.o"):
        assert word in archive
    assert str(tmp_path).encode() not in archive


def test_what_is_never_hot_is_there() -> None:
    names = runtime_sources()
    assert [start for start in _NEVER_HOT if not any(name.startswith(start) for name in names)] == []


def test_a_runtime_that_does_not_compile_says_which_file(tmp_path: Path, tools: Tools) -> None:
    sources = {**RUNTIME, "y/b.c": "int rt_b(void) { return }\n"}
    error = failing_step(tmp_path, StepKind.RUNTIME, RuntimeParams(), sources, ("archive",), tools)
    assert "y/b.c" in error.message
    assert "doctor" in error.hint
    assert error.output
