"""Binary text: the gpu.binary operations in MLIR text, read without MLIR.

MLIR may abort the process over a file of unknown origin, and a blob of megabytes needs no parser.
So this reads the one operation as MLIR's printer and ours write it, strictly::

    gpu.binary @name <handler> {attributes} [#gpu.object<target, properties = {…}, bin = "…">, …]

The generic form and attribute aliases for objects are refused with an error, not misread.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpubuild.inspect.elf import DamagedError
from gpubuild.targets.registry import vendors

KEYWORD = "gpu.binary"
DEFAULT_HANDLER = "#gpu.select_object"

# Strings are matched possessively: a blob has millions of characters, none worth going back over.
# A string, a comment, or the keyword: whichever comes first decides how to read on.
_INTERESTING = re.compile(r'"(?:[^"\\\n]|\\.)*+"|//[^\n]*|(?<![\w.$])gpu\.binary(?![\w.$])')
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*+)"')
_SYMBOL = re.compile(r'\s*@(?:([A-Za-z_][\w$.]*)|"((?:[^"\\\n]|\\.)*+)")\s*')
_SKIP = re.compile(r'[^"<>\[\]{}()/,\-]+')
_OBJECT = "#gpu.object<"
_BLOB = re.compile(r'\s*(?:(bin|assembly|fatbin|offload)\s*=\s*)?("(?:[^"\\\n]|\\.)*+")\s*\Z')
_TARGET = re.compile(r"\s*#(\w+)\.")
_ENTRY = re.compile(r'\s*(?:([A-Za-z_][\w$.]*)|"((?:[^"\\\n]|\\.)*+)")\s*=\s*(.*)\Z', re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\"} | {
    spelling.encode(): bytes([byte]) for byte in range(256) for spelling in (f"{byte:02X}", f"{byte:02x}")
}
_CLOSING = {"<": ">", "[": "]", "{": "}", "(": ")"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextObject:
    """One ``#gpu.object``. ``properties`` are those whose value is a string."""

    format: str
    data: bytes
    triple: str | None = None
    chip: str | None = None
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBinary:
    """One gpu.binary; ``handler`` is its attribute text."""

    name: str
    handler: str
    objects: tuple[TextObject, ...]


def parse(text: str) -> list[TextBinary]:
    """Every gpu.binary of a file, in order. Raises ``DamagedError`` that names the line."""
    found, at = [], 0
    while match := _INTERESTING.search(text, at):
        at = match.end()
        if match[0] == KEYWORD:
            try:
                binary, at = _binary(text, at)
            except DamagedError as error:
                line = text.count("\n", 0, match.start()) + 1
                raise DamagedError(f"line {line}: cannot read this gpu.binary: {error}") from error
            found.append(binary)
        elif match[0] == f'"{KEYWORD}"' and text.startswith("(", at):
            line = text.count("\n", 0, match.start()) + 1
            raise DamagedError(f"line {line}: a gpu.binary in MLIR's generic form; print it in the usual one")
    return found


def unescape(body: str) -> bytes:
    """The bytes of an MLIR string literal's body."""

    def replace(match: re.Match[bytes]) -> bytes:
        known = _ESCAPES.get(match[1])
        if known is not None:
            return known
        if len(match[1]) == 2:  # mixed case
            return bytes([int(match[1], 16)])
        raise DamagedError(f"unknown escape \\{match[1].decode(errors='replace')} in a string")

    return _ESCAPE.sub(replace, body.encode())


def _binary(text: str, at: int) -> tuple[TextBinary, int]:
    symbol = _SYMBOL.match(text, at)
    if not symbol:
        raise DamagedError("expected @ and a name")
    name = symbol[1] or unescape(symbol[2]).decode(errors="replace")
    at, handler = symbol.end(), DEFAULT_HANDLER
    if text.startswith("<", at):
        end = _close(text, at)
        handler = text[at + 1 : end - 1].strip()
        at = _spaces(text, end)
    if text.startswith("attributes", at):
        at = _spaces(text, at + len("attributes"))
    if text.startswith("{", at):
        at = _spaces(text, _close(text, at))
    if not text.startswith("[", at):
        raise DamagedError("expected [ and a list of objects")
    end = _close(text, at)
    items = _split(text, at + 1, end - 1)
    return TextBinary(name=name, handler=handler, objects=tuple(_object(item) for item in items)), end


def _object(text: str) -> TextObject:
    text = text.strip()
    if not text.startswith(_OBJECT) or not text.endswith(">"):
        raise DamagedError("expected #gpu.object<…>; attribute aliases are not followed")
    parts = _split(text, len(_OBJECT), len(text) - 1)
    blob = _BLOB.match(parts[-1]) if len(parts) >= 2 else None
    if not blob:
        raise DamagedError("expected a target and a string in #gpu.object<…>")
    properties: dict[str, str] = {}
    for part in parts[1:-1]:
        entry = _ENTRY.match(part)
        if entry and entry[1] == "properties" and entry[3].lstrip().startswith("{"):
            properties = _strings(entry[3].strip())
    dialect = _TARGET.match(parts[0])
    target = _strings(parts[0].strip()) if dialect else {}
    vendor = next((v for v in vendors() if dialect and v.attribute == dialect[1]), None)
    return TextObject(
        format=blob[1] or "fatbin",
        data=unescape(blob[2][1:-1]),
        triple=target.get("triple", vendor.triple if vendor else None),
        chip=target.get("chip", vendor.attribute_chip if vendor else None),
        properties=properties,
    )


def _strings(text: str) -> dict[str, str]:
    """The entries with string values of ``…<k = "v", …>`` or ``{k = "v", …}``."""
    opening = min((i for i in (text.find("<"), text.find("{")) if i >= 0), default=-1)
    if opening < 0:
        return {}
    found = {}
    for part in _split(text, opening + 1, _close(text, opening) - 1):
        entry = _ENTRY.match(part)
        value = _STRING.match(entry[3]) if entry else None
        if entry and value:
            key = entry[1] or unescape(entry[2]).decode(errors="replace")
            found[key] = unescape(value[1]).decode(errors="replace")
    return found


def _split(text: str, at: int, end: int) -> list[str]:
    """The parts between commas that stand in no bracket, without comments."""
    parts, part = [], ""
    while at < end:
        begin = at
        if text[at] == ",":
            parts.append(part)
            part = ""
            at += 1
            continue
        at = _over(text, at)
        if not text.startswith("//", begin):
            part += text[begin:at]
    if part.strip():
        parts.append(part)
    return parts


def _close(text: str, at: int) -> int:
    """Just behind the bracket that closes the one at ``at``. Iterative: depth is the file's choice."""
    stack = [_CLOSING[text[at]]]
    at += 1
    while stack:
        if at >= len(text):
            raise DamagedError(f"the text ends before a closing {stack[-1]}")
        character = text[at]
        if character in _CLOSING:
            stack.append(_CLOSING[character])
            at += 1
        elif character in ">]})":
            if stack.pop() != character:
                raise DamagedError(f"a {character} where another bracket is open")
            at += 1
        else:
            at = _over(text, at)
    return at


def _over(text: str, at: int) -> int:
    """Behind one token: a string, a comment, an arrow, a bracketed group, or plain characters."""
    if text[at] == '"':
        string = _STRING.match(text, at)
        if not string:
            raise DamagedError("a string that does not end")
        return string.end()
    if text.startswith("//", at):
        end = text.find("\n", at)
        return len(text) if end < 0 else end
    if text.startswith("->", at):
        return at + 2
    if text[at] in _CLOSING:
        return _close(text, at)
    plain = _SKIP.match(text, at)
    return plain.end() if plain else at + 1


def _spaces(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at
