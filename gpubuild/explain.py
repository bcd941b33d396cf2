"""Explain: why a step had to be looked at again, in words a person can act on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from gpubuild.model.action import Action


def key_parts(action: Action) -> dict[str, str]:
    """What a key is made of, by the names that explanations use."""
    parts = {"key version": action.version}
    parts.update({f"input {role}": digest for role, digest in action.inputs})
    parts.update({f"tool {name}": fingerprint for name, fingerprint in action.tools})
    for field in fields(action.params):
        if field.compare:
            parts[f"option {field.name}"] = repr(getattr(action.params, field.name))
    return parts


def why_changed(before: Mapping[str, str] | None, now: Mapping[str, str]) -> str:
    """One line for the difference of two :func:`key_parts`."""
    if before is None:
        return "first build"
    changes = []
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        if name.startswith("option "):
            changes.append(f"{name} changed: {_short(old)} → {_short(new)}")
        elif old is None:
            changes.append(f"{name} is new")
        elif new is None:
            changes.append(f"{name} is gone")
        else:
            changes.append(f"{name} changed")
    return "; ".join(changes) or "unchanged"


def _short(text: str | None) -> str:
    if text is None:
        return "(none)"
    return text if len(text) <= 60 else text[:57] + "..."
