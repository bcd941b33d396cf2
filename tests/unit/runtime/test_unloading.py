"""Shared libraries with the runtime in them, which programs open with dlopen and close again."""

import shutil
from pathlib import Path

import pytest
from unit.runtime.programs import GNU_FLAGS, HERE, Runtime, compile_c, extra_flags


@pytest.fixture(scope="module")
def built(built_runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unloading")
    compile_c(folder / "image.so", "-shared", "-nostdlib", HERE / "launch_kernels.c")
    flags = (*GNU_FLAGS, *extra_flags())
    library = (HERE / "unloaded_library.c", built_runtime.archive, "-ldl", "-lm")
    compile_c(folder / "first.so", "-shared", *library, flags=flags)
    shutil.copy(folder / "first.so", folder / "second.so")
    compile_c(folder / "program", HERE / "unloading.c", "-ldl", flags=flags)
    return folder


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "what",
    [
        "call",
        "start",  # closed while its kernel runs
        "task",  # closed after a task of the async dialect
        "again",
        "two",  # each with a runtime of its own
        "threads",
        "later",  # a thread that has called it ends after it is closed
        "fork",
    ],
)
def test_a_library_is_closed(runtime: Runtime, built: Path, what: str, threads: int) -> None:
    """Its threads stay: what they run is not unloaded."""
    variables = {"IMAGE": str(built / "image.so"), "GPUBUILD_DEVICE": "cpu"}
    libraries = (built / "first.so", built / "second.so")
    done = runtime.start(built / "program", what, *libraries, GPUBUILD_CPU_THREADS=str(threads), **variables)
    assert (done.code, done.out, done.err) == (0, b"", "")
