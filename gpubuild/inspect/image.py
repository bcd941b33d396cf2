"""Image: what a device image says about itself, whatever its format."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from gpubuild.inspect.elf import MAGIC, Elf, reading
from gpubuild.inspect.records import ImageFacts
from gpubuild.targets.registry import vendors

_BITCODE = b"BC\xc0\xde"


def describe_image(data: bytes) -> ImageFacts | None:
    """Recognise an image by its content; ``None`` for what is none. Raises ``DamagedError``."""
    if data.startswith(_BITCODE):
        return ImageFacts(format="offload")
    with reading("ELF image"):
        elf = Elf(data) if data.startswith(MAGIC) else None
        for vendor in vendors():
            facts: ImageFacts | None = import_module(vendor.image_reader).describe(data, elf)
            if facts is not None:
                return replace(facts, kind=vendor.kind, triple=facts.triple or vendor.triple or None)
    return None
