"""Host operations: what is no part of a kernel, and the test of a whole program that has each."""

from __future__ import annotations

from collections.abc import Mapping

from gpubuild.engine.host import sparse

_HOST = "tests/e2e/test_host_operations.py::test_what_the_host_says_and_kernels_capture"
_MAPS = "tests/unit/engine/backends/nvidia/test_ops.py::test_tensor_map_descriptors_are_pointers_to_launches"
_STREAMS = "tests/e2e/test_streams.py::test_streams_that_part_and_meet"
_SPARSE = "tests/e2e/test_sparse.py::test_every_operation"
# The test runs the program on the CPU; its GPU images are compiled by the same build or by the examples.
SHOWN: Mapping[str, str] = {
    "gpu.alloc": _STREAMS,
    "gpu.binary": "tests/e2e/test_programs.py::test_a_ready_gpu_binary_passes_through",
    "gpu.dealloc": _STREAMS,
    "gpu.host_register": _HOST,
    "gpu.host_unregister": _HOST,
    "gpu.launch": _HOST,
    "gpu.launch_func": "tests/e2e/test_programs.py::test_every_kind_of_source",
    "gpu.memcpy": _STREAMS,
    "gpu.memset": "tests/e2e/test_tokens.py::test_tokens_from_before_a_loop",
    "gpu.module": "tests/e2e/test_programs.py::test_several_sources_and_modules",
    "gpu.set_default_device": _HOST,
    "gpu.terminator": _HOST,
    "gpu.wait": _STREAMS,
    "memref.realloc": _HOST,
    "nvgpu.tma.create.descriptor": _MAPS,
    "vector.print": "tests/e2e/test_resources.py::test_a_source_with_passes",
    **dict.fromkeys(sorted(sparse.OPS), _SPARSE),
}
# Of tensors alone, which kernels have none of: a kernel's text with one of these does not parse or lower.
OF_TENSORS = frozenset(
    {
        "linalg.pack",
        "linalg.unpack",
        "linalg.winograd_filter_transform",
        "linalg.winograd_input_transform",
        "linalg.winograd_output_transform",
        "scf.forall.in_parallel",
    }
)


def render() -> str:
    """The section of the document."""
    parts = [
        "## gpu, nvgpu: host code\n",
        "A whole program with each runs on the CPU in the test named; descriptors of TMA are lowered only.\n",
        "| op | shown by |",
        "|---|---|",
        *(f"| {op} | `{test}` |" for op, test in SHOWN.items()),
    ]
    return "\n".join(parts) + "\n"
