"""Vendor: the facts of one kind of target, and the names of the modules that compile for it and read it.

A vendor is a module beside this one with an instance of a class of its own, a line in
``targets.registry``, a package of the engine that compiles for it, and a module that reads its images.
Nothing else compares kinds: what differs between them is asked of the vendor.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import NamedTuple

from gpubuild.errors import UsageError
from gpubuild.support.frozen import frozen
from gpubuild.support.text import any_of, nearest

_LISTED = 12  # names of a family that a message shows
WORKGROUP = 256  # work-items of a workgroup whose occupancy is estimated by default


class ImageKind(IntEnum):
    """What the bytes of an image are (LLVM's numbers)."""

    NONE = 0
    OBJECT = 1
    BITCODE = 2
    CUBIN = 3
    FATBINARY = 4
    PTX = 5
    SPIRV = 6


class OffloadKind(IntEnum):
    """Which runtime an image is for (LLVM's numbers). CPU images say ``NONE``."""

    NONE = 0
    OPENMP = 1
    CUDA = 2
    HIP = 4
    SYCL = 8


class Format(StrEnum):
    """What a ``#gpu.object`` contains: MLIR's words."""

    OFFLOAD = "offload"  # LLVM bitcode
    ASSEMBLY = "assembly"
    BIN = "bin"
    FATBIN = "fatbin"


class ImageKinds(NamedTuple):
    """How an offload container describes an image."""

    image: ImageKind
    offload: OffloadKind


class Flaw(NamedTuple):
    """What is wrong with the name of a chip or a feature, and what to write instead."""

    message: str
    hint: str


@frozen
class Occupancy:
    """``percent`` of the subgroups that fit; ``limit`` is what keeps it from being more."""

    percent: int
    limit: str  # registers, shared, workgroups; empty when all fit


class Vendor(ABC):
    """The facts of one kind of target. LLVM only warns about chips and features it does not know, so
    they are checked here, from tables: planning must load no LLVM.
    """

    # In targets.yaml and in messages.
    kind: str
    maker: str
    noun: str  # "an NVIDIA chip"
    example: str  # a chip
    products: Mapping[str, str] = MappingProxyType({})  # chips by names of products, such as "h100"
    sanitizes: bool = False  # `sanitize:` is possible
    reads_host_memory: bool = False  # kernels can access all memory of the program
    native_chip: str = ""  # the chip that stands for the CPU of the machine that builds

    # LLVM's triples. Without `triple` the default depends on the machine.
    triple: str = ""
    architectures: tuple[str, ...]  # the first parts of triples that are of this kind

    # MLIR: the dialect of the target attribute that describes a target of this kind, what the attribute
    # means where it leaves the chip out, and the dialects of lowered modules that are compiled, besides
    # `gpu` and `llvm`.
    attribute: str = "nvvm"
    attribute_chip: str
    dialects: frozenset[str] = frozenset()
    compiles_bitcode: bool = False  # objects of format `offload` can be compiled further
    upstream_serializes: bool = False  # the pinned MLIR has the code generator for gpu-module-to-binary

    # The words of the attribute's `flags` besides `fast`, and what each does. `fast_flags` are those that
    # `fast_math` of targets.yaml sets as well. `assembler_flag` is the flag with options for the vendor's
    # assembler, `assembler_key` the key of targets.yaml for them. `abis` are the versions of the ABI that
    # code objects can have, where the attribute has one; MLIR's default comes first.
    flags: Mapping[str, str] = MappingProxyType({})
    fast_flags: tuple[str, ...] = ()
    assembler_flag: str = ""
    assembler_key: str = ""
    abis: tuple[str, ...] = ()

    # What a `#gpu.object` can contain (`format:`), and which of these the runtime loads. With `fatbin`,
    # the back end has a module of that name; the tools are those of the bundle step.
    formats: tuple[Format, ...] = (Format.BIN,)
    loaded_formats: tuple[Format, ...] = (Format.BIN,)
    fatbin_tools: tuple[str, ...] = ()

    # Artefacts: suffixes of files, and what containers say of images. `elf_machine` is the number of
    # device ELF images of this kind, where no host has the same.
    asm_suffix: str
    object_suffix: str
    relocatable_suffix: str  # with `offload: clang` only
    image_kinds: ImageKinds
    relocatable_kinds: ImageKinds
    asm_kind: ImageKind = ImageKind.NONE  # of the assembly, where images carry it for later chips
    assembly_on_demand: bool = False  # the object is made without it
    lists_features: bool = False  # an image says which features it needs beyond those of its chip
    elf_machine: int | None = None

    # Tools, beside those of every compile step. Some modules need the optional ones.
    tools: tuple[str, ...]
    optional_tools: tuple[str, ...] = ()
    clang_tools: tuple[str, ...] = ()  # of the link step with `offload: clang`
    disassembler_fix: str

    # Loaded by name where they are needed: a package with a module `compile`, which has
    # `run(params, io)`; a module with `describe(data, elf)`.
    backend: str
    image_reader: str

    @abstractmethod
    def implied_by(self, name: str) -> bool:
        """Whether a target or chip of this name is of this kind, without the kind being given."""

    def default_chip(self, name: str, machine: str) -> str:
        """Return the chip of a target called ``name`` without ``chip:``; empty if it must have one."""
        return name if self.implied_by(name) else ""

    def faster_chip(self, name: str, chip: str, machine: str) -> str:
        """Return the chip of this machine if its code is faster than the default's, ``chip``; else empty."""
        return ""

    def default_triple(self, chip: str, machine: str) -> str:
        """Return the triple of a target without ``triple:``, on ``machine``."""
        return self.triple

    def owns(self, triple: str) -> bool:
        """Whether ``triple`` is of this kind."""
        return triple.partition("-")[0] in self.architectures

    @abstractmethod
    def chips(self, triple: str) -> frozenset[str]:
        """Return all chips that the compiler knows."""

    @abstractmethod
    def features(self, triple: str) -> frozenset[str]:
        """Return all features, without signs."""

    def chip_flaw(self, chip: str, triple: str) -> Flaw | None:
        """Return what is wrong with ``chip``."""
        chips = self.chips(triple)
        if chip in chips:
            return None
        hint = f"write {meant}" if (meant := self.chip_of_product(chip)) else _suggestion(chip, chips)
        return Flaw(f"unknown {self.maker} chip {chip!r}", hint)

    def chip_of_product(self, name: str) -> str:
        """Return the chip of a product such as ``H100``; empty if it is not in ``products``."""
        word = re.sub(r"[^a-z0-9]|nvidia|geforce|amd|instinct|radeon|rtx|rx", "", name.lower())
        return self.products.get(word, "")

    def feature_flaw(self, feature: str, chip: str, triple: str) -> Flaw | None:
        """Return what is wrong with ``feature``, which has its sign, such as ``+ptx80``."""
        sign, name = feature[:1], feature[1:]
        if sign not in ("+", "-"):
            return Flaw(
                f"feature {feature!r} of {chip} has no sign",
                f"write +{feature} to switch it on or -{feature} to switch it off",
            )
        known = self.features(triple)
        if name in known:
            return None
        return Flaw(f"unknown feature {name!r} for {chip}", _suggestion(name, known))

    def with_fast_flags(self, flags: Sequence[str], *, fast_math: bool) -> tuple[str, ...]:
        """Return ``flags`` with those that ``fast_math`` of targets.yaml sets, sorted."""
        return tuple(sorted({*flags, *(self.fast_flags if fast_math else ())}))

    def format_flaw(self, given: str) -> Flaw | None:
        """Return what is wrong with the format of objects."""
        if given in self.formats:
            return None
        return Flaw(
            f"targets of kind {self.kind} have no objects of format {given}", f"use {any_of(self.formats)}"
        )

    def flags_flaw(self, flags: Sequence[str], chip: str, features: str) -> Flaw | None:
        """Return what is wrong with ``flags``, words of the attribute's ``flags`` besides ``fast``."""
        known = frozenset({"fast", *self.flags, *filter(None, (self.assembler_flag,))})
        for flag in flags:
            if flag not in self.flags:
                return Flaw(f"unknown flag {flag!r} for {self.noun}", _suggestion(flag, known))
        return None

    def abi_flaw(self, abi: str, chip: str) -> Flaw | None:
        """Return what is wrong with the ABI version ``abi``."""
        if abi in self.abis:
            return None
        if not self.abis:
            return Flaw(f"targets of kind {self.kind} have no ABI version", "leave 'abi' out")
        return Flaw(f"unknown ABI version {abi!r} for {self.noun}", f"use {any_of(self.abis)}")

    def assembler_flaw(self, options: Sequence[str]) -> Flaw | None:
        """Return what is wrong with ``options`` of the assembler, which reports unknown ones itself."""
        if options and not self.assembler_flag:
            return Flaw(f"targets of kind {self.kind} have no options of an assembler", "leave them out")
        return None

    def check(self, chip: str, features: str, triple: str) -> None:
        """Raise ``UsageError`` for the first flaw; ``features`` are joined by commas."""
        flaws = (self.feature_flaw(feature, chip, triple) for feature in split_features(features))
        flaw = self.chip_flaw(chip, triple) or next(filter(None, flaws), None)
        if flaw is not None:
            raise UsageError(flaw.message, hint=flaw.hint)

    def processor(self, chip: str) -> str:
        """Return LLVM's name of the chip."""
        return chip

    def arch(self, chip: str, features: str) -> str:
        """Return the device in a container: the chip, with the settings that distinguish images."""
        return chip

    def kinds_of(self, triple: str) -> ImageKinds:
        """Return how a container describes images; the runtime is ``NONE`` for a triple that none loads."""
        if self.triple not in ("", triple):
            return ImageKinds(ImageKind.OBJECT, OffloadKind.NONE)
        return self.image_kinds

    def carries_assembly(self, chip: str) -> bool:
        """Whether images for ``chip`` carry their assembly, which later chips can run."""
        return False

    def clang_flaw(self, chip: str, triple: str) -> str:
        """Return why clang-linker-wrapper cannot link code for ``chip``; empty if it can."""
        return ""

    def linked_together(self, one: tuple[str, str], other: tuple[str, str]) -> bool:
        """Whether clang-linker-wrapper makes one image for two pairs of a chip and features."""
        return one[0] == other[0]

    def subgroup_size(self, chip: str, features: str) -> int:
        """Return the number of work-items in a subgroup."""
        return 32

    def exchanges_lanes(self, chip: str) -> bool:
        """Whether work-items of a subgroup can read each other's registers."""
        return True

    def has_clusters(self, chip: str) -> bool:
        """Whether workgroups form clusters."""
        return False

    def multiplies_matrices(self, chip: str) -> bool:
        """Whether the chip has the units of ``gpu.subgroup_mma_compute``."""
        return False

    def workgroup_bytes(self, chip: str) -> int | None:
        """Return the limit of static workgroup memory in bytes; ``None`` for no limit."""
        return None

    def occupancy(
        self,
        chip: str,
        registers: int,
        shared_bytes: int,
        workgroup: int = WORKGROUP,
    ) -> Occupancy | None:
        """Return the share of subgroups of a kernel that can be resident on one unit.

        An estimate from registers and static workgroup memory alone; ``None`` where the limits are not
        known. ``chip`` is what :meth:`arch` says.
        """
        return None

    def why_no_occupancy(self, chip: str) -> str:
        """Return why there is no estimate for ``chip``; empty if there is one, or none makes sense."""
        return ""

    @abstractmethod
    def disassemblers(self, chip: str) -> Iterator[tuple[str, ...]]:
        """Return commands that print the code of an image, in the order to try; the file is appended."""


def split_features(features: str) -> list[str]:
    """Return the single features of an LLVM string such as ``+sramecc,-xnack``."""
    return [feature for part in features.split(",") if (feature := part.strip())]


def names(text: str) -> frozenset[str]:
    """Return the words of a table."""
    return frozenset(text.split())


def fitting(found: dict[str, int], most: int, subgroups: int, total: int) -> Occupancy:
    """Return the occupancy if ``found`` workgroups fit by each resource, and ``most`` at all.

    A workgroup has ``subgroups`` of the ``total`` that a unit can hold.
    """
    least = min(found, key=lambda name: found[name])
    resident = min(found[least], most)
    percent = round(100 * resident * subgroups / total)
    full = "workgroups" if percent < 100 else ""
    limit = least if resident < most else full
    return Occupancy(percent=percent, limit=limit)


def _suggestion(name: str, known: frozenset[str]) -> str:
    family = sorted(known)
    lower = {word.lower(): word for word in family}
    if close := nearest(name.lower(), list(lower), 3):
        return "did you mean " + " or ".join(lower[word] for word in close) + "?"
    more = len(family) - _LISTED
    return f"known names are {', '.join(family[:_LISTED])}" + (f" and {more} more" if more > 0 else "")
