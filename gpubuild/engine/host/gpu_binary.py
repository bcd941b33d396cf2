"""``gpu.binary``: make and read the operation that holds a module's objects, with their targets.

Bundle: put the objects of one gpu.module, one per target, into one gpu.binary.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir._mlir_libs._mlirDialectsGPU import ObjectAttr  # the public wrapper costs 0.3 s of imports

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import StepError
from gpubuild.model.step import BundleParams
from gpubuild.targets.registry import vendor
from gpubuild.targets.target import Target
from gpubuild.targets.vendor import Format

# gpu::CompilationTarget; its Python spelling lives in the wrapper.
OFFLOAD, ASSEMBLY, BINARY, FATBIN = 1, 2, 3, 4
_FORMATS = {Format.OFFLOAD: OFFLOAD, Format.ASSEMBLY: ASSEMBLY, Format.BIN: BINARY}

# What an object's properties say, besides upstream's `O` and `section`.
OPT_LEVEL = "O"
SECTION = "section"
TARGET = "gpubuild.target"
KERNELS = "gpubuild.kernels"  # JSON, the list of the compile step's `info`
ASM = "gpubuild.ptx"  # assembly that later chips can run
TRIPLE = "gpubuild.triple"
ARCH = "gpubuild.arch"  # the chip; for AMD the target id, such as gfx90a:sramecc+:xnack-
FEATURES = "gpubuild.features"  # of a CPU, beyond what its chip implies
SANITIZE = "gpubuild.sanitize"  # of a CPU: what its kernels are checked for, joined by commas


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectData:
    """One ``#gpu.object``. ``target`` is attribute text such as ``#nvvm.target<chip = "sm_60">``."""

    target: str
    data: bytes
    properties: Mapping[str, str | int]
    format: int = BINARY


def make_binary(name: str, handler: str, objects: Sequence[ObjectData]) -> ir.Module:
    """A builtin.module with one gpu.binary, in the current context. Raises ``StepError``."""
    module = ir.Module.create()
    handler_attr = contexts.parse_attribute(handler, what="an offloading handler")
    with ir.InsertionPoint(module.body):
        ir.Operation.create(
            "gpu.binary",
            attributes={
                "sym_name": ir.StringAttr.get(name),
                "offloadingHandler": handler_attr,
                "objects": objects_attribute(objects),
            },
        )
    return module


def objects_attribute(objects: Sequence[ObjectData]) -> ir.Attribute:
    """The ``objects`` attribute of a gpu.binary."""
    return ir.ArrayAttr.get(
        [
            ObjectAttr.get(
                ir.Attribute.parse(item.target), item.format, item.data, _properties(item.properties)
            )
            for item in objects
        ]
    )


def read_objects(binary: ir.Operation) -> list[ObjectData]:
    """The objects of a gpu.binary, in order; properties that are neither text nor integers are left out."""
    return [
        ObjectData(
            target=str(item.target),
            data=item.object,
            properties=_read_properties(item.properties),
            format=item.format,
        )
        for item in map(ObjectAttr, binary.attributes["objects"])
    ]


def binaries(module: ir.Module) -> dict[str, ir.Operation]:
    """The gpu.binary operations directly inside a builtin.module, by name, in order."""
    return {
        op.operation.attributes["sym_name"].value: op.operation
        for op in module.body.operations
        if op.operation.name == "gpu.binary"
    }


def _properties(values: Mapping[str, str | int]) -> ir.DictAttr:
    integer = ir.IntegerType.get_signless(32)
    return ir.DictAttr.get(
        {
            name: ir.StringAttr.get(value) if isinstance(value, str) else ir.IntegerAttr.get(integer, value)
            for name, value in values.items()
        }
    )


def _read_properties(attribute: ir.DictAttr) -> dict[str, str | int]:
    found: dict[str, str | int] = {}
    for named in attribute or ():
        if isinstance(named.attr, ir.StringAttr | ir.IntegerAttr):
            found[named.name] = named.attr.value
    return found


def target_attr(target: Target) -> str:
    """The attribute's text, spelled as MLIR takes it for a gpu.module or a ``#gpu.object``."""
    facts = vendor(target.kind)
    fields = [f"O = {target.opt_level}"]
    if target.triple != facts.triple:
        fields.append(f"triple = {quoted(target.triple)}")
    fields.append(f"chip = {quoted(target.chip)}")
    if target.features:
        fields.append(f"features = {quoted(target.features)}")
    if target.abi:
        fields.append(f"abi = {quoted(target.abi)}")
    flags = ["fast"] * target.fast_math + list(target.flags)
    if target.assembler_options:
        options = ", ".join(map(quoted, target.assembler_options))
        flags.append(f"{quoted(facts.assembler_flag)} = [{options}]")
    if flags:
        fields.append(f"flags = {{{', '.join(flags)}}}")
    return f"#{facts.attribute}.target<{', '.join(fields)}>"


def quoted(text: str) -> str:
    """``text`` as an MLIR string literal: quotes, backslashes and non-printing bytes as ``\\XX``."""
    body = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\{byte:02X}" for byte in text.encode()
    )
    return f'"{body}"'


_SELECTED_INDEX = re.compile(r"#gpu\.select_object<(\d+)(?: : \w+)?>")
_SELECTED_TARGET = re.compile(r"#gpu\.select_object<(#.*)>", re.DOTALL)


def run(params: BundleParams, io: StepIO) -> None:
    """Write ``binary``. Raises ``StepError`` when the handler selects none of the objects."""
    with io.stage("bundle"), contexts.context():
        objects = [_object(number, params, io) for number in range(len(params.targets))]
        module = make_binary(params.module, params.handler, objects)
        _check_handler(params, module)
        contexts.verify(module)
        io.write("binary", contexts.canonical_text(module))


def _object(number: int, params: BundleParams, io: StepIO) -> ObjectData:
    name, target, given = params.names[number], params.targets[number], params.formats[number]
    facts = vendor(target.kind)
    properties: dict[str, str | int] = {
        OPT_LEVEL: target.opt_level,
        TARGET: name,
        KERNELS: _kernels(io.text(f"info.{number}")),
        TRIPLE: target.triple,
        ARCH: facts.arch(target.chip, target.features),
    }
    if facts.lists_features and target.features:
        properties[FEATURES] = target.features
    if target.sanitize:
        properties[SANITIZE] = ",".join(target.sanitize)
    if not given and facts.carries_assembly(target.chip):
        properties[ASM] = io.text(f"asm.{number}")
    return ObjectData(
        target=target_attr(target),
        data=_data(number, given, io),
        properties=properties,
        format=_FORMATS[Format(given or Format.BIN)],
    )


def _data(number: int, given: str, io: StepIO) -> bytes:
    if given == Format.OFFLOAD:
        from gpubuild.engine.ir import llvm  # few bundles need it

        text = io.text(f"llvm.{number}")
        return llvm.emit_bitcode(llvm.parse_assembly(text, llvm.new_context(), name="optimised LLVM IR"))
    return io.read(f"asm.{number}" if given == Format.ASSEMBLY else f"object.{number}")


def _kernels(info: str) -> str:
    return json.dumps(json.loads(info)["kernels"], separators=(",", ":"), ensure_ascii=False)


def _check_handler(params: BundleParams, module: ir.Module) -> None:
    """Upstream finds a wrong selection only when it translates host code, without saying why."""
    binary = binaries(module)[params.module]
    handler = binary.attributes["offloadingHandler"]
    targets = [item.target for item in read_objects(binary)]
    if _selects(str(handler)) and _selected(str(handler), targets) is None:
        listed = "\n".join(f"  {number}: {target}" for number, target in enumerate(targets))
        raise StepError(
            f"the offloading handler of gpu.module @{params.module} selects none of its objects: {handler}",
            output=f"its objects are\n{listed}",
            hint="select by index, or by a target that is spelled like one of these",
        )


def keep_selected(binary: ir.Operation) -> int | None:
    """Remove the objects that the handler of ``binary`` does not select; return the number of the other.

    Returns ``None``, and removes nothing, for handlers of other dialects.
    """
    objects = read_objects(binary)
    number = _selected(str(binary.attributes["offloadingHandler"]), [item.target for item in objects])
    if number is not None:
        binary.attributes["objects"] = objects_attribute([objects[number]])
        binary.attributes["offloadingHandler"] = ir.Attribute.parse("#gpu.select_object<0>")
    return number


def _selects(handler: str) -> bool:
    return handler.startswith("#gpu.select_object<")


def _selected(handler: str, targets: Sequence[str]) -> int | None:
    """Return the number of the object that ``handler`` selects by index or by target."""
    if match := _SELECTED_INDEX.fullmatch(handler):
        number = int(match[1])
        return number if number < len(targets) else None
    if match := _SELECTED_TARGET.fullmatch(handler):
        return targets.index(match[1]) if match[1] in targets else None
    return None
