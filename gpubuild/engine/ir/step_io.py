"""StepIO: the only door between a stage and the world while a step runs.

Pipeline reads: files that a pass pipeline has passes read, such as libraries of transforms.

``passes:`` may name them in any option of any pass. No key covers them: a result holds while they are
as they were, like one that headers went into.

Assembly reads: files that inline assembly has the assembler read, with ``.incbin`` and ``.include``.

No key covers them: a result holds while they are as they were, like one that headers went into.
"""

from __future__ import annotations

import errno
import os
import re
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path

from gpubuild.engine.ir.dump import enter_stage
from gpubuild.errors import GpubuildError, InputChangedError, NoRoomError, StepError, ToolNotFoundError
from gpubuild.model.digest import Digest, digest_bytes, digest_file
from gpubuild.model.job import Job, JobInput, JobResult, StageTime
from gpubuild.model.step import ActionResult, Blob, is_plain_name

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
STAGE_FILE = "stage"  # in the workdir: its first line is the stage under way, read after a crash


class StepIO:
    """Verified inputs, private outputs and the name of the stage under way.

    Input bytes are checked against the digest the key was computed from, so that a file edited
    while its step runs can never be stored under the wrong key.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._inputs = {i.name: i for i in job.inputs}
        self._out = job.workdir / "out"
        self._out.mkdir(parents=True, exist_ok=True)
        self._scratch = job.workdir / "tmp"
        self._scratch.mkdir(exist_ok=True)
        self._stages: list[StageTime] = []
        # Kept open: to open it again for each stage would cost more than many a stage.
        self._stage_file = os.open(
            job.workdir / STAGE_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644
        )
        weakref.finalize(self, os.close, self._stage_file)
        self._written: dict[str, Path] = {}
        self._discovered: list[tuple[str, Digest]] = []
        self._warnings: list[str] = []

    @property
    def scratch(self) -> Path:
        """A private folder for tools' temporary files; run tools with this as their cwd."""
        return self._scratch

    @property
    def input_names(self) -> tuple[str, ...]:
        """Roles of all inputs, in the order of the step."""
        return tuple(self._inputs)

    def has(self, name: str) -> bool:
        """Whether the step has an input called ``name``."""
        return name in self._inputs

    def path(self, name: str) -> Path:
        """Where input ``name`` lies on disk, unverified: for relative look-ups and messages only."""
        return self._inputs[name].path

    def read(self, name: str) -> bytes:
        """The bytes of input ``name``, verified. Raises ``InputChangedError`` on a mismatch."""
        item = self._inputs[name]
        try:
            data = item.path.read_bytes()
        except OSError as error:
            raise InputChangedError(f"cannot read {item.path}: {error.strerror}") from error
        _verify(data, item)
        return data

    def view(self, name: str) -> memoryview:
        """Like :meth:`read`, without a copy in memory: for what other steps have made, which nobody edits."""
        item = self._inputs[name]
        try:
            with item.path.open("rb") as stream:
                empty = not os.fstat(stream.fileno()).st_size
                data = memoryview(b"" if empty else mmap(stream.fileno(), 0, access=ACCESS_READ))
        except OSError as error:
            raise InputChangedError(f"cannot read {item.path}: {error.strerror}") from error
        _verify(data, item)
        return data

    def digest(self, name: str) -> Digest:
        """The digest that input ``name`` must have."""
        return self._inputs[name].digest

    def text(self, name: str) -> str:
        """Like :meth:`read`, decoded as UTF-8, without the mark that some editors put in front.

        Raises ``StepError`` for other encodings.
        """
        return self.decode(name, self.read(name))

    def decode(self, name: str, data: bytes) -> str:
        """``data``, which are input ``name`` or made of it, as :meth:`text` gives them."""
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line, byte = data.count(b"\n", 0, error.start) + 1, data[error.start]
            raise StepError(
                f"{self.path(name).name} is not UTF-8 text: line {line} has the byte 0x{byte:02x}",
                hint="save it as UTF-8",
            ) from error

    def copy_in(self, name: str, filename: str) -> Path:
        """Copy input ``name``, verified, to ``scratch/filename`` for a tool, and return that path.

        A fixed file name keeps the user's paths out of what tools write.
        """
        path = self._scratch / filename
        path.write_bytes(self.read(name))
        return path

    def write(self, name: str, data: bytes | str) -> None:
        """Write output ``name``."""
        self.out_path(name).write_bytes(data.encode() if isinstance(data, str) else data)

    def out_path(self, name: str) -> Path:
        """Where a tool must write output ``name``."""
        if not is_plain_name(name):
            raise ValueError(f"not a plain output name: {name!r}")
        self._written[name] = self._out / name
        return self._written[name]

    def tool_out(self, name: str) -> str:
        """Like :meth:`out_path`, as a tool that runs in :attr:`scratch` names the file.

        Without the folders above: ld.lld puts random digits for each ``%`` in them.
        """
        return f"../{self.out_path(name).relative_to(self._job.workdir)}"

    def tool(self, name: str) -> tuple[str, ...]:
        """The start of the command line of tool ``name``. Raises ``ToolNotFoundError``."""
        if name not in self._job.tools:
            raise ToolNotFoundError(
                f"{name} was not found", hint=f"run `gpubuild doctor` to see where {name} is looked for"
            )
        return self._job.tools[name]

    def has_tool(self, name: str) -> bool:
        """Whether optional tool ``name`` is there."""
        return name in self._job.tools

    def why_missing(self, name: str) -> str:
        """Why optional tool ``name`` is not there; empty where nothing is known."""
        return self._job.missing_tools.get(name, "")

    def discover(self, path: Path, digest: Digest) -> None:
        """Record that the step also read ``path``, whose content had ``digest``."""
        self._discovered.append((str(path), digest))

    def warn(self, message: str) -> None:
        """Record a warning that is stored with the result and shown whenever the step is built."""
        self._warnings.append(message)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Name the stage under way: it is timed, set on errors, and known after a crash."""
        os.pwrite(self._stage_file, f"{name}\n".encode(), 0)  # what is left behind it is not read
        start = time.monotonic()
        enter_stage(name)
        try:
            yield
        except StepError as error:
            raise error.with_(stage=error.stage or name) from error.__cause__
        except GpubuildError:
            raise
        except Exception as error:
            failure = no_room(error) or _too_deep(error) or StepError(f"{type(error).__name__}: {error}")
            raise failure.with_(stage=name) from error
        finally:
            self._stages.append(StageTime(stage=name, seconds=time.monotonic() - start))

    def finish(self) -> JobResult:
        """Digest the outputs. Raises ``StepError`` when one is missing or not declared."""
        expected = set(self._job.output_names) if self._job.output_names else set(self._written)
        missing = {n for n in expected if not (self._out / n).is_file()}
        if missing or set(self._written) - expected:
            raise StepError(
                f"step {self._job.step_id} wrote {sorted(self._written)}, expected {sorted(expected)}"
            )
        blobs = []
        for name in sorted(expected):
            path = self._out / name
            blobs.append(
                Blob(
                    name=name,
                    digest=digest_file(path),
                    size_bytes=path.stat().st_size,
                    executable=name in self._job.executable_outputs,
                )
            )
        return JobResult(
            step_id=self._job.step_id,
            result=ActionResult(
                blobs=tuple(blobs),
                discovered=tuple(self._discovered),
                warnings=tuple(self._warnings),
                seconds=round(sum(s.seconds for s in self._stages), 6),
            ),
            stages=tuple(self._stages),
        )


def _too_deep(error: BaseException) -> StepError | None:
    """What a ``RecursionError`` means for the user, else ``None``."""
    if not isinstance(error, RecursionError):
        return None
    return StepError(
        "operations are nested too deeply to be compiled for this target",
        hint="move inner regions into functions of their own",
    )


def _verify(data: bytes | memoryview, item: JobInput) -> None:
    if digest_bytes(data) != item.digest:
        raise InputChangedError(
            f"{item.path} changed while the build was running",
            hint="build again; nothing was stored",
        )


def no_room(error: BaseException) -> StepError | None:
    """The error to show when ``error`` says that the disk takes no more, else ``None``."""
    if not isinstance(error, OSError) or error.errno not in _NO_ROOM:
        return None
    return NoRoomError(
        f"cannot write to the build folder: {error.strerror}",
        hint="free some space or choose another folder with --build-dir",
    )


_WORD = re.compile(r"""[^\s,={}()"';]*[/.][^\s,={}()"';]*""")  # no file without a dot or slash


@contextmanager
def recorded(pipeline: str, io: StepIO) -> Iterator[None]:
    """Record the files that ``pipeline`` names, which the body has passes read.

    Raises ``StepError`` for a folder, as what is in it later cannot be known, and
    ``InputChangedError`` when a file changes meanwhile.
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
                f"the pass pipeline names the folder {word}, in which files may come and go unnoticed",
                hint="name the files in it, with commas between them",
            )
        if file.is_file():
            found[file] = digest_file(file)
    return found


# In assembly, in preprocessed C (\") and in LLVM IR (\22). Assemblers know directives in capitals, too.
_READS = re.compile(rb'\.inc(bin|lude)\s*(?:\\?"|\\22)([^"\\\n]+)', re.IGNORECASE)
_MENTIONS = re.compile(rb"\.inc(?:bin|lude)", re.IGNORECASE)


def mentions(text: bytes) -> bool:
    """Whether the text may have the assembler read a file."""
    return _MENTIONS.search(text) is not None


def discover(text: bytes, io: StepIO) -> None:
    """Record the files that ``text`` names, and those that included ones name in turn.

    What cannot be read was no name: the assembler went on.
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
