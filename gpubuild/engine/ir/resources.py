"""Resources: the data of `dense_resource` attributes, kept beside module texts instead of in them.

Outlining gives small ones back to the text, as `dense`. Large ones it writes to files, and names
them after their content: `dense_resource<sha256_…>`. So texts and keys depend on what resources
hold, not on what they were called, and MLIR never sees the data (see engine.ir.resource_objects).

Resource section: take the data out of the ``{-# dialect_resources … #-}`` section of MLIR text.

Data of weights are hexadecimal there: 1 GB of text for 500 MB. To have MLIR read and print that in
each step would take minutes, so only the text around the digits is given to it.
"""

from __future__ import annotations

import hashlib
import mmap
import re
from binascii import unhexlify
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import BinaryIO, TextIO

from mlir import ir

from gpubuild.engine.ir.diagnostics import SourceText, about
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import Diagnostic, StepError
from gpubuild.model.digest import Digest, digest_bytes

ROLE = "resource."
_NAMED = re.compile(r"dense_resource<sha256_([0-9a-f]{64})")
_KEY = re.compile(r'dense_resource<("(?:[^"\\]|\\.)*"|[^>]*)>')
_INLINE_BYTES = 4096  # up to this, LLVM may compute with the values
_ALIGNMENT = 64  # of data, in bytes: as much as any vector access needs
_GLOBAL = "llvm.mlir.global"
_VALUE = "value"
# Variables that a declaration and a definition of ours could not stand for.
_SPECIAL = ("comdat", "section", "thread_local_")
# MLIR's names to llvmlite's.
_LINKAGES = {
    "external": "external",
    "internal": "internal",
    "private": "private",
    "weak": "weak_any",
    "weak_odr": "weak_odr",
    "linkonce": "linkonce_any",
    "linkonce_odr": "linkonce_odr",
}
_PROBE = "gpubuild.resource"
_BYTE = 8  # bits


def file_name(digest: str) -> str:
    """The output of outlining that has the data."""
    return f"resource.{digest}.bin"


class SourceResources:
    """The resources of one source, by names as the user wrote them."""

    def __init__(self, io: StepIO) -> None:
        data, self._digits = separate(io.read("source"))
        self.text = io.decode("source", data)
        self._any = "dense_resource" in self.text
        self._io = io
        self._files: dict[str, Path] = {}  # by digest
        self._digests: dict[str, str] = {}  # by the user's name

    def settle(self, module: ir.Module, source: SourceText) -> None:
        """Let attributes hold small resources and name large ones by their content, in place.

        Also those that passes have made. Raises ``StepError`` for one without data, or with too few or many.
        """
        if not self._any:
            return
        errors: list[Diagnostic] = []

        def settled(attribute: ir.Attribute, op: ir.Operation) -> ir.Attribute | None:
            try:
                return self._settled(attribute)
            except ValueError as error:
                errors.append(about(op, str(error), source))
                return None

        _replace(module.operation, settled)
        if errors:
            raise StepError(
                "a resource has not the data that its type needs",
                diagnostics=errors,
                hint='a section {-# dialect_resources: { builtin: { NAME: "0x…" } } #-} of the same file '
                "has the data of dense_resource<NAME>",
            )

    def bind(self, module: ir.Module) -> None:
        """Let passes of the user's see the data of resources that :meth:`settle` has named."""
        _bind(
            module.operation,
            {digest: _mapped(path) for digest, path in self._files.items() if path.stat().st_size},
        )

    def write(self, text: str, io: StepIO) -> list[str]:
        """Write the data of the resources that canonical text uses; the names of these outputs."""
        names = []
        for digest in sorted(set(_NAMED.findall(text)) & self._files.keys()):
            names.append(file_name(digest))
            if not (path := io.out_path(names[-1])).exists():
                self._files[digest].rename(path)
        return names

    def _settled(self, attribute: ir.Attribute) -> ir.Attribute | None:
        """Raises ``ValueError`` that says what is wrong."""
        kind = ir.ShapedType(attribute.type)
        name = _name(attribute)
        digest = _digest(attribute)
        if digest in self._files:
            return None
        if name not in self._digests:
            self._digests[name] = self._load(name, attribute)
        digest = self._digests[name]
        size, expected = self._files[digest].stat().st_size, _bytes(kind)
        if size != expected:
            raise ValueError(f"dense_resource<{name}> has {size} bytes, {kind} needs {expected}")
        if isinstance(kind.element_type, ir.ComplexType):  # see `_replace`
            if not kind.rank:
                raise ValueError(f"dense_resource<{name}> is one complex number: write it as `dense`")
        elif size <= _INLINE_BYTES:
            return _dense(self._files[digest].read_bytes(), kind)
        return ir.Attribute.parse(f"dense_resource<sha256_{digest}> : {kind}")

    def _load(self, name: str, attribute: ir.Attribute) -> str:
        """The digest of a resource whose data are in a file from then on. Raises ``ValueError``."""
        digits = self._digits.get(name) or _printed(attribute)
        if digits is None:
            return self._found_beside(name)
        path = self._io.scratch / "resource"
        try:
            with path.open("wb") as stream:
                digest = digits.copy_to(stream)
        except ValueError as error:
            raise ValueError(f"dense_resource<{name}>: {error}") from error
        self._files[digest] = path.rename(path.with_name(file_name(digest)))
        return digest

    def _found_beside(self, name: str) -> str:
        """A module text that outlining has written is a source, too, with its files beside it."""
        missing = ValueError(f"nothing in this file defines dense_resource<{name}>")
        if (match := re.fullmatch(r"sha256_([0-9a-f]{64})", name)) is None:
            raise missing
        try:
            data = (self._io.path("source").parent / file_name(match[1])).read_bytes()
        except OSError:
            raise missing from None
        if digest_bytes(data) != match[1]:
            raise missing
        self._files[match[1]] = self._io.scratch / file_name(match[1])
        self._files[match[1]].write_bytes(data)
        return match[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class External:
    """A global variable whose data LLVM does not see. ``linkage`` is llvmlite's name.

    While LLVM works on what uses it, it is called ``stand_in``, which no library of the user's defines.
    """

    name: str
    stand_in: str
    digest: str
    linkage: str
    alignment: int  # bytes
    space: int
    hidden: bool
    constant: bool


class StepResources:
    """The data of resources that a step's text refers to, by digest."""

    def __init__(self, data: Mapping[str, Callable[[], memoryview]]) -> None:
        self._data = data

    @classmethod
    def of(cls, io: StepIO) -> StepResources:
        """Those among the step's inputs."""
        roles = [name for name in io.input_names if name.startswith(ROLE)]
        return cls({str(io.digest(role)): partial(io.view, role) for role in roles})

    def bind(self, module: ir.Module) -> None:
        """Let passes of the user's see the data."""
        _bind(module.operation, {digest: view() for digest, view in self._data.items()})

    def externalize(self, op: ir.Operation) -> tuple[External, ...]:
        """Make declarations of the global variables that are resources, and inline the others."""
        if not self._data:
            return ()
        found: list[External] = []

        def visit(inner: ir.Operation) -> ir.WalkResult:
            if inner.name == _GLOBAL and (digest := self._digest_of_global(inner)):
                found.append(_declare(inner, digest, len(found)))
            return ir.WalkResult.ADVANCE

        op.walk(visit)
        _replace(op, self._inlined)
        return tuple(found)

    def data(self, digest: str) -> memoryview:
        """The bytes with that digest."""
        return self._data[digest]()

    def _digest_of_global(self, op: ir.Operation) -> str:
        attributes = op.attributes
        value = _readable(attributes, _VALUE) if _VALUE in attributes else None
        if value is None or not _is_resource(value) or any(name in attributes for name in _SPECIAL):
            return ""
        digest = _digest(value) if _linkage(op) in _LINKAGES else ""
        return digest if digest in self._data else ""

    def _inlined(self, attribute: ir.Attribute, _: ir.Operation) -> ir.Attribute | None:
        digest = _digest(attribute)
        if digest not in self._data:
            return None
        # What is no global variable is in registers, which complex numbers of this form never are.
        return _dense(self._data[digest](), ir.ShapedType(attribute.type))


NO_RESOURCES = StepResources({})


def _declare(op: ir.Operation, digest: str, number: int) -> External:
    """Make a declaration of the global variable ``op``."""
    attributes = op.attributes
    given = attributes["alignment"].value if "alignment" in attributes else 0
    linkage = _LINKAGES[_linkage(op)]
    del attributes[_VALUE]
    attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<external>")
    return External(
        name=attributes["sym_name"].value,
        stand_in=f"gpubuild.resource.{number}",
        digest=digest,
        linkage=linkage,
        alignment=max(given, _ALIGNMENT),
        space=attributes["addr_space"].value if "addr_space" in attributes else 0,
        hidden="visibility_" in attributes and attributes["visibility_"].value != 0,
        constant="constant" in attributes,
    )


def _linkage(op: ir.Operation) -> str:
    return str(op.attributes["linkage"]).partition("<")[2].rstrip(">")


def _replace(
    root: ir.Operation, replacement: Callable[[ir.Attribute, ir.Operation], ir.Attribute | None]
) -> None:
    """Replace resources in attributes of ``root`` and all inside, also in arrays and dictionaries."""

    def replaced(attribute: ir.Attribute, op: ir.Operation) -> ir.Attribute | None:
        if isinstance(attribute, ir.ArrayAttr):
            items = [replaced(item, op) for item in attribute]
            if not any(items):
                return None
            return ir.ArrayAttr.get([new or old for new, old in zip(items, attribute, strict=True)])
        if isinstance(attribute, ir.DictAttr):
            values = {item.name: replaced(item.attr, op) for item in attribute}
            if not any(values.values()):
                return None
            return ir.DictAttr.get({item.name: values[item.name] or item.attr for item in attribute})
        return replacement(attribute, op) if _is_resource(attribute) else None

    def visit(op: ir.Operation) -> ir.WalkResult:
        attributes = op.attributes
        for name in list(attributes):
            given = _readable(attributes, name)
            if given is not None and (new := replaced(given, op)) is not None:
                attributes[name] = new
        return ir.WalkResult.ADVANCE

    root.walk(visit)


def _readable(attributes: ir.OpAttributeMap, name: str) -> ir.Attribute | None:
    try:
        return attributes[name]
    except TypeError:  # the bindings have no class for `dense` complex numbers, which are no resources
        return None


def _bind(root: ir.Operation, data: Mapping[str, memoryview]) -> None:
    def bound(attribute: ir.Attribute, _: ir.Operation) -> ir.Attribute | None:
        digest = _digest(attribute)
        if digest not in data:
            return None
        # MLIR gives it another name where it knows this one; `canonical_text` undoes that.
        return ir.DenseResourceElementsAttr.get_from_buffer(
            data[digest], f"sha256_{digest}", attribute.type, _ALIGNMENT
        )

    if data:
        _replace(root, bound)


def _is_resource(attribute: ir.Attribute) -> bool:
    # What has a class of its own is none, and may be long to print.
    plain = type(attribute) in (ir.Attribute, ir.DenseResourceElementsAttr)
    return plain and str(attribute).startswith("dense_resource<")


def _name(attribute: ir.Attribute) -> str:
    match = _KEY.match(str(attribute))
    return unquoted(match[1]) if match else ""


def _digest(attribute: ir.Attribute) -> str:
    match = _NAMED.match(str(attribute))
    return match[1] if match else ""


def _bytes(kind: ir.ShapedType) -> int:
    """How many bytes the data of a resource of this type have: a whole number of them per element."""
    return int(prod(kind.shape)) * _element_bytes(kind.element_type)


def _element_bytes(kind: ir.Type) -> int:
    if isinstance(kind, ir.ComplexType):
        return 2 * _element_bytes(kind.element_type)
    if isinstance(kind, ir.VectorType):
        return _bytes(ir.ShapedType(kind))
    if isinstance(kind, ir.IndexType):
        return 8
    return (int(kind.width) + _BYTE - 1) // _BYTE


def _dense(data: bytes | memoryview, kind: ir.ShapedType) -> ir.Attribute:
    """A `dense` attribute, which has a bit for each boolean, of data that have a byte."""
    element = kind.element_type
    if isinstance(element, ir.IntegerType) and element.width == 1:
        bits = sum(1 << number for number, value in enumerate(data) if value)
        data = bits.to_bytes(-(-len(data) // _BYTE), "little")
    if not len(data):
        return ir.Attribute.parse(f"dense<> : {kind}")
    return ir.Attribute.parse(f'dense<"0x{data.hex()}"> : {kind}')


def _printed(attribute: ir.Attribute) -> Digits | None:
    """The data of a resource that MLIR has; ``None`` if it has none."""
    alone = ir.Module.create()
    alone.operation.attributes[_PROBE] = attribute
    text = alone.operation.get_asm(binary=True)
    found = separate(text)[1]
    if found:
        return next(iter(found.values()))
    return Digits(text=text, start=0, end=0) if b'"0x' in text else None


def _mapped(path: Path) -> memoryview:
    with path.open("rb") as stream:
        return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))


_MARK = b"dialect_resources"
_BLOBS = (_MARK, b"builtin")  # the names that `dense_resource` attributes refer to
_CODE = re.compile(rb'"|//|\{-#')
_TOKEN = re.compile(rb'(?:\s|//[^\n]*)*((?P<kind>#-\}|[{}:,"])|[A-Za-z_][\w.$-]*)')
_ESCAPE = re.compile(rb'\\(?:([0-9A-Fa-f]{2})|(["\\nt]))')
_LETTERS = {b"n": b"\n", b"t": b"\t"}
_START = len('"0x') + 8  # the digits after these are data: those before say how they are aligned
_CHUNK = 1 << 24  # digits or bytes at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Digits:
    """The hexadecimal digits of one resource: ``text[start:end]``."""

    text: bytes
    start: int
    end: int

    def copy_to(self, stream: BinaryIO) -> Digest:
        """Write the data that they stand for and return its digest. Raises ``ValueError``."""
        digest = hashlib.sha256()
        with memoryview(self.text) as view:
            for at in range(self.start, self.end, _CHUNK):
                data = unhexlify(view[at : min(at + _CHUNK, self.end)])
                digest.update(data)
                stream.write(data)
        return Digest(digest.hexdigest())


def write_section(stream: TextIO, resources: Mapping[str, Path]) -> None:
    """Write a section that has the data of files by the names of resources."""
    stream.write("\n{-#\n  dialect_resources: {\n    builtin: {")
    for number, (name, path) in enumerate(resources.items()):
        stream.write(f'{"," * bool(number)}\n      {name}: "0x{_ALIGNMENT.to_bytes(4, "little").hex()}')
        with path.open("rb") as source:
            while data := source.read(_CHUNK):
                stream.write(data.hex())
        stream.write('"')
    stream.write("\n    }\n  }\n#-}\n")


class _UnexpectedError(Exception):
    """The section is not written as MLIR prints it."""


def separate(text: bytes) -> tuple[bytes, dict[str, Digits]]:
    """The text without the data of its resources, and these by their names.

    Lines stay what they are. A section in an unknown form stays as it is, for MLIR to read or refuse.
    """
    if _MARK not in text:
        return text, {}
    found: dict[bytes, Digits] = {}
    try:
        for start in _sections(text):
            found.update(_read(text, start))
        names = {_unquoted(name): digits for name, digits in found.items()}
    except (_UnexpectedError, UnicodeDecodeError):
        return text, {}
    kept, at = [], 0
    for digits in sorted(found.values(), key=lambda d: d.start):
        kept.append(text[at : digits.start])
        at = digits.end
    return b"".join([*kept, text[at:]]), names


def _sections(text: bytes) -> Iterator[int]:
    """Where each section begins, behind its bracket: not in a string or a comment."""
    at = 0
    while found := _CODE.search(text, at):
        match found[0]:
            case b'"':
                at = _string_end(text, found.end()) + 1
            case b"//":
                at = text.find(b"\n", found.end())
                if at < 0:
                    return
            case _:
                at = found.end()
                yield at


def _read(text: bytes, at: int) -> dict[bytes, Digits]:
    """The resources of the section that begins at ``at``, by names as they are written."""
    found: dict[bytes, Digits] = {}
    path: list[bytes] = []
    name = b""  # whose value comes next
    tokens = _tokens(text, at)
    for kind, start, end in tokens:
        match kind:
            case b"#-}":
                _expect(not path and not name)
                return found
            case b"{":
                _expect(bool(name))
                path.append(name)
                name = b""
            case b"}":
                _expect(bool(path) and not name)
                path.pop()
            case b",":
                _expect(not name)
            case _ if not name:
                name = text[start:end]
                _expect(next(tokens)[0] == b":")
            case _:
                digits = Digits(text=text, start=start + _START, end=end - 1)
                if (*path,) == _BLOBS and text[start : start + 3] == b'"0x' and _is_whole(digits):
                    found[name] = digits
                name = b""
    return found


def _tokens(text: bytes, at: int) -> Iterator[tuple[bytes, int, int]]:
    """Signs, quoted texts (as a quote) and words (as nothing) of a section, and where they are."""
    while True:
        token = _TOKEN.match(text, at)
        if token is None:
            raise _UnexpectedError
        start, at = token.span(1)
        if token["kind"] == b'"':
            at = _string_end(text, at) + 1
        yield token["kind"] or b"", start, at


def _expect(true: bool) -> None:
    if not true:
        raise _UnexpectedError


def _is_whole(digits: Digits) -> bool:
    return digits.end > digits.start and (digits.end - digits.start) % 2 == 0


def _string_end(text: bytes, at: int) -> int:
    """Where the string that begins at ``at`` has its closing quote."""
    while True:
        end = text.find(b'"', at)
        if end < 0:
            raise _UnexpectedError
        before = end
        while before > at and text[before - 1 : before] == b"\\":
            before -= 1
        if (end - before) % 2 == 0:
            return end
        at = end + 1


def unquoted(name: str) -> str:
    """A name as it is, which the text may have in quotes."""
    return _unquoted(name.encode())


def _unquoted(name: bytes) -> str:
    if not name.startswith(b'"'):
        return name.decode()
    return _ESCAPE.sub(
        lambda found: bytes.fromhex(found[1].decode()) if found[1] else _LETTERS.get(found[2], found[2]),
        name[1:-1],
    ).decode()
