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

# Seconds that files take, about, where it is more than five. Wrong or missing numbers cost time only.
SECONDS = {
    "op_coverage/test_coverage.py": 110,
    "fault/test_dask.py": 90,
    "op_coverage/test_opencl.py": 70,
    "fault/test_dask_scheduling.py": 60,
    "integration/test_integration.py": 55,
    "e2e/test_docs.py": 50,
    "e2e/test_products.py": 50,
    "e2e/test_scons.py": 45,
    "e2e/test_cli.py": 40,
    "e2e/test_programs.py": 37,
    "fault/test_dask_commands.py": 35,
    "e2e/test_resources.py": 34,
    "e2e/test_ci_recipe.py": 33,
    "simulators/device_ir/test_programs.py": 32,
    "e2e/test_opencl.py": 30,
    "simulators/ptx/test_programs.py": 30,  # after those that compile the same modules
    "e2e/test_checked.py": 29,
    "e2e/test_against_upstream.py": 29,
    "fault/test_damaged_builds.py": 28,
    "simulators/device_ir/test_amd.py": 28,
    "fault/test_dask_faults.py": 25,
    "devices/test_packs.py": 25,
    "simulators/device_ir/test_matrices.py": 22,
    "e2e/test_wheel_project.py": 22,
    "e2e/test_aarch64.py": 21,
    "unit/engine/cc/test_runtime_library.py": 20,
    "e2e/test_cmake_meson.py": 20,
    "unit/runtime/test_print.py": 19,
    "e2e/test_opencl_random.py": 19,
    "e2e/test_null_build.py": 15,
    "e2e/test_init.py": 15,
    "e2e/test_incremental.py": 14,
    "e2e/test_bad_input.py": 13,
    "fault/test_whole_builds.py": 12,
    "fault/test_remote_slow.py": 12,
    "e2e/test_tensor_programs.py": 12,
    "e2e/test_clang_offload.py": 12,
    "e2e/test_scons_sketch.py": 11,
    "e2e/test_random_accesses.py": 10,
    "unit/engine/backends/test_device.py": 10,
    "unit/engine/backends/cpu/test_compile.py": 10,
    "e2e/test_target_attributes.py": 10,
    "e2e/test_first_mistakes.py": 10,
    "fault/test_slurm.py": 10,
    "e2e/test_cpu_matrices.py": 10,
    "simulators/cuda_driver/test_examples.py": 9,
    "e2e/test_examples.py": 9,
    "simulators/ptx/test_random.py": 9,
    "e2e/test_cpu_reductions.py": 9,
    "e2e/test_cpu_math.py": 9,
    "e2e/test_cpu_messages.py": 9,
    "fuzz/test_random_edits.py": 9,
    "e2e/test_random_kernels.py": 8,
    "e2e/test_silent_problems.py": 8,
    "e2e/test_opencl_math.py": 8,
    "unit/engine/source/test_divergence.py": 8,
    "e2e/test_export.py": 8,
    "fuzz/test_mutated_sources.py": 7,
    "unit/inspect/test_image.py": 7,
    "e2e/test_load.py": 7,
    "fuzz/test_untrusted.py": 6,
    "e2e/test_install.py": 6,
    "unit/runtime/test_launches.py": 6,
    "e2e/test_c_header.py": 6,
    "unit/engine/cc/test_compile.py": 6,
    "unit/toolchain/test_host_math.py": 6,
    "integration/test_mutants.py": 6,
    "simulators/cuda_driver/test_driver.py": 5,
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
