"""SPIR-V: facts of the kind ``spirv``, devices that take SPIR-V through OpenCL.

Chips are versions of SPIR-V, of which a driver lists those that its device takes (CL_DEVICE_IL_VERSION), and
Intel's GPUs. Features are extensions of SPIR-V, flags choose the size of subgroups.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import MappingProxyType

from gpubuild.targets.target import Target
from gpubuild.targets.vendor import Flaw, ImageKind, ImageKinds, OffloadKind, Vendor, names

_NAME = re.compile(r"spirv(1\.[2-6])?|xe")
_DEFAULT = "spirv1.3"  # the first with operations on subgroups
_TRIPLE = "spirv64v{version}-unknown-unknown"
_INTEL = frozenset({"xe", "bmg", "pvc"})  # the last two as MLIR's xevm dialect calls them
_SUBGROUP, _INTEL_SUBGROUP = 32, 16  # work-items; kernels that use subgroups require them
_SUBGROUPS = {f"subgroup{size}": size for size in (8, 16, 32)}


class Spirv(Vendor):
    """Devices with OpenCL that take SPIR-V, such as Intel's GPUs and CPUs."""

    kind = "spirv"
    maker = "SPIR-V"
    noun = "a SPIR-V version"
    example = "spirv1.3"
    products = MappingProxyType({"opencl": "spirv", "intel": "spirv"})
    architectures = ("spirv64",)
    attribute = "xevm"
    attribute_chip = "bmg"
    flags = MappingProxyType({flag: f"subgroups of {size} work-items" for flag, size in _SUBGROUPS.items()})
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
        version = _DEFAULT if chip in _INTEL else chip
        return _TRIPLE.format(version=version.removeprefix("spirv"))

    def owns(self, triple: str) -> bool:
        return triple.startswith("spirv64")

    def chips(self, triple: str) -> frozenset[str]:
        return names("spirv1.2 spirv1.3 spirv1.4 spirv1.5 spirv1.6") | _INTEL

    def features(self, triple: str) -> frozenset[str]:
        return _EXTENSIONS

    def flags_flaw(self, flags: Sequence[str], chip: str, features: str) -> Flaw | None:
        """A kernel has one size of subgroups."""
        if len(sizes := [flag for flag in flags if flag in _SUBGROUPS]) > 1:
            return Flaw(f"flags {sizes[0]!r} and {sizes[1]!r} contradict each other", "leave one of them out")
        return super().flags_flaw(flags, chip, features)

    def processor(self, chip: str) -> str:
        return ""  # the version is a part of the triple

    def clang_flaw(self, chip: str, triple: str) -> str:
        return "clang-linker-wrapper links no OpenCL kernels"

    def subgroup_size(self, chip: str, features: str) -> int:
        return _INTEL_SUBGROUP if chip in _INTEL else _SUBGROUP

    def disassemblers(self, chip: str) -> Iterator[tuple[str, ...]]:
        yield ("spirv-dis",)


def subgroup_size(target: Target) -> int:
    """The size of the subgroups of kernels that use any."""
    chosen = (_SUBGROUPS[flag] for flag in target.flags if flag in _SUBGROUPS)
    return next(chosen, SPIRV.subgroup_size(target.chip, target.features))


# Of those that LLVM's code generator knows, the ones that OpenCL drivers may have.
_EXTENSIONS = names(
    """
    SPV_EXT_arithmetic_fence SPV_EXT_optnone SPV_EXT_shader_atomic_float16_add SPV_EXT_shader_atomic_float_add
    SPV_EXT_shader_atomic_float_min_max SPV_INTEL_16bit_atomics SPV_INTEL_2d_block_io
    SPV_INTEL_bfloat16_arithmetic SPV_INTEL_bfloat16_conversion SPV_INTEL_bindless_images
    SPV_INTEL_cache_controls SPV_INTEL_float_controls2 SPV_INTEL_fp_max_error SPV_INTEL_function_pointers
    SPV_INTEL_global_variable_host_access SPV_INTEL_inline_assembly SPV_INTEL_int4 SPV_INTEL_joint_matrix
    SPV_INTEL_kernel_attributes SPV_INTEL_long_composites SPV_INTEL_media_block_io
    SPV_INTEL_memory_access_aliasing SPV_INTEL_optnone SPV_INTEL_predicated_io SPV_INTEL_split_barrier
    SPV_INTEL_subgroup_matrix_multiply_accumulate SPV_INTEL_subgroups SPV_INTEL_tensor_float32_conversion
    SPV_INTEL_ternary_bitwise_function SPV_INTEL_usm_storage_classes SPV_INTEL_variable_length_array
    SPV_KHR_bfloat16 SPV_KHR_bit_instructions SPV_KHR_cooperative_matrix SPV_KHR_expect_assume
    SPV_KHR_float_controls SPV_KHR_float_controls2 SPV_KHR_integer_dot_product SPV_KHR_linkonce_odr
    SPV_KHR_no_integer_wrap_decoration SPV_KHR_non_semantic_info SPV_KHR_shader_clock
    SPV_KHR_subgroup_rotate SPV_KHR_uniform_group_instructions
    """
)

SPIRV = Spirv()
