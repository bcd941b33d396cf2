"""State: what the last build knew, so that the next one can tell what is up to date.

Losing or corrupting the file costs time, never correctness: every digest in it is used only
while the file it describes has the very same stat data.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

from gpubuild.build.file_digests import FileDigests
from gpubuild.build.module_diff import Summary, summarize
from gpubuild.model.digest import Digest, is_digest
from gpubuild.model.step import ActionResult, Blob
from gpubuild.support.atomic_write import write_atomically
from gpubuild.support.frozen import field, frozen

_SCHEMA = 3
_SEAL = '{"crc":"%08x",'  # begins the file: the CRC-32 of what follows, as a document of its own
_SEAL_LENGTH = len(_SEAL % 0)


@frozen
class Origin:
    """What a program's step was part of, so that its outputs can go when that is no more.

    ``file`` is the project file; it and ``outputs`` are absolute, in the order of the blobs.
    """

    file: str
    program: str
    outputs: tuple[str, ...]


@frozen
class Orphan:
    """An output of a step that the state has lost: its content and, as in ``Origin``, where it is from."""

    digest: Digest
    file: str
    program: str


@frozen
class StepRecord:
    """One step as last brought up to date: its key, what the key was made of, its outputs."""

    key: Digest
    parts: Mapping[str, str]  # "input module" → digest, "tool ptxas" → fingerprint, "option chip" → value
    result: ActionResult
    # For explanations only: why it was looked at when it last changed, and the parts that differed
    # then as they were before ("" for what was no part).
    why: str = ""
    before: Mapping[str, str] = field(default_factory=dict)
    kept_in: str = ""  # the place of the cache that has the result (Store.place)
    origin: Origin | None = None  # of a program's own steps
    around: str = ""  # of a preprocessor run: ``Surroundings.digest``, empty when not known


class BuildState:
    """Step records and file digests of one build folder.

    ``root`` is the project's folder (default: the file's). Files in it that steps had read are
    remembered relative to it: in a copied project, build folder and all, the copies count.
    """

    def __init__(self, path: Path, root: Path | None = None) -> None:
        self._path = path
        self._root = root or path.parent
        self.files = FileDigests()
        self.lost = False  # the file is absent, damaged or of another version
        self.orphans: dict[str, Orphan] = {}  # by path; from elsewhere, once the state was lost
        self._steps: dict[str, StepRecord] = {}
        self._versions: dict[str, str] = {}
        self._summaries: dict[str, Summary] = {}
        self._changed = True  # since the file was read or written
        self._load()

    def record(self, step_id: str) -> StepRecord | None:
        """What is known of a step."""
        return self._steps.get(step_id)

    def records(self) -> Mapping[str, StepRecord]:
        """All that is known, by the ids of steps."""
        return self._steps

    def remember(self, step_id: str, record: StepRecord) -> None:
        """Replace what is known of a step."""
        self._changed = True
        self._steps[step_id] = record

    def forget(self, step_id: str) -> None:
        """Drop what is known of a step."""
        self._changed = True
        self._steps.pop(step_id, None)

    def forget_orphans(self, paths: Iterable[str]) -> None:
        """Drop what is known of outputs that were looked at."""
        for path in list(paths):
            self._changed = True
            self.orphans.pop(path, None)

    def version(self, fingerprint: str) -> str:
        """The version of the tool that had ``fingerprint`` in some build; empty when not known."""
        return self._versions.get(fingerprint, "")

    def note_version(self, fingerprint: str, version: str) -> None:
        """Remember what a tool calls itself."""
        self._versions[fingerprint] = version

    def summary(self, digest: str) -> Summary | None:
        """The summary of the module text that has ``digest``, if it was noted."""
        return self._summaries.get(digest)

    def note_text(self, digest: str, path: Path) -> None:
        """Remember a summary of the module text in ``path``; one that cannot be read has none."""
        if digest not in self._summaries:
            with suppress(OSError, UnicodeDecodeError):
                self._summaries[digest] = summarize(path.read_text(encoding="utf-8"))

    def save(self) -> None:
        """Write the file atomically, if there is anything new in it. Raises ``OSError``."""
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
            old_root = Path(document["root"])
            for step_id, data in document["steps"].items():
                record = _record_from_json(data, self._root)
                if not _lost_its_headers(record, old_root, self._root):
                    steps[step_id] = record
            for fingerprint, version in document["versions"].items():
                versions[str(fingerprint)] = str(version)
            for digest, functions in document["summaries"].items():
                summaries[digest] = {str(f): [int(n) for n in ns] for f, ns in functions.items()}
            orphans = {
                str(self._root / path): Orphan(
                    digest=_digest(digest), file=str(self._root / file), program=str(program)
                )
                for path, (digest, file, program) in document.get("orphans", {}).items()
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self.lost = True  # everything is looked at afresh
            return
        self._changed = old_root != self._root or len(steps) < len(document["steps"])
        self.files = files
        self.orphans = orphans
        self._steps = steps
        self._versions = versions
        self._summaries = summaries


def seal(document: str) -> str:
    """The text of a state file: ``document``, JSON in the form that we write, with a checksum in it."""
    return _SEAL % crc32(document.encode()) + document[1:]


def _unsealed(data: bytes) -> Any:  # noqa: ANN401 - whatever JSON holds
    """The document of a state file. Raises ``ValueError`` when a bit is not as it was written.

    A digest that has one wrong digit is a digest, too: every build would take a file for another.
    """
    document = b"{" + data[_SEAL_LENGTH:]
    if data[:_SEAL_LENGTH] != (_SEAL % crc32(document)).encode():
        raise ValueError("not what was written")
    return json.loads(document)


def _lost_its_headers(record: StepRecord, old_root: Path, root: Path) -> bool:
    """Whether the step read files beside the project, which has moved away from them."""
    if root == old_root:
        return False
    outside = (Path(p) for p, _ in record.result.discovered if not Path(p).is_relative_to(root))
    # What has no folder in common with the project is the system's, found by its absolute path.
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


def _record_from_json(data: Mapping[str, Any], root: Path) -> StepRecord:
    blobs = tuple(
        Blob(name=str(n), digest=_digest(d), size_bytes=int(s), executable=bool(x))
        for n, d, s, x in data["blobs"]
    )
    return StepRecord(
        key=_digest(data["key"]),
        parts={str(k): str(v) for k, v in data["parts"].items()},
        result=ActionResult(
            blobs=blobs,
            discovered=tuple((str(root / p), _digest(d)) for p, d in data["discovered"]),
            warnings=tuple(str(w) for w in data["warnings"]),
            seconds=float(data["seconds"]),
        ),
        why=str(data["why"]),
        before={str(k): str(v) for k, v in data["before"].items()},
        kept_in=str(data.get("kept_in", "")),
        origin=_origin_from_json(data["origin"], root) if data.get("origin") else None,
        around=str(data.get("around", "")),
    )


def _origin_from_json(data: Any, root: Path) -> Origin:  # noqa: ANN401 - whatever JSON holds
    file, program, outputs = data
    return Origin(
        file=str(root / str(file)),
        program=str(program),
        outputs=tuple(str(root / str(path)) for path in outputs),
    )


def _digest(text: object) -> Digest:
    if not is_digest(text):
        raise ValueError(f"not a digest: {text!r}")
    return Digest(str(text))
