"""Module index: what a gpu.module says about itself, as the JSON that planning reads."""

from __future__ import annotations

from typing import Any

from mlir import ir

from gpubuild.engine.ir.diagnostics import SourceText, locate
from gpubuild.engine.ir.query import kernel_functions, module_dialect
from gpubuild.errors import Diagnostic, StepError
from gpubuild.targets.target import NVVM_TRIPLE, ROCDL_TRIPLE, Kind

_OF_ROCM = ("__ockl_", "__ocml_", "__oclc_")
# What the attributes mean when they leave a field out (NVVMTargetAttr, ROCDLTargetAttr).
_NVVM_DEFAULTS: dict[str, Any] = {"O": 2, "triple": NVVM_TRIPLE, "chip": "sm_75", "features": ""}
_ROCDL_DEFAULTS: dict[str, Any] = {"O": 2, "triple": ROCDL_TRIPLE, "chip": "gfx900", "features": ""}


def may_use_rocm(text: str) -> bool:
    """Whether a module, given as text, calls ROCm's functions by name.

    All else is made without ROCm, and is the same with it.
    """
    return any(word in text for word in _OF_ROCM)


def describe_module(module: ir.Operation, number: int) -> dict[str, Any]:
    """The entry of one gpu.module in ``index.json``.

    ``{"name", "index", "dialect", "handler", "kernels": [{"name", "args"}], "targets": […]}``, to which
    outlining adds ``"rocm"``;
    ``dialect`` is ``gpu``, or the one that an already lowered module is in. Raises ``StepError``
    for a target attribute that no kind of ours matches.
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
    else:  # an LLVM function type has no bindings of its own
        args = [str(a.type) for a in function.regions[0].blocks[0].arguments] if function.regions[0] else []
    return {"name": function.attributes["sym_name"].value, "args": args}


def _describe_target(attribute: ir.Attribute, module: ir.Operation) -> dict[str, Any]:
    text = str(attribute)
    for dialect, defaults in (("nvvm", _NVVM_DEFAULTS), ("rocdl", _ROCDL_DEFAULTS)):
        prefix = f"#{dialect}.target"
        if text == prefix or text.startswith(prefix + "<"):
            return _target_fields(Kind(dialect), text.removeprefix(prefix), defaults)
    location, line = locate(module.location, SourceText())
    name = module.attributes["sym_name"].value
    raise StepError(
        f"gpu.module @{name} asks for a target that gpubuild has no compiler for",
        diagnostics=[Diagnostic(message=text, location=location, source_line=line)],
        hint="use #nvvm.target or #rocdl.target, or drop it and list targets in targets.yaml",
    )


def _target_fields(kind: Kind, body: str, defaults: dict[str, Any]) -> dict[str, Any]:
    # The text between <> is written like the inside of a dictionary attribute, whose parser
    # handles every quoting; the attribute itself has no accessors in the bindings.
    fields = ir.Attribute.parse("{" + body[1:-1] + "}")
    given = {item.name: item.attr for item in fields}

    def plain(name: str) -> Any:  # noqa: ANN401 - an int or a string
        return given[name].value if name in given else defaults[name]

    triple = plain("triple")
    if kind is Kind.NVVM and not triple.startswith("nvptx"):
        kind = Kind.CPU  # how objects for a CPU are described (see engine.host.gpu_binary)
    flags = sorted(item.name for item in given["flags"]) if "flags" in given else []
    return {
        "kind": str(kind),
        "triple": triple,
        "chip": plain("chip"),
        "features": plain("features"),
        "opt_level": plain("O"),
        "fast_math": "fast" in flags,
        "flags": flags,
        "link": [item.value for item in given["link"]] if "link" in given else [],
    }
