"""Where gpubuild adds no pass of its own, its LLVM IR and PTX are those of upstream's tools.

The programs of the coverage table and the modules of the examples are sorted: those that our rewrites
leave as they are go through ``mlir-opt`` and ``mlir-translate`` of the same release too, with the same
pipeline. Upstream's own ``gpu-module-to-binary`` then makes PTX of them. The wheels have no code
generator for AMD, so that there LLVM IR is all that can be compared.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import mlir as mlir_package
import pytest
from e2e.command import execute
from kernels.operations import groups
from op_coverage.compiling import chip_of
from unit.engine.device_steps import compile_params, in_child, outline_source, tools
from variants import few

from gpubuild.engine.backends import lowering
from gpubuild.engine.backends.amd import passes as amd_passes
from gpubuild.engine.backends.gpu_compile import DeviceBuild, run_stages
from gpubuild.engine.backends.nvidia import compile as nvidia_compile
from gpubuild.engine.backends.nvidia import passes as nvidia_passes
from gpubuild.engine.ir import contexts, passes
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.passes import Pass
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import StepError
from gpubuild.model.digest import digest_bytes
from gpubuild.model.job import Job, JobInput
from gpubuild.model.step import CompileParams, StepKind
from gpubuild.targets.nvidia import ptx_features

PASSES = {"nvvm": nvidia_passes, "rocdl": amd_passes}
UPSTREAM = Path(next(iter(mlir_package.__path__))) / "bin"
# Those with gpu.modules: on tensors, there are none.
EXAMPLES = sorted(
    path
    for path in (Path(__file__).parents[2] / "examples").glob("*/*.mlir")
    if "gpu.module" in path.read_text()
)
# Ours in every AMD kernel: upstream compiles for 256 work-items where the size is not known.
WORKGROUP_SIZE = re.compile(r'(?:, )?rocdl\.flat_work_group_size = "1,1024"')
# Of variables, in MLIR, LLVM IR and PTX: LLVM assumes more than upstream's PTX says, and ours says it.
ALIGNMENT = re.compile(r"alignment = \d+ : i64, |(?:, )?alignment = \d+ : i64|\.align \d+ ")
ALIGNED = re.compile(r"^(@.*), align \d+$", re.M)
# What the bindings and the tools call a file, and what they put before the code.
FILE = re.compile(r'^(?:;|source_filename|target ).*$|"amdgpu-flat-work-group-size"="[\d,]+" ?', re.M)
NARROWED = re.compile(r"(%\w+) = arith\.index_cast(ui)? %\w+ : index to .*\n.* = arith\.index_cast(ui)? \1 :")
LINKED = re.compile(r"\b(?:func\.func|func\.call|gpu\.call|math|complex)\b")
EXAMPLE = "examples"
MANY = 60
GROUPS = (*groups.GROUPS, EXAMPLE)
PTX_GROUPS = sorted(GROUPS, key=lambda group: group not in (EXAMPLE, "gpu", "memref", "arith"))  # these first
ON_AMD = sorted(GROUPS, key=lambda group: group not in ("memref", "gpu: subgroups"))  # these first
LEAST = {EXAMPLE: 8, "gpu": 40, "arith": 120, "math": 50, "memref": 50}  # kernels that need nothing of ours
LEAST_AMD = {**LEAST, EXAMPLE: 7, "gpu": 12}  # gpu.all_reduce is ours there


def functions(module: contexts.ir.Module) -> dict[str, str]:
    """The text of what the gpu.module defines, by name, without what is ours in every kernel."""
    found = {}
    for op in contexts.gpu_modules(module)[0].regions[0].blocks[0]:
        if "sym_name" in op.operation.attributes:
            text = ALIGNMENT.sub("", op.operation.get_asm(use_local_scope=True)).replace(" {}", "")
            found[op.operation.attributes["sym_name"].value] = WORKGROUP_SIZE.sub("", text)
    return found


def parts(params: CompileParams) -> tuple[list[Pass], list[Pass], list[Pass]]:
    """The passes of a target: before upstream's conversions, those, and what comes behind."""
    table = list(PASSES[params.target.kind].PASSES)
    names = [one.name for one in table]
    begin, end = names.index("attach-target"), names.index("finish-llvm") + 1
    return table[:begin], [one for one in table[begin:end] if one.pipeline], table[end:]


def pipeline(params: CompileParams) -> str:
    """Upstream's conversions as one pipeline, for mlir-opt."""
    state = PASSES[params.target.kind].start(params, SourceText())
    texts = [one.pipeline(state) for one in parts(params)[1]]
    inner = [text.removeprefix("builtin.module(").removesuffix(")") for text in texts]
    return f"builtin.module({','.join(inner)})"


def lowered(text: str, params: CompileParams) -> str:
    table = PASSES[params.target.kind]
    return lowering.lower_text(text, params, table.PASSES, table.start).llvm


def plain(bodies: list[str], params: CompileParams) -> list[int]:
    """Which of ``bodies`` (of a gpu.module) nothing of ours changes."""
    with contexts.context():
        found = [number for number, text in enumerate(bodies) if unprepared(wrap([text]), params)]
        changed = finished(wrap(bodies[number] for number in found), params)
        return [n for n in found if not any(f"@{name}(" in bodies[n] for name in changed)]


def unprepared(text: str, params: CompileParams) -> bool:
    """Whether none of our rewrites changes the module before upstream's passes."""
    module = contexts.parse(text)
    # The regions of linalg's named operations are in the generic form only.
    before = module.operation.get_asm(print_generic_op_form=True)
    table = PASSES[params.target.kind]
    try:
        passes.run_passes(module, parts(params)[0], table.start(params, SourceText()))
    except StepError:
        return False
    if "cf.assert" in text or NARROWED.search(text):  # those name their file; see engine/ir/workarounds.py
        return False
    return module.operation.get_asm(print_generic_op_form=True) == before


def finished(text: str, params: CompileParams) -> set[str]:
    """What we change after upstream's passes, and the functions that refer to it."""
    module = contexts.parse(text)
    contexts.run_passes(module, pipeline(params))
    before = functions(module)
    passes.run_passes(module, parts(params)[2], PASSES[params.target.kind].start(params, SourceText()))
    after = functions(module)
    changed = {name for name, text in before.items() if after.get(name) != text}
    return changed | {n for n, text in before.items() if any(re.search(rf"@{c}\b", text) for c in changed)}


def wrap(texts: Iterable[str]) -> str:
    return "gpu.module @k {\n" + "".join(texts) + "}\n"


@cache
def examples() -> tuple[str, ...]:
    """What is in the gpu.modules of all examples; no two have functions of one name."""
    made = [outline_source(path.read_text()) for path in EXAMPLES]
    texts = [text for files in made for name, text in files.items() if name.startswith("module.")]
    return tuple(
        text.partition("gpu.module @")[2].partition("{\n")[2].rpartition("  }\n}")[0] for text in texts
    )


@cache
def bodies(group: str, chip: str) -> tuple[str, ...]:
    """What needs nothing of ours in a group of programs, or in the examples."""
    programs = [p for p in groups.GROUPS.get(group, ()) if chip not in p.refused and chip_of(p, chip) == chip]
    offered = [p.text() for p in programs] if group != EXAMPLE else list(examples())
    chosen = in_child(plain, offered, compile_params(chip))
    least = LEAST_AMD if chip.startswith("gfx") else LEAST
    assert len(chosen) >= least.get(group, 0)
    return tuple(offered[n] for n in chosen)


def unlinked(group: str, chip: str) -> str:
    """One module of those without functions besides the kernel, which we make internal, and without calls
    of libdevice, whose questions about precision we answer ourselves; nor those not to be optimised,
    which ``gpu-module-to-binary`` does not heed. Every third of a large group."""
    found = [body for body in bodies(group, chip) if not LINKED.search(body) and "optnone" not in body]
    return wrap(found[:: 3 if len(found) > MANY else 1]) if found else ""


def run(tool: str, *arguments: str, text: str) -> str:
    return execute(UPSTREAM / tool, *arguments, stdin=text).out


def upstream_llvm(text: str, params: CompileParams) -> str:
    converted = run("mlir-opt", f"--pass-pipeline={params.target.passes or pipeline(params)}", text=text)
    # mlir-translate takes what is in a builtin.module.
    head = re.search(r"^  gpu\.module @\w+ .*\{$", converted, re.M)
    assert head is not None
    layout = re.search(r'llvm\.data_layout = "[^"]*"', head[0])
    inner = converted[head.end() :].rpartition("  }\n}")[0]
    return run(
        "mlir-translate",
        "--mlir-to-llvmir",
        text=f"module attributes {{{layout[0] if layout else ''}}} {{{inner}}}",
    )


def code(text: str) -> list[str]:
    return [line for line in ALIGNED.sub(r"\1", FILE.sub("", text)).splitlines() if line.strip()]


@pytest.mark.parametrize(
    ("group", "chip"),
    [*((g, "sm_90") for g in GROUPS), *few((g, "gfx90a") for g in ("memref", "gpu: subgroups", *GROUPS))],
)
def test_llvm_ir(group: str, chip: str) -> None:
    if found := bodies(group, chip):
        text = wrap(found)
        params = compile_params(chip)
        ours = in_child(lowered, text, params)
        assert code(ours) == code(upstream_llvm(text, params))


@pytest.mark.parametrize(
    ("chip", "convert"),
    [
        ("sm_90", "convert-gpu-to-nvvm{index-bitwidth=32 use-bare-ptr-memref-call-conv=1}"),
        ("gfx90a", "convert-gpu-to-rocdl{chipset=gfx90a index-bitwidth=32 use-bare-ptr-memref-call-conv=1}"),
    ],
)
def test_llvm_ir_of_a_user_s_passes(chip: str, convert: str) -> None:
    """``passes:`` stand in place of ours, so that no rewrite is made either."""
    passes = f"builtin.module(gpu.module({convert},reconcile-unrealized-casts))"
    text = """gpu.module @k {
      gpu.func @f(%m: memref<64xf32>, %x: f32) kernel {
        %t = gpu.thread_id x
        %b = gpu.block_id x
        %i = arith.addi %t, %b : index
        %v = memref.load %m[%i] : memref<64xf32>
        %w = arith.mulf %v, %x : f32
        memref.store %w, %m[%i] : memref<64xf32>
        gpu.return
      }
    }"""
    params = compile_params(chip, passes=passes)
    ours = in_child(lowered, text, params)
    assert "mul" in ours and code(ours) == code(upstream_llvm(text, params))


def our_ptx(text: str, params: CompileParams) -> str:
    """The stages up to PTX, without the assembler."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module"
        path.write_text(text)
        job = Job(
            step_id="test/step",
            kind=StepKind.COMPILE,
            params=params,
            inputs=(JobInput(name="module", path=path, digest=digest_bytes(text.encode())),),
            output_names=("llvm", "asm"),
            tools=tools(),
            workdir=Path(folder) / "job",
        )
        build = DeviceBuild(params=params, io=StepIO(job))
        last = [name for name, _ in nvidia_compile.STAGES].index("emit")
        run_stages(build, nvidia_compile.STAGES[: last + 1])
        return build.assembly


def upstream_ptx(text: str, params: CompileParams) -> str:
    """``gpu-module-to-binary`` behind the same pipeline; it links libdevice from the same wheel."""
    attach = f"chip={params.target.chip} O={params.target.opt_level}"
    passes = pipeline(params).replace(attach, f"{attach} features={ptx_features(params.target.chip, '')}")
    toolkit = Path(tools()["libdevice"][0]).parents[2]
    passes = f"{passes[:-1]},gpu-module-to-binary{{format=isa toolkit={toolkit}}})"
    made = run("mlir-opt", f"--pass-pipeline={passes}", text=text)
    quoted = re.search(r'assembly = "((?:[^"\\]|\\.)*)"', made)
    assert quoted is not None
    return re.sub(
        r"\\([0-9A-F]{2}|.)", lambda m: chr(int(m[1], 16)) if len(m[1]) == 2 else m[1], quoted[1]
    ).rstrip("\0")


@pytest.mark.parametrize(
    ("group", "chip", "level"),
    [
        *few(((group, "sm_90", 3) for group in PTX_GROUPS), 2),
        (EXAMPLE, "sm_60", 0),
        (EXAMPLE, "sm_60", 2),
        ("memref", "sm_60", 0),
    ],
)
def test_ptx(group: str, chip: str, level: int) -> None:
    if text := unlinked(group, chip):
        params = compile_params(chip, opt_level=level)
        ours, theirs = in_child(our_ptx, text, params), upstream_ptx(text, params)
        assert ALIGNMENT.sub("", ours) == ALIGNMENT.sub("", theirs)


def test_a_difference_is_noticed() -> None:
    """The comparison is one of all code, not of nothing with nothing."""
    text = unlinked(EXAMPLE, "sm_60")
    other = text.replace("arith.mulf", "arith.addf", 1)
    assert other != text
    params = compile_params("sm_60", opt_level=0)
    assert in_child(our_ptx, text, params) != in_child(our_ptx, other, params)
    assert code(in_child(lowered, text, params)) != code(upstream_llvm(other, params))
