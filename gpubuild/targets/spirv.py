"""SPIR-V: facts of the kind ``spirv``, devices that take SPIR-V through OpenCL.

Chips are versions of SPIR-V; a driver lists those that its device takes (CL_DEVICE_IL_VERSION).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpubuild.targets.vendor import ImageKind, ImageKinds, OffloadKind, Vendor, names

_NAME = re.compile(r"spirv(1\.[2-6])?")
_DEFAULT = "spirv1.3"  # the first with operations on subgroups
_TRIPLE = "spirv64v{version}-unknown-unknown"
SUBGROUP = 32  # work-items; kernels that use subgroups require it


class Spirv(Vendor):
    """Devices with OpenCL that take SPIR-V, such as Intel's GPUs and CPUs."""

    kind = "spirv"
    maker = "SPIR-V"
    noun = "a SPIR-V version"
    example = "spirv1.3"
    architectures = ("spirv64",)
    attribute = "xevm"
    attribute_chip = "bmg"
    asm_suffix, object_suffix, relocatable_suffix = "spvasm", "spv", "bc"
    image_kinds = ImageKinds(ImageKind.SPIRV, OffloadKind.SYCL)
    relocatable_kinds = ImageKinds(ImageKind.BITCODE, OffloadKind.SYCL)
    assembly_on_demand = True
    tools = ("llvmlite",)
    disassembler_fix = "install spirv-dis (Debian: spirv-tools)"
    backend = "gpubuild.engine.backends.spirv"
    image_reader = "gpubuild.inspect.spirv"

    def implied_by(self, name: str) -> bool:
        return _NAME.fullmatch(name) is not None

    def default_chip(self, name: str, machine: str) -> str:
        return _DEFAULT if name == "spirv" else super().default_chip(name, machine)

    def default_triple(self, chip: str, machine: str) -> str:
        return _TRIPLE.format(version=chip.removeprefix("spirv"))

    def owns(self, triple: str) -> bool:
        return triple.startswith("spirv64")

    def chips(self, triple: str) -> frozenset[str]:
        return names("spirv1.2 spirv1.3 spirv1.4 spirv1.5 spirv1.6")

    def features(self, triple: str) -> frozenset[str]:
        return frozenset()  # extensions of SPIR-V are not used

    def processor(self, chip: str) -> str:
        return ""  # the version is a part of the triple

    def clang_flaw(self, chip: str, triple: str) -> str:
        return "clang-linker-wrapper links no OpenCL kernels"

    def subgroup_size(self, chip: str, features: str) -> int:
        return SUBGROUP

    def disassemblers(self, chip: str) -> Iterator[tuple[str, ...]]:
        yield ("spirv-dis",)


SPIRV = Spirv()
