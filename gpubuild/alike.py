"""Alike: errors of several targets that say the same, as one that lists the targets."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpubuild.errors import GpubuildError, StepError

_PLURAL = {"target": "targets", "for": "for"}


def grouped(errors: Iterable[GpubuildError]) -> list[GpubuildError]:
    """``errors`` of one gpu.module, those that are alike but for the target as one, in their order."""
    alike: dict[str, list[GpubuildError]] = {}
    for error in errors:
        alike.setdefault(_without_target(error), []).append(error)
    return [_together(group) for group in alike.values()]


def _together(group: list[GpubuildError]) -> GpubuildError:
    first = group[0]
    others = tuple(dict.fromkeys(e.target for e in group[1:] if isinstance(e, StepError)))
    if not isinstance(first, StepError) or not others:
        return first
    import copy  # for failures only

    shown = copy.copy(first)
    shown.other_targets = others
    everyone = ", ".join((first.target, *others))
    shown.message = _naming(first.target).sub(lambda found: f"{_PLURAL[found[1]]} {everyone}", first.message)
    alike = [error for error in group if isinstance(error, StepError)]
    shown.stage = ", ".join(dict.fromkeys(error.stage for error in alike if error.stage))
    hints = (_naming(error.target).sub(r"\1", error.hint) for error in alike)
    shown.hint = "\n  hint: ".join(filter(None, dict.fromkeys(hints)))
    return shown


def _without_target(error: GpubuildError) -> str:
    """What ``error`` says, whichever target it is about."""
    if not isinstance(error, StepError):
        return error.render()
    import copy  # for failures only

    bare = copy.copy(error)
    bare.target = bare.stage = bare.hint = bare.reproduce = ""
    text = bare.render()
    return _naming(error.target).sub(r"\1", text) if error.target else text


def _naming(target: str) -> re.Pattern[str]:
    return re.compile(rf"\b(target|for) {re.escape(target)}(?![\w.+-])")
