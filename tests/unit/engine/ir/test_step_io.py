"""Inputs of a step: which bytes it gets, and what happens when a file changes."""

import os
from pathlib import Path

import pytest

from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import InputChangedError
from gpubuild.model.digest import Digest, digest_bytes
from gpubuild.model.job import Job, JobInput
from gpubuild.model.step import LinkParams, StepKind
from gpubuild.support.file_stamp import Stat, stat_of

LARGE = 1 << 24
WRONG = digest_bytes(b"other")  # only stat data can prove it


def step_io(path: Path, digest: Digest, proof: "Stat | None") -> StepIO:
    inputs = (JobInput(name="object", path=path, digest=digest, proof=proof),)
    workdir = path.parent / "job"
    workdir.mkdir()
    return StepIO(
        Job(
            step_id="link",
            kind=StepKind.LINK,
            params=LinkParams(),
            inputs=inputs,
            output_names=(),
            tools={},
            workdir=workdir,
        )
    )


def read(io: StepIO) -> int:
    return sum(map(len, io.chunks("object", LARGE // 4)))


def large_file(folder: Path, size: int = LARGE) -> Path:
    path = folder / "large"
    path.write_bytes(bytes(size))
    return path


def test_a_large_file_with_proof_is_not_hashed_again(tmp_path: Path) -> None:
    path = large_file(tmp_path)
    io = step_io(path, WRONG, stat_of(path))
    assert read(io) == LARGE
    assert len(io.view("object")) == LARGE
    io.finish()


@pytest.mark.parametrize("size", [LARGE, LARGE - 1])
def test_other_files_are_hashed(tmp_path: Path, size: int) -> None:
    path = large_file(tmp_path, size)
    proof = stat_of(path)
    if size >= LARGE:
        path.write_bytes(bytes(size))  # the same size and content, at another time
        os.utime(path, ns=(0, 0))
    io = step_io(path, WRONG, proof)
    for use in (read, lambda io: io.view("object")):
        with pytest.raises(InputChangedError, match="changed while the build was running"):
            use(io)


def test_a_proven_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path = large_file(tmp_path)
    io = step_io(path, digest_bytes(bytes(LARGE)), stat_of(path))
    pieces = io.chunks("object", LARGE // 4)
    next(pieces)
    os.utime(path, ns=(0, 0))
    with pytest.raises(InputChangedError, match="changed while the build was running"):
        list(pieces)


@pytest.mark.parametrize("mapped", [False, True])
def test_a_proven_file_that_changes_before_the_step_ends(tmp_path: Path, mapped: bool) -> None:
    path = large_file(tmp_path)
    io = step_io(path, digest_bytes(bytes(LARGE)), stat_of(path))
    if mapped:
        io.view("object")
    else:
        read(io)
    os.utime(path, ns=(0, 0))
    with pytest.raises(InputChangedError, match="changed while the build was running"):
        io.finish()
