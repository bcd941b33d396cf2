"""Errors for jobs that ended without an answer."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from gpubuild.errors import StepCrashedError, StepKilledError
from gpubuild.model.job import LOG_FILE, STAGE_FILE, Job
from gpubuild.model.project import TENSOR_PIPELINES
from gpubuild.model.step import pipeline_of

_MAX_LOG_BYTES = 64 << 10
_MAX_LINES = 20
_MAX_LINE = 400
# What LLVM prints before it aborts, the most helpful first.
_CAUSES = (
    re.compile(r"LLVM ERROR:"),
    re.compile(r"Assertion [`'].*failed|UNREACHABLE executed"),
    re.compile(r"fatal error|error:|terminate called|what\(\):"),
)
_NOISE = re.compile(
    r"^\s*#\d+ |^\s*\d+\.\s|^Stack dump|PLEASE submit a bug report|^\s*$"
    r"|^Fatal Python error|^Current thread|^Thread 0x|^Extension modules:|^  File \"|\(\+0x[0-9a-f]+\)"
)
_ADDRESS = re.compile(r"0x[0-9a-f]{5,}")
# LLVM's code generators end the process, with exit code 1, on errors of the kernel.
_REPORTED = re.compile(r"^error: (<unknown>:0:0: )?")
_EXIT_REPORTED = 1
_WORKGROUP_MEMORY = re.compile(r"local memory \(\d+\) exceeds limit \((\d+)\)")


def crash_error(job: Job, exit_code: int, *, timed_out: bool) -> StepCrashedError:
    """Return the error for a job whose process ended with ``exit_code`` and no answer."""
    hint = "other steps are not affected; a lower opt_level or other passes may avoid it. Please report it"
    stage = _stage(job.workdir)
    passes, where = pipeline_of(job.params)
    by_pipeline = bool(stage) and stage == where and passes not in TENSOR_PIPELINES
    how = _signal_name(-exit_code) if exit_code < 0 else f"exit code {exit_code}"
    output = _output(job.workdir)
    if timed_out:
        message = f"timed out after {job.timeout_seconds:g} s"
        hint = "the step was stopped; allow more time or make the module smaller"
    elif exit_code == -signal.SIGKILL:
        message = "the compiler was killed (SIGKILL), most likely because memory ran out"
        hint = "run fewer steps at once with -j, or close other programs"
    elif by_pipeline:
        message = f"the pass pipeline ended the compiler ({how})"
        hint = (
            "correct the options of its passes, not all of which MLIR checks, or leave the failing pass out"
        )
    elif exit_code < 0:
        message = f"the compiler crashed ({how})"
    elif exit_code == _EXIT_REPORTED and _REPORTED.match(output):
        output = _REPORTED.sub("", output)
        message = "LLVM cannot compile this for the target"
        hint = _advice(output)
    else:
        message = f"the compiler ended without a result ({how})"
    kind = StepKilledError if exit_code == -signal.SIGKILL and not timed_out else StepCrashedError
    return kind(message, stage=stage, output=output, hint=hint)


def clean_log(text: str) -> str:
    """Return the lines of a log that explain a crash, the cause first, without stack dumps and addresses."""
    lines = [line.rstrip() for line in text.splitlines() if not _NOISE.search(line)]
    lines = [_ADDRESS.sub("0x…", line)[:_MAX_LINE] for line in lines]
    for cause in _CAUSES:
        found = next((n for n, line in enumerate(lines) if cause.search(line)), None)
        if found is not None:
            first = lines.pop(found)
            return "\n".join([first, *lines[-(_MAX_LINES - 1) :]])
    return "\n".join(lines[-_MAX_LINES:])


def _advice(output: str) -> str:
    if found := _WORKGROUP_MEMORY.search(output):
        return f"a workgroup has {found[1]} bytes of workgroup memory (LDS) on this chip: use less of it"
    return "change the kernel, or leave this target out for the module (`modules:` in targets.yaml)"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _stage(workdir: Path) -> str:
    try:
        return (workdir / STAGE_FILE).read_text(encoding="utf-8", errors="replace").partition("\n")[0][:100]
    except OSError:
        return ""


def _output(workdir: Path) -> str:
    try:
        with (workdir / LOG_FILE).open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            stream.seek(max(0, size - _MAX_LOG_BYTES))
            return clean_log(stream.read(_MAX_LOG_BYTES).decode(errors="replace"))
    except OSError:
        return ""
