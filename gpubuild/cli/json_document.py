"""The JSON documents of the command line, whose form scripts rely on (docs/reference/cli.md, "JSON").

Only ``json`` is imported: a build with nothing to do writes a document, too.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False  # typing's own costs an import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from typing import Any

    from gpubuild.errors import Diagnostic, GpubuildError
    from gpubuild.model.result import BuildReport

SCHEMA = 1
# The values of `Status`, in its order.
STATUSES = (
    *("ran", "hit-local", "hit-remote", "up-to-date", "failed", "skipped"),
    *("would-run", "would-hit"),
)


def build_document(
    report: BuildReport, programs: Iterable[str], shown: Callable[[Path], str] = str
) -> dict[str, Any]:
    """Return the document of a build of ``programs``; ``shown`` formats paths."""
    steps = []
    for one in report.steps:
        entry = step(
            one.id, one.kind.value, one.module, one.target, one.status.value, map(shown, one.outputs)
        )
        entry |= {"reason": one.reason, "seconds": round(one.seconds, 6)}
        if one.worker:
            entry["worker"] = one.worker
        if one.error is not None:
            entry["error"] = describe(one.error)
        steps.append(entry)
    made = report.executables
    return build(
        {name: shown(made[name]) if name in made else None for name in programs},
        steps,
        {status: sum(one.status.value == status for one in report.steps) for status in STATUSES},
        ok=report.ok,
        seconds=report.seconds,
        saved_seconds=round(report.saved_seconds, 3),
        warnings=list(map(warning, report.all_warnings)),
        hit_rate=None if report.hit_rate is None else round(report.hit_rate, 4),
        note=report.note,
    )


def build(
    programs: Mapping[str, str | None],
    steps: list[dict[str, Any]],
    counts: Mapping[str, int],
    *,
    seconds: float,
    ok: bool = True,
    **more: object,
) -> dict[str, Any]:
    """Return the document of a build from its parts; ``programs`` maps names to executables."""
    return {
        "schema": SCHEMA,
        "programs": [{"name": name, "executable": file} for name, file in programs.items()],
        "steps": steps,
        "summary": {
            "ok": ok,
            "steps": len(steps),
            **{status: counts.get(status, 0) for status in STATUSES},
            "seconds": round(seconds, 3),
            "saved_seconds": 0.0,
            "warnings": [],
            "hit_rate": None,
            "note": "",
            **more,
        },
    }


def step(
    step_id: str, kind: str, module: str, target: str, status: str, outputs: Iterable[str]
) -> dict[str, Any]:
    """Return the entry of one step."""
    return {
        "id": step_id,
        "kind": kind,
        "module": module or None,
        "target": target or None,
        "status": status,
        "reason": "",
        "seconds": 0.0,
        "outputs": list(outputs),
    }


def error_document(error: GpubuildError) -> dict[str, Any]:
    """Return the document of a build that could not begin, for example for an unknown program."""
    return {
        "schema": SCHEMA,
        "programs": [],
        "steps": [],
        "summary": {"ok": False, "steps": 0},
        "error": describe(error),
    }


def describe(error: GpubuildError) -> dict[str, Any]:
    """Return the entry of an error: its message, whole text, codes, and diagnostics with locations."""
    from gpubuild.errors import ConfigError, StepError

    found: dict[str, Any] = {
        "message": error.message,
        "text": error.render(),
        "hint": error.hint,
        "exit_code": error.exit_code,
        "code": error.code,
    }
    if isinstance(error, ConfigError):
        found["diagnostics"] = [_diagnostic(one, error.code) for one in error.problems]
    if isinstance(error, StepError):
        found |= {"step": error.step_id or None, "stage": error.stage or None}
        found |= {"kernel": error.kernel or None, "output": error.output}
        found["diagnostics"] = [_diagnostic(one, error.code) for one in error.diagnostics]
    return found


def _diagnostic(one: Diagnostic, code: str) -> dict[str, Any]:
    where, end = one.location, one.end_column
    return {
        "severity": one.severity,
        "code": code,
        "file": where.file if where else None,
        "line": where.line if where else None,
        "column": where.column if where else None,
        "end_line": where.line if where and end else None,
        "end_column": end or None,
        "message": one.message,
        "notes": [_diagnostic(note, code) for note in one.notes],
    }


def warning(text: str) -> dict[str, Any]:
    """Return the entry of a warning, which has the form of a diagnostic."""
    from gpubuild.cli.messages import of_warning

    message = of_warning(text)
    return _diagnostic(message.diagnostic, message.code)


def dump(document: dict[str, Any] | list[dict[str, Any]]) -> str:
    """Return the text of a document, without a newline at its end."""
    return json.dumps(document, indent=2, ensure_ascii=False)
