"""Own: what of our code can change a byte of output is in every key."""

from __future__ import annotations

import ast
from pathlib import Path

import gpubuild
from gpubuild.toolchain.fingerprint import SHAPING

PACKAGE = Path(gpubuild.__file__).parent


def test_what_the_engine_and_the_model_import_is_in_keys() -> None:
    files = [file for part in ("engine", "model", "targets") for file in (PACKAGE / part).rglob("*.py")]
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text()))]
    names = {
        f"{node.module}.{alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    needed = set()
    for name in names:
        parts = name.split(".")[1:] if name.startswith("gpubuild.") else []
        if parts and parts[0] not in ("engine", "model", "targets"):
            # An import names a module, or what is in one.
            choices = ("/".join(parts) + ".py", "/".join(parts[:-1]) + ".py")
            needed |= {choice for choice in choices if (PACKAGE / choice).is_file()}
    assert "toolchain/run.py" in needed
    assert needed <= set(SHAPING)
    assert all((PACKAGE / file).is_file() for file in SHAPING)
