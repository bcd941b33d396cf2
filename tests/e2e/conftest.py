"""What end-to-end tests share."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from e2e import command
from e2e.cpu_harness import Device, build_runtime, compile_module
from kernels.cpu import KERNELS


@pytest.fixture(scope="session")
def shared_cache() -> dict[str, str]:
    return command.shared_cache()


@pytest.fixture(scope="session")
def runtime(tmp_path_factory) -> Path:
    return build_runtime(tmp_path_factory.mktemp("cpu_runtime"))


@pytest.fixture(scope="session", params=[1, 3], ids=["1thread", "3threads"])
def device(runtime, tmp_path_factory, request) -> Device:
    """A copy of the library has its own settings, which it reads once."""
    copy = tmp_path_factory.mktemp("threads") / f"libcpu{request.param}.so"
    shutil.copy(runtime, copy)
    saved = os.environ.get("GPUBUILD_CPU_THREADS")
    os.environ["GPUBUILD_CPU_THREADS"] = str(request.param)
    loaded = Device(copy)
    loaded._c.gb_settings()
    if saved is None:
        del os.environ["GPUBUILD_CPU_THREADS"]
    else:
        os.environ["GPUBUILD_CPU_THREADS"] = saved
    return loaded


@pytest.fixture(scope="session")
def any_device(runtime) -> Device:
    """With as many threads as there are CPUs."""
    return Device(runtime)


@pytest.fixture(scope="session")
def kernels_out(tmp_path_factory) -> Path:
    return compile_module(KERNELS, tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def kernels(kernels_out, device):
    module = device.load(kernels_out)
    yield module
    module.unload()
