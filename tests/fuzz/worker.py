"""Worker: takes mutated sources one after the other through outline and compile, in one process.

Reads lines of JSON (``mutants.Task``) and answers each with one:
``{"parsed", "compiled", "wrong"}``, ``wrong`` being what no damaged source may cause. When it dies
or falls silent, whoever started it knows by which source.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from fuzz.mutants import Task, compile_job, outline_job

from gpubuild.engine.dispatch import run_job
from gpubuild.errors import GpubuildError, StepError
from gpubuild.model.job import Job


def complaint(error: GpubuildError, stage: str) -> str:
    """What is wrong with a message, or an empty string."""
    if not error.message.strip():
        return "an error without a message"
    if isinstance(error, StepError):
        if "Traceback" in error.output:
            return f"a mistake of ours: {error.render()}"
        if stage == "parse" and error.diagnostics and error.diagnostics[0].location is None:
            return f"a message without a place: {error.render()}"
    return ""


def attempt(job: Job, wrong: list[str]) -> bool:
    """Run one step; whether it succeeded."""
    try:
        run_job(job)
    except GpubuildError as error:
        found = complaint(error, error.stage if isinstance(error, StepError) else "")
        if found:
            wrong.append(found)
        return False
    except Exception as error:
        wrong.append(f"{type(error).__name__}: {error}")
        return False
    return True


def answer(task: Task, tools: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """Take one source through both steps."""
    folder = Path(task["folder"])
    wrong: list[str] = []
    outline = outline_job(Path(task["source"]), folder / "outline")
    parsed = attempt(outline, wrong)
    compiled = 0
    if parsed:
        index = json.loads((outline.workdir / "out/index.json").read_text())
        for module in index["modules"]:
            text = outline.workdir / f"out/module.{module['index']}.mlir"
            job = compile_job(module["name"], text, task, folder / f"compile{module['index']}", tools)
            compiled += attempt(job, wrong)
    shutil.rmtree(folder, ignore_errors=True)
    return {"parsed": parsed, "compiled": compiled, "wrong": wrong}


def main() -> None:
    """Answer until there are no more questions."""
    tools = {name: tuple(command) for name, command in json.loads(sys.argv[1]).items()}
    # What LLVM prints must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(answer(json.loads(line), tools)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
