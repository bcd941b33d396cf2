"""Write host objects that clang-linker-wrapper links (``offload: clang``).

The wrapper reads relocatable device code from section ``.llvm.offloading`` of its inputs, links it for
each triple and chip, and puts the images into the program. It generates constructors that pass them,
and the entries in section ``llvm_offload_entries``, to registration functions of the HIP, CUDA and
OpenMP runtimes, which gpubuild's runtime defines (runtime/core/clang_registration.c).

A program passes a record to ``mgpuModuleLoad``: an OffloadBinary container with an entry, but no bytes,
for each target. The offload entries of a module have addresses in its record, by which the runtime
finds the module's images among the registered ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from mlir import ir

from gpubuild.engine.host import gpu_binary
from gpubuild.engine.host.gpu_binary import FATBIN, ObjectData
from gpubuild.errors import StepError
from gpubuild.model.offload_binary import SECTION, Image, pack
from gpubuild.support.frozen import frozen
from gpubuild.support.text import escaped
from gpubuild.targets.registry import of_triple
from gpubuild.targets.vendor import ImageKind, ImageKinds, OffloadKind

_OTHER = ImageKinds(ImageKind.OBJECT, OffloadKind.OPENMP)
_ENTRIES = "llvm_offload_entries"
_ENTRY_VERSION = 1
# llvm/Frontend/Offloading/Utility.h: reserved, version, kind, flags, address, name, size, data, more.
_ENTRY = "{ i64, i16, i16, i32, ptr, ptr, i64, i64, ptr }"
_USED = re.compile(r"^@llvm\.compiler\.used = ", re.MULTILINE)


@frozen
class Carried:
    """Device code of one module: a container for the wrapper, and the kernels to register."""

    module: str
    container: bytes
    kernels: tuple[str, ...]
    kinds: tuple[OffloadKind, ...]


def embed_record(binary: ir.Operation, module: str, devices: Sequence[bytes]) -> Carried:
    """Replace the objects of a gpu.binary by the module's record.

    ``devices`` is the relocatable code of the objects, in order.
    """
    objects = gpu_binary.read_objects(binary)
    carried, described = [], []
    kernels: dict[str, None] = {}
    for item, code in zip(objects, devices, strict=True):
        strings = gpu_binary.container_strings(item, module)
        vendor = of_triple(strings["triple"])
        image_kind, offload_kind = vendor.relocatable_kinds if vendor else _OTHER
        described.append(Image(image_kind=image_kind, offload_kind=offload_kind, strings=strings, data=b""))
        # No other strings: for the wrapper, images with different strings are for different devices.
        strings = {name: strings[name] for name in ("triple", "arch")}
        carried.append(Image(image_kind=image_kind, offload_kind=offload_kind, strings=strings, data=code))
        listed = json.loads(str(item.properties[gpu_binary.KERNELS]))
        kernels.update(dict.fromkeys(kernel["name"] for kernel in listed))
    record = ObjectData(target=objects[0].target, data=pack(described), properties={}, format=FATBIN)
    gpu_binary.replace_objects(binary, record)
    return Carried(
        module=module,
        container=pack(carried),
        kernels=tuple(kernels),
        kinds=tuple(dict.fromkeys(image.offload_kind for image in carried)),  # type: ignore[misc]
    )


def with_device_code(text: str, modules: Sequence[Carried]) -> str:
    """Add the device code of modules and their entries to the LLVM IR text of a host part."""
    if not modules:
        return text
    if _USED.search(text):
        raise StepError(
            "the host part defines @llvm.compiler.used, which is reserved for `offload: clang`",
            hint="remove it, or use offload: dispatch",
        )
    lines, used = [], []

    def define(name: str, what: str) -> str:
        quoted = f'@"{escaped(name.encode())}"'
        lines.append(f"{quoted} = {what}")
        return quoted

    for module in modules:
        container = define(
            f"gpubuild.device.{module.module}",
            f'internal constant {_bytes(module.container)}, section "{SECTION}", align 8, !exclude !{{}}',
        )
        used.append(container)
        record = f'@"{escaped(f"{module.module}_binary".encode())}"'
        for number, kernel in enumerate(module.kernels):
            name = define(
                f"gpubuild.kernel.{module.module}.{kernel}",
                f"internal unnamed_addr constant {_bytes(kernel.encode() + bytes(1))}",
            )
            # Each kernel has another address in the record, which is longer than their number.
            address = f"ptr getelementptr (i8, ptr {record}, i64 {number})"
            for kind in module.kinds:
                entry = define(
                    f"gpubuild.entry.{module.module}.{kernel}.{kind.name.lower()}",
                    f"internal constant {_ENTRY} {{ i64 0, i16 {_ENTRY_VERSION}, i16 {int(kind)}, i32 0, "
                    f'{address}, ptr {name}, i64 0, i64 0, ptr null }}, section "{_ENTRIES}", align 8',
                )
                used.append(entry)
    listed = ", ".join(f"ptr {name}" for name in used)
    kept = f'appending global [{len(used)} x ptr] [{listed}], section "llvm.metadata"'
    lines.append(f"@llvm.compiler.used = {kept}")
    return text + "\n" + "\n".join(lines) + "\n"


def _bytes(data: bytes) -> str:
    return f'[{len(data)} x i8] c"{escaped(data)}"'
