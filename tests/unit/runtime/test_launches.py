"""Launches of the CPU device as hard as programs make them: threads, memory, fork, exit, OpenMP."""

import os
from pathlib import Path

import pytest
from unit.runtime.programs import HERE, RUNTIME, SOURCES, Runtime, compile_c, extra_flags

# A thread never continues without a slot, however busy the machine is otherwise.
PATIENT = "-DGB_CPU_PATIENCE_MS=60000"


def run(runtime: Runtime, program: Path, *arguments: object, threads: int, **variables: str) -> int:
    device = {"GPUBUILD_DEVICE": "cpu", "GPUBUILD_CPU_THREADS": str(threads)}
    done = runtime.start(program, *arguments, **device, **variables)
    assert (done.out, done.err) == (b"", "")
    return done.code


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("launches")


@pytest.fixture(scope="module")
def image(folder: Path) -> Path:
    return compile_c(folder / "image.so", "-shared", "-nostdlib", HERE / "launch_kernels.c")


@pytest.fixture(scope="module")
def launches(built_runtime: Runtime, folder: Path) -> Path:
    if extra_flags():
        pytest.skip("counts allocations in place of the sanitizer")
    sources = (HERE / "launches.c", RUNTIME / "cpu/cpu_pool.c", built_runtime.archive)
    return compile_c(folder / "launches", "-DCOUNT_ALLOCATIONS", PATIENT, *sources, "-ldl", "-lm")


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("allocations", 0),  # none for a launch, a stream or an event
        ("grids", 0),  # no memory for a large grid
        ("streams", 0),  # 6 host threads with 3 streams each: no more threads in kernels than asked for
        ("fork", 0),  # of one thread while others launch: the child can launch, too
        ("first-fork", 0),  # at the program's first launch
        ("checked-fork", 0),  # as a kernel runs that is checked for races
        ("exit", 7),  # of a task while streams are busy, with its own exit code
    ],
)
def test_launches(runtime: Runtime, launches: Path, image: Path, what: str, code: int, threads: int) -> None:
    assert run(runtime, launches, what, image, threads=threads) == code


@pytest.mark.parametrize("threads", [2, 3])
def test_uneven_work(runtime: Runtime, launches: Path, image: Path, threads: int) -> None:
    """Workgroups go to whoever is free: one that waits for nearly all others holds up nobody."""
    assert run(runtime, launches, "uneven", image, threads=threads) == 0


def test_no_data_races(runtime: Runtime, folder: Path) -> None:
    sanitizer = ("-fsanitize=thread", "-O0")  # half the time of compiling, and no access is optimised away
    kernels = compile_c(folder / "tsan.so", *sanitizer, "-shared", "-nostdlib", HERE / "launch_kernels.c")
    sources = (PATIENT, HERE / "launches.c", *SOURCES, "-ldl", "-lm")
    program = compile_c(folder / "launches-tsan", *sanitizer, *sources)
    options = {"TSAN_OPTIONS": "die_after_fork=0 atexit_sleep_ms=0"}
    for threads in (1, 3):
        for what, code in (("streams", 0), ("fork", 0), ("exit", 7)):
            assert run(runtime, program, what, kernels, threads=threads, **options) == code


@pytest.mark.parametrize("bind", ["false", "true"])
def test_launches_from_openmp(runtime: Runtime, folder: Path, image: Path, bind: str) -> None:
    """Parallel regions, nested ones, and with threads bound to a CPU each, which the pool's must not be."""
    program = folder / "openmp"
    if not program.exists():
        compile_c(program, *extra_flags(), "-fopenmp", HERE / "openmp.c", runtime.archive, "-ldl", "-lm")
    for threads in (1, 3):
        assert run(runtime, program, image, threads=threads, OMP_PROC_BIND=bind, OMP_DYNAMIC="false") == 0


def test_the_number_of_threads_is_that_of_cpus_it_may_use(runtime: Runtime) -> None:
    """Cut by control groups' quotas; an explicit number is taken as it is."""
    cpu = min(os.sched_getaffinity(0))
    script = f"os.sched_setaffinity(0, {{{cpu}}}); print(rt.gb_cpu_thread_count(), flush=True)"
    assert runtime.run(script).ok().out == b"1\n"
    assert runtime.run(script, GPUBUILD_CPU_THREADS="5").ok().out == b"5\n"


CACHE_SIZES = {"32768K\n": 32 << 20, "8M": 8 << 20, "512": 512, "": 0, "none\n": 0}


def test_the_size_of_a_cache(runtime: Runtime, tmp_path: Path) -> None:
    script = "rt.gb_cpu_cache_size.restype = c_int64; print(rt.gb_cpu_cache_size({}), flush=True)"
    folders = [tmp_path / str(number) for number in range(len(CACHE_SIZES))]
    for folder, text in zip(folders, CACHE_SIZES, strict=True):
        folder.mkdir()
        (folder / "size").write_text(text)
    ended = runtime.each([(script.format(str(f).encode()), {}) for f in (*folders, tmp_path / "none")])
    assert [int(done.ok().out) for done in ended] == [*CACHE_SIZES.values(), 0]


def test_the_size_of_caches_can_be_set(runtime: Runtime) -> None:
    script = "rt.gb_cpu_cache_bytes.restype = c_int64; print(rt.gb_cpu_cache_bytes(), flush=True)"
    assert runtime.run(script, GPUBUILD_CPU_CACHE_BYTES="5").ok().out == b"5\n"
    assert int(runtime.run(script, GPUBUILD_CPU_CACHE_BYTES="").ok().out) > 1 << 18
    assert "allowed are 0 to 2147483647" in runtime.run(script, GPUBUILD_CPU_CACHE_BYTES="1M").err


QUOTAS: list[tuple[str, dict[str, str], int]] = [
    ("0::/\n", {"cpu.max": "max 100000\n"}, 0),
    ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
    ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "300000 100000"}, 3),
    ("0::/a/b\n", {"a/b/cpu.max": "50000 100000", "a/cpu.max": "300000 100000"}, 1),
    ("0::/not/here\n", {"cpu.max": "200000 100000\n"}, 2),
    ("1:cpuset:/\n0::/d\n", {"d/cpu.max": "400000 100000"}, 4),
    ("1:cpuset:/\n0::/\n", {}, 0),
    ("nonsense", {"cpu.max": "1"}, 0),
]


def test_quotas(runtime: Runtime, tmp_path: Path) -> None:
    rows = []
    for number, (membership, files, _) in enumerate(QUOTAS):
        mount = tmp_path / str(number)
        mount.mkdir()
        for name, text in files.items():
            (mount / name).parent.mkdir(parents=True, exist_ok=True)
            (mount / name).write_text(text)
        call = f"rt.gb_cpu_quota({membership.encode()!r}, {str(mount).encode()!r})"
        rows.append((f"print({call}, flush=True)", {}))
    assert [int(done.ok().out) for done in runtime.each(rows)] == [cpus for *_, cpus in QUOTAS]
