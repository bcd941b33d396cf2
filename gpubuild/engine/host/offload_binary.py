"""Offload: the engine's name for LLVM's OffloadBinary container (``model.offload_binary``)."""

from __future__ import annotations

from gpubuild.model.offload_binary import (
    ALIGNMENT_BYTES,
    MAGIC,
    SECTION,
    VERSION,
    Image,
    ImageKind,
    OffloadKind,
    pack,
    unpack,
)

__all__ = [
    "ALIGNMENT_BYTES",
    "MAGIC",
    "SECTION",
    "VERSION",
    "Image",
    "ImageKind",
    "OffloadKind",
    "pack",
    "unpack",
]
