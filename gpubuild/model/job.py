"""Job: a step made ready for a worker, and what the worker gives back. Both pickle."""

from __future__ import annotations

from pathlib import Path

from gpubuild.model.digest import Digest
from gpubuild.model.step import ActionResult, Params, StepKind
from gpubuild.support.file_stamp import Stat
from gpubuild.support.frozen import field, frozen

LOG_FILE = "log"  # in the workdir: what the job wrote to stdout and stderr
STAGE_FILE = "stage"  # in the workdir: its first line is the stage under way, read after a crash


@frozen
class JobInput:
    """A file to read, and the digest it must have: a worker uses no other bytes.

    ``proof`` are stat data with which its content has this digest, if known.
    """

    name: str
    path: Path
    digest: Digest
    proof: Stat | None = None


@frozen
class Job:
    """All that a worker needs. ``tools`` maps a tool's name to the start of its command line.

    ``workdir`` is a private folder without content on the build folder's file system; outputs are written
    into ``workdir/out`` under their role names, and the caller moves or deletes it afterwards.
    """

    step_id: str
    kind: StepKind
    params: Params
    inputs: tuple[JobInput, ...]
    output_names: tuple[str, ...]  # empty when dynamic
    tools: dict[str, tuple[str, ...]]
    workdir: Path
    timeout_seconds: float = 0.0  # 0: none
    executable_outputs: tuple[str, ...] = ()
    dump_ir: Path | None = None  # a folder for the IR after every stage
    missing_tools: dict[str, str] = field(default_factory=dict)  # optional ones, and why they were not found
    fingerprints: dict[str, str] = field(default_factory=dict)  # of tools, by name, as in the key
    finds_failure: bool = False  # the step has failed: find the operation that it failed on


@frozen
class StageTime:
    """How long one stage of a job took."""

    stage: str
    seconds: float


@frozen
class JobResult:
    """Outputs lie in ``workdir/out/<name>`` with the digests that ``result`` lists."""

    step_id: str
    result: ActionResult
    stages: tuple[StageTime, ...] = field(default=(), compare=False)
    worker: str = field(default="", compare=False)  # on another machine
    waited_seconds: float = field(default=0.0, compare=False)  # for others that came back with it
