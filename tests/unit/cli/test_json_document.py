"""Document: the JSON that scripts read."""

import json
from pathlib import Path

from unit.projects import build_report, step_report

from gpubuild.cli.build import exit_code
from gpubuild.cli.json_document import STATUSES, build_document, dump, error_document
from gpubuild.errors import ConfigError, Diagnostic, GpubuildError, Location, StepError, ToolNotFoundError
from gpubuild.model.result import BuildReport, Status, StepReport
from gpubuild.model.step import StepKind

COMPILE = StepReport(
    id="saxpy/compile/k/sm_60",
    kind=StepKind.COMPILE,
    program="saxpy",
    module="k",
    target="sm_60",
    status=Status.RAN,
    reason="first build",
    seconds=0.25,
    outputs=(Path("/p/build/saxpy/k.sm_60.cubin"),),
)


def failed(error: GpubuildError) -> StepReport:
    return step_report("cc/main.c", Status.FAILED, error=error)


def test_document_is_as_promised() -> None:
    report = BuildReport(steps=(COMPILE,), executables={"saxpy": Path("/p/build/saxpy/saxpy")}, seconds=1.5)
    document = json.loads(dump(build_document(report, ["saxpy", "other"])))
    assert document["schema"] == 1
    assert document["programs"] == [
        {"name": "saxpy", "executable": "/p/build/saxpy/saxpy"},
        {"name": "other", "executable": None},
    ]
    assert document["steps"] == [{
        "id": "saxpy/compile/k/sm_60", "kind": "compile", "module": "k", "target": "sm_60", "status": "ran",
        "reason": "first build", "seconds": 0.25, "outputs": ["/p/build/saxpy/k.sm_60.cubin"],
    }]  # fmt: skip
    assert document["summary"]["ok"] is True
    assert tuple(Status) == STATUSES
    assert document["summary"]["ran"] == document["summary"]["steps"] == 1
    assert document["summary"]["up-to-date"] == 0


def test_a_failed_step_says_why() -> None:
    report = build_report(COMPILE, failed(StepError("cannot compile main.c", hint="fix it")))
    document = build_document(report, ["saxpy"])
    assert document["summary"]["ok"] is False
    assert document["steps"][1]["error"]["text"] == "cannot compile main.c\n  hint: fix it"
    assert exit_code(report) == 1


def test_exit_code_of_a_missing_tool() -> None:
    def report(*errors):
        return build_report(*map(failed, errors))

    assert exit_code(report(ToolNotFoundError("ptxas was not found"))) == 2
    assert exit_code(report(ToolNotFoundError("ptxas was not found"), StepError("bad"))) == 1
    assert exit_code(report()) == 0


def test_configuration_errors_keep_their_locations() -> None:
    location = Location(file="t.yaml", line=3, column=5)
    note = Diagnostic(message="here", severity="note")
    error = ConfigError(
        [Diagnostic(message="unknown key", location=location, source_line="    chip: 1", notes=(note,))]
    )
    document = error_document(error)
    begin = {"file": "t.yaml", "line": 3, "column": 5}
    nowhere = dict.fromkeys(("file", "line", "column", "end_line", "end_column"))
    [found] = document["error"]["diagnostics"]
    assert found.pop("notes") == [
        {**nowhere, "severity": "note", "code": "config", "message": "here", "notes": []}
    ]
    end = {"end_line": 3, "end_column": 9}
    assert found == {**begin, **end, "severity": "error", "code": "config", "message": "unknown key"}
    assert (document["error"]["exit_code"], document["error"]["code"]) == (2, "config")
    assert document["steps"] == []
