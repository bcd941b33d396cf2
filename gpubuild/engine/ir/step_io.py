"""The inputs, outputs, tools and stages of a running step, which has no other access to files.

Passes and assemblers read other files as well: those named in options of a pass pipeline, and those
of ``.incbin`` and ``.include`` in inline assembly. As with C headers, no key covers these. They are
recorded (*discovered*), and a result is valid while they are unchanged.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TypeVar

from gpubuild.engine.ir import dump
from gpubuild.errors import (
    Diagnostic,
    GpubuildError,
    InputChangedError,
    Location,
    NoRoomError,
    StepError,
    ToolNotFoundError,
)
from gpubuild.model.digest import Digest, digest_bytes, digest_file
from gpubuild.model.job import STAGE_FILE, Job, JobInput, JobResult, StageTime
from gpubuild.model.step import ActionResult, Blob, is_plain_name
from gpubuild.support.file_stamp import Stat, stamp, stat_of
from gpubuild.support.files import NO_ROOM

T = TypeVar("T")

_LARGE_BYTES = 1 << 24  # from here on, a copy of an input costs more than another look at its stat data


class StepIO:
    """Verified inputs, private outputs and the current stage of a step.

    Inputs must have the digests that the key was computed from, so that a file edited while its step
    runs is never stored under a wrong key.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._inputs = {i.name: i for i in job.inputs}
        self._out = job.workdir / "out"
        self._out.mkdir(parents=True, exist_ok=True)
        self._scratch = job.workdir / "tmp"
        self._scratch.mkdir(exist_ok=True)
        self._stages: list[StageTime] = []
        # Kept open: opening it for each stage takes longer than some stages.
        self._stage_file = os.open(
            job.workdir / STAGE_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644
        )
        weakref.finalize(self, os.close, self._stage_file)
        self._written: dict[str, Path] = {}
        self._digests: dict[str, Digest] = {}  # of outputs, where they are known
        self._discovered: list[tuple[str, Digest]] = []
        self._in_place: dict[str, Stat] = {}  # inputs that are read where they are
        self._warnings: list[str] = []

    @property
    def scratch(self) -> Path:
        """A private folder in which tools run."""
        return self._scratch

    @property
    def input_names(self) -> tuple[str, ...]:
        """Roles of all inputs, in the order of the step."""
        return tuple(self._inputs)

    def has(self, name: str) -> bool:
        """Return whether the step has an input called ``name``."""
        return name in self._inputs

    def path(self, name: str) -> Path:
        """Return the path of input ``name``, for relative look-ups and messages: it is not verified."""
        return self._inputs[name].path

    def head(self, name: str, size: int) -> bytes:
        """Return the first bytes of input ``name``, which are not verified."""
        with _reading(self._inputs[name]) as path, path.open("rb") as stream:
            return stream.read(size)

    def read(self, name: str) -> bytes:
        """Return the verified bytes of input ``name``. Raises ``InputChangedError`` on a mismatch."""
        item = self._inputs[name]
        with _reading(item) as path:
            data = path.read_bytes()
        _verify(data, item)
        return data

    def chunks(self, name: str, size: int) -> Iterator[bytes]:
        """Yield input ``name`` in pieces of ``size`` bytes.

        Raises ``InputChangedError`` at the end on a mismatch: do not use the bytes before.
        """
        item = self._inputs[name]
        digest = hashlib.sha256()
        with _reading(item) as path, path.open("rb", buffering=0) as stream:
            proven = self._is_proven(item, stamp(os.fstat(stream.fileno())))
            while data := stream.read(size):
                if not proven:
                    digest.update(data)
                yield data
            changed = proven and stamp(os.fstat(stream.fileno())) != item.proof
        if changed or (not proven and digest.hexdigest() != item.digest):
            raise _changed(item)

    def view(self, name: str) -> memoryview:
        """Map input ``name``, verified like :meth:`read`: for outputs of other steps, which no user edits.

        :meth:`finish` refuses the result if the file has changed since.
        """
        item = self._inputs[name]
        with _reading(item) as path, path.open("rb") as stream:
            found = stamp(os.fstat(stream.fileno()))
            self._in_place.setdefault(name, found)
            data = memoryview(mmap(stream.fileno(), 0, access=ACCESS_READ) if found[0] else b"")
        if not self._is_proven(item, found):
            _verify(data, item)
        return data

    def _is_proven(self, item: JobInput, found: Stat) -> bool:
        """Return whether stat data show that a large file has its digest; :meth:`finish` compares them again.

        Small files are hashed once more: that costs less than it could ever save.
        """
        if found != item.proof or found[0] < _LARGE_BYTES:
            return False
        self._in_place.setdefault(item.name, found)
        return True

    def digest(self, name: str) -> Digest:
        """Return the digest that input ``name`` must have."""
        return self._inputs[name].digest

    def text(self, name: str) -> str:
        """Return input ``name`` decoded as UTF-8, without a byte-order mark.

        Raises ``StepError`` for other encodings.
        """
        return self.decode(name, self.read(name))

    def decode(self, name: str, data: bytes) -> str:
        """Decode ``data`` of input ``name`` like :meth:`text`."""
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line, byte = data.count(b"\n", 0, error.start) + 1, data[error.start]
            before = data[: error.start].rpartition(b"\n")[2]
            where = Location(file=str(self.path(name)), line=line, column=len(before) + 1)
            raise StepError(
                f"{self.path(name).name} is not UTF-8 text",
                diagnostics=[Diagnostic(message=f"the byte 0x{byte:02x} is not UTF-8", location=where)],
                hint="save it as UTF-8",
            ) from error

    def copy_in(self, name: str, filename: str) -> Path:
        """Copy input ``name``, verified, to ``scratch/filename`` for a tool, and return that path.

        With fixed file names, tools do not write the user's paths into their outputs.
        """
        path = self._scratch / filename
        path.write_bytes(self.read(name))
        return path

    def link_in(self, name: str, filename: str) -> Path:
        """Do what :meth:`copy_in` does, with a link to a large file, for a tool that only reads it."""
        item = self._inputs[name]
        with _reading(item) as path:
            size_bytes = path.stat().st_size
        if size_bytes < _LARGE_BYTES:
            return self.copy_in(name, filename)
        self.view(name)
        link = self._scratch / filename
        link.symlink_to(item.path.absolute())
        return link

    def write(self, name: str, data: bytes | str) -> None:
        """Write output ``name``."""
        self.out_path(name).write_bytes(data.encode() if isinstance(data, str) else data)

    def out_path(self, name: str) -> Path:
        """Return the path to which a tool must write output ``name``."""
        if not is_plain_name(name):
            raise ValueError(f"not a plain output name: {name!r}")
        self._written[name] = self._out / name
        return self._written[name]

    def move_out(self, name: str, path: Path, digest: Digest | None = None) -> None:
        """Make the file at ``path``, whose content has ``digest`` if that is known, the output ``name``."""
        path.rename(self.out_path(name))
        if digest is not None:
            self._digests[name] = digest

    def tool_out(self, name: str) -> str:
        """Return :meth:`out_path` relative to :attr:`scratch`: ld.lld replaces each ``%`` in a path."""
        return f"../{self.out_path(name).relative_to(self._job.workdir)}"

    def tool(self, name: str) -> tuple[str, ...]:
        """Return the start of the command line of tool ``name``. Raises ``ToolNotFoundError``."""
        if name not in self._job.tools:
            why = f": {reason}" if (reason := self._job.missing_tools.get(name)) else ""
            raise ToolNotFoundError(
                f"{name} was not found{why}", hint=f"run `gpubuild doctor` to see where {name} is looked for"
            )
        return self._job.tools[name]

    def has_tool(self, name: str) -> bool:
        """Return whether optional tool ``name`` was found."""
        return name in self._job.tools

    def discover(self, path: Path, digest: Digest) -> None:
        """Record that the step also read ``path``, whose content had ``digest``."""
        self._discovered.append((str(path), digest))

    def warn(self, message: str) -> None:
        """Add a warning, which is stored with the result and shown in every build."""
        self._warnings.append(message)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Run the body as a stage: it is timed, errors have its name, and a file has it after a crash."""
        os.pwrite(self._stage_file, f"{name}\n".encode(), 0)  # only the first line is read
        start = time.monotonic()
        try:
            with dump.stage(name):
                yield
        except StepError as error:
            raise error.with_(stage=error.stage or name) from error.__cause__
        except GpubuildError:
            raise
        except Exception as error:
            failure = (
                no_room(error, self._job.workdir)
                or _explained(error)
                or StepError(f"{type(error).__name__}: {error}")
            )
            raise failure.with_(stage=name) from error
        finally:
            self._stages.append(StageTime(stage=name, seconds=time.monotonic() - start))

    def finish(self) -> JobResult:
        """Digest the outputs. Raises ``StepError`` when one is missing or not declared.

        Raises ``InputChangedError`` when an input that was read in place has changed meanwhile.
        """
        for name, seen in self._in_place.items():
            with suppress(OSError):
                if stat_of(self._inputs[name].path) == seen:
                    continue
            raise _changed(self._inputs[name])
        expected = set(self._job.output_names) if self._job.output_names else set(self._written)
        paths = {name: self._out / name for name in sorted(expected)}
        if set(self._written) - expected or not all(path.is_file() for path in paths.values()):
            raise StepError(
                f"step {self._job.step_id} wrote {sorted(self._written)}, expected {sorted(expected)}"
            )
        blobs = tuple(
            Blob(
                name=name,
                digest=self._digests.get(name) or digest_file(path),
                size_bytes=path.stat().st_size,
                executable=name in self._job.executable_outputs,
            )
            for name, path in paths.items()
        )
        return JobResult(
            step_id=self._job.step_id,
            result=ActionResult(
                blobs=blobs,
                discovered=tuple(self._discovered),
                warnings=tuple(self._warnings),
                seconds=round(sum(s.seconds for s in self._stages), 6),
            ),
            stages=tuple(self._stages),
        )


def lower_input(io: StepIO, role: str, lower: Callable[[str], T]) -> T:
    """Return the result of ``lower`` for the text of input ``role``.

    When that fails, lower ``located``, the same code with locations in the user's file, for its message.
    """
    try:
        return lower(io.text(role))
    except StepError as plain:
        if not io.has("located"):
            raise
        try:
            lower(io.text("located"))
        except StepError as located:
            raise located from plain
        raise


def _explained(error: BaseException) -> StepError | None:
    """Return an error for the user for those that the bindings raise on unusual sources, else ``None``."""
    if isinstance(error, RecursionError):
        return StepError(
            "operations are nested too deeply to be compiled for this target",
            hint="move inner regions into functions of their own",
        )
    if isinstance(error, RuntimeError) and "str_from_cstr" in str(error):
        return StepError(
            "a name or string in the MLIR text is not UTF-8", hint="write `ü` instead of bytes \\HH"
        )
    return None


@contextmanager
def _reading(item: JobInput) -> Iterator[Path]:
    try:
        yield item.path
    except OSError as error:
        raise InputChangedError(f"cannot read {item.path}: {error.strerror}") from error


def _verify(data: bytes | memoryview, item: JobInput) -> None:
    if digest_bytes(data) != item.digest:
        raise _changed(item)


def _changed(item: JobInput) -> InputChangedError:
    return InputChangedError(
        f"{item.path} changed while the build was running", hint="build again; nothing was stored"
    )


def no_room(error: BaseException, workdir: Path) -> StepError | None:
    """Return an error for the user if ``error`` means that the disk of ``workdir`` is full, else ``None``."""
    if not isinstance(error, OSError) or error.errno not in NO_ROOM:
        return None
    # Without the numbers of build and job: steps that fail for one reason have one message.
    return NoRoomError(
        f"cannot write to {workdir.parents[1]}: {error.strerror}",
        hint="free some space or choose another folder with --build-dir",
    )


_WORD = re.compile(r"""[^\s,={}()"';]*[/.][^\s,={}()"';]*""")  # file names have a dot or slash


@contextmanager
def recorded(pipeline: str, io: StepIO) -> Iterator[None]:
    """Record the files named in a pass pipeline that the body runs.

    Raises ``StepError`` for a folder, whose later content is unknown, and ``InputChangedError`` for a
    file that changes meanwhile.
    """
    before = _digests(pipeline)
    yield
    if _digests(pipeline) != before:
        raise InputChangedError(
            "a file that the pass pipeline names changed while it ran",
            hint="build again; nothing was stored",
        )
    for file, digest in before.items():
        io.discover(file, digest)


def _digests(pipeline: str) -> dict[Path, Digest]:
    found = {}
    for word in dict.fromkeys(_WORD.findall(pipeline)):
        file = Path(word).absolute()
        if "library-paths" in pipeline and file.is_dir():
            raise StepError(
                f"the pass pipeline names the folder {word}: changes of its list of files go unnoticed",
                hint="name the files in it, separated by commas",
            )
        if file.is_file():
            found[file] = digest_file(file)
    return found


# In assembly, in preprocessed C (\") and in LLVM IR (\22). Directives can be in capitals.
_READS = re.compile(rb'\.inc(bin|lude)\s*(?:\\?"|\\22)([^"\\\n]+)', re.IGNORECASE)
_MENTIONS = re.compile(rb"\.inc(?:bin|lude)", re.IGNORECASE)


def mentions(text: bytes) -> bool:
    """Return whether inline assembly in the text may make the assembler read a file."""
    return _MENTIONS.search(text) is not None


def discover(text: bytes, io: StepIO) -> None:
    """Record the files named in ``text`` and in files that it includes.

    A name that cannot be read was not one: the assembler would have failed.
    """
    seen: set[Path] = set()
    texts = [text]
    while texts:
        for directive, name in _READS.findall(texts.pop()):
            file = io.scratch / name.decode(errors="surrogateescape")
            if file in seen:
                continue
            seen.add(file)
            with suppress(OSError):
                data = file.read_bytes()
                io.discover(file, digest_bytes(data))
                if directive.lower() == b"lude":
                    texts.append(data)
