"""Order: which worker process runs which tests, and when.

All tests of a file go to one worker, for most share what is dear to make: a compiled module, a
project that was built. Where one file would keep a worker busy after all others have ended, its
functions, or the cases of a function, which share nothing, are apart. What takes longest is begun
first: a long test that begins last would have one processor wait for it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

# Seconds that files take, about, where it is ten or more. Wrong or missing numbers cost time only.
SECONDS = {
    "op_coverage/test_coverage.py": 75,
    "fault/test_dask.py": 50,
    "fault/test_dask_scheduling.py": 50,
    "e2e/test_docs.py": 40,
    "op_coverage/test_opencl.py": 38,
    "e2e/test_programs.py": 38,
    "integration/test_integration.py": 34,
    "e2e/test_tensor_programs.py": 30,
    "fault/test_dask_commands.py": 30,
    "e2e/test_scons_sketch.py": 29,
    "e2e/test_cli.py": 28,
    "e2e/test_checked.py": 27,
    "e2e/test_resources.py": 27,
    "e2e/test_scons.py": 22,
    "e2e/test_tensor_results.py": 22,
    "e2e/test_null_build.py": 22,
    "e2e/test_random_tensors.py": 20,
    "unit/engine/backends/cpu/test_compile.py": 18,
    "e2e/test_against_upstream.py": 18,
    "e2e/test_incremental.py": 18,
    "unit/engine/cc/test_runtime_library.py": 18,
    "e2e/test_init.py": 18,
    "fault/test_dask_faults.py": 18,
    "e2e/test_cpu_math.py": 16,
    "e2e/test_cmake_meson.py": 15,
    "unit/engine/backends/test_device.py": 14,
    "e2e/test_wheel_project.py": 14,
    "simulators/cuda_driver/test_examples.py": 14,
    "e2e/test_opencl.py": 14,
    "e2e/test_aarch64.py": 13,
    "fault/test_whole_builds.py": 13,
    "fault/test_remote_slow.py": 12,
    "e2e/test_clang_offload.py": 12,
    "e2e/test_target_attributes.py": 12,
    "e2e/test_export.py": 12,
    "e2e/test_bad_input.py": 12,
    "simulators/device_ir/test_amd.py": 11,
    "passes/test_passes.py": 11,
    "e2e/test_random_kernels.py": 11,
    "fault/test_damaged_builds.py": 11,
    "fault/test_dask_large_files.py": 11,
    "simulators/ptx/test_programs.py": 11,
    "e2e/test_opencl_math.py": 11,
    "e2e/test_cpu_messages.py": 11,
    "e2e/test_first_mistakes.py": 11,
    "e2e/test_cpu_matrices.py": 11,
    "e2e/test_cpu_vector_loops.py": 10,
    "e2e/test_load.py": 10,
}
BY_FUNCTION = ("op_coverage/test_coverage.py", "fault/test_damaged_builds.py", "fault/test_whole_builds.py")
BY_CASE = ("fuzz/test_mutated_sources.py", "e2e/test_random_kernels.py", "e2e/test_docs.py",
           "simulators/device_ir/test_programs.py", "simulators/ptx/test_programs.py")  # fmt: skip


@cache
def file_of(nodeid: str) -> str:
    """The file of a test, below ``tests``."""
    return nodeid.partition("::")[0].removeprefix("tests/")


def scope(nodeid: str) -> str:
    """What goes to one worker as a whole: the tests for which this is the same."""
    file = file_of(nodeid)
    if file in BY_CASE:
        return nodeid
    if file in BY_FUNCTION:
        return nodeid.partition("[")[0]
    return file


def longest_first(items: list[pytest.Item]) -> None:
    """Sort by file; the order inside a file stays."""
    items.sort(key=lambda item: -SECONDS.get(file_of(item.nodeid), 0))


def scheduler(config: pytest.Config, log: Any) -> object:
    """For ``--dist load``, which would deal the tests of a file to all workers; else xdist's own."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid)

    config.option.loadscopereorder = False  # by number of tests
    return Scheduling(config, log)
