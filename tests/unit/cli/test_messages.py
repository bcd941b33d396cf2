"""Messages: errors and warnings as annotations of GitHub and as SARIF."""

import json
from pathlib import Path

import pytest

from gpubuild.cli.messages import Messages, annotation, of_error, of_warning, requested, sarif
from gpubuild.errors import (
    ConfigError,
    Diagnostic,
    GpubuildError,
    InterruptedBuildError,
    Location,
    StepError,
    UsageError,
)


def at(message: str, line: int = 3, column: int = 5, severity: str = "error", **more: object) -> Diagnostic:
    location = Location(file="a b.mlir", line=line, column=column)
    return Diagnostic(message=message, severity=severity, location=location, **more)


@pytest.mark.parametrize(
    ("line", "column", "end"),
    [
        ("    memref.stre %new, %x[%i]", 5, 16),
        ("    memref.stre %new, %x[%i]", 17, 21),
        ("targetz:", 1, 8),
        ("a: 'two words'", 4, 15),
        ("  }", 3, 4),
        ("é = ß", 5, 6),
        ("short", 40, 0),
        ("short", 0, 0),
        ("", 3, 0),
    ],
)
def test_a_diagnostic_ends_with_the_word_at_its_column(line: str, column: int, end: int) -> None:
    assert at("no", column=column, source_line=line).end_column == end


NOTE = at("declared here", 1, 2, "note")
STEP = StepError("invalid MLIR", diagnostics=[at("50% of it,\nno", notes=(NOTE,))], hint="see: this")


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (
            UsageError("no, never", hint="this"),
            ["::error title=gpubuild%3A no%2C never::no, never%0Ahint: this"],
        ),
        (
            ConfigError([at("one", source_line="    two three"), at("other", line=9, column=0)]),
            [
                "::error file=a b.mlir,line=3,col=5,endColumn=8,title=gpubuild::one",
                "::error file=a b.mlir,line=9,title=gpubuild::other",
            ],
        ),
        (
            STEP,
            [
                "::error file=a b.mlir,line=3,col=5,title=gpubuild%3A invalid MLIR::"
                "50%25 of it,%0Ano%0Aa b.mlir:1:2: declared here%0Ahint: see: this"
            ],
        ),
        (
            StepError("ptxas failed", diagnostics=[NOTE], output="too much\n"),
            [
                "::error file=a b.mlir,line=1,col=2,title=gpubuild%3A ptxas failed::"
                "ptxas failed%0Atoo much%0Aa b.mlir:1:2: declared here"
            ],
        ),
    ],
)
def test_annotations_of_errors(error: GpubuildError, lines: list[str]) -> None:
    written: list[str] = []
    messages = Messages("github", written.append)
    messages.error(error)
    messages.error(error)
    messages.error(InterruptedBuildError("interrupted"))
    messages.finish()
    assert [line.rstrip("\n") for line in written] == lines, "each once, Ctrl-C is none"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("the cache is full", "::warning title=gpubuild::the cache is full"),
        (
            "a.mlir:4:22: warning: unused\n  int x;\n      ^\nb.mlir:1: note: see this",
            "::warning file=a.mlir,line=4,col=22,title=gpubuild::unused%0Ab.mlir:1: see this",
        ),
    ],
)
def test_annotations_of_warnings(text: str, line: str) -> None:
    assert annotation(of_warning(text)) == line


def test_files_are_named_from_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    [message] = of_error(ConfigError([at("no")]))
    assert annotation(message).startswith("::error file=sub/a b.mlir,")
    monkeypatch.setenv("GITHUB_WORKSPACE", "/elsewhere")
    assert annotation(message).startswith("::error file=a b.mlir,")


def test_sarif() -> None:
    warning = of_warning("a.mlir:4:22: warning: unused")
    document = sarif([*of_error(STEP), *of_error(UsageError("no")), warning])
    [run] = document["runs"]
    assert document["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["step", "usage", "warning"]
    error, warned = run["results"]
    assert error["ruleId"] == "step"
    assert error["level"] == "error"
    assert error["message"]["text"].startswith("invalid MLIR\n50% of it,\nno\n")
    [location] = error["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "a%20b.mlir"},
        "region": {"startLine": 3, "startColumn": 5},
    }
    assert error["relatedLocations"][0]["message"]["text"] == "declared here"
    assert (warned["level"], warned["ruleId"]) == ("warning", "warning")
    [invocation] = run["invocations"]  # services refuse results without a location
    assert invocation["executionSuccessful"] is False
    assert [n["descriptor"]["id"] for n in invocation["toolExecutionNotifications"]] == ["usage"]
    assert sarif([warning])["runs"][0]["invocations"][0]["executionSuccessful"] is True


def test_a_document_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "out.sarif"
    Messages(f"sarif:{file}", print).finish()
    assert json.loads(file.read_text())["runs"][0]["results"] == []
    with pytest.raises(UsageError, match="cannot write"):
        Messages(f"sarif:{tmp_path}/none/out.sarif", print).finish()


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["build", "--message-format", "github"], True),
        (["--message-format=sarif:x", "build"], True),
        (["build", "--message-format", "text"], False),
        (["build", "--message-format", "sarif:"], False),
        (["build", "--message-format"], False),
        (["run", "a", "--", "--message-format", "github"], False),
    ],
)
def test_what_is_requested(arguments: list[str], wanted: bool) -> None:
    assert (requested(arguments, print) is not None) == wanted
