"""Shared libraries with the runtime in them, which programs open with dlopen and close again."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from unit.runtime.programs import RUNTIME, Runtime, extra_flags, sanitizer_environment

HERE = Path(__file__).parent
FLAGS = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-fPIC", "-pthread", f"-I{RUNTIME}")


def compile_c(output: Path, *arguments: object) -> Path:
    subprocess.run(["cc", *FLAGS, *extra_flags(), *map(str, arguments), "-o", output], check=True)
    return output


@pytest.fixture(scope="module")
def built(built_runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unloading")
    compile_c(folder / "image.so", "-shared", "-nostdlib", HERE / "launch_kernels.c")
    library = (HERE / "unloaded_library.c", built_runtime.archive, "-ldl", "-lm")
    compile_c(folder / "first.so", "-shared", *library)
    shutil.copy(folder / "first.so", folder / "second.so")
    compile_c(folder / "program", HERE / "unloading.c", "-ldl")
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
def test_a_library_is_closed(built: Path, what: str, threads: int) -> None:
    """Its threads stay: what they run is not unloaded."""
    image = {"IMAGE": str(built / "image.so")}
    device = {"GPUBUILD_DEVICE": "cpu", "GPUBUILD_CPU_THREADS": str(threads)}
    environment = {**os.environ, **sanitizer_environment(), **device, **image}
    command = [built / "program", what, "./first.so", built / "second.so"]
    options = {"cwd": built, "capture_output": True, "text": True, "timeout": 60}
    done = subprocess.run(command, env=environment, check=False, **options)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
