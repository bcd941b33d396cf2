"""GPUBUILD_PROFILE: launches, times and bytes of each kernel, on the CPU and on fake drivers."""

import json
from pathlib import Path

import pytest
from unit.runtime.programs import PROGRAM, Runtime, container, hsaco
from unit.runtime.test_cpu import images  # noqa: F401  (a fixture)
from unit.runtime.test_cuda import MODULE as CUDA_MODULE

KEYS = {"module", "kernel", "device", "launches", "total_ns", "min_ns", "max_ns", "bytes"}
SCRIPT = """
    module = load(0)
    axpy = mgpuModuleGetFunction(module, b'axpy')
    data, more = mgpuMemAlloc(4000, None, 0), mgpuMemAlloc(800, None, 0)
    host = (c_float * 50)()
    mgpuMemset32(data, 0, 1000, None)
    for _ in range(2):
        mgpuMemHostRegister(addressof(host), 200)
    for pointer in (data, data + 396, more, addressof(host)):  # into memory, not only its start
        launch(axpy, (1, 1, 1), (32, 1, 1), 0, None, [c_int64(1), c_float(1), c_void_p(pointer)])
    mgpuMemFree(more, None)
    out = c_int64(-1)
    launch(mgpuModuleGetFunction(module, b'which'), params=[c_void_p(addressof(out))])
    stream = mgpuStreamCreate()
    launch(axpy, (1 << 12, 1, 1), (1, 1, 1), 0, stream, [c_int64(1000), c_float(1), c_void_p(data)])
"""


def kernels(file: Path) -> dict[str, dict]:
    document = json.loads(file.read_text())
    assert set(document) == {"schema", "kernels"}
    assert document["schema"] == 1
    assert all(set(kernel) == KEYS for kernel in document["kernels"])
    assert all(
        k["min_ns"] <= k["total_ns"] // k["launches"] <= k["max_ns"] <= k["total_ns"]
        for k in document["kernels"]
    )
    return {kernel["kernel"]: kernel for kernel in document["kernels"]}


def test_cpu(runtime: Runtime, images: list[bytes], tmp_path: Path) -> None:  # noqa: F811
    """The last launch is still under way when the program ends."""
    file = tmp_path / "profile.json"
    runtime.run(
        SCRIPT,
        container(("x86-64", images[0]), module='a "b"'),
        device="cpu",
        GPUBUILD_PROFILE=str(file),
        GPUBUILD_CPU_THREADS="2",
    ).ok()
    found = kernels(file)
    assert set(found) == {"axpy", "which"}
    assert [(k["module"], k["device"]) for k in found.values()] == [('a "b"', "cpu")] * 2
    assert (found["axpy"]["launches"], found["axpy"]["bytes"]) == (5, 3 * 4000 + 800 + 200)
    assert (found["which"]["launches"], found["which"]["bytes"]) == (1, 0)
    assert [p.name for p in tmp_path.glob("profile*")] == ["profile.json"]


@pytest.mark.parametrize("vendor", ["cuda", "hip"])
def test_gpus_are_timed_by_events(runtime: Runtime, tmp_path: Path, vendor: str) -> None:
    """The fake drivers say that each kernel took a quarter of a millisecond."""
    file = tmp_path / "profile.json"
    module = CUDA_MODULE if vendor == "cuda" else container(("gfx90a", hsaco()), module="m")
    script = """
        kernel = mgpuModuleGetFunction(load(0), b'k')
        for _ in range(1500):  # more than are kept in memory
            launch(kernel)
    """
    chips = {vendor: "9.0" if vendor == "cuda" else "gfx90a"}
    done = runtime.run(script, module, device=vendor, GPUBUILD_PROFILE=str(file), **chips).ok()
    kernel = kernels(file)["k"]
    assert (kernel["launches"], kernel["total_ns"], kernel["bytes"]) == (1500, 1500 * 250_000, None)
    prefix = "cu" if vendor == "cuda" else "hip"
    assert len(done.called(f"{prefix}EventDestroy")) == 3000
    order = [c.split()[0] for c in done.called(f"{prefix}EventRecord", f"{prefix}Launch", "hipModuleLaunch")]
    assert order[:3] == [order[0], order[1], order[0]]
    assert "Launch" in order[1]


def test_no_profile_no_timers(runtime: Runtime) -> None:
    done = runtime.run(
        "launch(mgpuModuleGetFunction(load(0), b'k'))", CUDA_MODULE, device="cuda", cuda="9.0"
    ).ok()
    assert done.called("cuEvent") == []


def test_a_file_that_cannot_be_written(runtime: Runtime, images: list[bytes], tmp_path: Path) -> None:  # noqa: F811
    file = tmp_path / "missing" / "profile.json"
    done = runtime.run(SCRIPT, images[0], device="cpu", GPUBUILD_PROFILE=str(file))
    assert done.code == 1
    assert done.err == (
        f"gpubuild: GPUBUILD_PROFILE={file}: the file cannot be written: No such file or directory\n"
        f"  program: {PROGRAM}\n"
    )
