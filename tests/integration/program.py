"""Program: one .mlir file of this folder, what must break it, and whether output is what its comments say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import file_check

FOLDER = Path(__file__).parent
BREAK = "// BREAK: "
COMPUTED = "// Computed by NumPy: tests/integration/expected.py."


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A file named after the operation that it shows."""

    name: str
    text: str

    @property
    def path(self) -> Path:
        """Where it lies."""
        return FOLDER / f"{self.name}.mlir"

    @property
    def code(self) -> str:
        """The text without comments."""
        return "\n".join(line for line in self.text.splitlines() if not line.lstrip().startswith("//")) + "\n"

    @property
    def traced(self) -> bool:
        """Whether it also says which calls of the runtime there are."""
        return "// TRACE" in self.text

    @property
    def breaks(self) -> list[str]:
        """Changes of the code with which the output must be another one."""
        return [line.removeprefix(BREAK) for line in self.text.splitlines() if line.startswith(BREAK)]

    def broken(self, change: str) -> str:
        """The code after a change: ``s/old/new/``, ``/text/d`` or several with ``;`` between.

        They are written as sed's, but mean the text itself. Raises ``ValueError`` if nothing changes.
        """
        code = self.code
        for command in change.split(";"):
            match command.strip().split("/"):
                case ["s", old, new, ""]:
                    changed = code.replace(old, new)
                case ["", text, "d"]:
                    kept = [line for line in code.splitlines() if text not in line]
                    changed = "\n".join(kept) + "\n"
                case _:
                    raise ValueError(f"{self.path.name}: not a change: {command}")
            if changed == code:
                raise ValueError(f"{self.path.name}: nothing to change by {command}")
            code = changed
        return code

    def refusal(self, out: str, err: str, scratch: Path) -> str:
        """What FileCheck has against this output; empty if it is right."""
        return file_check.refusal(self.path, "CHECK", out, scratch) or (
            file_check.refusal(self.path, "TRACE", err, scratch) if self.traced else ""
        )


def programs() -> dict[str, Program]:
    """All of the folder."""
    return {p.stem: Program(name=p.stem, text=p.read_text()) for p in sorted(FOLDER.glob("*.mlir"))}
