"""No test draws from an unseeded source: what fails once in 256 runs fails on the day it must not."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
# Without arguments these take their seed from the system.
SEEDED_BY_ARGUMENT = ("random.Random", "np.random.default_rng", "numpy.random.default_rng")
NEVER = ("os.urandom", "uuid.uuid1", "uuid.uuid4", "secrets.", "random.", "np.random.", "numpy.random.")


def unseeded(tree: ast.Module) -> list[str]:
    modules = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    found = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        name = ast.unparse(node.func)
        if "(" in name or name.partition(".")[0] not in modules:
            continue
        if name in SEEDED_BY_ARGUMENT:
            if not (node.args or node.keywords):
                found.append(f"line {node.lineno}: {name}()")
        elif name.startswith(NEVER):
            found.append(f"line {node.lineno}: {name}")
    return found


@pytest.mark.parametrize(
    "text",
    ["import os\nos.urandom(3)", "import random\nrandom.random()", "import random\nrandom.Random()",
     "import numpy as np\nnp.random.default_rng()", "import numpy as np\nnp.random.rand(3)"],
)  # fmt: skip
def test_chance_is_noticed(text: str) -> None:
    assert len(unseeded(ast.parse(text))) == 1


def test_what_is_seeded_is_left_alone() -> None:
    text = "import random\nimport numpy as np\na = random.Random(7)\na.random()\nnp.random.default_rng(1)"
    assert unseeded(ast.parse(text)) == []


def test_every_draw_has_a_seed() -> None:
    found = []
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text()
        if any(word in text for word in ("random", "uuid", "secrets")):
            found += [f"{path.relative_to(TESTS)}: {place}" for place in unseeded(ast.parse(text))]
    assert found == []
