"""Dispatch: one container per module that holds the images of all its targets."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.host import gpu_binary
from gpubuild.engine.host.gpu_binary import FATBIN, ObjectData
from gpubuild.model.offload_binary import SECTION, Image, pack
from gpubuild.targets.registry import of_triple
from gpubuild.targets.vendor import ImageKind, ImageKinds, OffloadKind, Vendor

_OTHER = ImageKinds(ImageKind.OBJECT, OffloadKind.NONE)


def embed_container(binary: ir.Operation, module: str) -> None:
    """Replace the objects of a gpu.binary by one that is all of them, for the runtime to choose from.

    Its data go into section ``.llvm.offloading``, where LLVM's tools look for images.
    """
    objects = gpu_binary.read_objects(binary)
    container = pack([image for item in objects for image in images(item, module)])
    fat = ObjectData(
        # Upstream wants some target there and does not look at it.
        target=objects[0].target,
        data=container,
        properties={gpu_binary.SECTION: SECTION},
        format=FATBIN,
    )
    binary.attributes["objects"] = gpu_binary.objects_attribute([fat])
    binary.attributes["offloadingHandler"] = ir.Attribute.parse("#gpu.select_object<0>")


def strings_of(item: ObjectData, module: str) -> dict[str, str]:
    """What the container says of one object of a bundle."""
    properties = {name: str(value) for name, value in item.properties.items()}
    strings = {
        "triple": properties[gpu_binary.TRIPLE],
        "arch": properties[gpu_binary.ARCH],
        "gpubuild.module": module,
        "gpubuild.target": properties[gpu_binary.TARGET],
        "gpubuild.kernels": properties[gpu_binary.KERNELS],
    }
    if gpu_binary.FEATURES in properties:
        strings["gpubuild.features"] = properties[gpu_binary.FEATURES]
    if gpu_binary.SANITIZE in properties:
        strings["gpubuild.sanitize"] = properties[gpu_binary.SANITIZE]
    return strings


def images(item: ObjectData, module: str) -> list[Image]:
    """The images of one object of a bundle: its machine code, and its assembly if it carries that."""
    strings = strings_of(item, module)
    vendor = of_triple(strings["triple"])
    image_kind, offload_kind = vendor.kinds_of(strings["triple"]) if vendor else _OTHER
    if vendor and item.format == gpu_binary.ASSEMBLY:
        return [_assembly(vendor, offload_kind, strings, item.data)]
    found = [Image(image_kind=image_kind, offload_kind=offload_kind, strings=strings, data=item.data)]
    if vendor and gpu_binary.ASM in item.properties:
        text = str(item.properties[gpu_binary.ASM]).encode()
        found.append(_assembly(vendor, offload_kind, strings, text))
    return found


def _assembly(vendor: Vendor, kind: OffloadKind, strings: dict[str, str], text: bytes) -> Image:
    """NVIDIA's driver reads PTX up to a NUL."""
    return Image(
        image_kind=vendor.asm_kind, offload_kind=kind, strings=strings, data=text.rstrip(b"\0") + b"\0"
    )
