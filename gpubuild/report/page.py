"""The report as one HTML file without scripts.

Names come from the user's sources: all text goes through ``plain_text``. The content security policy
allows the style sheet, by its digest, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpubuild import __version__
from gpubuild.build.log import History, LoggedBuild, LoggedStep
from gpubuild.model.result import STATUS_WORDS
from gpubuild.report import facts
from gpubuild.report.diagram import plain_text
from gpubuild.report.facts import Bar, KernelRow, Value
from gpubuild.support.frozen import frozen
from gpubuild.support.text import counted
from gpubuild.targets.vendor import WORKGROUP

_WIDTH = 1100
_LEFT = 76  # room for the lanes' names
_LANE = 30
_BAR = 24
_AXIS = 26
_LETTER = 6.6
_NAME = 11  # letters of a lane's name
_TICKS = 8
_STEPS = (1.0, 2.0, 5.0)


def draw_timeline(bars: Sequence[Bar], seconds: float) -> str:
    """Return a timeline as SVG, with a lane for each worker; empty when no step ran.

    The style sheet of the page styles it.
    """
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
    workers = {bar.lane: bar.step.worker for bar in bars}
    here = "here" if any(workers.values()) else "worker"
    for lane in range(lanes):
        name = workers.get(lane) or f"{here} {lane + 1}"
        name = name if len(name) <= _NAME else f"…{name[1 - _NAME :]}"  # addresses differ at their ends
        lines.append(f'<text class="axis" x="0" y="{lane * _LANE + 17}">{plain_text(name)}</text>')
    lines += [_bar(bar, scale) for bar in bars]
    lines.append("</svg>")
    return "\n".join(lines)


def _bar(bar: Bar, scale: float) -> str:
    step = bar.step
    x, width = _LEFT + bar.began * scale, max((step.ended - bar.began) * scale, 1.0)
    y = bar.lane * _LANE + (_LANE - _BAR) / 2
    where = f" on {step.worker}" if step.worker else ""
    about = [f"{step.id}: {step.ended - step.began:.3f} s{where}", step.reason]
    about += [f"  {name} {seconds:.3f} s" for name, seconds in step.stages]
    classes = f"bar {step.kind}" + " critical" * bar.critical + " failed" * (step.status == "failed")
    label = f"@{step.module} {step.target}".strip() if step.module else step.id
    room = int((width - 8) / _LETTER)
    text = label if len(label) <= room else (label[: room - 1] + "…") if room >= 4 else ""
    return (
        f"<g><title>{plain_text(chr(10).join(about))}</title>"
        f'<rect class="{plain_text(classes)}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{_BAR}" rx="3"/>'
        + (f'<text class="label" x="{x + 5:.1f}" y="{y + 16:.1f}">{plain_text(text)}</text>' if text else "")
        + "</g>"
    )


def _tick(whole: float) -> float:
    """Return the distance of ticks in seconds, a round number."""
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


_WORDS = {status.value: words for status, words in STATUS_WORDS.items()}
_KINDS = ("outline", "compile", "bundle", "host", "cc", "runtime", "interface", "link")
_LISTED_STEPS = 25
_KERNELS_NOTE = f"""\
Changes are those of the last build. An object contains all kernels of its module.
Occ is the estimated occupancy from registers and static workgroup memory, for workgroups of {WORKGROUP}
work-items, and its limit.
The tier is how a CPU runs the work-items of a workgroup. loop: one after the other, in a loop that is
vectorised. fission: the kernel is split where they wait, and each part runs as a loop.
fibers: each on its own stack, which is much slower; below it is the reason."""
_HISTORY_HEIGHT = 90
_HISTORY_WIDTH = 1100


@frozen
class Section:
    """A part of the page: a heading, and HTML below it."""

    title: str
    html: str


def make_page(history: History, *, project: str, more: Sequence[Section] = ()) -> str:
    """Return the page. ``history`` has at least one build; ``project`` is a name."""
    build = history.builds[-1]
    style = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(build.began))
    sections = [
        Section(title="Errors", html=_errors(build)),
        Section(title="Timeline of the last build", html=_timeline(build)),
        Section(title="Critical path", html=_critical(build)),
        Section(title="Kernels", html=_kernels(facts.kernel_rows(history))),
        Section(title="Executables", html=_executables(history)),
        *more,
        Section(title="Steps, and why they ran", html=_steps(build)),
        Section(title="Builds", html=_builds(history.builds)),
    ]
    body = "".join(f"<h2>{plain_text(s.title)}</h2>\n{s.html}\n" for s in sections if s.html)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"style-src 'sha256-{digest}'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{plain_text(project)}: build report</title>\n<style>{style}</style></head>\n<body>\n"
        f"<h1>{plain_text(project)}</h1>\n"
        f'<p class="dim">last build {when}, {build.seconds:.2f} s, {counted(build.workers, "worker")} · '
        f"gpubuild {plain_text(__version__)}</p>\n"
        f"{_cards(build)}\n{body}</body></html>\n"
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[int] = ()) -> str:
    """Return an HTML table of cells in HTML; columns ``numeric`` are aligned to the right."""

    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f'<{tag} class="n">{cell}</{tag}>' if number in numeric else f"<{tag}>{cell}</{tag}>"
            for number, cell in enumerate(row)
        )

    lines = "".join(f"<tr>{cells('td', row)}</tr>\n" for row in rows)
    head = f"<thead><tr>{cells('th', heads)}</tr></thead>"
    return f'<div class="wide"><table>{head}<tbody>\n{lines}</tbody></table></div>'


def code(text: str) -> str:
    """Return a name as HTML."""
    return f"<code>{plain_text(text)}</code>"


def _cards(build: LoggedBuild) -> str:
    found = facts.counts(build)
    cards = [(str(number), _WORDS.get(status, status)) for status, number in found.items()]
    saved = facts.saved_seconds(build)
    if saved:
        cards.append((f"{saved:.1f} s", "saved by the cache"))
    path = facts.critical_path(build)
    cards.append((f"{sum(s.ended - s.began for s in path):.2f} s", "critical path"))
    cards.insert(0, ("ok" if build.ok else "failed", "last build"))
    texts = [f"<b>{plain_text(text)}</b><span>{plain_text(word)}</span>" for text, word in cards]
    if not build.ok:
        texts[0] = texts[0].replace("<b>", '<b class="bad">')
    return '<div class="cards">' + "".join(f'<div class="card">{text}</div>' for text in texts) + "</div>"


def _errors(build: LoggedBuild) -> str:
    return "\n".join(f"<pre>{plain_text(text)}</pre>" for text in build.errors)


def _timeline(build: LoggedBuild) -> str:
    picture = draw_timeline(facts.bars(build), build.seconds)
    if not picture:
        return '<p class="dim">No step had to run: everything came from the cache.</p>'
    legend = "".join(f'<span><i class="{kind}"></i>{kind}</span>' for kind in _KINDS)
    legend += "" if build.ok else '<span><i class="failed"></i>failed</span>'
    legend += '<span><i class="critical"></i>on the critical path</span>'
    return f'<div class="wide"><div class="picture">{picture}</div></div>\n<p class="legend dim">{legend}</p>'


def _critical(build: LoggedBuild) -> str:
    path = facts.critical_path(build)
    rows = [
        (code(s.id), f"{s.ended - s.began:.3f}", plain_text(_WORDS.get(s.status, s.status))) for s in path
    ]
    total = sum(s.ended - s.began for s in path)
    text = f"<p>However many workers there are, this build takes at least {total:.2f} s"
    text += f" of its {build.seconds:.2f} s: each of these steps needs the one before.</p>"
    if not build.ok:
        text = "<p>Each of these steps needs the one before.</p>"
    return text + table(("step", "seconds", ""), rows, numeric=(1,))


def _steps(build: LoggedBuild) -> str:
    steps = sorted(build.steps, key=lambda s: (-(s.ended - s.began), s.id))
    rows = [
        (
            _tag(step.status),
            code(step.id),
            f"{step.ended - step.began:.3f}",
            plain_text(", ".join(f"{name} {seconds:.2f}" for name, seconds in _longest(step))),
            plain_text(step.error or step.reason),
        )
        for step in steps
    ]
    heads = ("", "step", "seconds", "longest stages", "why")
    text = table(heads, rows[:_LISTED_STEPS], numeric=(2,))
    if rows[_LISTED_STEPS:]:
        rest = table(heads, rows[_LISTED_STEPS:], numeric=(2,))
        text += f"<details><summary>{len(rows) - _LISTED_STEPS} shorter ones</summary>{rest}</details>"
    if build.up_to_date:
        text += f'<p class="dim">{counted(build.up_to_date, "step")} more had nothing to do.</p>'
    return text


def _longest(step: LoggedStep) -> list[tuple[str, float]]:
    return sorted((s for s in step.stages if s[1] >= 0.005), key=lambda s: -s[1])[:3]


def _tag(status: str) -> str:
    look = {"hit-local": "hit", "hit-remote": "hit"}.get(status, status)
    return f'<span class="tag {plain_text(look)}">{plain_text(_WORDS.get(status, status))}</span>'


def _kernels(rows: Sequence[KernelRow]) -> str:
    if not rows:
        return ""
    lines = []
    last = ("", "")
    for row in rows:
        place = (row.program, row.module)
        tier = plain_text(row.tier)
        if row.tier_before and row.tier_before != row.tier:
            tier = f"{plain_text(row.tier_before)} → {tier}"
        if row.tier_reason:
            tier += f' <div class="dim">because of {plain_text(row.tier_reason)}</div>'
        occupancy = value(row.occupancy)
        if row.limit:
            occupancy += f' <div class="dim">{plain_text(row.limit)}</div>'
        name = code(row.name) + (f' <span class="tag">{row.state}</span>' if row.state else "")
        lines.append(
            (
                "" if place == last else f"{plain_text(row.program)} {code('@' + row.module)}",
                name,
                code(row.target),
                value(row.registers),
                value(row.spill_bytes),
                value(row.shared_bytes),
                value(row.object_bytes),
                occupancy,
                tier,
            )
        )
        last = place
    heads = ("module", "kernel", "target", "registers", "spilled B", "shared B", "object B", "occ %", "tier")
    note = f'<p class="dim">{_KERNELS_NOTE}</p>'
    return table(heads, lines, numeric=(3, 4, 5, 6, 7)) + note


def value(item: Value) -> str:
    """Return a number with its change as HTML; a dash for an unknown one."""
    if item.now is None:
        return '<span class="dim">-</span>'
    change = item.change
    if change is None:
        return str(item.now)
    return f'{item.now} <span class="{"up" if change > 0 else "down"}">({change:+d})</span>'


def _executables(history: History) -> str:
    rows = [(code(program), value(size)) for program, size in facts.size_rows(history)]
    return table(("program", "bytes"), rows, numeric=(1,)) if rows else ""


def _builds(builds: Sequence[LoggedBuild]) -> str:
    """Return a bar chart of the times of builds, divided by where their steps came from."""
    longest = max((b.seconds for b in builds), default=0.0) or 1.0
    width = min(_HISTORY_WIDTH / max(len(builds), 1), 40.0)
    lines = [
        f'<svg class="history" viewBox="0 0 {_HISTORY_WIDTH} {_HISTORY_HEIGHT}" role="img" '
        'aria-label="builds">'
    ]
    for number, build in enumerate(builds):
        found = facts.counts(build)
        total = sum(found.values())
        height = max(build.seconds / longest * (_HISTORY_HEIGHT - 6), 2.0)
        statuses = ", ".join(f"{n} {_WORDS.get(status, status)}" for status, n in found.items())
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(build.began))
        lines.append(f"<g><title>{plain_text(f'{when}: {build.seconds:.2f} s, {statuses}')}</title>")
        bottom = float(_HISTORY_HEIGHT)
        ran = sum(found.get(s, 0) for s in ("ran", "failed"))
        hits = sum(found.get(s, 0) for s in ("hit-local", "hit-remote"))
        for name, part in (("ran", ran), ("hit", hits), ("rest", total - ran - hits)):
            size = height * part / max(total, 1)
            bottom -= size
            lines.append(
                f'<rect class="{name}" x="{number * width:.1f}" y="{bottom:.1f}" '
                f'width="{width - 3:.1f}" height="{size:.1f}"/>'
            )
        lines.append("</g>")
    lines.append("</svg>")
    note = f"{counted(len(builds), 'build')}; longest {longest:.2f} s"
    note += " steps that ran (blue), came from the cache (green), were up to date (grey)."
    return "\n".join(lines) + f'\n<p class="dim">{note}</p>'
