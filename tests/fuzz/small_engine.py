"""A small engine: steps in microseconds whose results depend on exactly what real ones depend on.

Unlike the fake engine of the unit tests it includes headers, finds libraries, reads what `incbin`
names, warns with places, and checks the bytes it reads as workers do.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from unit.fakes import finish_job
from unit.world import fake_engine

from gpubuild.engine.cc.preprocess import split_root
from gpubuild.errors import InputChangedError, StepError
from gpubuild.model.digest import digest_bytes, encode
from gpubuild.model.job import Job, JobResult
from gpubuild.model.step import CcParams, CompileParams, LinkParams, OutlineParams, PreprocessParams

_INCLUDE = re.compile(r'#include (["<])([^">]+)[">]')
_ASK = re.compile(r'#if __has_include\("([^"]+)"\)')


def run(job: Job) -> JobResult:
    """Raises ``StepError``, and ``InputChangedError`` for inputs that are not what they were."""
    inputs = {item.name: _read(item.path, item.digest) for item in job.inputs}
    match job.params:
        case PreprocessParams():
            return _preprocess(job, job.params)
        case CcParams():
            return _compile_c(job, job.params, inputs)
        case LinkParams():
            return _link(job, job.params, inputs)
        case OutlineParams():
            done = fake_engine(job)
            bad = [n for n, line in enumerate(inputs["source"].decode().splitlines(), 1) if line == "odd"]
            return _with(done, warnings=[f"{job.params.source_name}:{n}: warning: odd" for n in bad])
        case CompileParams() if b"impossible" in inputs["module"]:
            raise StepError(f"@{job.params.module} cannot be compiled")
    return fake_engine(job)


def _read(path: Path, digest: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputChangedError(f"cannot read {path}") from error
    if digest_bytes(data) != digest:
        raise InputChangedError(f"{path} changed")
    return data


def _with(
    done: JobResult, *, discovered: Mapping[str, bytes] | None = None, warnings: Iterable[str] = ()
) -> JobResult:
    found = tuple((path, digest_bytes(data)) for path, data in sorted((discovered or {}).items()))
    return replace(done, result=replace(done.result, discovered=found, warnings=tuple(warnings)))


def _preprocess(job: Job, params: PreprocessParams) -> JobResult:
    source = job.inputs[0].path
    root, _ = split_root(source, params.source_name)
    read: dict[str, bytes] = {}
    text = _include(source, root, params, read, depth=0)
    text += "".join(f"{macro};" for macro in params.define if macro.partition("=")[0] in text)
    own = {str(Path(path)): digest_bytes(data) for path, data in read.items()}
    deps = {str(Path(os.path.relpath(path, root))): digest for path, digest in sorted(own.items())}
    del read[str(source)]
    done = finish_job(job, {"text": text.encode(), "deps": json.dumps(deps).encode()})
    return _with(done, discovered=read)


def _include(path: Path, root: Path, params: PreprocessParams, read: dict[str, bytes], depth: int) -> str:
    if depth > 8:
        raise StepError(f"{path} includes itself")
    data = read[str(path)] = path.read_bytes()
    text = ""
    for line in data.decode().splitlines():
        folders = [root / name for name in params.include]
        if asked := _ASK.fullmatch(line):
            text += f"{any((place / asked[1]).is_file() for place in (path.parent, *folders))};"
        elif found := _INCLUDE.fullmatch(line):
            places = [path.parent, *folders] if found[1] == '"' else folders
            header = next((place / found[2] for place in places if (place / found[2]).is_file()), None)
            if header is None:
                raise StepError(f"{path.name}: {found[2]} not found")
            text += _include(header, root, params, read, depth + 1)
        elif not line.startswith("//"):
            text += line + "\n"
    return text


def _compile_c(job: Job, params: CcParams, inputs: Mapping[str, bytes]) -> JobResult:
    text = inputs["text"].decode()
    root, _ = split_root(next(i.path for i in job.inputs if i.name == "source"), params.source_name)
    if "error" in text:
        raise StepError(f"{params.source_name} is wrong")
    read = {str(root / name): (root / name).read_bytes() for name in re.findall(r"incbin (\S+)", text)}
    lines = inputs["source"].decode().splitlines()
    warnings = [f"{params.source_name}:{n}: warning: odd" for n, line in enumerate(lines, 1) if "odd" in line]
    seed = digest_bytes(encode((params.language, params.opt_level, params.flags, text, *read.values())))
    if warnings and "deps" not in inputs:
        read[str(root / params.source_name)] = inputs["source"]
    return _with(finish_job(job, {"object": seed.encode()}), discovered=read, warnings=warnings)


def _link(job: Job, params: LinkParams, inputs: Mapping[str, bytes]) -> JobResult:
    read: dict[str, bytes] = {}
    folders = [Path(flag.removeprefix("-L")) for flag in params.flags if flag.startswith("-L")]
    for name in params.libraries:
        places = [folder / f"lib{name}.{suffix}" for folder in folders for suffix in ("so", "a")]
        library = next((place for place in places if place.is_file()), None)
        if library is None:
            raise StepError(f"cannot find -l{name}")
        read[str(library)] = library.read_bytes()
    seed = digest_bytes(encode((params.flags, tuple(inputs.items()), tuple(read.values()))))
    return _with(finish_job(job, {"executable": seed.encode()}), discovered=read)
