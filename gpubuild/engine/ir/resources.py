"""Keep the data of `dense_resource` attributes in files beside module texts.

Outlining inlines small resources as `dense`. It writes large ones to files named by their content, and
renames them: `dense_resource<sha256_…>`. So texts and keys depend on the data of resources, not on
their names in the source.

In the ``{-# dialect_resources … #-}`` section of MLIR text the data are hexadecimal: 1 GB of text for
500 MB. MLIR would take minutes to parse and print that in each step, so the digits are taken out of
the text first, and code gets the data past MLIR (engine.ir.resource_objects). The values of large
constants written as `dense` become resources, too.
"""

from __future__ import annotations

import hashlib
import mmap
import re
from binascii import unhexlify
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import prod
from pathlib import Path
from typing import TextIO

from mlir import ir

from gpubuild.engine.ir import bytecode, contexts
from gpubuild.engine.ir.diagnostics import SourceText, about, refuse
from gpubuild.engine.ir.query import operations, readable
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import Diagnostic, StepError
from gpubuild.model.digest import Digest, digest_bytes
from gpubuild.support.frozen import frozen

ROLE = "resource."
_NAMED = re.compile(r"dense_resource<sha256_([0-9a-f]{64})")
_KEY = re.compile(r'dense_resource<("(?:[^"\\]|\\.)*"|[^>]*)>')
_INLINE_BYTES = 4096  # most that becomes `dense`, with which LLVM can compute
_LARGE_BYTES = 1 << 20  # least of a `dense` constant that becomes a resource
_SHORT_TEXT = 1 << 18  # bytes: too few for a large constant, unless it is hexadecimal or a splat
# Attributes of operations which other code does not compute with, so that a resource serves as well.
_CONSTANTS = {
    "arith.constant": "value",
    "llvm.mlir.global": "value",
    "memref.global": "initial_value",
    "ml_program.global": "value",
    "tosa.const": "values",
}
_VARIABLE, _MODULE = "memref.global", "gpu.module"
_DENSE = "gpubuild.dense."  # begins the names of resources that were `dense`
_ALIGNMENT = 64  # bytes: enough for any vector access
_GLOBAL = "llvm.mlir.global"
_VALUE = "value"
_SPECIAL = ("comdat", "section", "thread_local_")  # such variables are not made external
# From MLIR's names to llvmlite's.
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
    """Return the name of the output of outlining with the data."""
    return f"resource.{digest}.bin"


class SourceResources:
    """The resources of one source."""

    def __init__(self, io: StepIO) -> None:
        self._io = io
        self._files: dict[str, Path] = {}  # by digest
        self._digests: dict[str, str] = {}  # by the name in the source
        self._taken: dict[bytes, str] = {}  # digests of data that are in files already, by their marks
        if io.head("source", len(bytecode.MAGIC)) == bytecode.MAGIC:
            data, self._digits = self._separated(self._text_of_bytecode())
        else:
            taken = take_out(io.chunks("source", _PIECE), io.scratch)
            if taken is not None:
                data, self._taken = taken
                data, self._digits = self._separated(data)
            if taken is None or _MARK in data:  # for instance in a comment
                self._taken = {}
                data, self._digits = self._separated(io.read("source"))
        self.text = io.decode("source", data)
        self._any = "dense_resource" in self.text
        self._has_dense = "dense<" in self.text

    def _text_of_bytecode(self) -> bytes:
        """Return the source as text with marks. Raises ``StepError``."""
        try:
            data, marks = bytecode.take_out(self._io.view("source"), _LARGE_BYTES, self._store)
        except ValueError as error:
            raise StepError(
                f"{self._io.path('source').name} is not valid MLIR bytecode: {error}",
                hint="write it again: mlir-opt --emit-bytecode",
            ) from error
        self._taken = {mark.hex().upper().encode(): digest for mark, digest in marks.items()}
        return contexts.text_of_bytecode(data, self._take_out_dense).encode()

    @staticmethod
    def _separated(data: bytes) -> tuple[bytes, dict[str, bytes]]:
        data, found = separate(data)
        data, dense = separate_dense(data)
        return data, found | dense

    def settle(self, module: ir.Module, source: SourceText) -> None:
        """Inline small resources into attributes, and name large ones by their content, in place.

        Large `dense` constants become resources. Raises ``StepError`` for resources without data or with
        data of another size than their type's.
        """
        if len(self.text) > _SHORT_TEXT and self._has_dense:
            self._take_out_dense(module)
        self._has_dense = True  # later, constants may be those of passes
        self._take_out_splats(module)
        if not self._any:
            return
        errors: list[Diagnostic] = []

        def settled(attribute: ir.Attribute, op: ir.Operation) -> ir.Attribute | None:
            try:
                return self._settled(attribute, op)
            except ValueError as error:
                errors.append(about(op, str(error), source))
                return None

        _replace(module.operation, settled)
        refuse(
            "the data of a resource do not fit its type",
            errors,
            "write the data of dense_resource<NAME> into the section "
            '{-# dialect_resources: { builtin: { NAME: "0x…" } } #-} of the file',
        )

    def bind(self, module: ir.Module) -> None:
        """Give the data to MLIR, for the user's passes, under the names that :meth:`settle` chose."""
        _bind(
            module.operation,
            {digest: _mapped(path) for digest, path in self._files.items() if path.stat().st_size},
        )

    def write(self, text: str, io: StepIO) -> list[str]:
        """Write the data of the resources that canonical text uses; return the names of the outputs."""
        names = []
        for digest in sorted(set(_NAMED.findall(text)) & self._files.keys()):
            names.append(file_name(digest))
            if (path := self._files[digest]).exists():  # else it is an output already
                io.move_out(names[-1], path, Digest(digest))
        return names

    def _take_out_dense(self, module: ir.Module) -> None:
        """Turn large `dense` attributes of constants into resources named by their content."""
        for op in operations(module.operation, tuple(_CONSTANTS)):
            name = _CONSTANTS[op.name]
            value = readable(op.attributes, name) if name in op.attributes else None
            if not isinstance(value, ir.DenseElementsAttr) or value.is_splat:
                continue
            kind = ir.ShapedType(value.type)
            if _is_bits(kind) or _bytes(kind) < _LARGE_BYTES:
                continue
            try:
                digest = self._store(memoryview(value).cast("B"))
            except BufferError:  # types that Python lacks, such as bf16
                digits = separate_dense(str(value).encode())[1]
                if not digits:
                    continue
                digest = self._stored(next(iter(digits.values())))
            op.attributes[name] = _resource(digest, kind)
            self._any = True

    def _take_out_splats(self, module: ir.Module) -> None:
        """Turn large variables of equal elements, but zeros, into resources: LLVM's text has each element."""
        tops = [view.operation for view in module.body]
        inner = [view.operation for top in tops if top.name == _MODULE for view in top.regions[0].blocks[0]]
        for op in (*tops, *inner):
            if op.name != _VARIABLE or _CONSTANTS[_VARIABLE] not in op.attributes:
                continue
            value = readable(op.attributes, _CONSTANTS[_VARIABLE])
            if not isinstance(value, ir.DenseElementsAttr) or not value.is_splat:
                continue
            kind = ir.ShapedType(value.type)
            if _is_bits(kind) or _bytes(kind) < _LARGE_BYTES:
                continue
            try:
                data = memoryview(value)
            except BufferError:  # types that Python lacks
                continue
            elements = data.tobytes()
            if any(elements[: data.itemsize]):
                op.attributes[_CONSTANTS[_VARIABLE]] = _resource(self._store(memoryview(elements)), kind)
                self._any = True

    def _settled(self, attribute: ir.Attribute, op: ir.Operation) -> ir.Attribute | None:
        """Return the attribute to use instead. Raises ``ValueError`` with a message for the user."""
        kind = ir.ShapedType(attribute.type)
        name = _name(attribute)
        if name.startswith(_DENSE) and (op.name not in _CONSTANTS or _is_bits(kind)):
            digits = self._digits[name]
            if (taken := self._taken.get(digits)) is not None:
                return _dense_digits((self._io.scratch / file_name(taken)).read_bytes().hex(), kind)
            return _dense_digits(digits.decode(), kind)
        digest = _digest(attribute)
        if digest in self._files:
            return None
        if name not in self._digests:
            self._digests[name] = self._load(name, attribute)
        digest = self._digests[name]
        size, expected = self._files[digest].stat().st_size, _bytes(kind)
        if size != expected:
            raise ValueError(f"{_shown(name)} has {size} bytes, {kind} needs {expected}")
        if isinstance(kind.element_type, ir.ComplexType):  # see `_replace`
            if not kind.rank:
                raise ValueError(f"dense_resource<{name}> is one complex number: write it as `dense`")
        elif size <= _INLINE_BYTES:
            return _dense(self._files[digest].read_bytes(), kind)
        return _resource(digest, kind)

    def _load(self, name: str, attribute: ir.Attribute) -> str:
        """Write the data of a resource to a file; return their digest. Raises ``ValueError``."""
        digits = self._digits.get(name) or _printed(attribute)
        if digits is None:
            return self._found_beside(name)
        try:
            return self._stored(digits)
        except ValueError as error:
            raise ValueError(f"{_shown(name)}: {error}") from error

    def _stored(self, digits: bytes) -> str:
        """Write data to a file unless they are in one; return their digest. Raises ``ValueError``."""
        if (taken := self._taken.get(digits)) is not None:
            self._files[taken] = self._io.scratch / file_name(taken)
            return taken
        return self._store(memoryview(unhexlify(digits)))

    def _store(self, data: memoryview) -> str:
        """Write data to a file; return their digest."""
        path, digest = self._io.scratch / "resource", hashlib.sha256()
        with path.open("wb") as stream:
            for at in range(0, len(data), _PIECE):
                digest.update(data[at : at + _PIECE])
                stream.write(data[at : at + _PIECE])
        found = digest.hexdigest()
        self._files[found] = path.rename(path.with_name(file_name(found)))
        return found

    def _found_beside(self, name: str) -> str:
        """Use the file beside a source that is an output of outlining itself."""
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


@frozen
class External:
    """A global variable whose data LLVM does not see.

    LLVM optimises with a declaration called ``stand_in``, which no library of the user's defines.
    """

    name: str
    stand_in: str
    digest: str
    linkage: str  # llvmlite's name
    alignment: int  # bytes
    space: int
    hidden: bool
    constant: bool


class StepResources:
    """The data of the resources of a step, by digest."""

    def __init__(self, data: Mapping[str, Callable[[], memoryview]]) -> None:
        self._data = data

    @classmethod
    def of(cls, io: StepIO) -> StepResources:
        """Return the resources among the step's inputs."""
        roles = [name for name in io.input_names if name.startswith(ROLE)]
        return cls({str(io.digest(role)): partial(io.view, role) for role in roles})

    def bind(self, module: ir.Module) -> None:
        """Give the data to MLIR, for the user's passes."""
        _bind(module.operation, {digest: view() for digest, view in self._data.items()})

    def externalize(self, op: ir.Operation) -> tuple[External, ...]:
        """Turn global variables that are resources into declarations, and inline other uses."""
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
        """Return the bytes with a digest."""
        return self._data[digest]()

    def _digest_of_global(self, op: ir.Operation) -> str:
        attributes = op.attributes
        value = readable(attributes, _VALUE) if _VALUE in attributes else None
        if value is None or not _is_resource(value) or any(name in attributes for name in _SPECIAL):
            return ""
        digest = _digest(value) if _linkage(op) in _LINKAGES else ""
        return digest if digest in self._data else ""

    def _inlined(self, attribute: ir.Attribute, _: ir.Operation) -> ir.Attribute | None:
        digest = _digest(attribute)
        if digest not in self._data:
            return None
        # Not a global variable, so a value in registers, and those are never complex.
        return _dense(self._data[digest](), ir.ShapedType(attribute.type))


NO_RESOURCES = StepResources({})


def _declare(op: ir.Operation, digest: str, number: int) -> External:
    """Turn the global variable ``op`` into a declaration."""
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
    """Replace resources in attributes inside ``root``, also in arrays and dictionaries."""

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
            given = readable(attributes, name)
            if given is not None and (new := replaced(given, op)) is not None:
                attributes[name] = new
        return ir.WalkResult.ADVANCE

    root.walk(visit)


def _bind(root: ir.Operation, data: Mapping[str, memoryview]) -> None:
    def bound(attribute: ir.Attribute, _: ir.Operation) -> ir.Attribute | None:
        digest = _digest(attribute)
        if digest not in data:
            return None
        # If the context has this name, MLIR changes it; `canonical_text` undoes that.
        return ir.DenseResourceElementsAttr.get_from_buffer(
            data[digest], f"sha256_{digest}", attribute.type, _ALIGNMENT
        )

    if data:
        _replace(root, bound)


def _is_resource(attribute: ir.Attribute) -> bool:
    # Attributes of other classes can be long when printed.
    plain = type(attribute) in (ir.Attribute, ir.DenseResourceElementsAttr)
    return plain and str(attribute).startswith("dense_resource<")


def _name(attribute: ir.Attribute) -> str:
    match = _KEY.match(str(attribute))
    return _unquoted(match[1].encode()) if match else ""


def _digest(attribute: ir.Attribute) -> str:
    match = _NAMED.match(str(attribute))
    return match[1] if match else ""


def _shown(name: str) -> str:
    return 'dense<"0x…">' if name.startswith(_DENSE) else f"dense_resource<{name}>"


def _resource(digest: str, kind: ir.Type) -> ir.Attribute:
    return ir.Attribute.parse(f"dense_resource<sha256_{digest}> : {kind}")


def _is_bits(kind: ir.ShapedType) -> bool:
    """Return whether `dense` has another format for ``kind`` than resources."""
    return isinstance(kind.element_type, ir.IntegerType) and bool(kind.element_type.width == 1)


def _bytes(kind: ir.ShapedType) -> int:
    """Return the size of the data of a resource of type ``kind``: whole bytes for each element."""
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
    """Return the `dense` attribute with the data of a resource."""
    if _is_bits(kind):  # bits there, bytes in resources
        bits = sum(1 << number for number, value in enumerate(data) if value)
        data = bits.to_bytes(-(-len(data) // _BYTE), "little")
    if not len(data):
        return ir.Attribute.parse(f"dense<> : {kind}")
    return _dense_digits(data.hex(), kind)


def _dense_digits(digits: str, kind: ir.Type) -> ir.Attribute:
    return ir.Attribute.parse(f'dense<"0x{digits}"> : {kind}')


def _printed(attribute: ir.Attribute) -> bytes | None:
    """Return the digits of the data that MLIR has of a resource, or ``None``."""
    alone = ir.Module.create()
    alone.operation.attributes[_PROBE] = attribute
    text = alone.operation.get_asm(binary=True)
    found = separate(text)[1]
    if found:
        return next(iter(found.values()))
    return b"" if b'"0x' in text else None


def _mapped(path: Path) -> memoryview:
    with path.open("rb") as stream:
        return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))


_SECTION = re.compile(rb"\{-#\s*dialect_resources\s*:\s*\{\s*builtin\s*:\s*\{")
_ENTRY = re.compile(rb'[\s,]*([A-Za-z_][\w.$-]*|"(?:[^"\\]|\\.)*")\s*:\s*"0x')
_END = re.compile(rb"\s*\}\s*\}\s*#-\}")
_ESCAPE = re.compile(rb'\\(?:([0-9A-Fa-f]{2})|(["\\nt]))')
_LETTERS = {b"n": b"\n", b"t": b"\t"}
_HEXADECIMAL = b'dense<"0x'
_ALIGNMENT_DIGITS = 8  # before the data


_MARK = b"gpubuild:"  # none is valid MLIR where digits are
_PIECE = 1 << 18  # bytes of text at once, which stay in the CPU's cache: a long run is in two pieces at least


def take_out(pieces: Iterable[bytes], folder: Path) -> tuple[bytes, dict[bytes, str]] | None:
    """Return a text with marks in place of long runs of digits, and the digests of their data by mark.

    So the text never is in memory as a whole. The data are files of ``folder`` then. ``None`` is for a text
    with other characters than digits in a run.
    """
    kept: list[bytes] = []
    found: dict[bytes, str] = {}
    pending, run = b"", None
    try:
        for piece in pieces:
            if run is None:
                pending += piece
            else:
                digits, quote, pending = piece.partition(b'"')
                run.add(digits)
                if quote:
                    shown, digest = run.close()
                    kept += (shown, quote)
                    if digest:
                        found[shown] = digest
                    run = None
            begin = pending.rfind(_RUN)
            if begin < 0 or pending.find(b'"', begin + len(_RUN)) >= 0:
                kept.append(pending[:-_OVERLAP])
                pending = pending[-_OVERLAP:]
            elif len(pending) - begin >= _LARGE_BYTES:  # perhaps twice as many
                begin += len(_RUN) if pending[:begin].endswith(b"dense<") else len(_RUN) + _ALIGNMENT_DIGITS
                kept.append(pending[:begin])
                run = _Run(folder)
                run.add(pending[begin:])
                pending = b""
    except ValueError:
        return None
    return None if run is not None else (b"".join([*kept, pending]), found)


_RUN = b'"0x'
_OVERLAP = len(b'dense<"0x')


class _Run:
    """A long run of digits, whose data are written to a file of ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "resource"
        self._stream = self._path.open("wb")
        self._digest = hashlib.sha256()
        self._odd = b""  # a digit without its second one

    def add(self, digits: bytes) -> None:
        """Write more data. Raises ``ValueError`` for other characters."""
        digits = self._odd + digits
        whole = len(digits) // 2 * 2
        self._odd = digits[whole:]
        data = unhexlify(memoryview(digits)[:whole])
        self._digest.update(data)
        self._stream.write(data)

    def close(self) -> tuple[bytes, str]:
        """Name the file by its digest, and return a mark and that; or return a short run and "".

        Raises ``ValueError`` for an odd number of digits.
        """
        self._stream.close()
        if self._odd:
            raise ValueError("odd-length string")
        if self._path.stat().st_size < _LARGE_BYTES:
            return self._path.read_bytes().hex().encode(), ""
        digest = self._digest.hexdigest()
        self._path.rename(self._path.with_name(file_name(digest)))
        return _MARK + digest.encode() + b".", digest  # of even length, as runs are


def write_section(stream: TextIO, resources: Mapping[str, Path]) -> None:
    """Write a section with the data of files, by the names of resources."""
    stream.write("\n{-#\n  dialect_resources: {\n    builtin: {")
    for number, (name, path) in enumerate(resources.items()):
        stream.write(f'{"," * bool(number)}\n      {name}: "0x{_ALIGNMENT.to_bytes(4, "little").hex()}')
        with path.open("rb") as source:
            while data := source.read(_PIECE):
                stream.write(data.hex())
        stream.write('"')
    stream.write("\n    }\n  }\n#-}\n")


def separate(text: bytes) -> tuple[bytes, dict[str, bytes]]:
    """Return the text without the data of its resources, and their digits by name.

    The number of lines stays. Text with a section of another form than MLIR prints is unchanged, for MLIR
    to read or refuse.
    """
    found: dict[str, bytes] = {}
    kept, copied, at = [], 0, 0
    while (at := text.find(b"{-#", at)) >= 0:
        if text[text.rfind(b"\n", 0, at) + 1 : at].strip():  # in a string or a comment
            at += 1
            continue
        section = _SECTION.match(text, at)
        at = section.end() if section is not None else at
        while section is not None and (entry := _ENTRY.match(text, at)):
            start = entry.end() + _ALIGNMENT_DIGITS
            end = text.find(b'"', entry.end())
            if end < start or (end - start) % 2:
                return text, {}
            at = end + 1
            if end > start:
                try:
                    found[_unquoted(entry[1])] = text[start:end]
                except UnicodeDecodeError:
                    return text, {}
                kept.append(text[copied:start])
                copied = end
        if section is None or not _END.match(text, at):
            return text, {}
    return b"".join([*kept, text[copied:]]), found


def separate_dense(text: bytes) -> tuple[bytes, dict[str, bytes]]:
    """Return the text with resources in place of large hexadecimal `dense` attributes, and their digits."""
    found: dict[str, bytes] = {}
    kept, copied, at = [], 0, 0
    if _DENSE.encode() in text:
        return text, {}
    while (at := text.find(_HEXADECIMAL, at)) >= 0:
        start = at + len(_HEXADECIMAL)
        end = text.find(b'">', start)
        is_large = end - start >= 2 * _LARGE_BYTES or text.startswith(_MARK, start)
        if is_large and not (end - start) % 2:
            name = f"{_DENSE}{len(found)}"
            found[name] = text[start:end]
            kept.append(text[copied:at] + f'dense_resource<"{name}"'.encode())
            copied = end + 1
        at = start
    return b"".join([*kept, text[copied:]]), found


def _unquoted(name: bytes) -> str:
    if not name.startswith(b'"'):
        return name.decode()
    return _ESCAPE.sub(
        lambda found: bytes.fromhex(found[1].decode()) if found[1] else _LETTERS.get(found[2], found[2]),
        name[1:-1],
    ).decode()
