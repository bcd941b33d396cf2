"""Document: what ``build --json`` prints. Others script against it (README, "JSON")."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from gpubuild.errors import ConfigError, GpubuildError
from gpubuild.model.result import BuildReport, Status, StepReport

SCHEMA = 1


def build_document(
    report: BuildReport, programs: Iterable[str], shown: Callable[[Path], str] = str
) -> dict[str, Any]:
    """``programs`` are the names that were asked for; ``shown`` spells paths."""
    return {
        "schema": SCHEMA,
        "programs": [
            {"name": n, "executable": shown(report.executables[n]) if n in report.executables else None}
            for n in programs
        ],
        "steps": [_step(step, shown) for step in report.steps],
        "summary": {
            "ok": report.ok,
            "steps": len(report.steps),
            **{status.value: sum(1 for s in report.steps if s.status is status) for status in Status},
            "seconds": round(report.seconds, 3),
            "saved_seconds": round(report.saved_seconds, 3),
            "warnings": list(report.warnings),
            "hit_rate": None if report.hit_rate is None else round(report.hit_rate, 4),
            "note": report.note,
        },
    }


def error_document(error: GpubuildError) -> dict[str, Any]:
    """The document of a build that could not begin: wrong configuration, an unknown program."""
    return {
        "schema": SCHEMA,
        "programs": [],
        "steps": [],
        "summary": {"ok": False, "steps": 0},
        "error": describe(error),
    }


def describe(error: GpubuildError) -> dict[str, Any]:
    """An error for a script: its message, its text as a person sees it, and the exit code."""
    found: dict[str, Any] = {
        "message": error.message,
        "text": error.render(),
        "hint": error.hint,
        "exit_code": error.exit_code,
    }
    if isinstance(error, ConfigError):
        found["problems"] = [
            {
                "file": p.location.file if p.location else None,
                "line": p.location.line if p.location else None,
                "column": p.location.column if p.location else None,
                "message": p.message,
            }
            for p in error.problems
        ]
    return found


def dump(document: dict[str, Any] | list[dict[str, Any]]) -> str:
    """Text of a document, ending without a newline."""
    return json.dumps(document, indent=2, ensure_ascii=False)


def _step(step: StepReport, shown: Callable[[Path], str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": step.id,
        "kind": step.kind.value,
        "module": step.module or None,
        "target": step.target or None,
        "status": step.status.value,
        "reason": step.reason,
        "seconds": round(step.seconds, 6),
        "outputs": [shown(path) for path in step.outputs],
    }
    if step.error is not None:
        found["error"] = describe(step.error)
    return found
