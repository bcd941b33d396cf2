"""Tests: the folder that worker processes share, which tests run first, and a count of faults injected."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import once
import order
import pytest

from gpubuild.settings import Settings

PROPERTY = "counted"
Counted = Callable[..., None]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB. Only root has one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", folder]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("cannot mount a disk here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path) -> Path:
    """Write to a disk until it is full. Return the file that fills it."""
    file = disk / "filling"
    with suppress(OSError), file.open("wb", buffering=0) as stream:
        while True:
            stream.write(bytes(1 << 12))
    return file


def is_worker(config: pytest.Config) -> bool:
    """Whether this is one of several processes that run tests."""
    return hasattr(config, "workerinput")


def pytest_configure(config: pytest.Config) -> None:
    # Kernels then treat a few KiB as a result that no cache holds, which tests can afford.
    os.environ.setdefault("GPUBUILD_CPU_CACHE_BYTES", "8192")
    if not is_worker(config):
        once.start()
        caches = once.once("user's caches", _without_a_shared_cache)
        os.environ["XDG_CACHE_HOME"] = str(caches)
        # To make its compiler-rt in an empty cache takes zig a quarter of a minute.
        for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"):
            os.environ[name] = str((caches / "gpubuild" / "zig").resolve())


def _without_a_shared_cache(folder: Path) -> None:
    """Make a cache home with zig's cache of this user, in which no cache of projects can be made.

    So each project has a cache of its own, and no test finds results of another.
    """
    zig = Settings.from_environ().user_cache / "zig"
    with suppress(OSError):
        zig.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "gpubuild").mkdir()
    (folder / "gpubuild" / "zig").symlink_to(zig)
    (folder / "gpubuild" / "results").touch()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not is_worker(config):
        once.finish()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if is_worker(config):
        order.longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """A file's tests run in one process, so that what they share is made once."""
    return order.scheduler(config, log)


@pytest.fixture
def counted(record_property: Callable[[str, object], None]) -> Counted:
    """``counted("bits flipped", n, at_least=m)`` fails below ``m`` and shows the sum at the end."""

    def note(what: str, number: int, *, at_least: int) -> None:
        assert number >= at_least, f"{what}: {number}, expected at least {at_least}"
        record_property(PROPERTY, (what, number))

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Add up what the tests noted; it travels with their reports, from worker processes too."""
    sums: Counter[str] = Counter()
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == PROPERTY:
                what, number = value
                sums[what] += number
    if sums:
        terminalreporter.section("faults injected")
        for what, number in sorted(sums.items()):
            terminalreporter.write_line(f"{number:7,} {what}")
