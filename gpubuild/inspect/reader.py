"""Read a file of unknown kind and list its device images."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import gpubuild
from gpubuild.errors import UsageError
from gpubuild.inspect.elf import MAGIC, DamagedError, Elf, reading
from gpubuild.inspect.records import (
    Inspection,
    Kernel,
    Module,
    Object,
    describe_image,
    kind_of_triple,
)
from gpubuild.inspect.registered import registered_images
from gpubuild.model import offload_binary
from gpubuild.model.offload_binary import Image
from gpubuild.support.frozen import replace
from gpubuild.support.plain_data import typed
from gpubuild.targets.registry import vendors
from gpubuild.targets.vendor import ImageKind
from gpubuild.toolchain.run import run_tool

# All others are machine code.
_FORMATS: dict[int, str] = {
    ImageKind.BITCODE: "offload",
    ImageKind.FATBINARY: "fatbin",
    ImageKind.PTX: "assembly",
}
_KEYWORD = b"gpu.binary"
_ARCHIVE, _MEMBER_HEADER_BYTES = b"!<arch>\n", 60
# A process of its own: MLIR may crash on a file of unknown origin.
_READER = "gpubuild.engine.host.binary_images"
_BLOB_SUFFIX = "_binary"  # upstream's #gpu.select_object names its global @<module>_binary


def inspect_file(path: Path) -> Inspection:
    """Read an executable, object file, container, device image, PTX or ``.mlir`` with gpu.binary.

    Raises ``UsageError`` when the file cannot be read, is none of these, is damaged, or carries
    no device image.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        hint = "build it first, or name another file" if isinstance(error, FileNotFoundError) else ""
        raise UsageError(f"cannot read {path}: {error.strerror}", hint=hint) from error
    try:
        modules = _modules(data)
    except DamagedError as error:
        raise UsageError(f"{path}: {error}") from error
    if modules is None:
        raise UsageError(
            f"{path} is not a file that carries device images",
            hint="inspect takes executables, .o, .so, .a, cubin, hsaco, PTX, offload containers and .mlir "
            "with a gpu.binary",
        )
    if not modules:
        raise UsageError(
            f"{path} carries no device image",
            hint="the images of a select_object program are found by symbols, which `strip` removes",
        )
    return Inspection(file=str(path), modules=tuple(modules))


def _modules(data: bytes) -> list[Module] | None:
    if data.startswith(_ARCHIVE):
        return [module for member in _members(data) for module in _modules(member) or ()]
    if data.startswith(offload_binary.MAGIC):
        return _container(data)
    if data.startswith(MAGIC):
        with reading("ELF file"):
            elf = Elf(data)
            if elf.machine not in {vendor.elf_machine for vendor in vendors()}:
                registered = registered_images(elf)
                if registered:  # the section holds parts of them, without names
                    return _grouped(registered, relinked=True) + _blobs(elf)
                found = _container(elf.bytes_of(offload_binary.SECTION)) + _blobs(elf)
                if found:
                    return found
        image = _raw(data)
        return [image] if image else []
    image = _raw(data)
    if image:
        return [image]
    return _from_text(data) if _KEYWORD in data else None


def _members(archive: bytes) -> Iterator[bytes]:
    """Yield the objects in a static library."""
    at = len(_ARCHIVE)
    while at + _MEMBER_HEADER_BYTES <= len(archive):
        with reading("archive"):
            size = int(archive[at + 48 : at + 58])
            if size < 0:
                raise DamagedError("the size of an archive's member is negative")
        at += _MEMBER_HEADER_BYTES
        if archive.startswith(MAGIC, at):
            yield archive[at : at + size]
        at += size + size % 2


def _raw(data: bytes) -> Module | None:
    found = describe_image(data)
    return Module(name=found.module, objects=(found,)) if found else None


def _container(data: bytes) -> list[Module]:
    with reading("offload container"):
        return _grouped(offload_binary.unpack(data))


def _grouped(images: list[Image], *, relinked: bool = False, tables: bool = False) -> list[Module]:
    """Return the modules of ``images``; with ``tables`` each image has a kernel table, written by us."""
    objects: dict[tuple[str | None, str | None], list[Object]] = {}
    for image in images:
        item = _container_object(image, relinked=relinked)
        if tables:
            item = _with_table(item, image.strings["gpubuild.table"])
        name, handler = image.strings.get("gpubuild.module"), image.strings.get("gpubuild.handler")
        objects.setdefault((name, handler), []).append(item)
    return [
        Module(name=name, handler=handler, objects=tuple(items)) for (name, handler), items in objects.items()
    ]


def _container_object(image: Image, *, relinked: bool) -> Object:
    found = _lenient(image.data) or Object(format="bin")
    triple = image.strings.get("triple") or found.triple
    kernels = _kernels(image.strings.get("gpubuild.kernels"))
    if kernels is not None and image.image_kind == ImageKind.PTX:
        # The note is about the machine code beside it; the driver allocates registers again.
        kernels = tuple(replace(kernel, registers=None, spill_bytes=None) for kernel in kernels)
    if relinked and kernels is not None and any(kernel.registers is not None for kernel in found.kernels):
        # Others have made the code since the note was written, and of all modules together.
        names = [kernel.name for kernel in kernels]
        kernels = tuple(kernel for kernel in found.kernels if kernel.name in names)
    return replace(
        found,
        target=image.strings.get("gpubuild.target"),
        kind=kind_of_triple(triple),
        triple=triple,
        chip=image.strings.get("arch") or found.chip,
        format=_FORMATS.get(image.image_kind, "bin"),
        kernels=_with_code(kernels, found.kernels),
        sanitize=tuple(filter(None, image.strings.get("gpubuild.sanitize", "").split(","))),
        data=image.data,
    )


def _lenient(data: bytes) -> Object | None:
    """Return an image in an intact file: a damaged image hides no other."""
    try:
        return describe_image(data)
    except DamagedError:
        return None


_NOTED = ("name", "registers", "shared_bytes", "spill_bytes", "tier", "tier_reason")
_ONLY_IN_IMAGES = ("code_bytes", "parameters", "workgroup_size", "subgroup_size")


def _kernels(text: str | None) -> tuple[Kernel, ...] | None:
    """Return the kernels that the build recorded beside the image; ``None`` if it did not."""
    try:
        entries = json.loads(text or "")
        return tuple(typed(Kernel, {n: entry[n] for n in _NOTED if n in entry}) for entry in entries)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _with_code(noted: tuple[Kernel, ...] | None, listed: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    """Return what the build recorded, with what only the image has, of ``listed``."""
    if noted is None:
        return listed
    images = {kernel.name: kernel for kernel in listed}
    found = []
    for kernel in noted:
        image = images.get(kernel.name, kernel)
        only = {name: getattr(image, name) for name in _ONLY_IN_IMAGES}
        found.append(replace(kernel, **only))
    return tuple(found)


def _with_table(item: Object, text: str) -> Object:
    """Return ``item`` with the entries of its kernel table, and with kernels that only the table lists."""
    entries = {entry.pop("name"): entry for entry in json.loads(text)}
    known = tuple(replace(kernel, table=entries.pop(kernel.name, None)) for kernel in item.kernels)
    others = tuple(Kernel(name=name, table=entry) for name, entry in entries.items())
    return replace(item, kernels=known + others)


def _blobs(elf: Elf) -> list[Module]:
    """Return images embedded by ``#gpu.select_object``: the data of variables ``@<module>_binary``."""
    found = []
    for name, data in elf.symbols():
        module = name.removesuffix(_BLOB_SUFFIX)
        if module == name or not module or data.startswith(offload_binary.MAGIC):
            continue
        image = _lenient(data)
        if image is not None:
            found.append(Module(name=module, objects=(image,)))
    return found


def _from_text(data: bytes) -> list[Module]:
    """Return the modules of MLIR text. Raises ``DamagedError`` for text that MLIR does not parse."""
    with TemporaryDirectory(prefix="gpubuild-inspect-") as folder:
        given, made = Path(folder) / "given.mlir", Path(folder) / "images"
        given.write_bytes(data)
        done = run_tool(
            [sys.executable, "-m", _READER, given, made],
            cwd=Path(folder),
            environment={"PYTHONPATH": str(Path(gpubuild.__file__).parents[1])},
        )
        if done.returncode < 0:
            raise DamagedError("MLIR crashed while reading it")
        if done.returncode:
            raise DamagedError(done.output.strip())
        return _grouped(offload_binary.unpack(made.read_bytes()), tables=True)
