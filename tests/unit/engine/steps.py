"""Run one step of the engine in this process, with real tools."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import ziglang

from gpubuild.engine.dispatch import run_job
from gpubuild.errors import StepError
from gpubuild.model.digest import digest_bytes
from gpubuild.model.job import Job, JobInput, JobResult
from gpubuild.model.step import Params, StepKind

ZIG = str(Path(next(iter(ziglang.__path__))) / "zig")
Tools = dict[str, tuple[str, ...]]


def system_tools() -> Tools:
    found = {name: shutil.which(program) for name, program in (("cc", "cc"), ("cxx", "c++"), ("ar", "ar"))}
    if not all(found.values()):
        pytest.skip("this machine has no system compiler")
    return {name: (str(path),) for name, path in found.items()}


def zig_tools() -> Tools:
    return {"cc": (ZIG, "cc"), "cxx": (ZIG, "c++"), "ar": (ZIG, "ar")}


COMPILERS = {"system": system_tools, "zig": zig_tools}


@dataclass(frozen=True)
class Ran:
    outputs: dict[str, bytes]
    result: JobResult

    def text(self, name: str) -> str:
        return self.outputs[name].decode()


def run_step(
    workdir: Path,
    kind: StepKind,
    params: Params,
    inputs: Mapping[str, bytes | str | Path],
    outputs: tuple[str, ...],
    tools: Tools | None = None,
) -> Ran:
    """``inputs`` maps roles to content, or to a file that exists."""
    workdir.mkdir(parents=True, exist_ok=True)
    job_inputs = []
    for name, given in inputs.items():
        if isinstance(given, Path):
            path, data = given, given.read_bytes()
        else:
            data = given.encode() if isinstance(given, str) else given
            path = workdir / f"in.{name}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        job_inputs.append(JobInput(name=name, path=path, digest=digest_bytes(data)))
    job = Job(
        step_id="test/step",
        kind=kind,
        params=params,
        inputs=tuple(job_inputs),
        output_names=outputs,
        tools=tools or {},
        workdir=workdir / "job",
    )
    result = run_job(job)
    return Ran({name: (workdir / "job" / "out" / name).read_bytes() for name in outputs}, result)


def failing_step(
    workdir: Path,
    kind: StepKind,
    params: Params,
    inputs: Mapping[str, bytes | str | Path],
    outputs: tuple[str, ...],
    tools: Tools | None = None,
) -> StepError:
    return refused(run_step, workdir, kind, params, inputs, outputs, tools)


def refused(function: Callable[..., object], *arguments: Any, **options: Any) -> StepError:
    """The error that a call ends with."""
    with pytest.raises(StepError) as caught:
        function(*arguments, **options)
    return caught.value
