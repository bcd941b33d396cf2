"""Describe the gpu.modules of a source, and the bitcode in its gpu.binary operations, for planning."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Any

from mlir import ir
from mlir._mlir_libs._mlirDialectsGPU import ObjectAttr  # the public wrapper costs 0.3 s of imports

from gpubuild.engine.host.gpu_binary import OPT_LEVEL, OWN
from gpubuild.engine.ir.diagnostics import SourceText, about
from gpubuild.engine.ir.query import kernel_functions, module_dialect, symbol_name
from gpubuild.errors import StepError
from gpubuild.support.text import any_of
from gpubuild.targets.registry import vendor, vendors
from gpubuild.targets.vendor import Flaw, Vendor

_TARGET = re.compile(r"#(\w+)\.target(?:<(.*)>)?", re.DOTALL)
_FAST = "fast"
_OFFLOAD = 1  # gpu::CompilationTarget
_OPT_LEVEL = 2  # the default of NVVMTargetAttr and ROCDLTargetAttr


def describe_module(module: ir.Operation, number: int) -> dict[str, Any]:
    """Return the entry of one gpu.module in ``index.json``.

    Raises ``StepError`` for a target attribute that matches no kind of targets.
    """
    attributes = module.attributes
    return {
        "name": attributes["sym_name"].value,
        "index": number,
        "dialect": module_dialect(module),
        "handler": _handler(module),
        "kernels": [_describe_kernel(op) for op in kernel_functions(module)],
        "targets": (
            [_describe_target(t, module) for t in attributes["targets"]] if "targets" in attributes else []
        ),
    }


def describe_binary(binary: ir.Operation, number: int) -> dict[str, Any]:
    """Return the entry of a gpu.binary whose objects are LLVM bitcode, which is compiled for their targets.

    ``"bitcode"`` lists the files of the objects, in the order of ``"targets"``. The kernel table of each is
    in a file of the same name with the suffix ``.kernels``. Raises ``StepError`` for objects of several
    formats or with properties, and for a target that bitcode cannot be compiled for.
    """
    name = symbol_name(binary)
    objects = [ObjectAttr(item) for item in binary.attributes["objects"]]
    if any(item.format != _OFFLOAD for item in objects):
        message = "one object is LLVM bitcode (format offload), another is not"
        raise _target_error(
            binary, objects[0].target, f"gpu.binary @{name}: {message}", "make all objects of one format"
        )
    targets = [_describe_target(item.target, binary) for item in objects]
    for item, target in zip(objects, targets, strict=True):
        if not vendor(target["kind"]).compiles_bitcode:
            message = f"gpu.binary @{name}: bitcode cannot be compiled for a target of kind {target['kind']}"
            raise _target_error(binary, item.target, message, "keep the gpu.module instead of its bitcode")
        for given in item.properties or ():
            if given.name != OPT_LEVEL and not given.name.startswith(OWN):
                message = f"gpu.binary @{name}: property '{given.name}' of bitcode would have no effect"
                hint = "remove it, or serialize the gpu.module to another format, which is linked unchanged"
                raise _target_error(binary, item.target, message, hint)
    return {
        "name": name,
        "index": number,
        "dialect": "llvm",
        "handler": _handler(binary),
        "kernels": [],
        "targets": targets,
        "bitcode": [f"bitcode.{number}.{place}.bc" for place in range(len(objects))],
    }


def _handler(op: ir.Operation) -> str:
    return str(op.attributes["offloadingHandler"]) if "offloadingHandler" in op.attributes else ""


def has_bitcode(op: ir.Operation) -> bool:
    """Whether ``op`` is a gpu.binary with objects of format ``offload``."""
    return op.name == "gpu.binary" and any(
        ObjectAttr(item).format == _OFFLOAD for item in op.attributes["objects"]
    )


def _describe_kernel(function: ir.Operation) -> dict[str, Any]:
    signature = function.attributes["function_type"].value
    if hasattr(signature, "inputs"):
        args = [str(t) for t in signature.inputs]
    else:  # the bindings have no class for LLVM's function type
        args = [str(a.type) for a in function.regions[0].blocks[0].arguments] if function.regions[0] else []
    return {"name": function.attributes["sym_name"].value, "args": args}


def vendor_of(attribute: ir.Attribute) -> Vendor | None:
    """Return the kind of target that ``attribute`` describes, if there is one."""
    return _read_target(attribute)[0]


def _read_target(attribute: ir.Attribute) -> tuple[Vendor | None, str, dict[str, Any]]:
    """Return the kind, triple and parameters of a target attribute."""
    found = _TARGET.fullmatch(str(attribute))
    candidates = [v for v in vendors() if found and v.attribute == found[1]]
    if not found or not candidates:
        return None, "", {}
    # The bindings have no accessors of this attribute. Its text is like that of a dictionary.
    given = {item.name: item.attr for item in ir.Attribute.parse("{" + (found[2] or "") + "}")}
    chip = given["chip"].value if "chip" in given else candidates[0].attribute_chip
    triple = given["triple"].value if "triple" in given else candidates[0].default_triple(chip, "")
    # Several kinds share an attribute.
    return next((v for v in candidates if v.owns(triple)), None), triple, given


def _describe_target(attribute: ir.Attribute, module: ir.Operation) -> dict[str, Any]:
    found, triple, given = _read_target(attribute)
    if found is not None:
        return _target_fields(found, triple, given, module, attribute)
    known = any_of(list(dict.fromkeys(f"#{v.attribute}.target" for v in vendors())))
    raise _target_error(
        module,
        attribute,
        f"gpu.module @{symbol_name(module)} has a target for which gpubuild has no compiler",
        f"use {known}, or remove it and list targets in targets.yaml",
    )


def _target_error(module: ir.Operation, attribute: ir.Attribute, message: str, hint: str) -> StepError:
    return StepError(message, diagnostics=[about(module, str(attribute), SourceText())], hint=hint)


def _target_fields(
    vendor: Vendor, triple: str, given: dict[str, Any], module: ir.Operation, attribute: ir.Attribute
) -> dict[str, Any]:
    fields = {
        "kind": vendor.kind,
        "triple": triple,
        "chip": given["chip"].value if "chip" in given else vendor.attribute_chip,
        "features": given["features"].value if "features" in given else "",
        "opt_level": given["O"].value if "O" in given else _OPT_LEVEL,
        "link": [item.value for item in given["link"]] if "link" in given else [],
        "abi": given["abi"].value if "abi" in given else "",
        **_flags(vendor, given.get("flags", ())),
    }
    flaw = (
        fields.pop("flaw")
        or vendor.flags_flaw(fields["flags"], fields["chip"], fields["features"])
        or vendor.assembler_flaw(fields["assembler_options"])
        or (vendor.abi_flaw(fields["abi"], fields["chip"]) if fields["abi"] else None)
    )
    if flaw:
        message = f"a target of gpu.module @{symbol_name(module)}: {flaw.message}"
        raise _target_error(module, attribute, message, flaw.hint)
    return fields


def _flags(vendor: Vendor, given: Iterable[ir.NamedAttribute]) -> dict[str, Any]:
    """Split the flags of an attribute into `fast`, options of the assembler, and the rest."""
    words, options, flaw = [], [], None
    for item in given:
        if item.name == vendor.assembler_flag:
            try:
                texts = item.attr if isinstance(item.attr, ir.ArrayAttr) else [item.attr]
                options = [word for text in texts for word in shlex.split(ir.StringAttr(text).value)]
            except ValueError:
                flaw = Flaw(f"flag {item.name!r} is no list of texts", f'write "{item.name}" = ["-option"]')
        elif isinstance(item.attr, ir.UnitAttr):
            words.append(item.name)
        else:
            flaw = Flaw(f"flag {item.name!r} has a value", f"write {item.name} alone, or leave it out")
    return {
        "fast_math": _FAST in words,
        "flags": sorted(word for word in words if word != _FAST),
        "assembler_options": options,
        "flaw": flaw,
    }
