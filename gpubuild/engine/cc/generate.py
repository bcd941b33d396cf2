"""Generate sources: run the command of an entry of ``generate:`` on copies of its inputs."""

from __future__ import annotations

from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import StepError
from gpubuild.model.step import GenerateParams
from gpubuild.toolchain.run import run_tool


def run(params: GenerateParams, io: StepIO) -> None:
    """Run the command in a private folder, and take its outputs from there."""
    folder = io.scratch / "generate"
    folder.mkdir()
    for number, name in enumerate(params.inputs):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(io.read(f"input.{number}"))
        path.chmod(io.path(f"input.{number}").stat().st_mode & 0o777)
    io.read("tool")  # verified; it runs where it is, since it may need files beside it
    with io.stage("generate"):
        done = run_tool([io.path("tool"), *params.command[1:]], cwd=folder)
        done.check(f"generating {', '.join(params.outputs)}")
        for name in params.outputs:
            made = folder / name
            if not made.is_file() or made.is_symlink():
                raise StepError(
                    f"the command of `generate:` did not write {name}",
                    output=done.output,
                    hint="it runs in a folder with copies of its `inputs:`; outputs belong there, too",
                )
            io.write(name, made.read_bytes())
