"""Pages: the commands of a page of the documentation, and what it says of them.

Blocks of code are marked ``console`` (lines that begin with ``$ `` are commands, ``> `` continues one,
the rest is what they print) or ``sh`` (commands only). Comments in HTML say how a page is tested:

- ``<!-- project: init -->``, ``<!-- project: examples/saxpy -->``: the folder in which its commands run;
  without it an empty one.
- ``<!-- file: NAME -->`` before a block: the block is written to that file before the commands after it.
- ``<!-- own cache -->``: results of other pages are not to be found;
  ``<!-- own cache, with the runtime -->``: but for the compiled runtime.
- ``<!-- not run: REASON -->`` or ``<!-- tested by FILE -->`` before a block.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from e2e.command import ROOT

_FENCE = re.compile(
    r"(?:^<!-- (?P<note>[^>]*?) -->\n)?^(?P<fence>```+)(?P<language>\S*)[^\n]*\n(?P<text>.*?)^(?P=fence)$",
    re.M | re.S,
)
_PROJECT = re.compile(r"^<!-- project: (\S+) -->$", re.M)
_COMMANDS = ("console", "sh")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of code: where it begins, how it is marked, what the comment before it says."""

    line: int
    language: str
    note: str
    text: str

    @property
    def has_commands(self) -> bool:
        """Whether a reader would type any of it; blocks without a mark may have commands, too."""
        return self.language in _COMMANDS or (
            not self.language and re.search(r"^\$ ", self.text, re.M) is not None
        )

    @property
    def excuse(self) -> str:
        """Why its commands are not run with the page, or an empty string."""
        return self.note if self.note.startswith(("not run: ", "tested by ")) else ""

    @property
    def file(self) -> str:
        """The file it is written to, or an empty string."""
        return self.note.removeprefix("file: ").strip() if self.note.startswith("file: ") else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A command, and what the page shows it to print; ``None`` where the page shows no output at all."""

    line: int
    command: str
    shown: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page, split into blocks."""

    path: Path
    project: str
    own_cache: bool
    has_runtime: bool
    blocks: tuple[Block, ...]

    @property
    def runs(self) -> bool:
        """Whether it has commands that are run with it."""
        return any(block.has_commands and not block.excuse for block in self.blocks)


def read_page(path: Path) -> Page:
    """Split a page."""
    text = path.read_text()
    project = _PROJECT.search(text)
    blocks = tuple(
        Block(
            line=text.count("\n", 0, found.start("fence")) + 1,
            language=found["language"],
            note=found["note"] or "",
            text=found["text"],
        )
        for found in _FENCE.finditer(text)
    )
    return Page(
        path=path,
        project=project[1] if project else "",
        own_cache="<!-- own cache" in text,
        has_runtime="<!-- own cache, with the runtime -->" in text,
        blocks=blocks,
    )


def pages() -> list[Page]:
    """README, CONTRIBUTING and every page of docs/; design notes are records, not to be followed."""
    documents = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path.parent.name != "design"]
    return [read_page(path) for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *documents)]


def sessions(block: Block) -> list[Session]:
    """The commands of a block in order. Where a block shows no output at all, none is compared."""
    if block.language == "sh":
        return [
            Session(line=block.line + 1 + i, command=line, shown=None)
            for i, line in enumerate(re.sub(r"\\\n", "", block.text).splitlines())
            if line and not line.startswith("#")
        ]
    found: list[tuple[int, list[str], list[str]]] = []
    for number, line in enumerate(block.text.splitlines(), block.line + 1):
        if line.startswith("$ "):
            found.append((number, [line[2:]], []))
        elif (line == ">" or line.startswith("> ")) and found and not found[-1][2]:
            found[-1][1].append(line[2:])
        else:
            assert found, f"line {number}: output before any command"
            found[-1][2].append(line)
    silent = not any(shown for _, _, shown in found)
    return [
        Session(
            line=number,
            command="\n".join(command),
            shown=None if silent else "".join(f"{s}\n" for s in shown),
        )
        for number, command, shown in found
    ]


def pattern(shown: str) -> str:
    """A line of … alone stands for any lines, … in a line for anything in it."""
    lines = []
    for line in shown.splitlines():
        if line.strip() == "…":
            lines.append(r"(?:.*\n)*?")
        else:
            # Columns are as wide as what is in them.
            parts = [re.sub(r"(?:\\ )+", " +", re.escape(part)) for part in line.split("…")]
            lines.append(".*".join(parts) + r"[ ]*\n")
    return "".join(lines)
