"""Mathematics as SPIR-V, run by Intel's OpenCL runtime for CPUs: errors against wider numbers."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from accuracy import TYPES, arguments, errors, needs_wide_numbers, pairs, reference
from devices import at_hand
from devices.pack import Launch, Pack, Result
from e2e import test_cpu_math as cpu
from e2e.command import ROOT
from unit.engine.device_steps import compile_module

CHIP = "spirv1.3"
# In units in the last place: f16, f32, f64; see docs/design/spirv.md. Those of sin, cos and tan are OpenCL's.
BOUNDS: dict[str, tuple[float, float, float]] = {
    "acos": (0.51, 1.1, 1.1),
    "acosh": (0.51, 1.9, 2.3),
    "asin": (0.51, 1.1, 1.1),
    "asinh": (0.51, 1.5, 1.5),
    "atan": (0.51, 0.7, 0.7),
    "atanh": (0.51, 1.5, 1.3),
    "cbrt": (0.51, 0.51, 0.51),
    "cos": (0.51, 4, 4),
    "cosh": (0.51, 0.7, 0.7),
    "erf": (0.51, 1.2, 1.1),
    "erfc": (0.51, 3.5, 4),
    "exp": (0.51, 0.9, 0.7),
    "exp2": (0.51, 0.9, 0.7),
    "expm1": (0.51, 1.1, 1.1),
    "log": (0.51, 0.51, 0.7),
    "log10": (0.51, 0.51, 0.7),
    "log1p": (0.51, 0.7, 0.7),
    "log2": (0.51, 0.51, 0.7),
    "rsqrt": (0.51, 1.5, 1.5),
    "sin": (0.51, 4, 4),
    "sinh": (0.51, 0.7, 0.7),
    "sqrt": (0.51, 0.51, 0.51),
    "tan": (0.51, 5, 5),
    "tanh": (0.51, 1.3, 0.7),
}
PAIRS: dict[str, tuple[float, float]] = {"powf": (0.8, 0.7), "atan2": (0.7, 0.7)}  # f32, f64
KINDS = ("f16", *TYPES)
BLOCK = 256
KEYS = [(name, kind) for kind in KINDS for name in (*BOUNDS, *(PAIRS if kind != "f16" else ()))]
pytestmark = [at_hand.NEEDS_OPENCL, needs_wide_numbers]


def kernel_name(name: str, kind: str) -> str:
    return f"{name}_{kind}"


@cache
def values_of(name: str, kind: str) -> np.ndarray:
    """Operands, a multiple of the size of a workgroup; all of them for f16."""
    if name in PAIRS:
        found = pairs(kind)
        if name == "atan2":
            found[:, 20_000:40_000] = np.random.default_rng(6).uniform(-3, 3, (2, 20_000))
        return found[:, : found.shape[1] // BLOCK * BLOCK]
    if kind == "f16":
        return np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    every = arguments(kind)
    return np.resize(every, -(-len(every) // BLOCK) * BLOCK)


def text(kind: str) -> str:
    made = []
    for name in (name for name, of in KEYS if of == kind):
        kernel = cpu.pair_kernel(name, kind) if name in PAIRS else cpu.kernel(name, kind)
        made.append(re.sub(r"@\w+\(", f"@{kernel_name(name, kind)}(", kernel, count=1))
    return f"gpu.module @k {{{''.join(made)}\n}}"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Result]:
    folder = tmp_path_factory.mktemp("math")
    pack = Pack(folder / "pack", CHIP)
    for kind in KINDS:
        launches = []
        for name, values in ((name, values_of(name, of)) for name, of in KEYS if of == kind):
            grid = values.shape[-1] // BLOCK
            launches.append(Launch(kernel=kernel_name(name, kind), grid=grid, block=BLOCK, args=(values,)))
        pack.add(kind, compile_module(text(kind), CHIP).object, launches)
    return dict(zip(KEYS, pack.run(at_hand.OPENCL), strict=True))


@pytest.mark.parametrize(("name", "kind"), KEYS)
def test_errors(results: dict[tuple[str, str], Result], name: str, kind: str) -> None:
    result, values = results[name, kind], values_of(name, kind)
    assert not result.failed
    found = result.args[0][0] if name in PAIRS else result.args[0]
    with np.errstate(all="ignore"):
        if name == "rsqrt":
            exact = 1 / np.sqrt(values.astype(np.longdouble))
        else:
            exact = reference(name, *(values if name in PAIRS else [values]))
        error = errors(found, exact)
    worst = error.argmax()
    bound = PAIRS[name][KINDS.index(kind) - 1] if name in PAIRS else BOUNDS[name][KINDS.index(kind)]
    assert error[worst] <= bound, (values[..., worst], found[worst], exact[worst])


def test_the_documentation_says_so() -> None:
    rows = [f"| `{name}` | {' | '.join(str(bound) for bound in bounds)} |" for name, bounds in BOUNDS.items()]
    rows += [
        f"| `{'pow' if name == 'powf' else name}` |  | {' | '.join(str(bound) for bound in bounds)} |"
        for name, bounds in PAIRS.items()
    ]
    assert "\n".join(rows) in (ROOT / "docs" / "design" / "spirv.md").read_text()
