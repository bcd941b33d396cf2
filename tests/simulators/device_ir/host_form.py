"""Rewrite the LLVM IR of a GPU's module as text for this machine's code generator: the host form.

The computations do not change. Address spaces become one, memory of a workgroup becomes plain variables, and
intrinsics of the GPU become calls of functions that a :class:`Vendor` defines. Calls that work-items execute
together get two numbers, by which the core finds the lanes that are behind (``sites``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from simulators.device_ir.sites import Sites, number_sites

DYNAMIC_BYTES = 64 * 1024  # for workgroup memory whose size the launch defines
DYNAMIC = "emu.dynamic"

_SPACE = re.compile(r'"[^"]*"|,?\s*\baddrspace\((\d+)\)')
_BRACKET = re.compile(r"[<{[(]")
_ATTRIBUTES = re.compile(r" #\d+(?=[ {,]|$)")
_MANGLED = re.compile(r"(?<=[.\dv])p\d+(?=[.(]|i\d+\b|$)")
_INTRINSIC = re.compile(r"@(llvm\.[\w.]+|[A-Za-z_][\w.]*)\(")
_DECLARE = re.compile(r"declare (?P<before>.*?)@(?P<name>[\w.$]+|\"[^\"]+\")\((?P<args>.*)\)(?P<after>.*)$")
_DEFINE = re.compile(r"define (?P<before>.*?)@(?P<name>[\w.$-]+|\"[^\"]+\")\(")
_KERNEL = re.compile(r"\b(?:ptx_kernel|amdgpu_kernel|spir_kernel)\b ?")
_SHARED = re.compile(r"^@(?P<name>[\w.$-]+|\"[^\"]+\") = (?P<linkage>.*?)addrspace\(3\) global (?P<rest>.*)$")
_RESULT_ATTRIBUTES = re.compile(
    r"\b(?:noundef|noalias|nonnull|zeroext|signext|inreg|local_unnamed_addr|unnamed_addr|fastcc|internal|tail|"
    r"range\([^)]*\)|align(?: \d+|\(\d+\))|dereferenceable(?:_or_null)?\(\d+\)|nofpclass\([^)]*\))(?: |$)"
)
_MENTION = re.compile(r'@([\w.$-]+|"[^"]+")')
_OURS = re.compile(r"(?:emu|nv|amd|cuda)_\w+")  # C functions of the simulators
_CALL = re.compile(rf"\bcall (?P<result>[^@\n]+) @(?P<name>{_OURS.pattern})\((?P<args>.*)\)$", re.MULTILINE)
_VENDORS = re.compile(r"llvm\.(?:nvvm|amdgcn|r600)\.")


class UntranslatableError(Exception):
    """The IR has something unknown here, or without a meaning on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A function that LLVM IR declares: ``i32 @name(i32, ptr)``."""

    name: str
    result: str
    arguments: tuple[str, ...]

    @property
    def parameters(self) -> str:
        """``i32 %0, ptr %1``."""
        return ", ".join(f"{kind} %{n}" for n, kind in enumerate(self.arguments))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A function of the GPU: ``body`` returns LLVM IR instructions that use ``%0 %1 …``.

    It gets the match of ``pattern`` with the whole name, and the declaration. ``together``: lanes execute
    it together, and ``body`` passes ``%site`` and ``%depth`` to the core.
    """

    pattern: str
    body: Callable[[re.Match[str], Declared], str]
    together: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """A GPU's functions; ``no_addresses`` are address spaces whose pointers cannot become the host's."""

    rules: Sequence[Rule]
    subgroup_size: int = 32
    no_addresses: frozenset[int] = frozenset()


def plain(text: str) -> Callable[[re.Match[str], Declared], str]:
    """Return a body that is the same for every function."""
    return lambda match, function: text


def returns(kind: str, value: str) -> str:
    """Return instructions that return the result of the instruction ``value``."""
    return f"  %r = {value}\n  ret {kind} %r"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostForm:
    """The text, the types of kernels' parameters, and the workgroup's variables that each kernel uses.

    ``unknown`` are functions that kernels call and that have no rule: a call ends in a message.
    """

    text: str
    kernels: Mapping[str, tuple[str, ...]]
    shared: Mapping[str, tuple[str, ...]]
    unknown: Mapping[str, tuple[str, ...]]
    sites: Sites


def translate(text: str, vendor: Vendor) -> HostForm:
    """Raises :class:`UntranslatableError`."""
    lines = _Lines(vendor)
    for line in text.split("\n"):
        lines.take(line)
    rules = {name: rule for name in lines.declared if (rule := _rule_for(name, vendor)) is not None}
    together = {name for name, (rule, _) in rules.items() if rule.together}
    numbered, sites = number_sites(lines.out, together)
    body = "\n".join(numbered)
    parts: list[str] = []
    unknown: dict[str, str] = {}
    for name in sorted(lines.declared, key=len, reverse=True):
        function = lines.declared[name]
        stand_in = f"device.{name.removeprefix('llvm.')}"
        if name in rules:
            rule, match = rules[name]
            parts.append(_definition(stand_in, function, rule.body(match, function), rule.together))
            body = body.replace(f"@{name}(", f"@{stand_in}(")
        elif name.startswith("llvm.") and not _VENDORS.match(name):
            parts.append(f"declare {function.result} @{name}({', '.join(function.arguments)})")
        elif not _OURS.fullmatch(name):
            unknown[name] = name
            parts.append(_unknown(stand_in, function, len(unknown), name))
            body = body.replace(f"@{name}(", f"@{stand_in}(")
    parts.append(f"@{DYNAMIC} = global [{DYNAMIC_BYTES} x i8] zeroinitializer, align 1024")
    parts += _declarations("\n".join([*parts, body]))
    kernels = lines.kernels
    parts += [_thunk(name, kinds) for name, kinds in kernels.items()]
    reached = _reached(numbered, kernels)
    return HostForm(
        text="\n".join([*parts, body]) + "\n",
        kernels=kernels,
        shared={name: tuple(sorted(reached[name] & set(lines.shared))) for name in kernels},
        unknown={name: tuple(unknown[n] for n in sorted(reached[name] & set(unknown))) for name in kernels},
        sites=sites,
    )


class _Lines:
    """The module line by line: remaining lines are in ``out``, the others by kind."""

    def __init__(self, vendor: Vendor) -> None:
        self._vendor = vendor
        self.out: list[str] = []
        self.kernels: dict[str, tuple[str, ...]] = {}
        self.shared: list[str] = []
        self.declared: dict[str, Declared] = {}

    def take(self, given: str) -> None:
        """The next line."""
        if given.startswith(("target ", "attributes ", "; ", "!nvvm.annotations", "source_filename")):
            return
        if variable := _SHARED.match(given):
            self.shared.append(variable["name"].strip('"'))
            self.out.append(_shared_variable(variable, self._vendor))
            return
        line = _one_space(given, self._vendor)
        if line.startswith("declare "):
            found = _declared(line)
            self.declared[found.name] = found
            return
        if line.startswith("define "):
            start = _DEFINE.match(line)
            if start is not None and _KERNEL.search(start["before"]):
                self.kernels[start["name"].strip('"')] = _parameters(line[start.end() :])
            line = _KERNEL.sub("", line)
        elif "asm " in line and "call " in line:
            raise UntranslatableError(f"assembly cannot be run: {line.strip()}")
        self.out.append(line if line.startswith("@") else _ATTRIBUTES.sub("", line))


def _declarations(text: str) -> list[str]:
    """Declare the C functions that ``text`` calls."""
    found = {}
    for call in _CALL.finditer(text):
        found[call["name"]] = f"declare {call['result']} @{call['name']}({', '.join(_types(call['args']))})"
    return list(found.values())


def _shared_variable(variable: re.Match[str], vendor: Vendor) -> str:
    """Return a variable of the running workgroup. The core fills it with poison before each one."""
    rest = re.sub(r"\b(undef|poison)\b", "zeroinitializer", _one_space(variable["rest"], vendor))
    if "external" in variable["linkage"]:
        kind = rest.split(", align")[0]
        return f"@{variable['name']} = internal alias {kind}, ptr @{DYNAMIC}"
    return f"@{variable['name']} = global {rest}"


def _one_space(line: str, vendor: Vendor) -> str:
    """All pointers in one address space; casts between spaces do nothing."""
    plain = _SPACE.sub(lambda m: m[0] if m[0].startswith('"') else _checked_space(m, vendor), line)
    if "addrspacecast" in plain:
        plain = re.sub(r"\baddrspacecast\b", "bitcast", plain)
    if "@llvm." in plain:
        plain = re.sub(r"@llvm\.[\w.]+", lambda m: _MANGLED.sub("p0", m[0]), plain)
    return plain


def _checked_space(found: re.Match[str], vendor: Vendor) -> str:
    if int(found[1]) in vendor.no_addresses:
        raise UntranslatableError(f"pointers of address space {found[1]} are no addresses of this machine")
    return ""


def type_of(parameter: str) -> str:
    """``ptr`` of ``ptr noundef readonly %0``."""
    if parameter[0] not in "<{[":
        return parameter.split(" ", 1)[0]
    depth = 0
    for at, letter in enumerate(parameter):
        depth += (letter in "<{[(") - (letter in ">}])")
        if depth == 0:
            return parameter[: at + 1]
    raise UntranslatableError(f"cannot read a parameter: {parameter}")


def _types(parameters: str) -> tuple[str, ...]:
    return tuple(type_of(part) for part in split(parameters) if part)


def _declared(line: str) -> Declared:
    found = _DECLARE.match(_ATTRIBUTES.sub("", line))
    if found is None:
        raise UntranslatableError(f"cannot read: {line}")
    result = _RESULT_ATTRIBUTES.sub("", found["before"]).strip()
    return Declared(name=found["name"].strip('"'), result=result, arguments=_types(found["args"]))


def split(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    if not _BRACKET.search(text):
        return [part.strip() for part in text.split(",")] if text else []
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "<{[(") - (letter in ">}])")
        if letter == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]


def _rule_for(name: str, vendor: Vendor) -> tuple[Rule, re.Match[str]] | None:
    for rule in vendor.rules:
        if match := re.fullmatch(rule.pattern, name):
            return rule, match
    return None


def _definition(name: str, function: Declared, body: str, together: bool) -> str:
    parameters = [f"{kind} %{n}" for n, kind in enumerate(function.arguments)]
    if together:
        parameters = ["i32 %site", "i32 %depth", *parameters]
    # Parameters have numbers, so that what follows needs names or the next number, which is the block's.
    return f"define internal {function.result} @{name}({', '.join(parameters)}) {{\nentry:\n{body}\n}}"


def _unknown(name: str, function: Declared, number: int, text: str) -> str:
    """Return a function that reports that it is unknown."""
    data = text.encode()
    quoted = "".join(chr(c) if 32 <= c < 127 and chr(c) not in '"\\' else f"\\{c:02X}" for c in data)
    body = f"  call void @emu_unknown(ptr @emu.unknown.{number})\n  unreachable"
    return (
        f'@emu.unknown.{number} = internal constant [{len(data) + 1} x i8] c"{quoted}\\00"\n'
        + _definition(name, function, body, together=False)
    )


def _parameters(after: str) -> tuple[str, ...]:
    """Return the types before the closing bracket."""
    depth = 1
    for at, letter in enumerate(after):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return _types(after[:at])
    raise UntranslatableError(f"cannot read the parameters of a kernel: {after[:60]}")


def _thunk(name: str, kinds: Sequence[str]) -> str:
    """Return ``void(ptr arguments)``, which takes the addresses of a launch's values."""
    lines = [
        f"  %p{n} = getelementptr ptr, ptr %arguments, i64 {n}\n  %q{n} = load ptr, ptr %p{n}\n"
        f"  %v{n} = load {kind}, ptr %q{n}, align 1\n"
        for n, kind in enumerate(kinds)
    ]
    values = ", ".join(f"{kind} %v{n}" for n, kind in enumerate(kinds))
    return (
        f'define void @"emu.kernel.{name}"(ptr %arguments) {{\n{"".join(lines)}'
        f'  call void @"{name}"({values})\n  ret void\n}}\n'
    )


def _reached(lines: Sequence[str], kernels: Mapping[str, object]) -> dict[str, set[str]]:
    """Return all names in each kernel and in the functions that it calls."""
    mentions: dict[str, set[str]] = {}
    current = ""
    for line in lines:
        if line.startswith("define ") and (found := _DEFINE.match(line)):
            current = found["name"].strip('"')
            mentions[current] = set()
        elif current and "@" in line:
            mentions[current].update(name.strip('"') for name in _MENTION.findall(line))
        if line.startswith("}"):
            current = ""

    def reach(name: str) -> set[str]:
        found: set[str] = set()
        todo = [name]
        while todo:
            more = mentions.get(todo.pop(), set()) - found
            found |= more
            todo += more
        return found

    return {kernel: reach(kernel) for kernel in kernels}
