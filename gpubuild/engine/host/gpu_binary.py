"""Create and read ``gpu.binary`` operations, which contain a module's objects and their targets.

The bundle step puts the objects of one gpu.module, one for each target, into one gpu.binary. With
``offload: dispatch`` it also puts them into one container in an ELF object, for the runtime to choose from.
Host code refers to that object, so that it does not change with the kernels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from mlir import ir
from mlir._mlir_libs._mlirDialectsGPU import ObjectAttr  # the public wrapper costs 0.3 s of imports

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.kernel_table import without_metadata
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import StepError
from gpubuild.model.offload_binary import SECTION as OFFLOAD_SECTION
from gpubuild.model.offload_binary import Image, parts
from gpubuild.model.step import BundleParams
from gpubuild.support.frozen import frozen, replace
from gpubuild.support.text import escaped
from gpubuild.targets.registry import of_triple, vendor
from gpubuild.targets.target import Target
from gpubuild.targets.vendor import Format, ImageKind, ImageKinds, OffloadKind, Vendor

_OTHER = ImageKinds(ImageKind.OBJECT, OffloadKind.NONE)
# gpu::CompilationTarget
OFFLOAD, ASSEMBLY, BINARY, FATBIN = 1, 2, 3, 4
_FORMATS = {
    Format.OFFLOAD: OFFLOAD,
    Format.ASSEMBLY: ASSEMBLY,
    Format.BIN: BINARY,
    Format.FATBIN: FATBIN,
}

# Properties of objects: upstream's `O` and `section`, and our own, which are strings of containers, too.
OPT_LEVEL = "O"
SECTION = "section"
OWN = "gpubuild."  # begins the names of our own
TARGET = "gpubuild.target"
KERNELS = "gpubuild.kernels"  # JSON, the list of the compile step's `info`
ASM = "gpubuild.ptx"  # assembly that later chips can run
TRIPLE = "gpubuild.triple"
ARCH = "gpubuild.arch"  # the chip; for AMD the target id, such as gfx90a:sramecc+:xnack-
FEATURES = "gpubuild.features"  # of a CPU, those that its chip does not imply
SANITIZE = "gpubuild.sanitize"  # of a CPU: the checks of its kernels, joined by commas

LEFT_OUT = "gpubuild.left_out"  # bytes of data that are in MODULE.images.o only
_LARGE_BYTES = 1 << 24


@frozen
class ObjectData:
    """One ``#gpu.object``. ``target`` is attribute text such as ``#nvvm.target<chip = "sm_60">``.

    ``kernels`` is the text of its kernel table, empty if it has none.
    """

    target: str
    data: bytes
    properties: Mapping[str, str | int]
    format: int = BINARY
    kernels: str = ""


def make_binary(name: str, handler: str, objects: Sequence[ObjectData]) -> ir.Module:
    """Create a builtin.module with one gpu.binary, in the current context. Raises ``StepError``."""
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
    """Return the ``objects`` attribute of a gpu.binary."""
    return ir.ArrayAttr.get(
        [
            ObjectAttr.get(
                ir.Attribute.parse(item.target),
                item.format,
                item.data,
                _properties(item.properties),
                ir.Attribute.parse(item.kernels) if item.kernels else None,
            )
            for item in objects
        ]
    )


def read_objects(binary: ir.Operation) -> list[ObjectData]:
    """Return the objects of a gpu.binary, in order, with their properties that are strings or integers."""
    return [
        ObjectData(
            target=str(item.target),
            data=item.object,
            properties=_read_properties(item.properties),
            format=item.format,
            kernels=str(item.kernels or ""),
        )
        for item in map(ObjectAttr, binary.attributes["objects"])
    ]


def binaries(module: ir.Module) -> dict[str, ir.Operation]:
    """Return the gpu.binary operations directly inside a builtin.module, by name, in order."""
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
    """Return the text of the target attribute of a gpu.module or a ``#gpu.object``."""
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
    """Return ``text`` as an MLIR string literal."""
    return f'"{escaped(text.encode())}"'


_SELECTED_INDEX = re.compile(r"#gpu\.select_object<(\d+)(?: : \w+)?>")
_SELECTED_TARGET = re.compile(r"#gpu\.select_object<(#.*)>", re.DOTALL)


def run(params: BundleParams, io: StepIO) -> None:
    """Write ``binary``. Raises ``StepError`` when the handler selects none of the objects."""
    with io.stage("bundle"), contexts.context():
        objects = [_object(number, params, io) for number in range(len(params.targets))]
        shown = [_without_large_data(item) for item in objects] if params.host_triple else objects
        module = make_binary(params.module, params.handler, shown)
        _check_handler(params, module)
        contexts.verify(module)
        io.write("binary", contexts.canonical_text(module))
        if params.host_triple:
            kept = keep_selected(binaries(module)[params.module]) if params.chosen else None
            objects = objects if kept is None else [objects[kept]]
            write_images(io.out_path("images"), params.module, objects, params.host_triple)


def _without_large_data(item: ObjectData) -> ObjectData:
    """Leave large data out of text that no step reads: MLIR would need minutes to print it."""
    if len(item.data) <= _LARGE_BYTES:
        return item
    return replace(item, data=b"", properties={**item.properties, LEFT_OUT: str(len(item.data))})


def _object(number: int, params: BundleParams, io: StepIO) -> ObjectData:
    name, target, given = params.names[number], params.targets[number], params.formats[number]
    facts = vendor(target.kind)
    info = json.loads(io.text(f"info.{number}"))
    properties: dict[str, str | int] = {
        OPT_LEVEL: target.opt_level,
        TARGET: name,
        KERNELS: json.dumps(info["kernels"], separators=(",", ":"), ensure_ascii=False),
        TRIPLE: target.triple,
        ARCH: facts.arch(target.chip, target.features),
    }
    if facts.lists_features and target.features:
        properties[FEATURES] = target.features
    if target.sanitize:
        properties[SANITIZE] = ",".join(target.sanitize)
    if not given and facts.carries_assembly(target.chip):
        properties[ASM] = io.text(f"asm.{number}")
    kind = Format(given or Format.BIN)
    table = info.get("table", "")
    return ObjectData(
        target=target_attr(target),
        data=_data(number, target, given, io),
        properties=properties,
        format=_FORMATS[kind],
        kernels=table if kind in (Format.BIN, Format.FATBIN) else without_metadata(table),
    )


def _data(number: int, target: Target, given: str, io: StepIO) -> bytes:
    if given == Format.OFFLOAD:
        from gpubuild.engine.ir import llvm  # few bundles need it

        text = io.text(f"llvm.{number}")
        return llvm.emit_bitcode(llvm.parse_assembly(text, llvm.new_context(), name="optimised LLVM IR"))
    if given == Format.FATBIN:
        packer = import_module(f"{vendor(target.kind).backend}.fatbin")
        packed: bytes = packer.pack(target, io.read(f"object.{number}"), io.read(f"asm.{number}"), io)
        return packed
    return io.read(f"asm.{number}" if given == Format.ASSEMBLY else f"object.{number}")


def _check_handler(params: BundleParams, module: ir.Module) -> None:
    """Raise ``StepError`` for a wrong selection: upstream's error, in the host step, has no reason."""
    binary = binaries(module)[params.module]
    handler = binary.attributes["offloadingHandler"]
    targets = [item.target for item in read_objects(binary)]
    if _selects(str(handler)) and _selected(str(handler), targets) is None:
        listed = "\n".join(f"  {number}: {target}" for number, target in enumerate(targets))
        raise StepError(
            f"the offloading handler of gpu.module @{params.module} selects none of its objects: {handler}",
            output=f"its objects are\n{listed}",
            hint="select by index, or by a target written like one of these",
        )


def keep_selected(binary: ir.Operation) -> int | None:
    """Remove the objects that the handler of ``binary`` does not select; return the number of the other.

    Returns ``None``, and removes nothing, for handlers of other dialects.
    """
    objects = read_objects(binary)
    number = _selected(str(binary.attributes["offloadingHandler"]), [item.target for item in objects])
    if number is not None:
        replace_objects(binary, objects[number])
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


def write_images(path: Path, module: str, objects: Sequence[ObjectData], triple: str) -> None:
    """Write an ELF object with one container of all images, and its size, for host code to refer to.

    It is in section ``.llvm.offloading``, where LLVM's tools look for images.
    """
    from gpubuild.engine.ir import llvm, resource_objects  # loaded by bundles only

    pieces = parts([image for item in objects for image in images(item, module)])
    size = sum(map(len, pieces))
    large = size > _LARGE_BYTES
    data = b"\0" if large else b"".join(pieces)
    name = escaped(images_symbol(module).encode())
    text = (
        f'@"{name}" = hidden constant [{len(data)} x i8] c"{escaped(data)}", section "{OFFLOAD_SECTION}", '
        f'align 8\n@"{name}.size" = hidden constant i64 {size}\n'
    )
    machine = llvm.target_machine(triple, "generic", "", 0)
    made = llvm.parse_assembly(text, llvm.new_context(), name="images")
    llvm.set_target(made, machine)
    code = llvm.emit_object(made, machine)
    resource_objects.write_sections(path, code, {OFFLOAD_SECTION: pieces} if large else {})


def images_symbol(module: str) -> str:
    """Return the name of the container of a module's images."""
    return f"gpubuild.images.{module}"


def refer_to_images(text: str, modules: Iterable[str]) -> str:
    """Let the LLVM IR of host code load the images of ``modules`` from other objects.

    ``text`` is upstream's translation of the binaries that :func:`keep_place` left.
    """
    for module in modules:
        images = escaped(images_symbol(module).encode())
        own = escaped(f"{module}_binary".encode()).replace(r"\5C", r"\\")  # as LLVM prints it
        own = rf'@(?:"{re.escape(own)}"|{re.escape(own)})'
        definition = re.compile(rf"^{own} = internal constant .*$", re.MULTILINE)
        load = re.compile(rf"^( *)(.* = call ptr @mgpuModuleLoad\(ptr ){own}, i64 \d+\)", re.MULTILINE)
        declared = (
            f'@"{images}" = external hidden constant i8\n@"{images}.size" = external hidden constant i64'
        )
        call = load.search(text)
        if call is None or definition.search(text) is None:
            raise StepError(f"the host part does not load the binary of gpu.module @{module}")
        size = f'{call[1]}%gpubuild.size = load i64, ptr @"{images}.size"\n'
        changed = f'{size}{call[1]}{call[2]}@"{images}", i64 %gpubuild.size)'
        literal = declared.replace("\\", r"\\")  # in a substitution by a regular expression
        text = definition.sub(literal, text.replace(call[0], changed))
    return text


def keep_place(binary: ir.Operation) -> None:
    """Let a gpu.binary have one object without content, for :func:`refer_to_images`."""
    replace_objects(binary, ObjectData(target="#nvvm.target", data=b"", properties={}, format=FATBIN))


def replace_objects(binary: ir.Operation, item: ObjectData) -> None:
    """Replace the objects of a gpu.binary by ``item``."""
    binary.attributes["objects"] = objects_attribute([item])
    binary.attributes["offloadingHandler"] = ir.Attribute.parse("#gpu.select_object<0>")


def container_strings(item: ObjectData, module: str) -> dict[str, str]:
    """Return the strings of a container's entry for one object of a bundle."""
    properties = {name: str(value) for name, value in item.properties.items()}
    return {
        "triple": properties[TRIPLE],
        "arch": properties[ARCH],
        "gpubuild.module": module,
        **{name: properties[name] for name in (TARGET, KERNELS, FEATURES, SANITIZE) if name in properties},
    }


def images(item: ObjectData, module: str) -> list[Image]:
    """Return the images of one object of a bundle: machine code, and assembly if it contains any."""
    strings = container_strings(item, module)
    vendor = of_triple(strings["triple"])
    image_kind, offload_kind = vendor.kinds_of(strings["triple"]) if vendor else _OTHER
    if vendor and item.format == ASSEMBLY:
        return [_assembly(vendor, offload_kind, strings, item.data)]
    if item.format == FATBIN:
        image_kind = ImageKind.FATBINARY
    found = [Image(image_kind=image_kind, offload_kind=offload_kind, strings=strings, data=item.data)]
    if vendor and ASM in item.properties:
        found.append(_assembly(vendor, offload_kind, strings, str(item.properties[ASM]).encode()))
    return found


def _assembly(vendor: Vendor, kind: OffloadKind, strings: dict[str, str], text: bytes) -> Image:
    """Return an image of assembly; NVIDIA's driver reads PTX up to a NUL."""
    return Image(
        image_kind=vendor.asm_kind, offload_kind=kind, strings=strings, data=text.rstrip(b"\0") + b"\0"
    )
