"""Source: PTX text as variables, functions and instructions, each with its line.

Names declared in a block of their own get a number behind them, so that a name means one thing in a function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from simulators.device_ir.host_form import split

_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_LABEL = re.compile(r"([\w$%.]+)\s*:(?!:)\s*")
_INSTRUCTION = re.compile(r"(?:@(!?)([\w$%]+)\s+)?([a-z][\w.:]*)\s*(.*)", re.S)
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(.*)", re.S)
_RANGE = re.compile(r"([\w$%]+)<(\d+)>")
_SPACE = re.compile(r"\.(global|shared|const|local|param)\b")
_VARIABLE = re.compile(
    r"\.(?P<space>global|shared|const|local|param)\s+(?:\.align\s+(?P<align>\d+)\s+)?"
    r"\.(?P<kind>[a-z]+\d+)\s+(?P<pointer>\.ptr\b.*?\s)?\s*(?P<name>[\w$%]+)\s*(?P<sizes>(?:\[\d*\])*)\s*(?:=\s*(?P<initial>.*))?$",
    re.S,
)
_HEADER = re.compile(
    r"(?P<linkage>(?:\.(?:visible|weak|extern|common)\s+)*)\.(?P<kind>entry|func)\s*(?:\((?P<result>[^)]*)\))?\s*"
    r"(?P<name>[\w$]+)\s*(?:\((?P<parameters>.*?)\))?(?P<rest>[^)]*)$",
    re.S,
)
_LINKAGE = re.compile(r"((?:\.(?:visible|weak|extern|common)\s+)*)(.*)", re.S)
_WORD = re.compile(r"(?<![\w$%.])[A-Za-z_$%][\w$]*")
# Nothing that what is computed depends on.
_IGNORED = re.compile(
    r"\.(version|target|address_size|pragma|file|loc|maxntid|reqntid|minnctapersm|maxnreg|noreturn)\b"
)
_LINE = re.compile(r"\.(?:version|target|address_size|file|loc)\b")  # no semicolon ends these
_HINTS = re.compile(r"^(?:\s*\.(?:noreturn|explicitcluster|(?:maxntid|reqntid|minnctapersm|maxnreg|"
                    r"maxclusterrank|reqnctapercluster)\s+[\d\s,]+))*\s*$")  # fmt: skip
_BITS = {"pred": 1, **{f"{letter}{bits}": bits for letter in "bsuf" for bits in (8, 16, 32, 64, 128)},
         "f16x2": 32, "bf16": 16, "bf16x2": 32}  # fmt: skip


class PtxError(Exception):
    """The text has something that has no meaning here, or none that has been written down; names the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """Memory with a name; ``count`` is ``None`` for one element, 0 where the size is settled at launch."""

    name: str
    space: str
    kind: str
    count: int | None
    align: int
    line: int
    initial: str = ""
    external: bool = False
    visible: bool = False

    @property
    def bytes(self) -> int:
        return bits_of(self.kind) // 8 * (1 if self.count is None else self.count)


@dataclass(slots=True, kw_only=True)
class Instruction:
    """One instruction; a label has the opcode ``:`` and its name as the operand."""

    line: int
    opcode: str
    operands: list[str]
    guard: str = ""
    negated: bool = False


@dataclass(slots=True, kw_only=True)
class Function:
    """A kernel or a function; ``registers`` has their sizes in bits."""

    name: str
    line: int
    kernel: bool
    results: list[Variable]
    parameters: list[Variable]
    defined: bool = False
    visible: bool = False
    registers: dict[str, int] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    body: list[Instruction] = field(default_factory=list)
    prototypes: dict[str, tuple[list[Variable], list[Variable]]] = field(default_factory=dict)
    targets: dict[str, list[str]] = field(default_factory=dict)  # of brx.idx


@dataclass(slots=True, kw_only=True)
class Module:
    """What a PTX text holds. Of a function declared first and defined later the definition stays."""

    variables: list[Variable] = field(default_factory=list)
    functions: dict[str, Function] = field(default_factory=dict)


def bits_of(kind: str) -> int:
    """Of a type's name, without the dot."""
    if kind not in _BITS:
        raise PtxError(f"type .{kind} is not known here")
    return _BITS[kind]


def parse(text: str) -> Module:
    """Raises :class:`PtxError`."""
    if "/*" in text:
        text = _COMMENT.sub(lambda m: "\n" * m[0].count("\n"), text)
    reader = _Reader()
    for line, statement in _statements(text):
        try:
            reader.take(line, statement)
        except PtxError as error:
            raise PtxError(f"line {line}: {error}: {' '.join(statement.split())[:200]}") from error
    return reader.module


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """``{``, ``}`` and what ends with ``;`` or, for headers, before ``{``; each with its line."""
    held, first = "", 0
    for number, given in enumerate(text.split("\n"), 1):
        line = given.partition("//")[0].strip()
        if not line:
            continue
        if not held:
            first = number
            if line[-1] == ";" and line[0] not in "{}" and line.count(";") == 1:
                yield number, line[:-1]
                continue
        held += f"{line}\n"
        while held:
            piece, rest = _first_piece(held)
            if piece is None:
                break
            if piece:
                yield first, piece
            held, first = rest.lstrip(), number


def _first_piece(held: str) -> tuple[str | None, str]:
    """The first statement and what is behind it; ``None`` where it is not whole."""
    if held[0] in "{}":
        return held[0], held[1:]
    if _LINE.match(held):
        return "", held.partition("\n")[2]
    if label := _LABEL.match(held):
        follows = held[label.end() :].lstrip()
        if not follows or not follows.startswith((".callprototype", ".branchtargets")):
            return label[0].strip(), held[label.end() :]
    end = held.find(";")
    if ".entry" in held or ".func" in held:
        brace = held.find("{")
        if brace >= 0 and (end < 0 or brace < end):
            return held[:brace].strip(), held[brace:]
    return (held[:end].strip(), held[end + 1 :]) if end >= 0 else (None, held)


class _Reader:
    def __init__(self) -> None:
        self.module = Module()
        self._function: Function | None = None
        self._scopes: list[dict[str, str]] = []
        self._count = 0

    def take(self, line: int, text: str) -> None:
        if self._function is None or not self._scopes:
            self._take_outside(line, text)
        elif text == "{":
            self._scopes.append({})
        elif text == "}":
            self._scopes.pop()
            if not self._scopes:
                self._function = None
        else:
            self._take_inside(line, text, self._function)

    def _take_outside(self, line: int, text: str) -> None:
        if text == "{":
            if self._function is None:
                raise PtxError("a block outside of functions")
            self._function.defined = True
            self._scopes = [{}]
            return
        found = _LINKAGE.fullmatch(text)
        assert found is not None
        linkage, rest = found[1].split(), found[2]
        if rest.startswith((".entry", ".func")):
            self._function = _header(line, text)
            known = self.module.functions.get(self._function.name)
            if known is None or not known.defined:
                self.module.functions[self._function.name] = self._function
        elif rest.startswith(_SPACES):
            self.module.variables.append(_variable(line, rest, linkage))
        elif not _IGNORED.match(rest):
            raise PtxError("not known here")

    def _take_inside(self, line: int, text: str, function: Function) -> None:
        if text[0] == ".":
            self._declare(line, text, function)
            return
        if label := _LABEL.match(text):
            self._label(line, text, label, function)
            return
        found = _INSTRUCTION.fullmatch(text)
        if found is None:
            raise PtxError("cannot read")
        negated, guard, opcode, rest = found.groups()
        for scope in self._scopes[1:]:
            if scope:
                rest = _WORD.sub(lambda m, names=scope: names.get(m[0], m[0]), rest)
                guard = scope.get(guard, guard)
        function.body.append(
            Instruction(line=line, opcode=opcode, operands=split(rest.strip()), guard=guard or "",
                        negated=bool(negated))
        )  # fmt: skip

    def _label(self, line: int, text: str, label: re.Match[str], function: Function) -> None:
        rest = text[label.end() :].strip()
        if rest.startswith(".callprototype"):
            found = re.fullmatch(
                r"\.callprototype\s*(?:\((.*?)\))?\s*_\s*(?:\((.*?)\))?\s*(?:\.noreturn)?", rest, re.S
            )
            if found is None:
                raise PtxError("cannot read a prototype")
            function.prototypes[label[1]] = (
                [_variable(line, p, []) for p in split(found[1] or "")],
                [_variable(line, p, []) for p in split(found[2] or "")],
            )
        elif rest.startswith(".branchtargets"):
            function.targets[label[1]] = split(rest.removeprefix(".branchtargets").strip())
        else:
            function.body.append(Instruction(line=line, opcode=":", operands=[label[1]]))
            if rest:
                self._take_inside(line, rest, function)

    def _declare(self, line: int, text: str, function: Function) -> None:
        if found := _REGISTERS.fullmatch(text):
            bits = bits_of(found[1])
            for name in split(found[2]):
                if many := _RANGE.fullmatch(name):
                    function.registers.update({f"{many[1]}{n}": bits for n in range(int(many[2]))})
                else:
                    function.registers[self._own(name)] = bits
        elif text.startswith(_SPACES):
            variable = _variable(line, text, [])
            function.variables.append(_renamed(variable, self._own(variable.name)))
        elif not _IGNORED.match(text):
            raise PtxError("not known here")

    def _own(self, name: str) -> str:
        """The name by which one declared here is known in all of the function."""
        if len(self._scopes) == 1:
            return name
        self._count += 1
        self._scopes[-1][name] = f"{name}$s{self._count}"
        return self._scopes[-1][name]


_SPACES = (".global", ".shared", ".const", ".local", ".param")


def _renamed(variable: Variable, name: str) -> Variable:
    return Variable(name=name, space=variable.space, kind=variable.kind, count=variable.count,
                    align=variable.align, line=variable.line, initial=variable.initial)  # fmt: skip


def _variable(line: int, text: str, linkage: list[str]) -> Variable:
    found = _VARIABLE.fullmatch(text.strip())
    if found is None:
        raise PtxError("cannot read a variable")
    sizes = [int(size or 0) for size in re.findall(r"\[(\d*)\]", found["sizes"])]
    count: int | None = None
    for size in sizes:
        count = size if count is None else count * size
    align = int(found["align"] or bits_of(found["kind"]) // 8)
    return Variable(
        name=found["name"], space=found["space"], kind=found["kind"], count=count, align=align, line=line,
        initial=(found["initial"] or "").strip(), external=".extern" in linkage,
        visible=".visible" in linkage or ".weak" in linkage,
    )  # fmt: skip


def _header(line: int, text: str) -> Function:
    found = _HEADER.fullmatch(text.strip())
    if found is None or not _HINTS.match(found["rest"]):
        raise PtxError("cannot read a function")
    return Function(
        name=found["name"],
        line=line,
        kernel=found["kind"] == "entry",
        results=[_variable(line, p, []) for p in split((found["result"] or "").strip())],
        parameters=[_variable(line, p, []) for p in split((found["parameters"] or "").strip())],
        visible="visible" in found["linkage"] or "weak" in found["linkage"],
    )
