"""Where: the place in the project file that an error met later is about."""

from __future__ import annotations

from pathlib import Path

from gpubuild.config.load import shown
from gpubuild.config.yaml_tree import Member, Node, Place, Problems, decode, parse
from gpubuild.errors import ConfigError, UsageError


def at_target(error: UsageError, file: Path, target: str) -> ConfigError | None:
    """``error`` of ``target``'s chip or features, at its place in ``file``; ``None`` if it has none there.

    Targets may also come from the IR. Reads the file again: only after a failure.
    """
    try:
        text = decode(file.read_bytes(), "")
    except (OSError, ConfigError):
        return None
    problems = Problems(shown(file), text)
    document = parse(text, problems)
    targets = document.members.get("targets") if document is not None else None
    found = targets.node.members.get(target) if targets is not None else None
    if found is None or problems:
        return None
    problems.add(_place(found, error.message), error.message)
    located = problems.error()
    located.hint = error.hint
    return located


def _place(found: Member, message: str) -> Place:
    """Of the value that is to blame: the one whose text the message quotes, else the target's name."""
    for key in ("features", "chip"):
        member = found.node.members.get(key)
        if member is not None and any(repr(word) in message for word in _words(member.node)):
            return member.node.place
    return found.place


def _words(node: Node) -> list[str]:
    texts = [item.raw for item in node.items] or [node.raw]
    return [word for text in texts for part in text.split(",") for word in (part.strip(), part.strip(" +-"))]
