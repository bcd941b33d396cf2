"""Registered: images of programs and objects of ``offload: clang`` (``engine.host.clang_offload``).

A module's record lists what it was compiled for, without the bytes. Those are where
clang-linker-wrapper has put them, one image of all modules for each chip; in objects that it has not
linked yet, in the container of the module itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpubuild.inspect.elf import Elf, reading
from gpubuild.model import offload_binary
from gpubuild.model.offload_binary import Image
from gpubuild.targets.vendor import ImageKind, OffloadKind

RECORD_SUFFIX = "_binary"
DEVICE_PREFIX = "gpubuild.device."
_BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
_COUNT = struct.Struct("<Q")
_BUNDLED = struct.Struct("<QQQ")  # offset, bytes, length of the name behind
_MOST_BUNDLED = 1 << 12


def registered_images(elf: Elf) -> list[Image]:
    """Return the images of every record, with the code that was linked for them, if any."""
    symbols = dict(elf.symbols())
    found = []
    for name, data in symbols.items():
        if name.endswith(RECORD_SUFFIX) and data.startswith(offload_binary.MAGIC):
            images = offload_binary.unpack(data)
            if any(image.data for image in images):
                continue  # a container of offload: dispatch
            module = name.removesuffix(RECORD_SUFFIX)
            found += [_filled(image, elf, symbols.get(DEVICE_PREFIX + module)) for image in images]
    return found


def _filled(image: Image, elf: Elf, device: bytes | None) -> Image:
    if device is not None and elf.bytes_of(offload_binary.SECTION):
        candidates: Iterator[Image] = iter(offload_binary.unpack(device))
    elif image.offload_kind == OffloadKind.HIP:
        return replace(image, image_kind=ImageKind.OBJECT, data=_bundled(elf, image.strings))
    elif image.offload_kind == OffloadKind.CUDA:
        return replace(image, image_kind=ImageKind.FATBINARY, data=elf.bytes_of(".nv_fatbin"))
    else:
        candidates = iter(offload_binary.unpack(elf.bytes_of(offload_binary.SECTION)))
    for other in candidates:
        if all(other.strings.get(name) == image.strings.get(name) for name in ("triple", "arch")):
            return replace(image, image_kind=other.image_kind, data=other.data)
    return image


def _bundled(elf: Elf, strings: Mapping[str, str]) -> bytes:
    """Return the code object for a chip in a file of clang-offload-bundler."""
    data = elf.bytes_of(".hip_fatbin")
    with reading("HIP bundle"):
        start = data.find(_BUNDLE)
        if start < 0:
            return b""
        at = start + len(_BUNDLE)
        (count,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size
        for _ in range(min(count, _MOST_BUNDLED)):
            offset, size, length = _BUNDLED.unpack_from(data, at)
            name = data[at + _BUNDLED.size : at + _BUNDLED.size + length].decode()
            at += _BUNDLED.size + length
            if name.endswith(f"-{strings.get('triple')}--{strings.get('arch')}"):
                return data[start + offset : start + offset + size]
    return b""
