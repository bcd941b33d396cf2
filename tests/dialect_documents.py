"""What the documents of the gpu dialect name, how gpubuild treats it, and the page made of it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import mlir as mlir_package

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))

from kernels.operations import groups, vendor_survey
from op_coverage import host_ops

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "reference" / "dialect-documents.md"
MLIR = Path(next(iter(mlir_package.__path__)))
SUPPORTED, REFUSED, OUTSIDE = "supported", "refused", "out of scope"

_PASSES = "tests/unit/engine/source/test_gpu_passes.py::"
_TARGET = _PASSES + "test_options_that_describe_a_target"
_EFFECT = _PASSES + "test_passes_have_their_effect"
_ERROR = _PASSES + "test_what_has_no_effect_is_an_error"
_MAPPED = _PASSES + "test_loops_mapped_by_attributes"
_BY_GPUBUILD = _PASSES + "test_formats_that_need_tools_are_made_by_gpubuild"
_BY_MLIR = _PASSES + "test_formats_that_mlir_makes"
_RIGHT = "tests/op_coverage/test_coverage.py::test_is_right_on_the_cpu"
_COMPILES = "tests/op_coverage/test_coverage.py::test_compiles"
_SPARSE = "tests/e2e/test_sparse.py::test_every_operation"
_INDEX = "tests/unit/engine/source/test_outline.py::test_index_says_what_the_modules_say"
_OPTIONS = "tests/e2e/test_target_attributes.py::"
_WRITTEN_BACK = _OPTIONS + "test_an_attribute_is_written_back_or_refused_with_its_place"
_TABLE = "tests/e2e/test_kernel_table.py::test_every_object_has_a_table_of_its_kernels"
_HANDLERS = "tests/unit/engine/host/test_bundle.py::test_handlers_that_select_an_object"
_READY = "tests/e2e/test_programs.py::test_a_ready_gpu_binary_passes_through"
_BITCODE = "tests/e2e/test_programs.py::test_bitcode_in_a_ready_gpu_binary_is_compiled_for_its_target"
_PIPELINE = "tests/e2e/test_programs.py::test_upstreams_whole_pipeline"
_KERNELS = "tests/e2e/test_programs.py::test_upstreams_pipeline_for_the_kernels_of_targets"
_TOKENS = "tests/e2e/test_streams.py::test_streams_that_part_and_meet"
_HINTS = "tests/unit/engine/ir/test_older_forms.py::test_the_hint_names_the_form_of_today"
_DEVICE = "tests/unit/engine/backends/test_device.py::"
_NO_COMPILER = "has a target for which gpubuild has no compiler"
_WITHOUT_OPTIONS = "… carries out …, without its options"


@dataclass(frozen=True, slots=True)
class Row:
    """``note`` is the message of what is refused (… for what differs), and a reason out of scope."""

    status: str
    test: str = ""
    note: str = ""


def _yes(test: str, note: str = "") -> Row:
    return Row(SUPPORTED, test, note)


def _no(test: str, message: str) -> Row:
    return Row(REFUSED, test, message)


def _outside(reason: str) -> Row:
    return Row(OUTSIDE, note=reason)


_SPIRV = _no(_ERROR, _NO_COMPILER)
_XEVM = "tests/unit/engine/source/test_outline.py::test_a_target_of_an_intel_gpu"
_SPIR_KERNELS = (
    "tests/unit/engine/backends/spirv/test_code.py::"
    "test_kernels_that_a_pipeline_lowered_for_spirv_are_refused"
)
_BY_TRANSFORMS = _outside("only operations of the transform dialect read it, and MLIR runs those")
ATTRIBUTES: Mapping[str, Row] = {
    "gpu.address_space": _yes(_RIGHT),
    "gpu.all_reduce_op": _yes(_RIGHT),
    "gpu.async.token": _yes(_TOKENS),
    "gpu.block": _yes(_MAPPED),
    "gpu.broadcast": _yes("tests/e2e/test_cpu_lanes.py::test_broadcasts_in_branches"),
    "gpu.container_module": _yes("tests/e2e/test_programs.py::test_every_kind_of_source"),
    "gpu.dim": _yes(_RIGHT),
    "gpu.kernel": _yes(_DEVICE + "test_plain_llvm_kernels_compile_for_both"),
    "gpu.kernel_metadata": _yes(_TABLE, "name, function_type, arg_attrs, metadata"),
    "gpu.kernel_table": _yes(_TABLE),
    "gpu.known_block_size": _yes(_RIGHT),
    "gpu.known_cluster_size": _yes(
        _DEVICE + "test_known_cluster_size_reaches_the_assembler", "on chips with clusters"
    ),
    "gpu.known_grid_size": _yes(_RIGHT),
    "gpu.lane": _yes(_MAPPED),
    "gpu.loop_dim_map": _yes(_EFFECT),
    "gpu.mask": _BY_TRANSFORMS,
    "gpu.mat_transpose_mode": _yes(_SPARSE),
    "gpu.memory_space": _BY_TRANSFORMS,
    "gpu.mma_element_wise": _yes(_RIGHT),
    "gpu.mma_matrix": _yes("tests/e2e/test_cpu_matrices.py::test_shapes_types_and_layouts"),
    "gpu.object": _yes(_READY, "target, format, object, properties, kernels"),
    "gpu.prune_2to4_spmat_flag": _yes(_SPARSE),
    "gpu.select_object": _yes(_HANDLERS, "target: an index or a target attribute"),
    "gpu.shuffle_mode": _yes("tests/e2e/test_cpu_lanes.py::test_shuffle"),
    "gpu.sparse.dntensor_handle": _yes(_SPARSE),
    "gpu.sparse.spgemmop_handle": _yes(_SPARSE),
    "gpu.sparse.spmat_handle": _yes(_SPARSE),
    "gpu.spgemm_work_estimation_or_compute_kind": _yes(_SPARSE),
    "gpu.thread": _yes(_MAPPED),
    "gpu.warp": _yes(_MAPPED),
    "gpu.warpgroup": _yes(_MAPPED),
    "nvvm.target": _yes(_WRITTEN_BACK),
    "rocdl.target": _yes(_WRITTEN_BACK),
    "spirv.target_env": _SPIRV,
    "xevm.target": _yes(_XEVM),
}
# Parameters, and flags in `flags = {…}`.
PARAMETERS: Mapping[str, Row] = {
    **{
        f"{dialect}.target {name}": _yes(_INDEX)
        for dialect in ("nvvm", "rocdl")
        for name in ("O", "triple", "chip", "features", "flags", "link")
    },
    "nvvm.target verifyTarget": _yes(_PASSES + "test_operations_are_verified_for_the_target"),
    "rocdl.target abi": _yes(_OPTIONS + "test_code_objects_have_the_version_asked_for"),
    "nvvm.target flag fast": _yes(
        _OPTIONS + "test_subnormal_numbers_and_fast_math_are_separate_flags_on_nvidia"
    ),
    "nvvm.target flag ftz": _yes(
        _OPTIONS + "test_subnormal_numbers_and_fast_math_are_separate_flags_on_nvidia"
    ),
    "nvvm.target flag ptxas-cmd-options": _yes(
        _OPTIONS + "test_ptxas_gets_the_options_that_upstream_gives_it"
    ),
    **{
        f"rocdl.target flag {name}": _yes(_OPTIONS + "test_numbers_follow_flags_on_amd")
        for name in ("daz", "fast", "finite_only", "unsafe_math", "unsafe_sqrt", "correct_sqrt")
    },
    "rocdl.target flag wave64": _yes(_OPTIONS + "test_subgroup_size_follows_flags"),
    "rocdl.target flag no_wave64": _yes(_OPTIONS + "test_subgroup_size_follows_flags"),
    "any other flag": _no(_WRITTEN_BACK, "unknown flag … for"),
}
FORMATS: Mapping[str, Row] = {
    "offload, llvm": _yes(_BITCODE, "compiled for its target at build time"),
    "assembly, isa": _yes(_BY_MLIR),
    "binary, bin": _yes(_BY_GPUBUILD, "gpubuild makes the object, with its own ptxas"),
    "fatbinary, fatbin": _yes(_BY_GPUBUILD, "likewise; `format: fatbin` of a target is a fat binary"),
    "any other format": _no(_ERROR, _WITHOUT_OPTIONS),
}
PASSES: Mapping[str, Row] = {
    "convert-gpu-to-llvm-spv": _yes(_EFFECT, "functions of OpenCL that it calls must be in `device_libs`"),
    "convert-gpu-to-llvm-spv use-64bit-index": _yes(_EFFECT),
    "convert-gpu-to-nvvm": _yes(_EFFECT),
    **{
        f"convert-gpu-to-nvvm {name}": _yes(_EFFECT)
        for name in (
            "allow-pattern-rollback", "allowed-dialects", "has-redux", "index-bitwidth",
            "use-bare-ptr-memref-call-conv",
        )
    },
    "convert-gpu-to-rocdl": _yes(_EFFECT),
    **{
        f"convert-gpu-to-rocdl {name}": _yes(_EFFECT)
        for name in (
            "allowed-dialects", "chipset", "index-bitwidth", "runtime", "use-bare-ptr-memref-call-conv",
        )
    },
    "convert-gpu-to-spirv": _no(_ERROR, "cannot be lowered for this target"),
    "convert-gpu-to-spirv use-64bit-index": _outside("part of a pass for SPIR-V"),
    "convert-nvgpu-to-nvvm": _yes(_EFFECT),
    "convert-parallel-loops-to-gpu": _yes(_EFFECT),
    "gpu-async-region": _yes(_EFFECT),
    "gpu-decompose-memrefs": _yes(_EFFECT),
    "gpu-eliminate-barriers": _yes(_EFFECT),
    "gpu-kernel-outlining": _yes(_EFFECT),
    "gpu-kernel-outlining data-layout-str": _yes(_EFFECT),
    "gpu-launch-sink-index-computations": _yes(_PASSES + "test_constants_are_sunk_into_launches"),
    "gpu-lower-to-nvvm-pipeline": _yes(_PIPELINE),
    "gpu-lower-to-nvvm-pipeline allow-pattern-rollback": _yes(_EFFECT, "as of convert-gpu-to-nvvm"),
    "gpu-lower-to-nvvm-pipeline cubin-chip": _yes(_PIPELINE),
    "gpu-lower-to-nvvm-pipeline cubin-features": _yes(_PIPELINE),
    "gpu-lower-to-nvvm-pipeline cubin-format": _yes(_PIPELINE, "not for kernels: `format:` of a target"),
    "gpu-lower-to-nvvm-pipeline cubin-triple": _yes(_TARGET, "as nvvm-attach-target triple"),
    "gpu-lower-to-nvvm-pipeline host-bare-ptr-calling-convention": _yes(_EFFECT, "as of gpu-to-llvm"),
    "gpu-lower-to-nvvm-pipeline index-bitwidth": _yes(_EFFECT, "as of convert-gpu-to-nvvm"),
    "gpu-lower-to-nvvm-pipeline kernel-bare-ptr-calling-convention": _yes(_EFFECT, "as of gpu-to-llvm"),
    "gpu-lower-to-nvvm-pipeline opt-level": _yes(_KERNELS, "for kernels that of the target, else an error"),
    "gpu-lower-to-nvvm-pipeline ptxas-cmd-options": _yes(_TARGET, "as nvvm-attach-target ptxas-cmd-options"),
    "gpu-lower-to-xevm-pipeline": _no(
        _SPIR_KERNELS, "… is lowered for SPIR-V; gpubuild does that, from the gpu dialect"
    ),
    **{
        f"gpu-lower-to-xevm-pipeline {name}": _outside("part of a pipeline for XeVM")
        for name in (
            "binary-format", "host-bare-ptr-calling-convention", "igc-cmd-options",
            "kernel-bare-ptr-calling-convention", "opt-level", "use-64bit-index", "xegpu-op-level",
            "xevm-module-matcher", "zebin-chip", "zebin-triple",
        )
    },
    "gpu-map-parallel-loops": _yes(_EFFECT),
    "gpu-map-parallel-loops mapping-policy": _yes(_EFFECT),
    "gpu-module-to-binary": _yes(_BY_GPUBUILD),
    "gpu-module-to-binary format": _yes(_BY_MLIR, "see below"),
    "gpu-module-to-binary l": _no(_ERROR, _WITHOUT_OPTIONS),
    "gpu-module-to-binary opts": _no(_ERROR, _WITHOUT_OPTIONS),
    "gpu-module-to-binary section": _yes(_BY_MLIR, "with formats that MLIR makes; refused with others"),
    "gpu-module-to-binary toolkit": _no(_ERROR, _WITHOUT_OPTIONS),
    "gpu-register-host-buffers": _yes(_EFFECT),
    "gpu-to-llvm": _yes(_EFFECT),
    "gpu-to-llvm intersperse-sizes-for-kernels": _no(_ERROR, "the pass pipeline has the option"),
    "gpu-to-llvm use-bare-pointers-for-host": _yes(_EFFECT),
    "gpu-to-llvm use-bare-pointers-for-kernels": _yes(_EFFECT),
    "nvvm-attach-target": _yes(_TARGET),
    **{
        f"nvvm-attach-target {name}": _yes(_TARGET)
        for name in ("O", "chip", "fast", "features", "ftz", "l", "module", "ptxas-cmd-options", "triple")
    },
    "rocdl-attach-target": _yes(_TARGET),
    **{
        f"rocdl-attach-target {name}": _yes(_TARGET)
        for name in ("O", "abi", "chip", "daz", "fast", "features", "finite-only", "l", "module", "triple",
                     "unsafe-math")
    },
    "rocdl-attach-target correct-sqrt": _yes(
        _TARGET, "true, MLIR's default, leaves no flag: `flag correct_sqrt`"
    ),
    "rocdl-attach-target wave64": _yes(_TARGET, "true, MLIR's default, leaves no flag: `flag wave64`"),
    "spirv-attach-target": _SPIRV,
    **{
        f"spirv-attach-target {name}": _outside("part of a pass for SPIR-V")
        for name in ("caps", "client_api", "device_id", "device_type", "exts", "module", "vendor", "ver")
    },
    "xevm-attach-target": _yes(_XEVM),
    **{
        f"xevm-attach-target {name}": _outside("part of a pass for XeVM")
        for name in ("O", "chip", "cmd-options", "l", "module", "triple")
    },
}  # fmt: skip
OLDER: Mapping[str, Row] = {
    "gpu.launch … args(…)": _no(_HINTS, "leave `args(…)` out"),
    '"gpu.thread_id"() {dimension: "x"}': _no(_HINTS, "with the dimension x, y or z"),
    "gpu.launch_func with kernel, kernel_module": _no(_HINTS, "gpu.launch_func @module::@kernel blocks in"),
    "nvvm.kernel on a func": _no(_HINTS, "kernel` inside a gpu.module"),
    "gpu.kernel_module": _no(
        "tests/unit/engine/ir/test_older_forms.py::test_a_kernel_module_of_2019_is_not_taken_for_host_code",
        "inside a module with `gpu.container_module`",
    ),
    "gpu.module_end": _no(_HINTS, "leave it out: a gpu.module ends with its"),
    "gpu.subgroup_mma_compute_matrix, opType, leadDimension : i32": _no(
        _HINTS, "gpu.subgroup_mma_elementwise addf"
    ),
    "gpu.shuffle %value, %offset, %width xor": _no(_HINTS, "gpu.shuffle xor %value, %offset, %width : type"),
    "gpu-to-cubin, gpu-to-hsaco": _no(
        "tests/unit/engine/ir/test_older_forms.py::test_a_pass_that_made_objects_is_not_needed_any_more",
        "leave gpu-to-cubin and gpu-to-hsaco out",
    ),
    "gpu.if, gpu.cond_br, gpu.ballot, gpu.region, gpu.add, gpu.alloca, gpu.await": _outside(
        "ideas of the slides, or examples of what not to add; no version of MLIR has them"
    ),
}
COMPILATION: Mapping[str, Row] = {
    "libdevice and device libraries linked into kernels": _yes(
        "tests/e2e/test_programs.py::test_a_library_of_ones_own_is_linked_into_kernels"
    ),
    "builds on machines without CUDA, ROCm and GPUs": _yes(
        "tests/e2e/test_clang_offload.py::test_it_needs_no_sdk"
    ),
    "entries and images for clang's offload driver": _yes(
        "tests/e2e/test_clang_offload.py::test_clang_s_driver_links_it_too"
    ),
    "clang-linker-wrapper": _yes(
        "tests/e2e/test_clang_offload.py::test_amd_s_image_is_linked_of_both_modules_and_arrives"
    ),
    "LLVM bitcode for the device, compiled later": _yes(
        "tests/e2e/test_programs.py::test_bitcode_of_one_build_is_compiled_by_another"
    ),
    "compile here, link elsewhere": _yes(
        "tests/e2e/test_export.py::test_export_links_with_a_plain_compiler_elsewhere"
    ),
    "mlir-runner, ExecutionEngine": _outside(
        "gpubuild makes executables and objects; `gpubuild run` runs them"
    ),
}
SECTIONS: Mapping[str, Mapping[str, Row]] = {
    "Attributes and types": ATTRIBUTES,
    "Parameters and flags of targets": PARAMETERS,
    "Passes and their options": PASSES,
    "Formats of objects": FORMATS,
    "Forms of older documents": OLDER,
    "Compilation": COMPILATION,
}
_INTRODUCTION = """# Coverage of the dialect's documents

Made by `python tests/dialect_documents.py`; do not edit. The rows are what these documents name:
the pages of MLIR's gpu dialect of 2019, 2022 and 2025, the design slides of 2019, the RFC "Extending
MLIR GPU device codegen pipeline" of 2022, and the pages of the dialect and its passes of LLVM 22.
A test compares them with the operations, attributes, types and options that the pinned MLIR has.

A *refused* item is an error with its location and the message shown, … for what differs.
"""


def operations() -> dict[str, Row]:
    """Return the operations of the dialect, with what the table of coverage has of each."""
    rows = {}
    texts = [(p, p.text() + p.module) for listed in groups.GROUPS.values() for p in listed]
    for name in sorted(vendor_survey.operations("gpu")):
        if name in host_ops.SHOWN:
            rows[name] = _yes(host_ops.SHOWN[name])
            continue
        used = re.compile(rf"(?<![\w.]){re.escape(name)}(?![\w.])")
        programs = [p for p, text in texts if name in text and used.search(text)]
        never = set.intersection(*(set(p.refused) for p in programs))
        note = f"not on {', '.join(sorted(never))}: [reasons](coverage.md)" if never else ""
        rows[name] = _yes(_RIGHT if any(p.runs for p in programs) else _COMPILES, note)
    return rows


def registered() -> set[str]:
    """Return the names of attributes and types of the gpu dialect that MLIR's library contains."""
    library = (MLIR / "lib" / "libMLIR.so").read_bytes()
    names = {found[1].decode() for found in re.finditer(rb"\0(gpu\.[a-z_0-9.]+)(?=\0)", library)}
    return names - set(vendor_survey.operations("gpu")) - {"gpu.async_token"}  # a name in async lowering


def options() -> set[str]:
    """Return the passes of GPU compilation and ``pass option`` for each option, of ``mlir-opt --help``."""
    command = [MLIR / "bin" / "mlir-opt", "--help"]
    help_text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found, current = set(), ""
    for line in help_text.splitlines():
        if match := re.match(r"      --([\w-]+)", line):
            chosen = re.fullmatch(
                r"gpu-.*|(?:nvvm|rocdl|spirv|xevm)-attach-target|convert-gpu-to-.*|convert-nvgpu-to-nvvm|convert-parallel-loops-to-gpu",
                match[1],
            )
            current = match[1] if chosen else ""
            found |= {current} - {""}
        elif current and (match := re.match(r"        --?([\w-]+)", line)):
            found.add(f"{current} {match[1]}")
    return found


def render() -> str:
    """Return the text of the page."""
    parts = [_INTRODUCTION]
    for title, rows in {"Operations": operations(), **SECTIONS}.items():
        parts += [f"## {title}\n", "| name | status | note | test |", "|---|---|---|---|"]
        for name, row in rows.items():
            note = f"`{row.note}`" if row.status == REFUSED and "`" not in row.note else row.note
            shown = f"`{row.test}`" if row.test else ""
            parts.append(f"| `{name}` | {row.status} | {note} | {shown} |")
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    DOCUMENT.write_text(render())
