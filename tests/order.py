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
    "op_coverage/test_coverage.py": 150,
    "fuzz/test_mutated_sources.py": 90,
    "fault/test_damaged_builds.py": 28,
    "fault/test_whole_builds.py": 28,
    "e2e/test_random_kernels.py": 60,
    "e2e/test_cpu_fission.py": 9,
    "e2e/test_random_accesses.py": 24,
    "simulators/ptx/test_programs.py": 45,  # after those that compile the same modules
    "simulators/device_ir/test_programs.py": 44,
    "e2e/test_docs.py": 40,
    "integration/test_integration.py": 60,
    "simulators/cuda_driver/test_examples.py": 12,
    "simulators/cuda_driver/test_driver.py": 10,
    "simulators/device_ir/test_amd.py": 30,
    "e2e/test_checked.py": 24,
    "simulators/ptx/test_random.py": 20,
    "e2e/test_ci_recipe.py": 20,
    "e2e/test_bad_input.py": 20,
    "e2e/test_incremental.py": 20,
    "e2e/test_programs.py": 20,
    "e2e/test_scons.py": 20,
    "e2e/test_scons_sketch.py": 8,
    "unit/runtime/test_print.py": 19,
    "e2e/test_cli.py": 18,
    "e2e/test_examples.py": 18,
    "fault/test_remote_slow.py": 12,
    "integration/test_mutants.py": 12,
    "e2e/test_aarch64.py": 12,
    "e2e/test_against_upstream.py": 12,
    "e2e/test_reproducible.py": 12,
    "unit/engine/backends/test_device.py": 11,
    "e2e/test_cmake_meson.py": 20,
    "e2e/test_install.py": 10,
    "e2e/test_wheel_project.py": 20,
    "e2e/test_products.py": 30,
    "e2e/test_export.py": 4,
    "fault/test_cache_processes.py": 9,
    "unit/inspect/test_image.py": 8,
    "e2e/test_cpu_matrices.py": 7,
    "fuzz/test_untrusted.py": 10,
    "unit/engine/backends/cpu/test_compile.py": 7,
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
