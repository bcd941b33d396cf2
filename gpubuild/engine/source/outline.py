"""Split a source into its host part and its gpu.modules, and list their contents (step ``outline``).

``passes:`` of the source and transform schedules in it are applied first.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from mlir import ir

from gpubuild.engine.ir import contexts, locations
from gpubuild.engine.ir.diagnostics import SourceText, about
from gpubuild.engine.ir.query import first, kernel_functions, matching, module_dialect, symbol_name
from gpubuild.engine.ir.resources import SourceResources
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.engine.source import launch_checks, source_checks
from gpubuild.engine.source.divergence import check_divergence, has_sites
from gpubuild.errors import Diagnostic, StepError
from gpubuild.model.step import OutlineParams
from gpubuild.support.text import any_of
from gpubuild.targets.registry import vendors
from gpubuild.targets.vendor import Vendor

INDEX_SCHEMA = 2
# Constants are sunk first, so that they do not become arguments of the kernel.
_OUTLINE_PASSES = "builtin.module(gpu-launch-sink-index-computations,gpu-kernel-outlining)"
_INHERITED_PREFIX = "dlti."  # data layout: a gpu.module sees it on the module around it
_HANDLER = "offloadingHandler"
_SEQUENCES = "transform.with_named_sequence"
_TARGET = re.compile(r"#(\w+)\.target(?:<(.*)>)?", re.DOTALL)
_OPT_LEVEL = 2  # the default of NVVMTargetAttr and ROCDLTargetAttr


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A module, the lines of its file for messages, and its resources."""

    module: ir.Module
    lines: SourceText
    resources: SourceResources


def run(params: OutlineParams, io: StepIO) -> None:
    """Write ``index.json``, ``host.mlir``, ``host_located.mlir``, ``module.N.mlir``, ``located.N.mlir``.

    And ``places.txt`` (engine.ir.locations), and the data of large resources (engine.ir.resources).

    ``module.N.mlir`` does not depend on comments, white space, names of values, the position of the
    module, or the rest of the file. Raises ``StepError`` with locations in the source.
    """
    resources = SourceResources(io)
    text, name = resources.text, params.source_name or "<source>"
    lines = SourceText(text, name)
    with contexts.context():
        with io.stage("parse"):
            source_checks.check_nesting(text, lines, name)
            module = contexts.parse(
                text, source_name=name, settle=lambda module: resources.settle(module, lines)
            )
            source = _Source(module=module, lines=lines, resources=resources)
        if params.passes:
            with io.stage("passes"):
                resources.bind(source.module)
                contexts.run_passes(source.module, params.passes, source=source.lines)
                resources.settle(source.module, lines)
                _drop_sequences(source.module)
        with io.stage("outline"):
            if first(source.module.operation, lambda op: op.name == "gpu.launch") is not None:
                contexts.run_passes(source.module, _OUTLINE_PASSES, source=source.lines)
            contexts.verify(source.module, source=source.lines)
            _refuse_nested_modules(source)
            launch_checks.refuse_impossible(source.module, source.lines)
            launch_checks.refuse_oversized(source.module, source.lines)
            launch_checks.refuse_missing_memory(source.module, source.lines)
            warnings: list[Diagnostic] = []
            if params.passes or has_sites(text):
                warnings += check_divergence(source.module, source.lines)
            warnings += launch_checks.drop_contradicted(source.module, source.lines)
            warnings += source_checks.find_misspelt(source.module, source.lines)
            for warning in warnings:
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
        entry = _describe_module(kernels, number)
        alone = _wrapped(kernels, inherited)
        locations.keep_assert_locations(alone.operation)
        io.write(f"located.{number}.mlir", contexts.located_text(alone))
        text = contexts.canonical_text(alone)
        io.write(f"module.{number}.mlir", text)
        placed += locations.table(alone, text, source.lines)
        used = source.resources.write(text, io)
        entries.append(entry | {"calls": _libraries_called(text)} | ({"resources": used} if used else {}))
        _replace_by_placeholder(kernels)
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
    io.write(locations.FILE, "".join([*locations.table(module, host, source.lines), *placed]))
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


def _refuse_nested_modules(source: _Source) -> None:
    """Raise ``StepError`` for gpu.modules inside a nested builtin.module: splitting would lose them."""
    top = source.module.operation
    found = [
        about(op, f"gpu.module @{symbol_name(op)} is nested in another module", source.lines)
        for op in matching(top, lambda op: op.name == "gpu.module" and op.parent != top)
    ]
    if found:
        raise StepError(
            "gpu.modules must be at the top level of the file",
            diagnostics=found,
            hint="move them out of the inner builtin.module",
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


def _libraries_called(text: str) -> list[str]:
    """Return the kinds of targets with optional libraries whose functions the text of a module names."""
    return [v.kind for v in vendors() if any(word in text for word in v.optional_symbols)]


def _describe_module(module: ir.Operation, number: int) -> dict[str, Any]:
    """Return the entry of one gpu.module in ``index.json``.

    Raises ``StepError`` for a target attribute that matches no kind of targets.
    """
    attributes = module.attributes
    return {
        "name": attributes["sym_name"].value,
        "index": number,
        "dialect": module_dialect(module),
        "handler": str(attributes["offloadingHandler"]) if "offloadingHandler" in attributes else "",
        "kernels": [_describe_kernel(op) for op in kernel_functions(module)],
        "targets": (
            [_describe_target(t, module) for t in attributes["targets"]] if "targets" in attributes else []
        ),
    }


def _describe_kernel(function: ir.Operation) -> dict[str, Any]:
    signature = function.attributes["function_type"].value
    if hasattr(signature, "inputs"):
        args = [str(t) for t in signature.inputs]
    else:  # the bindings have no class for LLVM's function type
        args = [str(a.type) for a in function.regions[0].blocks[0].arguments] if function.regions[0] else []
    return {"name": function.attributes["sym_name"].value, "args": args}


def _describe_target(attribute: ir.Attribute, module: ir.Operation) -> dict[str, Any]:
    found = _TARGET.fullmatch(str(attribute))
    candidates = [v for v in vendors() if found and v.attribute == found[1]]
    if found and candidates:
        # The bindings have no accessors of this attribute. Its text is like that of a dictionary.
        given = {item.name: item.attr for item in ir.Attribute.parse("{" + (found[2] or "") + "}")}
        triple = given["triple"].value if "triple" in given else candidates[0].triple
        # Several kinds share an attribute.
        vendor = next((v for v in candidates if v.owns(triple)), None)
        if vendor is not None:
            return _target_fields(vendor, triple, given)
    known = any_of(list(dict.fromkeys(f"#{v.attribute}.target" for v in vendors())))
    raise StepError(
        f"gpu.module @{symbol_name(module)} has a target for which gpubuild has no compiler",
        diagnostics=[about(module, str(attribute), SourceText())],
        hint=f"use {known}, or remove it and list targets in targets.yaml",
    )


def _target_fields(vendor: Vendor, triple: str, given: dict[str, Any]) -> dict[str, Any]:
    flags = sorted(item.name for item in given["flags"]) if "flags" in given else []
    return {
        "kind": vendor.kind,
        "triple": triple,
        "chip": given["chip"].value if "chip" in given else vendor.attribute_chip,
        "features": given["features"].value if "features" in given else "",
        "opt_level": given["O"].value if "O" in given else _OPT_LEVEL,
        "fast_math": "fast" in flags,
        "flags": flags,
        "link": [item.value for item in given["link"]] if "link" in given else [],
    }
