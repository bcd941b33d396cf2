"""Join the parts of a configuration into one tree: included files, the profile, command-line options.

All of them are merged by one function. Each value keeps its location, so that errors in the joined
tree point to the file, or the option, that they come from.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from gpubuild.config.keys import INCLUDE, VERSION, document, partial_document
from gpubuild.config.spec import check
from gpubuild.config.yaml_tree import START, Member, Node, Place, Problems, Shape, decode, existing, parse
from gpubuild.errors import UsageError
from gpubuild.model.project import Variant
from gpubuild.support.frozen import replace
from gpubuild.support.text import shown_path, suggestion
from gpubuild.targets import registry

_KEY_PART = re.compile(r'"([^"]+)"|([^."]+)')


def merge(base: Node, over: Node) -> Node:
    """Return ``base`` with the values of ``over``: mappings merge by key, all else replaces."""
    if base.shape is not Shape.MAP or over.shape not in (Shape.MAP, Shape.NULL):
        return over
    members = dict(base.members)
    for name, member in over.members.items():
        known = members.get(name)
        members[name] = replace(known, node=merge(known.node, member.node)) if known else member
    return replace(base, members=members)


class Configuration:
    """The joined tree of the project file at ``path``. ``read`` returns the bytes of included files."""

    def __init__(self, path: Path, problems: Problems, read: Callable[[Path], bytes]) -> None:
        self._root = path.parent
        self._problems = problems
        self._read = read
        self._open = [path]  # files being read, to notice one that includes itself
        self.included: dict[Path, Node | None] = {}
        self.defines: dict[str, str | None] = {}  # of -D
        self.added_targets: list[str] = []  # of -t

    def load(self, text: str, variant: Variant) -> Node:
        """Return the tree for ``variant``. Raises ``ConfigError``, and ``UsageError`` for the profile."""
        tree = self._file(text, 0)
        if tree is None:
            raise self._problems.error()
        if "workspace" in tree.members:
            return tree  # options are for its projects
        if variant.profile:
            tree = self._with_profile(tree, variant.profile)
        for option in variant.settings:
            tree = merge(tree, self._setting(option))
        for option in variant.defines:
            name, equals, value = option.partition("=")
            self.defines[name] = value if equals else None
            tree = merge(tree, self._nested("-D", option, ["host", "define", name], self.defines[name]))
        declared = tree.members.get("targets")
        if declared is not None and declared.node.shape is Shape.MAP:
            for name in variant.targets:
                if name not in declared.node.members and _is_well_known(name):
                    tree = merge(tree, self._nested("-t", name, ["targets", name], None))
                    self.added_targets.append(name)
        return tree

    def _file(self, text: str, file: int) -> Node | None:
        """Return the tree of a file over those that it includes."""
        tree = parse(text, self._problems, file)
        if tree is None or tree.shape is not Shape.MAP:
            return tree
        if _foreign_version(tree, self._problems):
            raise self._problems.error()
        member = tree.members.get("include")
        if member is None:
            return tree
        tree = replace(tree, members={k: v for k, v in tree.members.items() if k != "include"})
        named = check(member.node, INCLUDE, self._problems)
        base: Node | None = None
        for item in named.items if named else ():
            found = self._include(item)
            if found is not None:
                base = found if base is None else merge(base, found)
        # The place of the root is that of the including file: missing keys are reported there.
        return tree if base is None else replace(merge(base, tree), place=tree.place)

    def _include(self, item: Node) -> Node | None:
        path = existing(self._root, item, self._problems, what="included file", but=self._open)
        if path is None:
            return None
        if path in self._open:
            self._problems.add(item.place, f"{item.describe()} includes itself: files cannot form a cycle")
            return None
        if path not in self.included:
            self.included[path] = None
            self._open.append(path)
            self.included[path] = self._read_included(path, item.place)
            self._open.pop()
        return self.included[path]

    def _read_included(self, path: Path, place: Place) -> Node | None:
        name = shown_path(path)
        try:
            text = decode(self._read(path), name)
        except OSError as error:
            self._problems.add(place, f"the included file cannot be read: {error.strerror}")
            return None
        file = self._problems.add_file(name, text, path.parent)
        tree = self._file(text, file)
        if tree is not None and tree.shape is not Shape.MAP:
            self._problems.add(tree.place, f"expected a mapping, got {tree.describe()}")
            return None
        return tree

    def _with_profile(self, tree: Node, name: str) -> Node:
        member = tree.members.get("profiles")
        profiles = member.node.members if member else {}
        if name not in profiles:
            raise UsageError(
                f"there is no profile {name!r} in {shown_path(self._open[0])}{suggestion(name, profiles)}",
                hint="profiles: " + ", ".join(profiles) if profiles else "list it under `profiles:`",
            )
        over = profiles[name].node
        # Other keys are reported where profiles are checked.
        kept = {key: m for key, m in over.members.items() if key in partial_document().keys}
        return merge(tree, replace(over, members=kept))

    def _setting(self, option: str) -> Node:
        key, equals, text = option.partition("=")
        parts = [quoted or plain for quoted, plain in _KEY_PART.findall(key)]
        if not equals or not parts or ".".join(parts) != key.replace('"', ""):
            raise UsageError(
                f"--set {option}: expected KEY=VALUE",
                hint='KEY is the path of a key, such as targets.cpu.opt_level or programs."a.b".offload',
            )
        if parts[0] in document().keys and parts[0] not in partial_document().keys:
            raise UsageError(f"--set {option}: '{parts[0]}' can be in the project file only")
        return self._nested("--set", option, parts, text, yaml=True)

    def _nested(
        self, name: str, option: str, keys: list[str], text: str | None, *, yaml: bool = False
    ) -> Node:
        """Return a value below nested ``keys``. The text of a command-line option is like a file."""
        file = self._problems.add_file(name, option)
        start = START._replace(file=file)
        node: Node | None = Node(shape=Shape.NULL, place=start)
        if text and yaml:
            node = parse(" " * (len(option) - len(text)) + text, self._problems, file)
        elif text is not None and not yaml:
            node = Node(shape=Shape.TEXT, place=start, scalar=text, raw=text)
        if node is None:
            raise UsageError(f"{name} {option}: the value is not valid YAML", hint="put text in quotes")
        for key in reversed(keys):
            node = Node(shape=Shape.MAP, place=start, members={key: Member(place=start, node=node)})
        return node


def _is_well_known(name: str) -> bool:
    """Whether a target of this name needs no options."""
    vendor, machine = registry.of_name(name), os.uname().machine
    if vendor is None:
        return False
    chip = vendor.default_chip(name, machine)
    return bool(chip) and vendor.chip_flaw(chip, vendor.default_triple(chip, machine)) is None


def _foreign_version(tree: Node, problems: Problems) -> bool:
    """Whether the file is of another version, whose other keys we cannot judge."""
    member = tree.members.get("version")
    if member is None or member.node.shape is not Shape.WHOLE or member.node.scalar == VERSION:
        return False
    problems.add(
        member.node.place,
        f"version {member.node.scalar} of this format is not supported; this gpubuild reads {VERSION}",
    )
    return True
