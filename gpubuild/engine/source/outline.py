"""Split a source into its host part and its gpu.modules, and list their contents (step ``outline``).

``constants:``, and ``passes:`` of the source and transform schedules in it, are applied first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from mlir import ir
from mlir._mlir_libs._mlirDialectsGPU import ObjectAttr

from gpubuild.engine.host import interface
from gpubuild.engine.ir import contexts, locations, user_pipeline, value_names
from gpubuild.engine.ir.diagnostics import SourceText, about, refuse
from gpubuild.engine.ir.older_forms import KERNEL_MODULE, form_of_today
from gpubuild.engine.ir.query import enclosing, matching, operations, symbol_name
from gpubuild.engine.ir.resources import SourceResources
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.engine.source import constants, exports, host_work, launch_checks, source_checks, tensors
from gpubuild.engine.source.divergence import check_divergence, has_sites
from gpubuild.engine.source.module_index import (
    describe_binary,
    describe_module,
    has_bitcode,
    vendor_of,
)
from gpubuild.errors import Diagnostic
from gpubuild.model.project import TENSOR_PIPELINES
from gpubuild.model.step import OutlineParams
from gpubuild.support.frozen import frozen

INDEX_SCHEMA = 2
# Constants are sunk first, so that they do not become arguments of the kernel.
_OUTLINE_PASSES = "builtin.module(gpu-launch-sink-index-computations,gpu-kernel-outlining)"
_INHERITED_PREFIX = "dlti."  # data layout: a gpu.module sees it on the module around it
_HANDLER = "offloadingHandler"
_LAUNCH = "gpu.launch"
_LAUNCHES = (_LAUNCH, "gpu.launch_func")
_SEQUENCES = "transform.with_named_sequence"


@frozen
class _Source:
    """A module, the lines of its file for messages, and its resources."""

    module: ir.Module
    lines: SourceText
    resources: SourceResources


def run(params: OutlineParams, io: StepIO) -> None:
    """Write ``index.json``, ``host.mlir``, ``host_located.mlir``, ``module.N.mlir``, ``located.N.mlir``.

    And ``places.txt`` (engine.ir.locations), the data of large resources (engine.ir.resources), and
    ``interface.json`` for functions that callers can use (engine.source.exports).

    ``module.N.mlir`` does not depend on comments, white space, names of values, the position of the
    module, or the rest of the file. Raises ``StepError`` with locations in the source.
    """
    resources = SourceResources(io)
    text, name = resources.text, params.source_name or "<source>"
    lines = SourceText(text, name)
    names: dict[str, list[str]] = {}  # of arguments
    with contexts.context():
        with io.stage("parse"):
            source_checks.check_source(text, lines, name)
            module = contexts.parse(text, source_name=name)
            resources.settle(module, lines)
            if exports.ATTRIBUTE in text or "kernel" in text:
                names = value_names.argument_names(module, text, name)
            if params.names:
                value_names.name_values(module, text, name)
            if value_names.ARGUMENTS in text:
                value_names.read_argument_names(module)
            if constants.ATTRIBUTE in text:
                constants.set_values(module, params.constants, lines)
            source = _Source(module=module, lines=lines, resources=resources)
        if params.passes:
            with io.stage("passes"):
                before = _settled(source.module)
                resources.bind(source.module)
                if params.passes in TENSOR_PIPELINES:
                    tensors.run(source.module, params.passes, source.lines, io)
                else:
                    user_pipeline.run(
                        source.module, params.passes, source=source.lines, serializes=_serializes
                    )
                resources.settle(source.module, lines)
                _drop_sequences(source.module)
                for message in _replaced_targets(before, _settled(source.module)):
                    io.warn(message)
        with io.stage("outline"):
            if KERNEL_MODULE in text:
                _refuse_kernel_modules(source)
            may_launch = bool(params.passes) or _LAUNCH in text
            found_launches = operations(source.module.operation, _LAUNCHES) if may_launch else []
            _refuse_nested_launches(found_launches, source)
            if any(op.name == _LAUNCH for op in found_launches):
                launches = value_names.names_of_launches(source.module) if params.names else {}
                contexts.run_passes(source.module, _OUTLINE_PASSES, source=source.lines)
                value_names.name_kernels(source.module, launches)
            contexts.verify(source.module, source=source.lines)
            _refuse_nested_modules(source)
            for warning in _check_launches(source, divergence=bool(params.passes) or has_sites(text)):
                io.warn(warning.render())
        with io.stage("split"):
            found = exports.describe(source.module, names)
            if found is not None:
                io.write(interface.FILE, json.dumps(found, indent=1, sort_keys=True) + "\n")
            _split(
                source,
                io,
                named=params.names,
                movable=not (params.passes or params.names),
                has_interface=found is not None,
            )


def _check_launches(source: _Source, *, divergence: bool) -> list[Diagnostic]:
    """Return warnings about launches and names. Raises ``StepError`` for what cannot run."""
    module, lines = source.module, source.lines
    launch_checks.refuse_impossible(module, lines)
    launch_checks.refuse_oversized(module, lines)
    launch_checks.refuse_missing_memory(module, lines)
    warnings = [*check_divergence(module, lines)] if divergence else []
    warnings += launch_checks.drop_contradicted(module, lines)
    warnings += launch_checks.find_single(module, lines)
    warnings += host_work.find_mapped_loops(module, lines)
    warnings += host_work.find_wrong_frees(module, lines)
    warnings += host_work.find_unawaited(module, lines)
    warnings += host_work.find_main_with_memory(module, lines)
    warnings += source_checks.find_misspelt(module, lines)
    return warnings


def _serializes(module: ir.Module, by_mlir: bool) -> bool:
    """Return whether gpubuild makes the objects: MLIR cannot, or has no code generator for a target."""
    if not by_mlir:
        return True
    targets = [m.attributes["targets"] for m in contexts.gpu_modules(module) if "targets" in m.attributes]
    found = [vendor_of(target) for listed in targets for target in listed]
    return any(vendor is not None and not vendor.upstream_serializes for vendor in found)


def _settled(module: ir.Module) -> dict[str, str]:
    """Return the gpu.modules with targets and the gpu.binary operations, by name, and which each is."""
    block = module.operation.regions[0].blocks[0]
    found = {}
    for op in (op.operation for op in block):
        if op.name == "gpu.binary" or (op.name == "gpu.module" and "targets" in op.attributes):
            found[op.attributes["sym_name"].value] = op.name
    return found


def _replaced_targets(before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    """Yield warnings about targets of targets.yaml that ``passes: source:`` has made useless."""
    for name, kind in after.items():
        if before.get(name) == kind:
            continue
        if kind == "gpu.binary":
            yield (
                f"passes: source: compiled gpu.module @{name} to a gpu.binary, which is linked unchanged; "
                "the targets of targets.yaml do not apply to it: remove gpu-module-to-binary"
            )
        else:
            yield (
                f"passes: source: attached targets to gpu.module @{name}; they replace those of "
                f"targets.yaml, unless `modules: {name}: targets:` lists some"
            )


def _split(source: _Source, io: StepIO, *, named: bool, movable: bool, has_interface: bool) -> None:
    module = source.module
    block = module.operation.regions[0].blocks[0]
    inherited = {
        name: module.operation.attributes[name]
        for name in sorted(module.operation.attributes)
        if name.startswith(_INHERITED_PREFIX)
    }
    host_memory = host_work.find_host_memory(module, source.lines)
    entries = []
    placed: list[str] = []
    for number, kernels in enumerate(contexts.gpu_modules(module)):
        entry = describe_module(kernels, number)
        alone = _wrapped(kernels, inherited)
        movable = not locations.keep_assert_locations(alone.operation) and movable
        io.write(f"located.{number}.mlir", contexts.located_text(alone))
        text = contexts.canonical_text(alone)
        io.write(f"module.{number}.mlir", text)
        placed += locations.table(alone, text, source.lines)
        if named:
            value_names.write_argument_names(alone)
            io.write(f"named.{number}.mlir", contexts.located_text(alone))
        used = source.resources.write(text, io)
        entries.append(entry | ({"resources": used} if used else {}))
        _replace_by_placeholder(kernels)
    for binary in [op.operation for op in block if has_bitcode(op.operation)]:
        entry = describe_binary(binary, len(entries))
        for file, item in zip(entry["bitcode"], map(ObjectAttr, binary.attributes["objects"]), strict=True):
            io.write(file, item.object)
            io.write(f"{file}.kernels", str(item.kernels or ""))
        entries.append(entry)
        _replace_by_placeholder(binary)
    if entries:
        # Required by the verifier of gpu.launch_func, and missing in some modules outlined by hand.
        module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
    names = {e["name"] for e in entries}
    binaries = [
        op.operation.attributes["sym_name"].value for op in block if op.operation.name == "gpu.binary"
    ]
    index = {
        "schema": INDEX_SCHEMA,
        "modules": entries,
        "has_main": any(_defines_main(op.operation) for op in block),
        "binaries": [name for name in binaries if name not in names],
    }
    contexts.verify(module, source=source.lines)
    host = contexts.canonical_text(module)
    io.write("host.mlir", host)
    if used := source.resources.write(host, io):
        index["resources"] = used
    if host_memory:
        index["host_memory"] = [warning.render() for warning in host_memory]
    if has_interface:
        index["interface"] = True
    head = locations.head(source.resources.text) if movable else ""
    io.write(locations.FILE, "".join([head, *locations.table(module, host, source.lines), *placed]))
    io.write("host_located.mlir", contexts.located_text(module))
    io.write("index.json", json.dumps(index, indent=1, sort_keys=True) + "\n")


def _wrapped(kernels: ir.Operation, inherited: dict[str, ir.Attribute]) -> ir.Module:
    """Return a builtin.module with a copy of one gpu.module."""
    alone = ir.Module.create(ir.Location.unknown())  # text with locations has no others than the module's
    copy = kernels.clone()
    # Both are in the index. The text of a module must not depend on its list of targets.
    for name in (_HANDLER, "targets"):
        if name in copy.attributes:
            del copy.attributes[name]
    alone.body.append(copy)
    for name, value in inherited.items():
        alone.operation.attributes[name] = value
    return alone


def _replace_by_placeholder(kernels: ir.Operation) -> None:
    """Replace a gpu.module by a ``gpu.binary`` of the same name, to which launches may refer."""
    given = kernels.attributes
    attributes = {
        "sym_name": given["sym_name"],
        "objects": ir.Attribute.parse('[#gpu.object<#nvvm.target, bin = "">]'),
        _HANDLER: given[_HANDLER] if _HANDLER in given else ir.Attribute.parse("#gpu.select_object"),
    }
    point = ir.InsertionPoint(kernels)
    ir.Operation.create("gpu.binary", attributes=attributes, loc=kernels.location, ip=point)
    kernels.erase()


def _refuse_kernel_modules(source: _Source) -> None:
    """Raise ``StepError`` for modules that older MLIR outlined kernels to, which are host code today."""
    found = [
        about(op, f"{KERNEL_MODULE!r} has no meaning in this MLIR", source.lines)
        for op in matching(source.module.operation, lambda op: KERNEL_MODULE in op.attributes)
    ]
    refuse(
        f"a module of kernels is marked by {KERNEL_MODULE!r}",
        found,
        f"{form_of_today(KERNEL_MODULE)} (this is a form of an older MLIR)",
    )


def _refuse_nested_launches(launches: Iterable[ir.Operation], source: _Source) -> None:
    """Raise ``StepError`` for launches inside kernels: devices have no runtime that could launch."""
    found = [
        about(op, f"'{op.name}' inside a kernel: kernels cannot launch kernels", source.lines)
        for op in launches
        if enclosing(op.parent, (_LAUNCH, "gpu.module")) is not None
    ]
    refuse(
        "a launch is inside a kernel",
        found,
        "launch it from host code, after the outer kernel, or call a function of the gpu.module",
    )


def _refuse_nested_modules(source: _Source) -> None:
    """Raise ``StepError`` for gpu.modules inside a nested builtin.module: splitting would lose them."""
    top = source.module.operation
    found = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "gpu.module" and op.parent != top:
            found.append(
                about(op, f"gpu.module @{symbol_name(op)} is nested in another module", source.lines)
            )
        # Symbols are in tables of symbols only, which functions are not.
        return ir.WalkResult.SKIP if op.name.endswith(".func") else ir.WalkResult.ADVANCE

    top.walk(visit, ir.WalkOrder.PRE_ORDER)
    refuse(
        "gpu.modules must be at the top level of the file",
        found,
        "move them out of the inner builtin.module",
    )


def _defines_main(op: ir.Operation) -> bool:
    if op.name not in {"func.func", "llvm.func"} or op.attributes["sym_name"].value != "main":
        return False
    return len(op.regions[0].blocks) > 0


def _drop_sequences(module: ir.Module) -> None:
    """Erase transform sequences at the top of a file, and modules with nothing else.

    For files whose `source` passes have run; without passes a schedule stays, since it was not applied.
    """
    for op in list(module.body):
        inner = op.operation
        if inner.name.startswith("transform.") or (
            inner.name == "builtin.module" and _SEQUENCES in inner.attributes and _only_sequences(inner)
        ):
            inner.erase()
    if _SEQUENCES in module.operation.attributes:
        del module.operation.attributes[_SEQUENCES]


def _only_sequences(module: ir.Operation) -> bool:
    return all(op.operation.name.startswith("transform.") for op in module.regions[0].blocks[0])
