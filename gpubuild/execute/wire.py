"""Wire form of jobs and answers for workers on other machines: versioned msgpack of plain data.

Neither end unpickles or trusts what it reads: types are checked, names are plain, and digests of all bytes
are compared. A job names its tools by content; the worker uses its own, if they are the same. Files of more
than 1 MB are in the remote cache, if client and worker have the same one, else in the message.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gpubuild.cache.local.blobs import DestinationError, SourceError, write_chunks
from gpubuild.cache.remote.bazel_result import Stored
from gpubuild.errors import (
    Diagnostic,
    GpubuildError,
    InputChangedError,
    NoRoomError,
    StepCrashedError,
    StepError,
    StepKilledError,
    ToolNotFoundError,
)
from gpubuild.model.digest import Digest, digest_bytes
from gpubuild.model.job import Job, JobInput, JobResult
from gpubuild.model.step import (
    Blob,
    BundleParams,
    CompileParams,
    HostParams,
    LlvmParams,
    OutlineParams,
    Params,
    StepKind,
    is_plain_name,
    pipeline_of,
)
from gpubuild.support.frozen import frozen
from gpubuild.support.plain_data import plain, typed

if TYPE_CHECKING:
    from gpubuild.cache.remote.store import RemoteStore

VERSION = 2
LARGE_BYTES = 1 << 20  # a larger file is in the remote cache rather than in the message
MOST_BYTES = 1 << 26  # of a job's inputs: those in messages stay in the scheduler's memory until its end
MOST_MESSAGE = 1 << 28
# Steps that read nothing but their inputs. Others run compilers that read the machine's files.
_PARAMS: dict[StepKind, type[Params]] = {
    StepKind.OUTLINE: OutlineParams,
    StepKind.COMPILE: CompileParams,
    StepKind.BUNDLE: BundleParams,
    StepKind.HOST: HostParams,
    StepKind.LLVM: LlvmParams,
}
_ERRORS = {
    kind.__name__: kind
    for kind in (
        StepError,
        StepCrashedError,
        StepKilledError,
        InputChangedError,
        NoRoomError,
        ToolNotFoundError,
    )
}
_ERROR_TEXTS = ("stage", "output", "kernel")
_READS_FILES = (b".incbin", b".include")  # of assembly inside a module


class WireError(Exception):
    """A message that is not what the other end should have sent."""


class RefusedJobError(WireError):
    """The worker did not run the job: it lacks a tool or room, or has another tool."""


@frozen
class Request:
    """A job as a worker gets it. ``tools`` are names and fingerprints.

    ``cache`` is the address of the cache that has large inputs and takes large outputs.
    """

    python: str  # that of the sender, see ``python_tag``
    step: str
    kind: str
    params: dict[str, object]
    inputs: tuple[tuple[str, str, str, int, bytes | Stored], ...]  # role, file name, digest, size, content
    outputs: tuple[str, ...]
    executable: tuple[str, ...]
    tools: dict[str, str]
    missing: dict[str, str]
    timeout: float
    cache: str = ""


def python_tag() -> str:
    """Return the interpreter that results may depend on, such as ``cpython-311``."""
    return str(sys.implementation.cache_tag)


def travels(job: Job) -> bool:
    """Return whether steps of this kind run on other machines."""
    return job.kind in _PARAMS


def why_local(job: Job) -> str:
    """Return why a job that travels by its kind cannot; empty if it can."""
    if job.dump_ir is not None:
        return "its IR is written into a folder of this machine"
    if "/" in pipeline_of(job.params)[0]:
        return "its pass pipeline names a file"
    if input_bytes(job) > MOST_BYTES:
        return f"its inputs are larger than {MOST_BYTES >> 20} MB"
    for item in job.inputs:
        if item.name in ("module", "host") and any(word in item.path.read_bytes() for word in _READS_FILES):
            return "its assembly reads files"
    return ""


def input_bytes(job: Job) -> int:
    """Return the size of all inputs. Raises ``OSError``."""
    return sum(item.path.stat().st_size for item in job.inputs)


def pack_job(job: Job, cache: RemoteStore | None = None) -> bytes:
    """Return ``job`` as a message, for a worker that has this ``cache``.

    Raises ``InputChangedError``, ``OSError``.
    """
    inputs = []
    for item in job.inputs:
        blob = Blob(name=item.name, digest=item.digest, size_bytes=item.path.stat().st_size)
        try:
            content = _sent(blob, item.path, cache)
        except SourceError as error:
            raise InputChangedError(str(error), hint="build again") from error
        if isinstance(content, bytes) and digest_bytes(content) != item.digest:
            raise InputChangedError(f"{item.path} changed while the build was running", hint="build again")
        inputs.append((item.name, item.path.name, item.digest, blob.size_bytes, content))
    return _pack(
        Request(
            python=python_tag(),
            step=job.step_id,
            kind=job.kind.value,
            params=cast(dict[str, object], plain(job.params)),
            inputs=tuple(inputs),
            outputs=job.output_names,
            executable=job.executable_outputs,
            tools=job.fingerprints,
            missing=job.missing_tools,
            timeout=job.timeout_seconds,
            cache=cache.url if cache else "",
        )
    )


def _sent(blob: Blob, file: Path, cache: RemoteStore | None) -> bytes | Stored:
    """Return the content of a file for a message: a large one goes into ``cache``, unless that fails."""
    stored = cache.send_blob(blob, file) if cache and blob.size_bytes > LARGE_BYTES else None
    return stored or file.read_bytes()


def _receive(blob: Blob, content: bytes | Stored, path: Path, cache: RemoteStore | None) -> None:
    """Write the content of a file that a message has, or ``cache``. Raises ``WireError``, ``OSError``."""
    if isinstance(content, bytes):
        if (digest_bytes(content), len(content)) != (blob.digest, blob.size_bytes):
            raise WireError(f"{blob.name!r} has another digest or size")
        path.write_bytes(content)
        path.chmod(0o755 if blob.executable else 0o644)
        return
    try:
        has_it = cache and cache.receive(blob, content, lambda chunks: write_chunks(blob, chunks, path))
    except DestinationError as error:
        raise WireError(str(error)) from error
    if not has_it:
        raise WireError(f"the remote cache does not return {blob.name!r}")


def unpack_job(
    message: bytes,
    folder: Path,
    tools: Mapping[str, tuple[str, ...]],
    cache: RemoteStore | None = None,
) -> Job:
    """Return the job of a message, its inputs written below ``folder``. Raises ``WireError``, ``OSError``."""
    request = unpack_request(message)
    params = _typed(_PARAMS[StepKind(request.kind)], request.params)
    inputs = []
    for number, (role, name, digest, size_bytes, content) in enumerate(request.inputs):
        blob = Blob(name=role, digest=Digest(digest), size_bytes=size_bytes)
        path = folder / "in" / str(number) / (name if is_plain_name(name) else role)
        path.parent.mkdir(parents=True)
        _receive(blob, content, path, cache)
        inputs.append(JobInput(name=role, path=path, digest=blob.digest))
    workdir = folder / "work"
    workdir.mkdir()
    return Job(
        step_id=request.step,
        kind=StepKind(request.kind),
        params=params,
        inputs=tuple(inputs),
        output_names=request.outputs,
        tools=dict(tools),
        workdir=workdir,
        timeout_seconds=request.timeout,
        executable_outputs=request.executable,
        missing_tools=request.missing,
    )


def unpack_request(message: bytes) -> Request:
    """Return a message of :func:`pack_job`. Raises ``WireError``."""
    request = cast(Request, _typed(Request, _unpack(message)))
    if request.kind not in {kind.value for kind in _PARAMS}:
        raise WireError(f"steps of kind {request.kind} do not travel")
    if request.python != python_tag():
        raise WireError(f"the step is for {request.python}, not {python_tag()}")
    return request


def pack_answer(
    answer: JobResult | GpubuildError, worker: str, job: Job, cache: RemoteStore | None = None
) -> bytes:
    """Return how ``job`` of :func:`unpack_job` ended as a message, for a client that has this ``cache``.

    Raises ``OSError``.
    """
    if isinstance(answer, GpubuildError):
        names = {str(item.path): _token(number) for number, item in enumerate(job.inputs)}
        return _pack({"worker": worker, "error": _renamed(_plain_error(answer), names)})
    out = job.workdir / "out"
    try:
        blobs = [_sent(blob, out / blob.name, cache) for blob in answer.result.blobs]
    except SourceError as error:
        raise OSError(str(error)) from error
    return _pack({"worker": worker, "result": plain(answer), "blobs": blobs})


def pack_refusal(reason: str) -> bytes:
    """Return the answer to a job that was not run."""
    return _pack({"refused": reason})


def is_refusal(message: bytes) -> bool:
    """Return whether an answer is one of :func:`pack_refusal`."""
    return "refused" in _unpack(message)


def unpack_answer(message: bytes, job: Job, cache: RemoteStore | None = None) -> JobResult | GpubuildError:
    """Return how ``job`` ended, its outputs written below its folder.

    Raises ``RefusedJobError``, ``WireError`` and ``OSError``.
    """
    found = _unpack(message)
    if "refused" in found:
        raise RefusedJobError(str(found["refused"]))
    worker = str(found.get("worker", ""))
    if "error" in found:
        names = {_token(number): str(item.path) for number, item in enumerate(job.inputs)}
        return _typed_error(_renamed(found["error"], names))
    result = cast(JobResult, _typed(JobResult, found.get("result")))
    blobs = _typed(tuple[bytes | Stored, ...], found.get("blobs"))
    named = tuple(blob.name for blob in result.result.blobs)
    if len(blobs) != len(named) or len(set(named)) != len(named):
        raise WireError("outputs and their bytes do not match")
    if job.output_names and set(named) != set(job.output_names):
        raise WireError(f"outputs are {', '.join(named)}, not {', '.join(job.output_names)}")
    if result.result.discovered:
        raise WireError("the step read files of the worker")
    out = job.workdir / "out"
    out.mkdir(exist_ok=True)
    for blob, content in zip(result.result.blobs, blobs, strict=True):
        if not is_plain_name(blob.name):
            raise WireError(f"output {blob.name!r} has no plain name")
        _receive(blob, content, out / blob.name, cache)
    return JobResult(step_id=job.step_id, result=result.result, stages=result.stages, worker=worker)


def _token(number: int) -> str:
    return f"{{input {number}}}"


def _renamed(value: object, names: Mapping[str, str]) -> object:
    """Return the plain ``value`` with other names of files in its texts."""
    if isinstance(value, dict):
        return {key: _renamed(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    if isinstance(value, str):
        for old, new in names.items():
            value = value.replace(old, new)
    return value


def _plain_error(error: GpubuildError) -> dict[str, object]:
    kind = type(error).__name__ if type(error).__name__ in _ERRORS else StepError.__name__
    found: dict[str, object] = {"kind": kind, "message": error.message, "hint": error.hint}
    if isinstance(error, StepError):
        found |= {name: getattr(error, name) for name in _ERROR_TEXTS}
        found["diagnostics"] = plain(error.diagnostics)
    return found


def _typed_error(found: object) -> GpubuildError:
    if not isinstance(found, dict) or found.get("kind") not in _ERRORS:
        raise WireError("an error of an unknown kind")
    kind: Any = _ERRORS[found["kind"]]
    texts = {name: _typed(str, found.get(name, "")) for name in ("message", "hint", *_ERROR_TEXTS)}
    if not issubclass(kind, StepError):
        return cast(GpubuildError, kind(texts["message"], hint=texts["hint"]))
    diagnostics = _typed(tuple[Diagnostic, ...], found.get("diagnostics", []))
    return cast(GpubuildError, kind(texts.pop("message"), diagnostics=diagnostics, **texts))


def _pack(value: object) -> bytes:
    import msgpack

    content = plain(value)
    return cast(bytes, msgpack.packb({"version": VERSION, **cast(dict[str, object], content)}))


def _unpack(message: bytes) -> dict[str, Any]:
    import msgpack

    try:
        found = msgpack.unpackb(message, strict_map_key=True)
    except Exception as error:
        raise WireError(f"not msgpack: {error}") from error
    if not isinstance(found, dict) or found.pop("version", None) != VERSION:
        raise WireError(f"not version {VERSION} of the wire form")
    return found


def _typed(kind: Any, value: object) -> Any:  # noqa: ANN401 - see ``typed``
    try:
        return typed(kind, value)
    except ValueError as error:
        raise WireError(str(error)) from error
