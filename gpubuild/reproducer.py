"""Reproducer: the command that shows the failure of a step again."""

from __future__ import annotations

from gpubuild.model.params import CompileParams
from gpubuild.model.step import Step
from gpubuild.settings import python_command


def reproducer(step: Step) -> str:
    """A command that shows a compile step's failure again; empty for other kinds of steps."""
    if not isinstance(step.params, CompileParams):
        return ""
    import shlex  # for failures only

    params = step.params
    module = next(i.path for i in step.inputs if i.name == "located")
    command = [*python_command(), "compile", str(module), "-t", params.target or params.chip]
    command += ["--kind", params.kind, "--chip", params.chip, "--emit", "bin", "-o", f"repro.{params.kind}"]
    if params.features:
        command.append(f"--features={params.features}")
    command.append(f"--opt-level={params.opt_level}")
    if params.sanitize:
        command.append(f"--sanitize={','.join(params.sanitize)}")
    command += ["--fast-math"] * params.fast_math + ["--debug"] * params.debug
    if params.passes:
        command.append(f"--passes={params.passes}")
    command += [f"--device-lib={i.path}" for i in step.inputs if i.name.startswith("lib.")]
    return shlex.join(command)
