"""Timeline: the last build's steps as an SVG picture, a lane per worker."""

from __future__ import annotations

from collections.abc import Sequence

from gpubuild.report.diagram import plain_text
from gpubuild.report.facts import Bar

_WIDTH = 1100
_LEFT = 76  # room for the lanes' names
_LANE = 30
_BAR = 24
_AXIS = 26
_LETTER = 6.6
_TICKS = 8
_STEPS = (1.0, 2.0, 5.0)


def draw_timeline(bars: Sequence[Bar], seconds: float) -> str:
    """An ``<svg>`` for an HTML page, which styles it by classes. Empty when no step ran."""
    if not bars:
        return ""
    lanes = max(bar.lane for bar in bars) + 1
    whole = max(seconds, *(bar.step.ended for bar in bars), 1e-3)
    scale = (_WIDTH - _LEFT - 10) / whole
    height = lanes * _LANE + _AXIS
    lines = [
        f'<svg class="timeline" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="steps by worker">'
    ]
    tick = _tick(whole)
    for number in range(int(whole / tick) + 1):
        x = _LEFT + number * tick * scale
        lines.append(f'<line class="grid" x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{lanes * _LANE}"/>')
        lines.append(
            f'<text class="axis" x="{x:.1f}" y="{height - 8}">{_seconds(number * tick, tick)}</text>'
        )
    for lane in range(lanes):
        lines.append(f'<text class="axis" x="0" y="{lane * _LANE + 17}">worker {lane + 1}</text>')
    lines += [_bar(bar, scale) for bar in bars]
    lines.append("</svg>")
    return "\n".join(lines)


def _bar(bar: Bar, scale: float) -> str:
    step = bar.step
    x, width = _LEFT + bar.began * scale, max((step.ended - bar.began) * scale, 1.0)
    y = bar.lane * _LANE + (_LANE - _BAR) / 2
    told = [f"{step.id}: {step.ended - step.began:.3f} s", step.reason]
    told += [f"  {name} {seconds:.3f} s" for name, seconds in step.stages]
    classes = f"bar {step.kind}" + " critical" * bar.critical + " failed" * (step.status == "failed")
    label = f"@{step.module} {step.target}".strip() if step.module else step.id
    room = int((width - 8) / _LETTER)
    text = label if len(label) <= room else (label[: room - 1] + "…") if room >= 4 else ""
    return (
        f"<g><title>{plain_text(chr(10).join(told))}</title>"
        f'<rect class="{plain_text(classes)}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{_BAR}" rx="3"/>'
        + (f'<text class="label" x="{x + 5:.1f}" y="{y + 16:.1f}">{plain_text(text)}</text>' if text else "")
        + "</g>"
    )


def _tick(whole: float) -> float:
    """A round distance, so that there are about as many ticks as wanted."""
    unit = 1e-4
    while unit < 1e6:
        for step in _STEPS:
            if whole / (unit * step) <= _TICKS:
                return unit * step
        unit *= 10
    return unit


def _seconds(value: float, tick: float) -> str:
    digits = 0 if tick >= 1 else 1 if tick >= 0.1 else 2 if tick >= 0.01 else 4
    return f"{value:.{digits}f} s"
