"""Bundle: put the objects of one gpu.module, one per target, into one gpu.binary."""

from __future__ import annotations

import json
import re

from mlir import ir

from gpubuild.engine.host import gpu_binary
from gpubuild.engine.host.gpu_binary import target_attr
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import StepError
from gpubuild.model.step import BundleParams
from gpubuild.targets.registry import vendor
from gpubuild.targets.target import Target

_SELECTED_INDEX = re.compile(r"#gpu\.select_object<(\d+)(?: : \w+)?>")
_SELECTED_TARGET = re.compile(r"#gpu\.select_object<(#.*)>", re.DOTALL)


def run(params: BundleParams, io: StepIO) -> None:
    """Write ``binary``. Raises ``StepError`` when the handler selects none of the objects."""
    with io.stage("bundle"), contexts.context():
        objects = [
            _object(number, name, target, io)
            for number, (name, target) in enumerate(zip(params.names, params.targets, strict=True))
        ]
        module = gpu_binary.make_binary(params.module, params.handler, objects)
        _check_handler(params, module)
        contexts.verify(module)
        io.write("binary", contexts.canonical_text(module))


def _object(number: int, name: str, target: Target, io: StepIO) -> gpu_binary.ObjectData:
    facts = vendor(target.kind)
    properties: dict[str, str | int] = {
        gpu_binary.OPT_LEVEL: target.opt_level,
        gpu_binary.TARGET: name,
        gpu_binary.KERNELS: _kernels(io.text(f"info.{number}")),
        gpu_binary.TRIPLE: target.triple,
        gpu_binary.ARCH: facts.arch(target.chip, target.features),
    }
    if facts.lists_features and target.features:
        properties[gpu_binary.FEATURES] = target.features
    if target.sanitize:
        properties[gpu_binary.SANITIZE] = ",".join(target.sanitize)
    if facts.carries_assembly(target.chip):
        properties[gpu_binary.ASM] = io.text(f"asm.{number}")
    return gpu_binary.ObjectData(
        target=target_attr(target), data=io.read(f"object.{number}"), properties=properties
    )


def _kernels(info: str) -> str:
    return json.dumps(json.loads(info)["kernels"], separators=(",", ":"), ensure_ascii=False)


def _check_handler(params: BundleParams, module: ir.Module) -> None:
    """Upstream finds a wrong selection only when it translates host code, without saying why."""
    targets = [item.target for item in gpu_binary.read_objects(gpu_binary.binaries(module)[params.module])]
    handler = str(gpu_binary.binaries(module)[params.module].attributes["offloadingHandler"])
    if match := _SELECTED_INDEX.fullmatch(handler):
        found = int(match[1]) < len(targets)
    elif match := _SELECTED_TARGET.fullmatch(handler):
        found = match[1] in targets
    else:
        return  # a handler of another kind has rules of its own
    if not found:
        listed = "\n".join(f"  {number}: {target}" for number, target in enumerate(targets))
        raise StepError(
            f"the offloading handler of gpu.module @{params.module} selects none of its objects: {handler}",
            output=f"its objects are\n{listed}",
            hint="select by index, or by a target that is spelled like one of these",
        )
