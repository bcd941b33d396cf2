"""FileCheck tests: each file in ``device/`` says how to compile it and what must come out.

``// RUN: CHIP SHOW [option=value …]`` at the top compiles the gpu.module ``@k`` in the file and
checks the lines with the prefix ``CHIP-SHOW`` in capitals, such as ``SM_60-ASM``; ``-FAST`` is added
for ``fast_math=true``. SHOW is ``mlir`` (after the passes), ``llvm`` (optimised) or ``asm``.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from unit.engine.device_steps import compile_module, compile_params, in_child

from gpubuild.engine.backends.lowering import passes_of, run_range

FOLDER = Path(__file__).parent / "device"
VALUES = {"true": True, "false": False, "0": 0, "1": 1, "2": 2, "3": 3}


def runs() -> list[tuple[str, str]]:
    found = []
    for file in sorted(FOLDER.glob("*.mlir")):
        lines = [line for line in file.read_text().splitlines() if line.startswith("// RUN: ")]
        assert lines, f"{file.name} has no RUN line"
        found += [(file.name, line.removeprefix("// RUN: ")) for line in lines]
    return found


def lowered(text: str, chip: str) -> str:
    params = compile_params(chip)
    names = [one.name for one in passes_of(params.target.kind)]
    return run_range(text, params, names[0], "finish-llvm")


@pytest.mark.parametrize(("name", "run"), runs())
def test_file(name: str, run: str) -> None:
    chip, show, *rest = run.split()
    options = {key: VALUES.get(value, value) for key, value in (item.split("=") for item in rest)}
    prefix = f"{chip}-{show}".upper() + ("-FAST" if options.get("fast_math") else "")
    text = (FOLDER / name).read_text()
    if show == "mlir":
        output = in_child(lowered, text, chip)
    else:
        output = compile_module(text, chip, **options).ran.text(show)
    check = subprocess.run(
        [sys.executable, "-m", "filecheck", FOLDER / name, "--check-prefix", prefix],
        input=output,
        capture_output=True,
        text=True,
        check=False,
    )
    assert check.returncode == 0, check.stdout + check.stderr
