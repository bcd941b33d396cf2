"""YAML text as values with locations, and the errors found in one file, reported together.

Files: paths named in targets.yaml, made absolute, with suggestions for a missing file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gpubuild.errors import ConfigError, Diagnostic, Location
from gpubuild.support.file_stamp import exists
from gpubuild.support.frozen import field, frozen
from gpubuild.support.text import nearest, suggestion

if TYPE_CHECKING:
    import yaml

# What YAML 1.1 counts as a line break, so that line numbers agree with the parser's marks.
_LINE_BREAK = "\r\n|[\r\n\x85\u2028\u2029]"


class Place(NamedTuple):
    """A position in a file, 1-based. ``file`` is its number in :class:`Problems`: 0 is the project file."""

    line: int
    column: int
    file: int = 0


START = Place(1, 1)


class Problems:
    """The errors in one configuration: a project file, files that it includes, and command-line options."""

    def __init__(self, file: str, text: str = "") -> None:
        self._files = [(file, text)]  # names in messages
        self._folders: dict[int, Path] = {}
        # A dict for its order and its keys: an alias shows one node in several places of the tree,
        # and once is enough.
        self._found: dict[tuple[Place, Diagnostic], None] = {}

    def add_file(self, name: str, text: str, folder: Path | None = None) -> int:
        """Return the number of another file; relative paths in it start at ``folder``."""
        self._files.append((name, text))
        if folder is not None:
            self._folders[len(self._files) - 1] = folder
        return len(self._files) - 1

    def folder(self, place: Place, root: Path) -> Path:
        """Return where relative paths at ``place`` start; ``root`` if it is not in an included file."""
        return self._folders.get(place.file, root)

    def add(
        self, place: Place, message: str, *, first: Place | None = None, about: str = "first given here"
    ) -> None:
        """Report an error at ``place``; ``first`` is a related earlier place, described by ``about``."""
        notes: tuple[Diagnostic, ...] = ()
        if first is not None:
            notes = (self.diagnostic(first, about, severity="note"),)
        self._found[place, self.diagnostic(place, message, notes=notes)] = None

    def __bool__(self) -> bool:
        return bool(self._found)

    def error(self) -> ConfigError:
        """Return all errors, file by file in the order of lines."""
        return ConfigError(d for _, d in sorted(self._found, key=lambda pair: (pair[0].file, pair[0])))

    def diagnostic(
        self, place: Place, message: str, severity: str = "error", notes: tuple[Diagnostic, ...] = ()
    ) -> Diagnostic:
        """Return a diagnostic at ``place``, which is not reported here."""
        file, text = self._files[place.file]
        lines = re.split(_LINE_BREAK, text)
        line = lines[place.line - 1] if place.line <= len(lines) else ""
        return Diagnostic(
            message=message,
            severity=severity,
            location=Location(file=file, line=place.line, column=place.column),
            source_line=line,
            notes=notes,
        )


def nearest_or_all(word: str, known: Iterable[str], *, what: str = "known") -> str:
    """Return `` (did you mean 'x'?)``, else the known words, for the end of a message."""
    names = list(known)
    return suggestion(word, names) or (f" ({what}: {', '.join(names)})" if names else "")


MAX_BYTES = 1 << 20
MAX_NODES = 50_000  # after aliases are followed: a "billion laughs" file stops here
MAX_DEPTH = 64

_TAG = "tag:yaml.org,2002:"
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
# Messages of the parser, for readers who do not know its grammar.
_PLAINLY = {
    "did not find expected ',' or ']'": "a `]` or a comma is missing",
    "did not find expected ',' or '}'": "a `}` or a comma is missing",
    "did not find expected key": "the indentation of this line does not match its siblings",
    "did not find expected '-' indicator": "the indentation of this line does not match its siblings",
    "mapping values are not allowed in this context": (
        "a `:` is not allowed here; one may be missing at the end of the line before, "
        "or text with a colon needs quotes"
    ),
    "could not find expected ':'": "a `:` and a value are missing after this key",
    "found unexpected end of stream": "the closing quote is missing",
}
_BEGUN = {
    "while parsing a flow sequence": "the list begins here",
    "while parsing a flow mapping": "the mapping begins here",
    "while parsing a block mapping": "the mapping begins here",
    "while parsing a block collection": "the list begins here",
    "while scanning a quoted scalar": "the text begins here",
    "while scanning a simple key": "the key begins here",
}
# Characters YAML does not allow in a file. The C parser reports them at byte offsets only.
_FORBIDDEN = "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


class Shape(StrEnum):
    """The kind of a node, in the words of messages."""

    NULL = "nothing"
    FLAG = "true or false"
    WHOLE = "a whole number"
    NUMBER = "a number"  # a fraction, or a whole number in a notation that readers disagree on
    TEXT = "text"
    LIST = "a list"
    MAP = "a mapping"
    BROKEN = "an unreadable value"  # a problem is noted already


@frozen
class Node:
    """A value and its place. ``scalar`` is set for FLAG, WHOLE and TEXT; ``raw`` is as written.

    ``flawed`` marks a mapping of which config.spec left something out: what seems to be missing
    there may only be misspelt.
    """

    shape: Shape
    place: Place
    scalar: bool | int | str | None = None
    raw: str = ""
    items: tuple[Node, ...] = ()
    members: Mapping[str, Member] = field(default_factory=dict)
    flawed: bool = False

    def __bool__(self) -> bool:
        """Whether it is in the document: false for ``ABSENT`` only."""
        return self is not ABSENT

    def child(self, key: str) -> Node:
        """Return the value of ``key`` in a mapping, or ``ABSENT``."""
        member = self.members.get(key)
        return member.node if member else ABSENT

    def given(self, **kinds: Callable[[Any], Any]) -> dict[str, Any]:
        """Return the values of those of the keys that a mapping has, converted by ``kinds``."""
        return {key: kind(self.child(key).scalar) for key, kind in kinds.items() if self.child(key)}

    @property
    def texts(self) -> tuple[str, ...]:
        """The items of a list."""
        return tuple(str(item.scalar) for item in self.items)

    def describe(self) -> str:
        """Return the value as messages show it: short, quoted."""
        shown = self.raw if len(self.raw) <= 60 else self.raw[:57] + "..."
        match self.shape:
            case Shape.NULL | Shape.LIST | Shape.MAP:
                return str(self.shape)
            case Shape.TEXT:
                return f"'{shown}'"
            case _:
                return shown


@frozen
class Member:
    """One ``key: value`` of a mapping; ``place`` is the key's."""

    place: Place
    node: Node


ABSENT = Node(shape=Shape.NULL, place=START)


def decode(data: bytes, file: str) -> str:
    """Return the text of ``data``. Raises ``ConfigError`` where it is not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", errors="replace").removeprefix("\ufeff")
        problems = Problems(file, before)
        problems.add(_place_at(before, len(before)), "the file is not UTF-8 text; save it as UTF-8")
        raise problems.error() from error


def parse(text: str, problems: Problems, file: int = 0) -> Node | None:
    """Return the document as a tree; ``None`` when it cannot be read at all (see ``problems``)."""
    import yaml

    start = START._replace(file=file)
    if len(text) > MAX_BYTES:
        problems.add(start, f"the file is larger than {MAX_BYTES >> 20} MiB, the limit")
        return None
    if bad := _first_forbidden(text):
        code = f"U+{ord(bad.group()):04X}"
        problems.add(_place_at(text, bad.start(), file), f"control character {code} is not allowed in YAML")
        return None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        # compose builds nodes only; SafeLoader's constructors never run.
        root: yaml.Node | None = yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        place, message = _syntax_problem(error, text, file)
        began = error.context_mark
        about = _BEGUN.get(str(error.context), "")
        first = Place(began.line + 1, began.column + 1, file) if began and about else None
        problems.add(place, message, first=None if first == place else first, about=about)
        return None
    except RecursionError:
        problems.add(start, "cannot read this as YAML: nested too deeply")
        return None
    except (yaml.YAMLError, ValueError) as error:
        problems.add(start, f"cannot read this as YAML: {error}")
        return None
    if root is None:
        problems.add(start, "the file is empty; `gpubuild init` writes one to start from")
        return None
    return _Reader(problems, file).read(root)


class _TooMuchError(Exception):
    """The document grows beyond MAX_NODES or MAX_DEPTH."""


class _Reader:
    def __init__(self, problems: Problems, file: int) -> None:
        self._problems = problems
        self._file = file
        self._count = 0
        self._open: list[int] = []  # collections being read, to notice one that contains itself

    def read(self, root: yaml.Node) -> Node | None:
        try:
            return self._node(root)
        except _TooMuchError as error:
            self._problems.add(self._place(root), str(error))
            return None

    def _node(self, node: yaml.Node) -> Node:
        import yaml

        self._count += 1
        if self._count > MAX_NODES:
            raise _TooMuchError(f"the file expands to more than {MAX_NODES} values; use fewer aliases")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            self._problems.add(self._place(node), "this anchor contains an alias to itself")
            return Node(shape=Shape.BROKEN, place=self._place(node))
        if len(self._open) >= MAX_DEPTH:
            raise _TooMuchError(f"the file nests more than {MAX_DEPTH} levels deep")
        tag = "map" if isinstance(node, yaml.MappingNode) else "seq"
        if node.tag != _TAG + tag:
            return self._foreign(node)
        self._open.append(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return Node(shape=Shape.MAP, place=self._place(node), members=self._members(node))
            items = tuple(self._node(item) for item in node.value)
            return Node(shape=Shape.LIST, place=self._place(node), items=items)
        finally:
            self._open.pop()

    def _members(self, node: yaml.MappingNode) -> dict[str, Member]:
        import yaml

        members: dict[str, Member] = {}
        merged: dict[str, Member] = {}
        for key, value in node.value:
            place = self._place(key)
            if not isinstance(key, yaml.ScalarNode) or key.tag == _TAG + "null":
                self._problems.add(place, "a key must be a plain word")
                continue
            if key.tag == _TAG + "merge":
                for name, member in self._merge(value).items():
                    merged.setdefault(name, member)
                continue
            member = Member(place=place, node=self._node(value))
            if key.value in members:
                first = members[key.value].place
                self._problems.add(place, f"key '{key.value}' is given twice", first=first)
            else:
                members[key.value] = member
        return merged | members  # own keys win over those of `<<`

    def _merge(self, value: yaml.Node) -> dict[str, Member]:
        import yaml

        merged: dict[str, Member] = {}
        parts = value.value if isinstance(value, yaml.SequenceNode) else [value]
        for part in parts:
            if not isinstance(part, yaml.MappingNode):
                self._problems.add(self._place(part), "`<<` takes a mapping, or a list of mappings")
                continue
            for name, member in self._node(part).members.items():
                merged.setdefault(name, member)
        return merged

    def _scalar(self, node: yaml.ScalarNode) -> Node:
        shape, scalar = _meaning(node)
        if shape is Shape.BROKEN:
            return self._foreign(node)
        return Node(shape=shape, place=self._place(node), scalar=scalar, raw=node.value)

    def _foreign(self, node: yaml.Node) -> Node:
        self._problems.add(self._place(node), f"the tag {node.tag} is not supported; leave it out")
        return Node(shape=Shape.BROKEN, place=self._place(node))

    def _place(self, node: yaml.Node) -> Place:
        return Place(node.start_mark.line + 1, node.start_mark.column + 1, self._file)


def _meaning(node: yaml.ScalarNode) -> tuple[Shape, bool | int | str | None]:
    text = node.value
    match node.tag.removeprefix(_TAG):
        case "str" | "timestamp" | "value" | "merge":
            return Shape.TEXT, text
        case "null":
            return Shape.NULL, None
        case "bool":
            word = text.lower()
            return (Shape.FLAG, word == "true") if word in ("true", "false") else (Shape.TEXT, text)
        case "int":
            if _WHOLE.fullmatch(text):
                return Shape.WHOLE, int(text)
            # 1:30 is sixty-based in YAML 1.1 and text in YAML 1.2.
            return (Shape.TEXT, text) if ":" in text else (Shape.NUMBER, None)
        case "float":
            return (Shape.TEXT, text) if ":" in text else (Shape.NUMBER, None)
        case _:
            return Shape.BROKEN, None


def _first_forbidden(text: str) -> re.Match[str] | None:
    if text.replace("\n", "").replace("\t", "").isprintable():
        return None  # compiling the pattern takes longer than the rest of reading a project file
    return re.search(_FORBIDDEN, text)


def _place_at(text: str, offset: int, file: int = 0) -> Place:
    before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
    return Place(before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1, file)


def _syntax_problem(error: yaml.MarkedYAMLError, text: str, file: int) -> tuple[Place, str]:
    mark = error.problem_mark or error.context_mark
    place = Place(mark.line + 1, mark.column + 1, file) if mark else START._replace(file=file)
    problem = str(error.problem or error.context or "syntax error")
    problem = _PLAINLY.get(problem, problem)
    lines = text.split("\n")
    line = lines[place.line - 1] if place.line <= len(lines) else ""
    if "\t" in line[: place.column]:
        return place, "a tab in the indentation; YAML needs spaces"
    if "expected a single document" in str(error.context) + problem:
        return place, "a second document starts here; the file must have only one"
    if mark and place.line >= len(lines) - 1 and not "\n".join(lines[place.line - 1 :]).strip():
        problem += "; the file seems to be cut off"
    begun = str(error.context) in _BEGUN or not error.problem
    context = f", {error.context}" if error.context and not begun else ""
    return place, f"not valid YAML: {problem}{context}"


def resolve(root: Path, node: Node, problems: Problems) -> Path | None:
    """Return the absolute path that ``node`` names; symbolic links stay.

    It is relative to the folder of the file that the node is in; ``root`` is that of the project file.
    """
    text = str(node.scalar)
    if text.startswith("~"):
        problems.add(
            node.place, "'~' is not expanded here; write the path out, relative to this file if you can"
        )
        return None
    if "\0" in text:
        problems.add(node.place, "a path cannot contain a NUL character")
        return None
    return Path(os.path.normpath(problems.folder(node.place, root) / text))


def existing(
    root: Path,
    node: Node,
    problems: Problems,
    *,
    what: str,
    folder: bool = False,
    but: Collection[Path] = (),
) -> Path | None:
    """Return the absolute path of an existing file, or folder; report an error for anything else.

    The message does not suggest the files ``but``.
    """
    path = resolve(root, node, problems)
    if path is None:
        return None
    try:
        if path.is_dir() if folder else path.is_file():
            return path
        if path.is_dir():
            flaw = "is a folder, not a file"
        elif exists(path):
            flaw = "is a file, not a folder" if folder else "is neither a file nor a folder"
        else:
            flaw = "does not exist"
            with suppress(OSError):  # a folder that cannot be listed: no suggestion
                flaw += _suggest(problems.folder(node.place, root), path, folder=folder, but=but)
    except OSError as error:
        flaw = f"cannot be read: {error.strerror}"
    problems.add(node.place, f"{what} {node.describe()} {flaw}")
    return None


def _suggest(root: Path, path: Path, *, folder: bool, but: Collection[Path]) -> str:
    """Return the end of a message about a missing path: its first missing folder, or similar names."""
    parent = path.parent
    while not parent.is_dir() and parent != parent.parent:
        parent = parent.parent
    if folder or parent != path.parent:
        missing = path.relative_to(parent).parts[0]
        close = nearest(missing, [p.name for p in parent.iterdir() if p.is_dir()])
        first = "" if parent == path.parent else f": there is no folder '{_written(root, parent / missing)}'"
        return first + (f"; did you mean '{_written(root, parent / close[0])}'?" if close else "")
    names = sorted(p.name for p in parent.iterdir() if p.is_file() and p not in but)
    same_stem = [n for n in names if n.partition(".")[0] == path.stem]
    close = nearest(path.name, names, 3) or same_stem[:3]
    found = " or ".join(f"'{_written(root, parent / name)}'" for name in close)
    return f" (did you mean {found}?)" if found else ""


def _written(root: Path, path: Path) -> str:
    """Return how targets.yaml would name ``path``, which may lie beside the project."""
    return os.path.relpath(path, root)
