"""Read the gpu.binary operations of MLIR text: ``python -m gpubuild.engine.host.binary_images IN OUT``.

Runs in a process of its own, which MLIR may end if ``IN`` is of unknown origin. ``OUT`` becomes an
offload container with all images; errors are printed to stderr.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from mlir import ir

from gpubuild.engine.host import gpu_binary
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.kernel_table import described
from gpubuild.engine.ir.query import operations
from gpubuild.errors import StepError
from gpubuild.model import offload_binary
from gpubuild.model.offload_binary import Image
from gpubuild.targets.registry import vendors
from gpubuild.targets.vendor import ImageKind, OffloadKind

_KINDS = {1: ImageKind.BITCODE, 2: ImageKind.PTX, 3: ImageKind.OBJECT, 4: ImageKind.FATBINARY}  # by format
_DEFAULT_HANDLER = "#gpu.select_object"


def read_images(text: str) -> list[Image]:
    """Return the objects of every gpu.binary in ``text``, in order. Raises ``StepError``."""
    with contexts.context():
        module = contexts.parse(text)
        found = operations(module.operation, ("gpu.binary",))
        return [_image(op, item) for op in found for item in gpu_binary.read_objects(op)]


def _image(binary: ir.Operation, item: gpu_binary.ObjectData) -> Image:
    attributes = binary.attributes
    if size := item.properties.get(gpu_binary.LEFT_OUT):
        name = attributes["sym_name"].value
        raise StepError(
            f"gpu.binary @{name} is without an object of {size} bytes", hint=f"inspect {name}.images.o"
        )
    handler = str(attributes["offloadingHandler"]) if "offloadingHandler" in attributes else _DEFAULT_HANDLER
    strings = {name: value for name, value in item.properties.items() if isinstance(value, str)}
    dialect = item.target.removeprefix("#").partition(".")[0]
    vendor = next((v for v in vendors() if v.attribute == dialect), None)
    triple, chip = (vendor.triple, vendor.attribute_chip) if vendor else ("", "")  # MLIR prints no defaults
    written = dict(re.findall(r'\b(triple|chip) = "([^"]*)"', item.target))
    return Image(
        image_kind=_KINDS.get(item.format, ImageKind.NONE),
        offload_kind=OffloadKind.NONE,
        strings={
            **strings,
            "gpubuild.module": attributes["sym_name"].value,
            "gpubuild.handler": handler,
            "gpubuild.table": json.dumps(described(item.kernels)),
            "triple": strings.get(gpu_binary.TRIPLE) or written.get("triple", triple),
            "arch": strings.get(gpu_binary.ARCH) or written.get("chip", chip),
        },
        data=item.data,
    )


def main() -> int:
    """Read the first file, write the second."""
    given, made = map(Path, sys.argv[1:])
    try:
        made.write_bytes(offload_binary.pack(read_images(given.read_text(encoding="utf-8"))))
    except (StepError, ValueError) as error:
        sys.stderr.write(error.render() if isinstance(error, StepError) else str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
