"""The stages of a compile that several back ends share, and the resources of kernels.

Relocatable device code is one more output of a compile step, which clang-linker-wrapper links: cubins for
NVIDIA's nvlink, bitcode for AMD's lld (which of several objects would keep the metadata of the first only),
objects for CPUs. An assembler's message about a line of inline assembly gets the location of the user's
operation: ptxas names a line of PTX, LLVM's assembler quotes the line, and the user's file has the same text
but for operands. Generated code is right, so that every such message is about inline assembly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Protocol, TypeVar

from mlir import ir

from gpubuild.engine.backends import workarounds
from gpubuild.engine.backends.lowering import GpuLowering
from gpubuild.engine.ir import contexts, llvm, resource_objects
from gpubuild.engine.ir.diagnostics import SourceText, locate
from gpubuild.engine.ir.dump import dump
from gpubuild.engine.ir.kernel_table import KernelEntry, Value, table_text
from gpubuild.engine.ir.query import operations
from gpubuild.engine.ir.resources import StepResources
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import Diagnostic, StepError
from gpubuild.model.step import CompileParams
from gpubuild.targets.registry import vendor

INFO_SCHEMA = 1
_PTXAS = re.compile(r"ptxas .*?, line (?P<line>\d+); *(?:error|fatal) *: (?P<message>.*)")
_INLINE = re.compile(r".*<inline asm>:\d+:\d+: (?P<message>.*)")
_TEXTS = {"llvm.inline_asm": "asm_string", "nvvm.inline_ptx": "ptxCode"}
_OPERAND = re.compile(r"\$\{\w+(?::\w+)?\}|\$\d+|\{\$\w+\}")
_MOST_MESSAGES = 8
_MOST_CONSTANT_BYTES = 64 << 20  # ptxas needs 0.4 s and 80 MB of memory for each MB
_LIBRARY_ROLE = "lib."
_WORKGROUP_MEMORY = "addrspace(3)"  # of both GPU back ends; its size is chosen at launch


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelInfo:
    """Resources of one kernel; ``None`` where the format has no such value.

    ``registers`` are per work-item (vector registers on AMD), ``shared_bytes`` the static
    workgroup memory, ``spill_bytes`` the registers stored to memory. ``parameters`` is how many a launch must
    pass; the runtime finds it right after the name (runtime/core/image.c). ``metadata`` is that of the kernel
    table.
    """

    name: str
    parameters: int | None = None
    registers: int | None = None
    shared_bytes: int | None = None
    spill_bytes: int | None = None
    tier: str | None = None  # CPU only: how work-items run
    tier_reason: str | None = None
    metadata: Mapping[str, Value] = field(default_factory=dict, compare=False)


def info_json(kernels: Sequence[KernelInfo], table: str = "") -> str:
    """Return the ``info`` output of a compile step (docs/design/architecture.md).

    ``table`` is the text of the object's ``#gpu.kernel_table``.
    """
    listed = [asdict(kernel) for kernel in kernels]
    for entry in listed:
        del entry["metadata"]
    document = {"schema": INFO_SCHEMA, "kernels": listed, "table": table}
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def info_with_table(kernels: Sequence[KernelInfo], entries: Sequence[KernelEntry]) -> str:
    """Return ``info`` with a table of ``entries`` and the metadata of ``kernels``."""
    return info_json(kernels, table_text(entries, {kernel.name: kernel.metadata for kernel in kernels}))


def with_ptxas_locations(error: StepError, ptx: str, io: StepIO) -> StepError:
    """Return ``error`` with the locations in the user's file of ptxas' messages about ``ptx``."""
    lines = ptx.splitlines()
    found = ((int(match["line"]), match["message"]) for match in _PTXAS.finditer(error.output))
    return _located(error, ((text, lines[n - 1]) for n, text in found if n <= len(lines)), io)


def with_inline_locations(error: StepError, io: StepIO) -> StepError:
    """Return ``error`` with locations of messages of LLVM's assembler, which quotes the line below each."""
    lines = error.output.splitlines()
    matches = ((match, after) for line, after in pairwise(lines) if (match := _INLINE.fullmatch(line)))
    return _located(error, ((match["message"], after) for match, after in matches), io)


def _located(error: StepError, messages: Iterable[tuple[str, str]], io: StepIO) -> StepError:
    distinct = list(dict.fromkeys(messages))[:_MOST_MESSAGES]
    if not distinct or not io.has("located"):
        return error
    with contexts.context():
        module = contexts.parse(io.text("located"))
        written = list(_inline_assembly(module))
        found = []
        for message, line in distinct:
            locations = [at for pattern, at in written if pattern.fullmatch(_bare(line))]
            # Several equal lines do not identify one.
            if len(locations) == 1:
                location, text = locate(locations[0], SourceText())
                found.append(Diagnostic(message=message, location=location, source_line=text))
    return error.with_(diagnostics=(*error.diagnostics, *found))


def _inline_assembly(module: ir.Module) -> Iterator[tuple[re.Pattern[str], ir.Location]]:
    """Yield a pattern for each line of inline assembly, with the location of its operation."""
    for op in operations(module.operation, _TEXTS):
        for line in op.attributes[_TEXTS[op.name]].value.splitlines():
            if bare := _bare(line):
                yield re.compile(".*".join(map(re.escape, _OPERAND.split(bare)))), op.location


def _bare(line: str) -> str:
    return " ".join(line.split())


# The name of a function with the calling convention of kernels of PTX or AMD.
_KERNEL = re.compile(r'^define [^@\n]*\b(?:ptx|amdgpu)_kernel [^@\n]*@"?([^"( ]+)"?\(', re.MULTILINE)


@dataclass(slots=True, kw_only=True)
class DeviceBuild:
    """The state of one compile, which its stages share."""

    params: CompileParams
    io: StepIO
    features: str = ""
    kernel_names: tuple[str, ...] = ()  # in order
    entries: tuple[KernelEntry, ...] = ()  # of the kernel table
    module: llvm.Module = None  # type: ignore[assignment]  # set by the stage `lower`
    machine: llvm.Machine = None  # type: ignore[assignment]
    assembly: str = ""
    kernels: list[KernelInfo] = field(default_factory=list)
    parameters: dict[str, int] = field(default_factory=dict)  # the number by kernel


class Build(Protocol):
    """The part of a compile's state that the driver of stages needs, for any back end."""

    io: StepIO
    module: llvm.Module  # None until there is LLVM IR


B = TypeVar("B", bound=Build)
Stage = tuple[str, Callable[[B], None]]


def run_stages(build: B, stages: Sequence[Stage[B]]) -> None:
    """Run ``stages`` in order, each under its name."""
    for name, stage in stages:
        with build.io.stage(name):
            stage(build)
            if build.module is not None:
                dump("ll", lambda: str(build.module))


def stages_with(
    stages: Sequence[Stage[B]], stage: Callable[[B], None], *, after: str
) -> tuple[Stage[B], ...]:
    """Return ``stages`` with the one that makes relocatable code after the one called ``after``."""
    at = [name for name, _ in stages].index(after) + 1
    return (*stages[:at], ("relocatable", stage), *stages[at:])


def check_target(build: DeviceBuild) -> None:
    """Stage: refuse names that LLVM would only warn about."""
    target = build.params.target
    vendor(target.kind).check(target.chip, target.features, target.triple)
    build.features = target.features


def take_lowered(build: DeviceBuild, lowered: GpuLowering) -> None:
    """Parse the LLVM IR that the passes in MLIR produced, for the target's code generator."""
    build.kernel_names = tuple(entry.name for entry in lowered.kernels)
    build.entries = lowered.kernels
    build.module = llvm.parse_assembly(
        lowered.llvm, llvm.new_context(build.params.target.triple), name="translated LLVM IR"
    )
    resource_objects.declare(build.module, lowered.externals)
    resources = StepResources.of(build.io)
    _refuse_large(build, sum(len(resources.data(item.digest)) for item in lowered.externals))
    resource_objects.define_in_place(build.module, lowered.externals, resources)
    _take_module(build)


def _refuse_large(build: DeviceBuild, size: int) -> None:
    """Raise ``StepError`` for constants which would take the assembler minutes and gigabytes."""
    if size > _MOST_CONSTANT_BYTES:
        raise StepError(
            f"@{build.params.module} has {size >> 20} MiB of constants; code for {build.params.target.chip} "
            f"can have {_MOST_CONSTANT_BYTES >> 20} MiB, because assemblers read them as text",
            hint="move the memref.global to host code, copy it to the device once, and pass it to the "
            "kernels: then all targets share it",
        )


def take_bitcode(build: DeviceBuild) -> None:
    """Parse a module that is given as LLVM bitcode instead of MLIR."""
    build.module = llvm.parse_bitcode(
        build.io.read("bitcode"), llvm.new_context(build.params.target.triple), name="LLVM bitcode"
    )
    build.kernel_names = tuple(_KERNEL.findall(str(build.module)))
    _take_module(build)
    kernels = (build.module.get_function(name) for name in build.kernel_names)
    build.entries = tuple(entry for kernel in kernels if (entry := _imported(kernel)))


_TYPES = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "ptr": "ptr"}
_TYPE = re.compile(r"i\d+|ptr addrspace\((\d+)\)")


def _imported(kernel: llvm.Value) -> KernelEntry | None:
    """Return the entry of a kernel of LLVM IR; ``None`` for one with aggregates or vectors as parameters."""
    types = []
    for text in (str(argument.type) for argument in kernel.arguments):
        match = _TYPE.fullmatch(text)
        if not match and text not in _TYPES:
            return None
        types.append(_TYPES.get(text) or (f"ptr<{match[1]}>" if match and match[1] else text))
    return KernelEntry(name=kernel.name, function_type=f"!llvm.func<void ({', '.join(types)})>")


def _take_module(build: DeviceBuild) -> None:
    workarounds.keep_calls_together(build.module, build.kernel_names)
    params = build.params
    processor = vendor(params.target.kind).processor(params.target.chip)
    build.machine = llvm.target_machine(
        params.target.triple, processor, build.features, params.target.opt_level
    )
    llvm.set_target(build.module, build.machine)
    kernels = (f for f in build.module.functions if f.name in build.kernel_names)
    build.parameters = {kernel.name: len(list(kernel.arguments)) for kernel in kernels}


def optimize_module(build: DeviceBuild) -> None:
    """Stage: run LLVM's pipeline and write output ``llvm``.

    Only kernels are called from outside, so that helpers and the C wrappers that MLIR makes of them become
    internal. Globals stay external, since a host may look them up, except in relocatable code, where two
    modules may use one name.
    """
    if build.params.relocatable:
        for variable in build.module.global_variables:
            if not variable.is_declaration and not variable.name.startswith("llvm."):
                variable.linkage = "internal"
                variable.visibility = "default"
    for function in build.module.functions:
        external = not function.is_declaration and function.linkage.name == "external"
        if external and function.name not in build.kernel_names:
            function.linkage = "internal"
    llvm.optimize(build.module, build.machine, build.params.target.opt_level)
    build.io.write("llvm", str(build.module))


def user_libraries(io: StepIO) -> list[tuple[str, bytes]]:
    """Return the user's device libraries, as (path for messages, content)."""
    roles = [r for r in io.input_names if r.startswith(_LIBRARY_ROLE)]
    roles.sort(key=lambda role: int(role.removeprefix(_LIBRARY_ROLE)))
    return [(str(io.path(role)), io.read(role)) for role in roles]


def refuse_undefined(build: DeviceBuild, provided: frozenset[str], hints: Sequence[tuple[str, str]]) -> None:
    """Raise ``StepError`` for symbols that nothing defines and the device does not provide.

    ``hints`` are (name prefix, what to do) pairs; the first that fits a missing name is shown.
    """
    missing = [n for n in llvm.undefined_symbols(build.module) if n not in provided]
    missing += [
        v.name
        for v in build.module.global_variables
        if v.is_declaration and not v.name.startswith("llvm.") and _WORKGROUP_MEMORY not in str(v.type)
    ]
    missing = _used(missing, build.module)
    if not missing:
        return
    hint = next((text for prefix, text in hints if any(n.startswith(prefix) for n in missing)), "")
    raise StepError(
        f"undefined in @{build.params.module}: {', '.join(missing)}",
        hint=hint or "define it in the gpu.module, or name a library that does under `device_libs:`",
    )


def _used(names: Sequence[str], module: llvm.Module) -> list[str]:
    """Return those of ``names`` that are used: without optimisation, unused declarations stay."""
    text = str(module) if names else ""

    def count(name: str) -> int:
        return len(re.findall(rf'@(?:{re.escape(name)}|"{re.escape(name)}")(?![\w.$-])', text))

    return [name for name in names if count(name) > 1]


def emit_bitcode(build: DeviceBuild) -> None:
    """Stage: write the optimised module as bitcode, which clang compiles when it links (-flto)."""
    build.io.write("device", llvm.emit_bitcode(build.module))


def write_info(build: DeviceBuild) -> None:
    """Stage: write the resources of each kernel, with the number of its parameters."""
    kernels = [replace(kernel, parameters=build.parameters.get(kernel.name)) for kernel in build.kernels]
    given = build.io.text("kernels") if build.io.has("kernels") else ""
    build.io.write("info", info_json(kernels, given) if given else info_with_table(kernels, build.entries))
