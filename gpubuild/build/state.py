"""State of a build folder: what the last build saw and made, to find what is up to date.

A lost or damaged file costs time, never correctness: each digest in it is used only while the file
that it describes has the same stat data.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

from gpubuild.build.null_build import Known, reread
from gpubuild.build.reasons import Summary, summarize
from gpubuild.model.digest import Digest, digest_file, is_digest
from gpubuild.model.step import ActionResult, Blob
from gpubuild.support.file_stamp import Stat, is_settled, stat_of
from gpubuild.support.files import write_atomically
from gpubuild.support.frozen import field, frozen

_SCHEMA = 3
_SEAL = '{"crc":"%08x",'  # at the beginning: the CRC-32 of the rest, as a document of its own
_SEAL_LENGTH = len(_SEAL % 0)


class FileDigests:
    """Content digests of files, computed again only when size, mtime, ctime or inode changed.

    An entry is trusted only if the file was older than a clock tick when it was digested, by
    modification and by change time (which no program can set). A time in the future is never trusted.
    """

    def __init__(self) -> None:
        self.changed = False  # since it was loaded or dumped
        self._known: dict[str, Known] = {}
        self._fresh: set[str] = set()  # digested or written by this process

    def digest(self, path: Path) -> Digest | None:
        """Return the digest of ``path`` now, or ``None`` when it is not a readable file."""
        try:
            name = str(path)
            now = time.time_ns()
            before = stat_of(name)
            known = self._known.get(name)
            # Within one process a racy entry is enough: workers verify the bytes they use.
            if known and known[0] == before and (name in self._fresh or is_settled(before, known[1])):
                return Digest(known[2])
            if not path.is_file():  # opening a pipe would wait for a writer
                return None
            found = digest_file(path)
            if stat_of(name) != before:  # written while being read
                self.forget(path)
                return found
        except OSError:
            return None
        self.changed = True
        self._known[name] = (before, now, found)
        self._fresh.add(name)
        return found

    def known(self, path: Path) -> Known | None:
        """Return the entry of ``path`` without looking at the file."""
        return self._known.get(str(path))

    def proof(self, path: Path, digest: Digest) -> Stat | None:
        """Return stat data with which the content of ``path`` must have ``digest``, if known."""
        known = self._known.get(str(path))
        return known[0] if known and known[2] == digest and is_settled(known[0], known[1]) else None

    def adopt(self, known: Mapping[str, Known]) -> None:
        """Add entries that this process has just made."""
        self.changed |= bool(known)
        self._known.update(known)
        self._fresh.update(known)

    def note(self, path: Path, digest: Digest) -> None:
        """Remember the digest of a file that this process has just written itself."""
        self.changed = True
        try:
            self._known[str(path)] = (stat_of(path), time.time_ns(), digest)
            self._fresh.add(str(path))
        except OSError:
            self._known.pop(str(path), None)

    def forget(self, path: Path) -> None:
        """Drop the entry of ``path``."""
        self.changed = True
        self._known.pop(str(path), None)

    def dump(self) -> dict[str, Any]:
        """Return the entries for the state file."""
        return {path: [list(stat), at, digest] for path, (stat, at, digest) in self._known.items()}

    def load(self, data: Mapping[str, Any]) -> None:
        """Add entries of a state file. Raises ``ValueError`` or ``TypeError`` when malformed."""
        for path, (stat, at, digest) in data.items():
            size, mtime, ctime, inode = (int(x) for x in stat)
            if not is_digest(digest):
                raise ValueError(digest)
            self._known[str(path)] = ((size, mtime, ctime, inode), int(at), Digest(digest))


@frozen
class Origin:
    """The program that a step belongs to; when it loses the step, the outputs are deleted.

    ``file`` is the project file. Paths are absolute, ``outputs`` in the order of the blobs.
    """

    file: str
    program: str
    outputs: tuple[str, ...]


@frozen
class Orphan:
    """An output of a step whose record is lost: its content, and as in ``Origin`` where it is from."""

    digest: Digest
    file: str
    program: str


@frozen
class StepRecord:
    """A step when it was last brought up to date: its key, the parts of the key, its outputs."""

    key: Digest
    parts: Mapping[str, str]  # "input module" → digest, "tool ptxas" → fingerprint, "option chip" → value
    result: ActionResult
    # For explanations only: why it last ran, and the earlier values of the parts that differed then
    # ("" for a new part).
    why: str = ""
    before: Mapping[str, str] = field(default_factory=dict)
    kept_in: str = ""  # the identity of the cache that has the result (Store.identity)
    origin: Origin | None = None  # of a program's own steps
    around: str = ""  # of a preprocessor run: ``Surroundings.digest``, empty when not known


class BuildState:
    """Step records and file digests of one build folder.

    ``root`` is the project's folder (default: the file's). Paths in it are stored relative to it, so
    that a project can be copied with its build folder.
    """

    def __init__(self, path: Path, root: Path | None = None) -> None:
        self._path = path
        self._root = root or path.parent
        self.files = FileDigests()
        self._steps: dict[str, StepRecord] = {}
        self._versions: dict[str, str] = {}
        self._summaries: dict[str, Summary] = {}
        self._changed = True  # since the file was read or written
        self.lost = False  # the file is absent, damaged or of another version
        self.orphans: dict[str, Orphan] = {}  # by path; filled by the builder if the state is lost
        self._load()
        self.files.adopt(reread)
        reread.clear()

    def record(self, step_id: str) -> StepRecord | None:
        """Return the record of a step."""
        return self._steps.get(step_id)

    def records(self) -> Mapping[str, StepRecord]:
        """Return all records by the ids of their steps."""
        return self._steps

    def remember(self, step_id: str, record: StepRecord) -> None:
        """Replace the record of a step."""
        self._changed = True
        self._steps[step_id] = record

    def forget(self, step_id: str) -> None:
        """Drop the record of a step."""
        self._changed = True
        self._steps.pop(step_id, None)

    def note_orphans(self, old: StepRecord, outputs: Collection[str]) -> None:
        """Note outputs of a step's last run that it does not make any more, such as another product."""
        if old.origin is None:
            return
        for path, blob in zip(old.origin.outputs, old.result.blobs, strict=False):
            if path not in outputs:
                self.orphans[path] = Orphan(
                    digest=blob.digest, file=old.origin.file, program=old.origin.program
                )

    def forget_orphans(self, paths: Iterable[str]) -> None:
        """Drop orphans that were deleted or are in use."""
        for path in list(paths):
            self._changed = True
            self.orphans.pop(path, None)

    def version(self, fingerprint: str) -> str:
        """Return the version of the tool that had ``fingerprint`` in a build; empty when not known."""
        return self._versions.get(fingerprint, "")

    def note_version(self, fingerprint: str, version: str) -> None:
        """Remember the version of a tool."""
        self._versions[fingerprint] = version

    def summary(self, digest: str) -> Summary | None:
        """Return the summary of the module text that has ``digest``, if it was noted."""
        return self._summaries.get(digest)

    def note_text(self, digest: str, path: Path) -> None:
        """Remember a summary of the module text in ``path`` if it can be read."""
        if digest not in self._summaries:
            with suppress(OSError, UnicodeDecodeError):
                self._summaries[digest] = summarize(path.read_text(encoding="utf-8"))

    def save(self) -> None:
        """Write the file atomically if anything changed. Raises ``OSError``."""
        if not (self._changed or self.files.changed):
            return
        alive = {value for record in self._steps.values() for value in record.parts.values()}
        alive.update(value for record in self._steps.values() for value in record.before.values())
        document = {
            "schema": _SCHEMA,
            "root": str(self._root),
            "versions": {f: v for f, v in self._versions.items() if f in alive},
            "summaries": {d: s for d, s in self._summaries.items() if d in alive},
            "files": self.files.dump(),
            "orphans": {
                _relative(path, self._root): [o.digest, _relative(o.file, self._root), o.program]
                for path, o in self.orphans.items()
            },
            "steps": {step_id: _record_to_json(r, self._root) for step_id, r in self._steps.items()},
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, seal(json.dumps(document, separators=(",", ":"))))
        self._changed = self.files.changed = False

    def _load(self) -> None:
        files = FileDigests()
        steps = {}
        versions: dict[str, str] = {}
        summaries: dict[str, Summary] = {}
        try:
            document = _unsealed(self._path.read_bytes())
            if document["schema"] != _SCHEMA:
                raise ValueError("another version's")
            files.load(document["files"])
            root = str(self._root)
            old_root = Path(document["root"])
            for step_id, data in document["steps"].items():
                record = _record_from_json(data, root)
                if not _lost_its_headers(record, old_root, self._root):
                    steps[step_id] = record
            for fingerprint, version in document["versions"].items():
                versions[str(fingerprint)] = str(version)
            for digest, functions in document["summaries"].items():
                summaries[digest] = {str(f): [int(n) for n in ns] for f, ns in functions.items()}
            orphans = {
                _absolute(path, root): Orphan(
                    digest=_digest(digest), file=_absolute(file, root), program=str(program)
                )
                for path, (digest, file, program) in document.get("orphans", {}).items()
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self.lost = True  # every step is checked as if it were new
            return
        self._changed = old_root != self._root or len(steps) < len(document["steps"])
        self.files = files
        self._steps = steps
        self._versions = versions
        self._summaries = summaries
        self.orphans = orphans


def seal(document: str) -> str:
    """Return the text of a state file: ``document``, compact JSON, with a checksum in it."""
    return _SEAL % crc32(document.encode()) + document[1:]


def _unsealed(data: bytes) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return the document of a state file. Raises ``ValueError`` when any bit differs.

    Without a checksum, a digest with one wrong digit would pass as the digest of another content.
    """
    document = b"{" + data[_SEAL_LENGTH:]
    if data[:_SEAL_LENGTH] != (_SEAL % crc32(document)).encode():
        raise ValueError("not what was written")
    return json.loads(document)


def _lost_its_headers(record: StepRecord, old_root: Path, root: Path) -> bool:
    """Whether the step read files beside the project, and the project has moved away from them."""
    if root == old_root:
        return False
    outside = (Path(p) for p, _ in record.result.discovered if not Path(p).is_relative_to(root))
    # A path without a folder in common with the project is the system's and still valid.
    return any(path.parts[:2] == old_root.parts[:2] for path in outside)


def _record_to_json(record: StepRecord, root: Path) -> dict[str, Any]:
    return {
        "key": record.key,
        "parts": dict(record.parts),
        "blobs": [[b.name, b.digest, b.size_bytes, b.executable] for b in record.result.blobs],
        "discovered": [[_relative(path, root), d] for path, d in record.result.discovered],
        "warnings": list(record.result.warnings),
        "seconds": record.result.seconds,
        "why": record.why,
        "before": dict(record.before),
        "kept_in": record.kept_in,
        "origin": _origin_to_json(record.origin, root) if record.origin else None,
        "around": record.around,
    }


def _origin_to_json(origin: Origin, root: Path) -> list[Any]:
    outputs = [_relative(path, root) for path in origin.outputs]
    return [_relative(origin.file, root), origin.program, outputs]


def _relative(path: str, root: Path) -> str:
    return path.removeprefix(f"{root}/")


def _absolute(path: object, root: str) -> str:
    """Undo :func:`_relative`. Path objects would take half of the time of loading a state."""
    text = str(path)
    return text if text.startswith("/") else f"{root}/{text}"


def _record_from_json(data: Mapping[str, Any], root: str) -> StepRecord:
    blobs = tuple(
        Blob(name=str(n), digest=_digest(d), size_bytes=int(s), executable=bool(x))
        for n, d, s, x in data["blobs"]
    )
    return StepRecord(
        key=_digest(data["key"]),
        parts={str(k): str(v) for k, v in data["parts"].items()},
        result=ActionResult(
            blobs=blobs,
            discovered=tuple((_absolute(p, root), _digest(d)) for p, d in data["discovered"]),
            warnings=tuple(str(w) for w in data["warnings"]),
            seconds=float(data["seconds"]),
        ),
        why=str(data["why"]),
        before={str(k): str(v) for k, v in data["before"].items()},
        kept_in=str(data.get("kept_in", "")),
        origin=_origin_from_json(data["origin"], root) if data.get("origin") else None,
        around=str(data.get("around", "")),
    )


def _origin_from_json(data: Any, root: str) -> Origin:  # noqa: ANN401 - whatever JSON holds
    file, program, outputs = data
    return Origin(
        file=_absolute(file, root),
        program=str(program),
        outputs=tuple(_absolute(path, root) for path in outputs),
    )


def _digest(text: object) -> Digest:
    if not is_digest(text):
        raise ValueError(f"not a digest: {text!r}")
    return Digest(str(text))
