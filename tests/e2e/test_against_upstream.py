"""Where gpubuild adds no pass of its own, its LLVM IR and PTX are those of upstream's tools.

The programs of the coverage table and the modules of the examples are sorted: those that our rewrites
leave as they are go through ``mlir-opt`` and ``mlir-translate`` of the same release too, with the same
pipeline. Upstream's own ``gpu-module-to-binary`` then makes PTX of them. The wheels have no code
generator for AMD, so that there LLVM IR is all that can be compared.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import mlir as mlir_package
import pytest
from op_coverage import table
from op_coverage.compiling import chip_of
from unit.engine.device_steps import compile_params, in_child, outline_source, tools

from gpubuild.engine import lowering, mlir, nvvm, rewrite
from gpubuild.engine.chips import ptx_features
from gpubuild.engine.diagnostics import SourceText
from gpubuild.engine.device import DeviceBuild, run_stages
from gpubuild.engine.io import StepIO
from gpubuild.errors import StepError
from gpubuild.model.digest import digest_bytes
from gpubuild.model.job import Job, JobInput
from gpubuild.model.params import CompileParams
from gpubuild.model.step import StepKind
from gpubuild.model.target import Kind

UPSTREAM = Path(next(iter(mlir_package.__path__))) / "bin"
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/*.mlir"))
# Ours in every AMD kernel: upstream compiles for 256 work-items where the size is not known.
WORKGROUP_SIZE = re.compile(r'(?:, )?rocdl\.flat_work_group_size = "1,1024"')
# What the bindings and the tools call a file, and what they put before the code.
FILE = re.compile(r'^(?:;|source_filename|target ).*$|"amdgpu-flat-work-group-size"="[\d,]+" ?', re.M)
LEAST = {"gpu": 40, "arith": 120, "math": 50, "memref": 50}  # programs of these groups that need nothing of ours


def functions(module: mlir.ir.Module) -> dict[str, str]:
    """The text of what the gpu.module defines, by name, without what is ours in every kernel."""
    found = {}
    for op in mlir.gpu_modules(module)[0].regions[0].blocks[0]:
        if "sym_name" in op.operation.attributes:
            text = op.operation.get_asm(use_local_scope=True)
            found[op.operation.attributes["sym_name"].value] = WORKGROUP_SIZE.sub("", text)
    return found


def plain(texts: list[str], params: CompileParams) -> list[int]:
    """Which of ``texts`` (of gpu.func ops) nothing of ours changes, before upstream's passes and after."""
    with mlir.context():
        machine = lowering._machine(params)
        found = [number for number, text in enumerate(texts) if _unprepared(text, machine)]
        module = mlir.parse(wrap(texts[number] for number in found))
        mlir.run_passes(module, lowering.pipeline(params))
        before = functions(module)
        lowering._finish_functions(mlir.gpu_modules(module)[0], params)
        after = functions(module)
        changed = {name for name, text in before.items() if after.get(name) != text}
        users = {n for n, text in before.items() if any(re.search(rf"@{c}\b", text) for c in changed)}
        return [n for n in found if not any(f"@{name}(" in texts[n] for name in changed | users)]


def _unprepared(text: str, machine: rewrite.Machine) -> bool:
    module = mlir.parse(wrap([text]))
    before = mlir.canonical_text(module)
    try:
        lowering._expand_matrices(module, machine, SourceText())
        rewrite.prepare(module, machine)
    except StepError:
        return False
    return mlir.canonical_text(module) == before and "cf.assert" not in text  # those name their file


def wrap(texts: Iterable[str]) -> str:
    return "gpu.module @k {\n" + "".join(texts) + "}\n"


@cache
def group_text(group: str, chip: str) -> str:
    """One module of the programs of a group that need nothing of ours."""
    programs = [p for p in table.GROUPS[group] if chip not in p.refused and chip_of(p, chip) == chip]
    chosen = in_child(plain, [p.text() for p in programs], compile_params(chip))
    assert len(chosen) >= LEAST.get(group, 0)
    return wrap(programs[n].text() for n in chosen) if chosen else ""


@cache
def example_texts(chip: str) -> tuple[str, ...]:
    made = [outline_source(path.read_text()) for path in EXAMPLES]
    texts = [text for files in made for name, text in files.items() if name.startswith("module.")]
    return tuple(texts[n] for n in in_child(plain, texts, compile_params(chip)))


def run(tool: str, *arguments: str, text: str) -> str:
    done = subprocess.run([UPSTREAM / tool, *arguments], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def upstream_llvm(text: str, params: CompileParams) -> str:
    lowered = run("mlir-opt", f"--pass-pipeline={lowering.pipeline(params)}", text=text)
    # mlir-translate takes what is in a builtin.module.
    head = re.search(r"^  gpu\.module @\w+ .*\{$", lowered, re.M)
    assert head is not None
    layout = re.search(r'llvm\.data_layout = "[^"]*"', head[0])
    inner = lowered[head.end() :].rpartition("  }\n}")[0]
    return run("mlir-translate", "--mlir-to-llvmir", text=f"module attributes {{{layout[0] if layout else ''}}} {{{inner}}}")


def code(text: str) -> list[str]:
    return [line for line in FILE.sub("", text).splitlines() if line.strip()]


def same_llvm(text: str, chip: str) -> None:
    params = compile_params(chip)
    ours = in_child(lowering.lower_text, text, params).llvm
    assert code(ours) == code(upstream_llvm(text, params))


@pytest.mark.parametrize("chip", ["sm_90", "gfx90a"])
@pytest.mark.parametrize("group", table.GROUPS)
def test_llvm_ir_of_programs(group: str, chip: str) -> None:
    if text := group_text(group, chip):
        same_llvm(text, chip)
