"""FileCheck in this process: another one for each text costs more than the check."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from filecheck.matcher import Matcher
from filecheck.options import Options


def refusal(checks: Path, prefix: str, output: str, scratch: Path) -> str:
    """What the lines ``// PREFIX: …`` of ``checks`` have against ``output``; empty if it is right."""
    file = scratch / f"{checks.stem}.{prefix}"
    file.write_text(output)
    options = Options(str(checks), input_file=str(file), check_prefixes=[prefix])
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        code = Matcher.from_opts(options).run()
    return (said.getvalue() or f"FileCheck: {code}") if code else ""
