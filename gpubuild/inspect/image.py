"""Image: what a device image says about itself, whatever its format."""

from __future__ import annotations

from dataclasses import dataclass

from gpubuild.inspect import cpu_image, cubin, hsaco, ptx
from gpubuild.inspect.elf import EM_AARCH64, EM_AMDGPU, EM_CUDA, EM_X86_64, MAGIC, Elf, reading
from gpubuild.inspect.records import Kernel, triple_of_kind
from gpubuild.targets.target import Kind, cpu_triple

_BITCODE = b"BC\xc0\xde"
_FATBINARY = b"\x50\xed\x55\xba"
_CPU_MACHINES = {EM_X86_64: "x86_64", EM_AARCH64: "aarch64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFacts:
    """What was recognised. ``format`` and the rest are as in :class:`inspection.Object`."""

    kind: Kind | None = None
    triple: str | None = None
    chip: str | None = None
    format: str
    module: str | None = None
    kernels: tuple[Kernel, ...] = ()
    sanitize: tuple[str, ...] = ()


def describe_image(data: bytes) -> ImageFacts | None:
    """Recognise an image by its content; ``None`` for what is none. Raises ``DamagedError``."""
    if data.startswith(MAGIC):
        with reading("ELF image"):
            return _describe_elf(Elf(data))
    if data.startswith(_BITCODE):
        return ImageFacts(format="offload")
    if data.startswith(_FATBINARY):
        return ImageFacts(format="fatbin", kind=Kind.NVVM, triple=triple_of_kind(Kind.NVVM))
    text = _text(data)
    if text is not None and ptx.is_ptx(text):
        chip, names = ptx.describe(text)
        return ImageFacts(
            format="assembly",
            kind=Kind.NVVM,
            triple=triple_of_kind(Kind.NVVM),
            chip=chip,
            kernels=tuple(Kernel(name=name) for name in names),
        )
    return None


def _describe_elf(elf: Elf) -> ImageFacts | None:
    if elf.machine == EM_CUDA:
        return _gpu(Kind.NVVM, cubin.chip(elf), cubin.kernels(elf))
    if elf.machine == EM_AMDGPU:
        chip, kernels = hsaco.describe(elf)
        return _gpu(Kind.ROCDL, chip, kernels)
    if elf.machine in _CPU_MACHINES and cpu_image.is_cpu_image(elf):
        module, kernels = cpu_image.describe(elf)
        return ImageFacts(
            format="bin",
            kind=Kind.CPU,
            triple=cpu_triple(_CPU_MACHINES[elf.machine]),
            module=module,
            kernels=tuple(kernels),
            sanitize=cpu_image.checks(elf),
        )
    return None


def _gpu(kind: Kind, chip: str | None, kernels: list[Kernel]) -> ImageFacts:
    return ImageFacts(format="bin", kind=kind, triple=triple_of_kind(kind), chip=chip, kernels=tuple(kernels))


def _text(data: bytes) -> str | None:
    data = data.rstrip(b"\0")
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
