"""A small language for the values that a document may hold, and the check of a tree against it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpubuild.config.yaml_tree import Member, Node, Place, Problems, Shape, nearest_or_all
from gpubuild.support.frozen import field, frozen, replace


@frozen
class Text:
    """Text matching ``pattern`` as a whole. ``what`` describes it: "a chip name"."""

    what: str = "text"
    pattern: str = r"[\s\S]+"  # not empty
    advice: str = ""  # how to correct what people write instead


@frozen
class Choice:
    """One of a few words."""

    words: tuple[str, ...]


@frozen
class Flag:
    """``true`` or ``false``, spelled like that."""


@frozen
class Nothing:
    """No value after the colon."""


@frozen
class Number:
    """A number of any kind and notation, of which the text counts: 3, 0x10, 1e-3."""


@frozen
class Whole:
    """A whole number in decimal. ``maximum`` of ``None`` means no limit."""

    minimum: int = 0
    maximum: int | None = None


@frozen
class ListOf:
    """A list. ``unique`` refuses duplicates."""

    item: Text | Choice
    min_items: int = 0
    unique: bool = False


@frozen
class Key:
    """One key of a record. ``aka`` are its names in other tools, for suggestions."""

    spec: Spec
    help: str
    required: bool = False
    default: bool | int | str | None = None  # documentation; the loader applies it
    aka: tuple[str, ...] = ()


@frozen
class Record:
    """A mapping with known keys. ``what`` names it in messages; ``empty`` allows nothing at all."""

    what: str
    keys: Mapping[str, Key]
    empty: bool = True

    def key_for(self, word: str) -> str:
        """Return the key that ``word`` is another name of, or an empty string.

        For a key inside another one this is ``outer: {inner: …}``.
        """
        for name, key in self.keys.items():
            if word.lower() in key.aka:
                inner = key.spec
                known = (
                    inner.key_for(word) or word * (word in inner.keys) if isinstance(inner, Record) else ""
                )
                return f"{name}: {{{known}: …}}" if known else name
        return ""


@frozen
class Table:
    """A mapping whose keys are the user's own names, at least ``min_items`` of them."""

    what: str
    name: Text
    value: Spec
    min_items: int = 0
    empty: bool = False


@frozen
class Either:
    """One of several specs, distinguished by the shape of the value."""

    options: tuple[Spec, ...] = field(default=())


Spec = Text | Choice | Flag | Nothing | Number | Whole | ListOf | Record | Table | Either


def shapes(spec: Spec) -> frozenset[Shape]:
    """Return the shapes that values of ``spec`` may have."""
    match spec:
        case Text() | Choice():
            return frozenset({Shape.TEXT})
        case Flag():
            return frozenset({Shape.FLAG})
        case Nothing():
            return frozenset({Shape.NULL})
        case Number():
            return frozenset({Shape.WHOLE, Shape.NUMBER})
        case Whole():
            return frozenset({Shape.WHOLE})
        case ListOf():
            return frozenset({Shape.LIST})
        case Record(empty=empty) | Table(empty=empty):
            return frozenset({Shape.MAP, Shape.NULL} if empty else {Shape.MAP})
        case Either(options=options):
            return frozenset().union(*(shapes(option) for option in options))


def partial(spec: Spec) -> Spec:
    """Return ``spec`` for a tree that is merged over another one: no key of a record is required."""
    match spec:
        case Record():
            keys = {n: replace(k, spec=partial(k.spec), required=False) for n, k in spec.keys.items()}
            return replace(spec, keys=keys, empty=True)
        case Table():
            return replace(spec, value=partial(spec.value), min_items=0, empty=True)
        case _:
            return spec


def fits(text: str, spec: Text) -> bool:
    """Whether ``text`` matches the whole of the pattern of ``spec``."""
    return re.fullmatch(spec.pattern, text) is not None


def path_with(suffixes: tuple[str, ...], what: str, *, advice: str = "") -> Text:
    """Return a spec of file names that end with one of ``suffixes``."""
    endings = "|".join(suffix[1:] for suffix in suffixes)
    return Text(what=f"{what} ({' '.join(suffixes)})", pattern=rf".*[^/]\.({endings})", advice=advice)


_TRUTH_WORDS = r"(?i)(y|yes|on|true)|(n|no|off|false)"


def check(node: Node, spec: Spec, problems: Problems, *, at: Place | None = None) -> Node | None:
    """Return the part of ``node`` that ``spec`` allows; ``None`` when the value as a whole is wrong.

    ``at`` is the place of the key that holds the value: where a missing key is reported.
    """
    if node.shape is Shape.BROKEN:
        return None
    if node.shape not in shapes(spec):
        problems.add(node.place, _wrong_shape(node, spec))
        return None
    match spec:
        case Either(options=options):
            chosen = next(option for option in options if node.shape in shapes(option))
            if isinstance(chosen, Choice) and node.scalar not in chosen.words:
                problems.add(node.place, _wrong_shape(node, spec))
                return None
            return check(node, chosen, problems, at=at)
        case Text():
            return _text(node, spec, problems)
        case Choice(words=words):
            if node.scalar in words:
                return node
            hint = nearest_or_all(str(node.scalar), words, what="one of")
            problems.add(node.place, f"unknown word {node.describe()}{hint}")
            return None
        case Flag() | Nothing() | Number():
            return node
        case Whole():
            return _whole(node, spec, problems)
        case ListOf():
            return _list(node, spec, problems)
        case Record():
            return _record(node, spec, problems, at or node.place)
        case Table():
            return _table(node, spec, problems, at or node.place)


def _text(node: Node, spec: Text, problems: Problems) -> Node | None:
    if fits(str(node.scalar), spec):
        return node
    advice = f"; {spec.advice}" if spec.advice else ""
    problems.add(node.place, f"expected {spec.what}, got {node.describe()}{advice}")
    return None


def _whole(node: Node, spec: Whole, problems: Problems) -> Node | None:
    value = node.scalar
    assert isinstance(value, int)  # noqa: S101 - the shape says so
    if value >= spec.minimum and (spec.maximum is None or value <= spec.maximum):
        return node
    if spec.maximum is None:
        wanted = f"at least {spec.minimum}"
    elif spec.minimum == spec.maximum:
        wanted = str(spec.minimum)
    else:
        wanted = f"{spec.minimum} to {spec.maximum}"
    problems.add(node.place, f"expected {wanted}, got {value}")
    return None


def _list(node: Node, spec: ListOf, problems: Problems) -> Node:
    if len(node.items) < spec.min_items:
        words = spec.item.what if isinstance(spec.item, Text) else ", ".join(spec.item.words)
        problems.add(node.place, f"the list is empty; name {words}")
    kept: list[Node] = []
    seen: dict[str, Place] = {}
    for item in node.items:
        good = check(item, spec.item, problems)
        if good is None:
            continue
        if spec.unique and good.raw in seen:
            problems.add(item.place, f"{item.describe()} is listed twice", first=seen[good.raw])
            continue
        seen[good.raw] = item.place
        kept.append(good)
    return replace(node, items=tuple(kept))


def _record(node: Node, spec: Record, problems: Problems, at: Place) -> Node:
    kept: dict[str, Member] = {}
    meant: set[str] = set()
    for name, member in node.members.items():
        key = spec.keys.get(name)
        if key is None:
            hint = nearest_or_all(name, [*spec.keys])
            if alias := spec.key_for(name):
                hint = f" (did you mean '{alias}'?)"
            meant.update(k for k in spec.keys if f"'{k}'" in hint)
            problems.add(member.place, f"unknown key '{name}'{hint}")
            continue
        good = check(member.node, key.spec, problems, at=member.place)
        if good is not None:
            kept[name] = replace(member, node=good)
    for name, key in spec.keys.items():
        # A misspelt key is one error, not also a missing one.
        if key.required and name not in node.members and name not in meant:
            problems.add(at, f"missing '{name}' in {spec.what}{_way_out(name, key)}")
    return replace(node, members=kept, flawed=len(kept) < len(node.members))


def _way_out(name: str, key: Key) -> str:
    if isinstance(key.spec, Whole) and key.spec.minimum == key.spec.maximum:
        return f"; write `{name}: {key.spec.minimum}`"
    return f": {key.help}"


def _table(node: Node, spec: Table, problems: Problems, at: Place) -> Node:
    if len(node.members) < spec.min_items:
        problems.add(at, f"'{spec.what}' is empty; name at least one")
    kept: dict[str, Member] = {}
    for name, member in node.members.items():
        badly_named = not fits(name, spec.name)
        if badly_named:
            problems.add(member.place, f"expected {spec.name.what}, got '{name}'")
        good = check(member.node, spec.value, problems, at=member.place)
        # A name with wrong options is still a known name: keep it, empty.
        good = good or Node(shape=Shape.NULL, place=member.place, flawed=True)
        kept[name] = replace(member, node=replace(good, flawed=good.flawed or badly_named))
    return replace(node, members=kept)


def _wrong_shape(node: Node, spec: Spec) -> str:
    wanted = shapes(spec)
    if isinstance(spec, Table) and node.shape is Shape.NULL:
        return f"'{spec.what}' is empty; name at least one"
    unsaid = {Shape.NULL, *([Shape.WHOLE] if Shape.NUMBER in wanted else [])}
    options = spec.options if isinstance(spec, Either) else ()
    known = [word for option in options if isinstance(option, Choice) for word in option.words]
    if known:
        unsaid.add(Shape.TEXT)
    words = " or ".join([*(str(s) for s in Shape if s in wanted - unsaid), *known])
    message = f"expected {words}, got {node.describe()}"
    match node.shape:
        case Shape.TEXT if Shape.FLAG in wanted:
            if found := re.fullmatch(_TRUTH_WORDS, node.raw):
                message += f"; write {'true' if found.group(1) else 'false'}, without quotes"
        case Shape.TEXT if Shape.WHOLE in wanted and node.raw.strip().isdigit():
            message += "; write it without quotes"
        case _ if wanted <= {Shape.MAP, Shape.NULL}:
            message += _how_to_map(node, spec)
        case Shape.TEXT if Shape.LIST in wanted:
            message += f"; write [{', '.join(node.raw.replace(',', ' ').split())}]"
        case Shape.NUMBER if Shape.WHOLE in wanted:
            message += "; write it in plain decimal digits"
        case Shape.FLAG | Shape.WHOLE | Shape.NUMBER if Shape.TEXT in wanted:
            message += f'; to mean the text, write "{node.raw}"'
        case _:
            pass
    return message


def _how_to_map(node: Node, spec: Spec) -> str:
    """Return how to write a value that must be a mapping."""
    if isinstance(spec, Record):
        return f"; write `key: value`, with the keys {', '.join(spec.keys)}"
    names = [item.raw for item in node.items] if node.shape is Shape.LIST else [node.raw]
    if isinstance(spec, Table) and shapes(spec.value) >= {Shape.NULL} and all(names):
        return f"; write {{{', '.join(f'{name}: {{}}' for name in names)}}}"
    return "; write a name and a colon, with its keys indented below"
