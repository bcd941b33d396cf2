"""Leftovers: what earlier builds made for programs, modules and targets that are no more.

Only a file goes that a step of this project file made, that no step makes or reads any more, and
that still has the content it was given.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from gpubuild.build.state import BuildState, Origin
from gpubuild.model.project import Project
from gpubuild.plan.layout import Layout
from gpubuild.plan.plan import Plan


def remove_leftovers(
    state: BuildState, *, layout: Layout, project: Project, plan: Plan, built: Collection[str]
) -> list[Path]:
    """Delete outputs of steps that are no more, and folders that are empty then; returns the files.

    ``plan`` has every step of the programs ``built``; nothing is known of the others of ``project``.
    """

    def is_known(file: str, program: str) -> bool:
        return file == str(project.file) and (program in built or program not in project.programs)

    gone = {
        step_id: record
        for step_id, record in state.records().items()
        if record.origin is not None
        and step_id not in plan.steps
        and is_known(record.origin.file, record.origin.program)
    }
    orphans = {path: o for path, o in state.orphans.items() if is_known(o.file, o.program)}
    if not gone and not orphans:
        return []
    needed = {str(item.path) for step in plan.steps.values() for item in step.inputs}
    needed |= {str(output.path) for step in plan.steps.values() for output in step.outputs}
    needed |= {str(source) for program in project.programs.values() for source in program.sources}
    for step_id, record in state.records().items():
        if step_id not in gone and record.origin is not None:
            needed.update(record.origin.outputs)
    made = {path: orphan.digest for path, orphan in orphans.items()}
    for step_id, record in gone.items():
        state.forget(step_id)
        blobs = record.result.blobs
        made.update((path, b.digest) for path, b in zip(_outputs(record.origin), blobs, strict=False))
    state.forget_orphans(orphans)
    removed = []
    for text, digest in made.items():
        path = Path(text)
        if text in needed or not layout.owns(path) or state.files.digest(path) != digest:
            continue
        with suppress(OSError):
            path.unlink()
            removed.append(path)
        state.files.forget(path)
    for path in removed:
        _remove_empty(path.parent, layout)
    return removed


def remove_executable(state: BuildState, *, layout: Layout, project: Project, program: str) -> None:
    """Delete what an earlier build linked, if it is still that; the cache has it should it be right again."""
    record = state.record(f"{program}/link")
    path = layout.executable(program)
    if (
        record is not None
        and record.origin is not None
        and record.origin.file == str(project.file)
        and layout.owns(path)
        and state.files.digest(path) in {blob.digest for blob in record.result.blobs}
    ):
        with suppress(OSError):
            path.unlink()
        state.files.forget(path)


def _outputs(origin: Origin | None) -> tuple[str, ...]:
    return origin.outputs if origin else ()


def _remove_empty(folder: Path, layout: Layout) -> None:
    with suppress(OSError):
        while layout.build_dir in folder.parents:
            folder.rmdir()
            folder = folder.parent
