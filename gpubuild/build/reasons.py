"""Reasons in words: which part of a step's key changed, and in which functions a module text differs.

Texts are compared by summaries that the build state keeps, since earlier texts are gone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from zlib import crc32

from gpubuild.model.result import FIRST_BUILD, Status
from gpubuild.model.step import Action, BundleParams, HostParams, Step, StepKind
from gpubuild.support.frozen import fields, frozen
from gpubuild.targets.target import Target

_SHOWN_CHARACTERS = 60

# Function name (with its @) → a checksum for each line without SSA names, then one of the whole text.
# The empty name has the lines outside functions. A long function has only the checksum of its text.
Summary = Mapping[str, list[int]]

_FUNCTION = re.compile(r'^(\s*)(?:gpu|func|llvm|spirv)\.func\b[^@]*(@(?:"[^"]*"|[\w$.-]+))')
_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_LONG_LINES = 2000


@frozen
class Vocabulary:
    """Look-ups for digests: tool versions by fingerprint, summaries of module texts by digest."""

    version: Callable[[str], str]  # "" when not known
    summary: Callable[[str], Summary | None]


@frozen
class Row:
    """One part of a step's key before and now; empty where the key has no such part."""

    name: str
    before: str
    now: str

    @property
    def changed(self) -> bool:
        """Whether the part differs."""
        return self.before != self.now


@frozen
class Explanation:
    """A step's key, part by part, now and before its last change."""

    step: str
    status: Status  # up-to-date or would-run
    state: str  # the status in words
    why: str  # the reason of its last run; empty when it never ran
    rows: tuple[Row, ...]


def key_parts(action: Action) -> dict[str, str]:
    """Return the parts of a key by the names that explanations use."""
    parts = {"key version": action.version}
    parts.update({f"input {role}": digest for role, digest in action.inputs})
    parts.update({f"tool {name}": fingerprint for name, fingerprint in action.tools})
    for field in fields(action.params):
        value = getattr(action.params, field.name)
        if isinstance(value, Target):
            parts.update({f"option {name}": text for name, text in _options(value).items()})
        elif field.name == "targets" and isinstance(action.params, BundleParams):
            for name, target, given in zip(action.params.names, value, action.params.formats, strict=True):
                options = {**_options(target), **({"format": given} if given else {})}
                parts[f"option object {name}"] = ", ".join(
                    f"{option} {text}" for option, text in options.items()
                )
        elif field.compare and field.name not in ("names", "formats"):
            parts[f"option {field.name}"] = _shown(value)
    return parts


@cache
def _options(target: Target) -> dict[str, str]:
    return {f.name: _shown(getattr(target, f.name)) for f in fields(target) if f.compare}


def _shown(value: object) -> str:
    """Return a value as targets.yaml spells it."""
    if isinstance(value, Enum):
        return repr(value.value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def why_changed(
    step: Step, before: Mapping[str, str] | None, now: Mapping[str, str], words: Vocabulary
) -> str:
    """Return one line about the difference of two :func:`key_parts` of ``step``."""
    if before is None:
        return FIRST_BUILD
    changes: dict[str, None] = {}  # in order, without repetitions: an object comes with its info
    unsure: set[str] = set()
    before = _with_current_numbers(before, now, changes, unsure)
    for name in (*now, *(n for n in before if n not in now)):
        old, new = before.get(name, ""), now.get(name, "")
        if old != new:
            kind, _, rest = name.partition(" ")
            if name == "option present":
                changes["libraries may be found elsewhere now"] = None
            elif kind == "option" and rest.startswith("object "):
                changes[_object_changed(rest.removeprefix("object "), old, new)] = None
            elif kind == "option":
                changes[f"{name} changed: {_difference(old, new)}"] = None
            elif kind == "tool":
                changes[_tool(rest, old, new, words)] = None
            elif kind == "input" and not (old and new) and _follows_from_option(step, rest, new):
                continue
            elif name in unsure:
                changes[f"{_subject(step, rest)} is new or changed"] = None
            elif kind == "input":
                changes[_input(step, rest, old, new, words)] = None
            else:
                changes["this version of gpubuild computes keys differently"] = None
    return "; ".join(changes) or "unchanged"


def _with_current_numbers(
    before: Mapping[str, str], now: Mapping[str, str], changes: dict[str, None], unsure: set[str]
) -> Mapping[str, str]:
    """Return ``before`` with the current numbers of inputs that still exist.

    An input that comes or goes moves unchanged ones behind it. If only the order differs,
    ``changes`` gets that. ``unsure`` gets inputs that may be new or changed earlier ones.
    """
    found = {name: digest for name, digest in before.items() if not _group(name)}
    for group in dict.fromkeys(filter(None, map(_group, (*before, *now)))):
        left = [digest for name, digest in before.items() if _group(name) == group]
        new = {name: digest for name, digest in now.items() if _group(name) == group}
        reordered = left != list(new.values())
        others = []
        for name, digest in new.items():
            if digest in left:
                left.remove(digest)
                found[name] = digest
            else:
                others.append(name)
        if len(left) == len(others):
            found |= dict(zip(others, left, strict=True))
            if reordered and not others:
                changes["the order of its inputs changed"] = None
        elif left:
            unsure.update(others)
        if len(left) > len(others):
            found[f"{group}.gone"] = left[0]
    return found


def _group(name: str) -> str:
    """Return a numbered input without its number; empty for other parts."""
    group, _, number = name.rpartition(".")
    return group if name.startswith("input ") and number.isdecimal() else ""


def rows(before: Mapping[str, str], now: Mapping[str, str], version: Callable[[str], str]) -> tuple[Row, ...]:
    """Return both sides of the key, part by part, with versions beside fingerprints."""

    def text(name: str, value: str) -> str:
        if name.startswith("tool ") and len(value) == 64:
            return f"{version(value)} ({value[:12]})".lstrip()
        return value[:12] if name.startswith("input ") else value

    names = (*now, *(n for n in before if n not in now))
    return tuple(Row(name=n, before=text(n, before.get(n, "")), now=text(n, now.get(n, ""))) for n in names)


def _object_changed(target: str, old: str, new: str) -> str:
    if not old:
        return f"the object for {target} is new"
    if not new:
        return f"the object for {target} is gone"
    return f"options of the object for {target} changed: {_difference(old, new)}"


def _follows_from_option(step: Step, role: str, new: str) -> bool:
    """Whether an input came or went because of an option, whose change is reported already."""
    if step.kind is StepKind.CC:
        return role in ("source", "deps")  # they count where flags are about warnings
    return step.kind is StepKind.BUNDLE and not new  # a target's name is in an option


def _tool(name: str, old: str, new: str, words: Vocabulary) -> str:
    if not old or old == "absent":
        return f"{name} was found" if new != "absent" else f"{name} is looked for now"
    if not new or new == "absent":
        return f"{name} is gone"
    was, is_now = words.version(old), words.version(new)
    if was and is_now and was != is_now:
        return f"{name} changed: {was} → {is_now}"
    return f"{name} changed" + (f" (still {is_now}, another content)" if is_now else "")


def _input(step: Step, role: str, old: str, new: str, words: Vocabulary) -> str:
    what = _subject(step, role)
    if not old:
        return f"{what} is new"
    if not new:
        return f"{what} is gone"
    was, is_now = words.summary(old), words.summary(new)
    if was is None or is_now is None:
        return f"{what} changed"
    return f"{what} changed: {describe_difference(was, is_now)}"


def _subject(step: Step, role: str) -> str:
    """Return the name of an input for messages."""
    name, _, digits = role.rpartition(".")
    number = int(digits) if name and digits.isdigit() else -1
    item = next((i for i in step.inputs if i.name == role), None)
    if role == "source":
        return step.id.partition("/")[2].partition("#")[0]
    if step.kind is StepKind.COMPILE and role == "module":
        return f"gpu.module @{step.module}"
    if name == "lib":
        return f"device library {item.path.name}" if item else "a device library"
    if role == "host":
        return "host code"
    if role == "deps":
        return f"what {step.id.partition('/')[2]} includes"
    if role == "text":
        return f"what the preprocessor makes of {step.id.partition('/')[2]}"
    if isinstance(step.params, BundleParams) and name in ("object", "info", "asm"):
        known = 0 <= number < len(step.params.names)
        return f"the object for {step.params.names[number]}" if known else "an object"
    if isinstance(step.params, HostParams) and name == "binary":
        known = 0 <= number < len(step.params.modules)
        return f"the binary of @{step.params.modules[number]}" if known else "a binary"
    if step.kind is StepKind.LINK:
        if role == "runtime":
            return "the runtime library"
        if item is None:
            return "an object"
        return f"the object of {item.producer}" if item.producer else item.path.name
    return item.path.name if item else f"input {role}"


def _difference(old: str, new: str) -> str:
    """Return ``old → new``, of long texts only the part that differs."""
    if len(old) <= _SHOWN_CHARACTERS and len(new) <= _SHOWN_CHARACTERS:
        return f"{old or '(none)'} → {new or '(none)'}"
    shortest = min(len(old), len(new))
    start = next((n for n in range(shortest) if old[n] != new[n]), shortest)
    end = next((n for n in range(shortest - start) if old[-1 - n] != new[-1 - n]), shortest - start)
    start = max(start - _SHOWN_CHARACTERS // 3, 0)
    return f"{_part(old, start, len(old) - end)} → {_part(new, start, len(new) - end)}"


def _part(text: str, start: int, end: int) -> str:
    end = min(max(end, start), start + _SHOWN_CHARACTERS)
    return "…" * (start > 0) + text[start:end] + "…" * (end < len(text))


def summarize(text: str) -> dict[str, list[int]]:
    """Return the summary of a module that the engine printed: one operation per line."""
    functions: dict[str, list[str]] = {"": []}
    current, closing = "", ""
    for line in text.splitlines():
        found = _FUNCTION.match(line) if not current else None
        if found:
            name = found[2]
            functions[name] = [line]
            if line.endswith("{"):
                current, closing = name, found[1] + "}"
            continue
        functions[current].append(line)
        if current and line.rstrip() == closing:
            current = ""
    return {name: _numbers(lines) for name, lines in functions.items() if lines}


def describe_difference(old: Summary, new: Summary) -> str:
    """Return a text such as ``@reduce_rows, 2 ops differ; @scale is new``."""
    found = [f"{name} is new" for name in new if name and name not in old]
    found += [f"{name} is gone" for name in old if name and name not in new]
    for name in new:
        if name in old and old[name] != new[name]:
            found.append(f"{name}, {_count(old[name], new[name])}" if name else "declarations differ")
    return "; ".join(sorted(found)) or "operands differ"


def _numbers(lines: list[str]) -> list[int]:
    # The last one includes SSA names: operands may be the only difference.
    whole = crc32("\n".join(lines).encode())
    if len(lines) > _LONG_LINES:
        return [whole]
    return [*(crc32(_VALUE.sub("%", line.strip()).encode()) for line in lines), whole]


def _count(old: list[int], new: list[int]) -> str:
    if len(old) == 1 or len(new) == 1:
        return "changed"
    was, is_now = Counter(old[:-1]), Counter(new[:-1])
    ops = max((was - is_now).total(), (is_now - was).total())
    if ops:
        return f"{ops} op{' differs' if ops == 1 else 's differ'}"
    return "operands differ" if old[:-1] == new[:-1] else "the order of ops differs"
