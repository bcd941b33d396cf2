"""Outline step: split a source into its host part and its gpu.modules, and list what they contain.

``passes:`` of the source and transform schedules in it are applied first.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.ir import contexts, locations
from gpubuild.engine.ir.diagnostics import SourceText, locate
from gpubuild.engine.ir.locations import keep_assert_locations
from gpubuild.engine.ir.resources import SourceResources
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.engine.source import launch_checks, source_checks
from gpubuild.engine.source.divergence import check_reach, may_meet
from gpubuild.engine.source.module_index import describe_module, libraries_called
from gpubuild.engine.source.source_checks import check_source
from gpubuild.errors import Diagnostic, StepError
from gpubuild.model.step import OutlineParams

INDEX_SCHEMA = 2
# Constants are sunk first, so that they stay constants in the kernel instead of becoming arguments.
_OUTLINE_PASSES = "builtin.module(gpu-launch-sink-index-computations,gpu-kernel-outlining)"
_INHERITED_PREFIX = "dlti."  # data layout: a gpu.module sees it on the module around it
_HANDLER = "offloadingHandler"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """The module under work and what is needed to point into the user's file."""

    module: ir.Module
    lines: SourceText
    resources: SourceResources


def run(params: OutlineParams, io: StepIO) -> None:
    """Write ``index.json``, ``host.mlir``, ``host_located.mlir``, ``module.N.mlir``, ``located.N.mlir``.

    And ``places.txt`` (engine.ir.locations), and the data of large resources (engine.ir.resources).

    ``module.N.mlir`` depends on nothing but what the module says: not on comments, white space,
    names of values, its position, or the rest of the file.
    Raises ``StepError`` with diagnostics that point into the source.
    """
    resources = SourceResources(io)
    text = resources.text
    lines = SourceText(text, params.source_name or "<source>")
    with contexts.context():
        with io.stage("parse"):
            check_source(text, lines, params.source_name or "<source>")
            module = contexts.parse(
                text,
                source_name=params.source_name or "<source>",
                settle=lambda module: resources.settle(module, lines),
            )
            source = _Source(module=module, lines=lines, resources=resources)
        if params.passes:
            with io.stage("passes"):
                resources.bind(source.module)
                contexts.run_passes(source.module, params.passes, source=source.lines)
                resources.settle(source.module, lines)
                drop(source.module)
        with io.stage("outline"):
            if _contains(source.module.operation, "gpu.launch"):
                contexts.run_passes(source.module, _OUTLINE_PASSES, source=source.lines)
            contexts.verify(source.module, source=source.lines)
            _refuse_nested_modules(source)
            launch_checks.refuse_impossible(source.module, source.lines)
            launch_checks.refuse_oversized(source.module, source.lines)
            launch_checks.refuse_missing(source.module, source.lines)
            doubts = check_reach(source.module, source.lines) if params.passes or may_meet(text) else []
            doubts += launch_checks.drop_contradicted(source.module, source.lines)
            for warning in doubts:
                io.warn(warning.render())
            for warning in source_checks.find_misspelt(source.module, source.lines):
                io.warn(warning.render())
        with io.stage("split"):
            _split(source, io)


def _split(source: _Source, io: StepIO) -> None:
    module = source.module
    block = module.operation.regions[0].blocks[0]
    inherited = {
        name: module.operation.attributes[name]
        for name in sorted(module.operation.attributes)
        if name.startswith(_INHERITED_PREFIX)
    }
    entries = []
    placed: list[str] = []
    for number, kernels in enumerate(contexts.gpu_modules(module)):
        entry = describe_module(kernels, number)
        alone = _wrapped(kernels, inherited)
        keep_assert_locations(alone.operation)
        io.write(f"located.{number}.mlir", contexts.located_text(alone))
        text = contexts.canonical_text(alone)
        io.write(f"module.{number}.mlir", text)
        placed += locations.table(alone, text, source.lines)
        used = source.resources.write(text, io)
        entries.append(entry | {"calls": libraries_called(text)} | ({"resources": used} if used else {}))
        _replace_by_placeholder(kernels)
    if entries:
        # The verifier of gpu.launch_func asks for it; a module outlined by hand may lack it.
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
    io.write(locations.FILE, "".join([*locations.table(module, host, source.lines), *placed]))
    io.write("host_located.mlir", contexts.located_text(module))
    io.write("index.json", json.dumps(index, indent=1, sort_keys=True) + "\n")


def _wrapped(kernels: ir.Operation, inherited: dict[str, ir.Attribute]) -> ir.Module:
    """A builtin.module that holds a copy of one gpu.module and nothing else."""
    # The wrapper's own location must not say where in the file the module stood: it would only
    # add a file name to text that is kept with locations.
    alone = ir.Module.create(ir.Location.unknown())
    copy = kernels.clone()
    # Both are in the index. A module's code must not change because its list of targets does.
    for name in (_HANDLER, "targets"):
        if name in copy.attributes:
            del copy.attributes[name]
    alone.body.append(copy)
    for name, value in inherited.items():
        alone.operation.attributes[name] = value
    return alone


def _replace_by_placeholder(kernels: ir.Operation) -> None:
    """Put a ``gpu.binary`` of the same name in place, which launches may refer to."""
    given = kernels.attributes
    attributes = {
        "sym_name": given["sym_name"],
        "objects": ir.Attribute.parse('[#gpu.object<#nvvm.target, bin = "">]'),
        _HANDLER: given[_HANDLER] if _HANDLER in given else ir.Attribute.parse("#gpu.select_object"),
    }
    place = ir.InsertionPoint(kernels)
    ir.Operation.create("gpu.binary", attributes=attributes, loc=kernels.location, ip=place)
    kernels.erase()


def _refuse_nested_modules(source: _Source) -> None:
    """A gpu.module inside a nested builtin.module would be lost by splitting; say so."""
    found: list[Diagnostic] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "gpu.module" and op.parent != source.module.operation:
            location, line = locate(op.location, source.lines)
            name = op.attributes["sym_name"].value
            found.append(
                Diagnostic(
                    message=f"gpu.module @{name} is nested in another module",
                    location=location,
                    source_line=line,
                )
            )
        return ir.WalkResult.ADVANCE

    source.module.operation.walk(visit)
    if found:
        raise StepError(
            "gpu.modules must be at the top level of the file",
            diagnostics=found,
            hint="move them out of the inner builtin.module",
        )


def _contains(op: ir.Operation, name: str) -> bool:
    found = False

    def visit(inner: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found = found or inner.name == name
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    op.walk(visit)
    return found


def _defines_main(op: ir.Operation) -> bool:
    if op.name not in {"func.func", "llvm.func"} or op.attributes["sym_name"].value != "main":
        return False
    return len(op.regions[0].blocks) > 0


_MARK = "transform.with_named_sequence"


def drop(module: ir.Module) -> None:
    """Erase transform sequences at the top of a file and modules that hold nothing but such.

    Upstream's tests use a pass for it that no release has. For files whose `source` passes have run;
    without passes a schedule stays, since leaving it out would leave out what the user asked for.
    """
    for op in list(module.body):
        inner = op.operation
        if inner.name.startswith("transform.") or (
            inner.name == "builtin.module" and _MARK in inner.attributes and _only_sequences(inner)
        ):
            inner.erase()
    if _MARK in module.operation.attributes:
        del module.operation.attributes[_MARK]


def _only_sequences(module: ir.Operation) -> bool:
    return all(op.operation.name.startswith("transform.") for op in module.regions[0].blocks[0])
