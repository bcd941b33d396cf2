"""The notebook of the documentation: its cells run in order and print what is stored with them."""

from __future__ import annotations

import ast
import contextlib
import io
import json
from typing import Any

import pytest
from e2e.command import ROOT, shared_cache

NOTEBOOK = ROOT / "docs" / "tutorial" / "kernels-on-arrays.ipynb"


def run_cell(source: str, names: dict[str, Any]) -> tuple[str, object]:
    """Run a cell; return what it printed, and the value of an expression at its end."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "cell", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
    return printed.getvalue(), value


def check_notebook() -> None:
    """Run the cells with the ``gpubuild`` that this Python imports."""
    names: dict[str, Any] = {}
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert len(cells) == 6
    for cell in cells:
        printed, value = run_cell("".join(cell["source"]), names)
        stored = {"stream": "", "execute_result": ""}
        for output in cell["outputs"]:
            text = output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"]
            stored[output["output_type"]] = "".join(text)
        assert printed == stored["stream"]
        assert ("" if value is None else repr(value)) == stored["execute_result"]
    assert "<table>" in names["stencil"]._repr_html_()


def test_the_notebook(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in shared_cache().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "user-cache"))
    monkeypatch.setenv("GPUBUILD_DEVICE", "cpu")
    check_notebook()
