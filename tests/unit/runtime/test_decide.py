"""Which kind of device a program uses: every module must run there."""

# ruff: noqa: E501  (the tables have a line for each row)

import platform
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from unit.runtime.programs import (
    FLAGS,
    PROGRAM,
    RUNTIME,
    Runtime,
    container,
    cubin,
    elf,
    extra_flags,
    hsaco,
    ptx,
)

NVIDIA = container(("sm_60", ptx("sm_60")), module="everywhere")
ALLOCATE = "mgpuMemFree(mgpuMemAlloc(16, None, 0), None)"


def test_auto_takes_the_gpu_that_every_module_has_images_for(runtime: Runtime) -> None:
    done = runtime.run("load(0); load(1);" + ALLOCATE, NVIDIA, container(("sm_90", cubin())), cuda="9.0").ok()
    assert done.called("cuMemAlloc") == ["cuMemAlloc ctx=0 16"]
    assert done.called("cuModuleLoad") == [], "modules of no use are not loaded"


def test_the_driver_is_not_even_opened_without_images_for_it(runtime: Runtime) -> None:
    only_amd = container(("gfx90a", hsaco()), module="reduce")
    done = runtime.run("load(0); load(1);" + ALLOCATE, NVIDIA, only_amd, cuda="9.0")
    assert done.calls == ()
    assert done.code == 1
    assert "no device here can run this program" in done.err
    assert "  not cuda: module reduce has no image for it\n" in done.err
    assert "  not hip: module everywhere has no image for it\n" in done.err
    assert "  not cpu: module everywhere has no image for it\n" in done.err
    assert (
        f"  images of module everywhere: sm_60 of target t-sm_60 (ptx, {len(ptx('sm_60'))} bytes)\n"
        in done.err
    )
    assert "  images of module reduce: gfx90a of target t-gfx90a (hsaco, 64 bytes)\n" in done.err
    assert "what to do: add a target for this machine" in done.err


def test_a_module_that_does_not_fit_the_gpu_moves_all_to_the_cpu(runtime: Runtime) -> None:
    machine = 62 if "x86" in platform.machine() else 183
    chip = "x86-64" if machine == 62 else "generic"
    first = container(("sm_60", ptx("sm_60")), (chip, elf(machine)), module="first")
    second = container(("sm_90a", cubin()), (chip, elf(machine)), module="second")
    done = runtime.run("load(0); load(1);" + ALLOCATE, first, second, cuda="8.0", GPUBUILD_TRACE="1").ok()
    assert done.called("cuMemAlloc") == []
    assert (
        "trace: not cuda: no image of module second runs on cuda:0 (Fake GPU 0, sm_80): "
        "sm_90a of target t-sm_90a (cubin, 64 bytes): "
        "code for a chip with suffix 'a' runs on exactly that chip; "
    ) in done.err
    assert "trace: not hip: module first has no image for it\n" in done.err
    assert "trace: device cpu\n" in done.err


# What a program does, with which devices, and what ends it.
REFUSED: list[tuple[str, dict[str, str], str]] = [
    ("load(0);" + ALLOCATE, {"device": "cuda"}, "asks for (cuda): libcuda.so.1: cannot open shared object file"),
    ("load(0);" + ALLOCATE, {"device": "cuda"}, "images of module everywhere: sm_60 of target t-sm_60 (ptx"),
    ("load(0);" + ALLOCATE, {"device": "cuda"}, "what to do: install the device's driver, add a target"),
    (ALLOCATE, {"device": "hip"}, "asks for (hip): libamdhip64.so: cannot open shared object file"),
    (ALLOCATE, {"device": "cuda", "cuda": ""}, "there is no cuda:0; the driver finds 0 devices"),
    (ALLOCATE, {"device": "hip:1", "hip": "gfx90a"}, "there is no hip:1; HIP finds 1 device\n"),
    (ALLOCATE, {"device": "cuda", "cuda": "9.0", "FAKE_FAIL": "cuInit=100"}, "cuInit failed with CUDA_ERROR_FAKE (100): a failure to order"),
    (ALLOCATE, {"device": "hip", "hip": "gfx90a", "FAKE_FAIL": "hipInit=100"}, "hipInit failed with hipErrorFake (100)"),
    ("mgpuStreamCreate()", {"device": "hip", "hip": "?"}, "HIP does not name the chip of hip:0"),
    (ALLOCATE + "; mgpuSetDefaultDevice(3)", {"device": "cuda", "cuda": "9.0,8.0"}, "device 3, which the program or GPUBUILD_DEVICE asks for, cannot be used: there is no cuda:3"),
    ("mgpuSetDefaultDevice(-1)", {}, "devices are numbered from 0 to 63"),
    ("mgpuModuleUnload(None); m = load(0); mgpuModuleUnload(m); mgpuModuleUnload(m)", {}, "not loaded (unloaded twice?)"),
]  # fmt: skip


@pytest.mark.parametrize(("script", "devices", "message"), REFUSED)
def test_what_ends_a_program(runtime: Runtime, script: str, devices: dict[str, str], message: str) -> None:
    done = runtime.run(script, NVIDIA, **devices)
    assert (done.code, message in done.err) == (1, True), done.err


def test_a_module_loaded_later_must_fit_the_device(runtime: Runtime) -> None:
    script = "load(0);" + ALLOCATE + "; mgpuModuleGetFunction(load(1), b'k')"
    done = runtime.run(script, NVIDIA, container(("sm_80", cubin()), module="late"), cuda="9.0")
    assert done.code == 1
    assert (
        "no image of this module runs on the device that the program uses: "
        "sm_80 of target t-sm_80 (cubin, 64 bytes): " in done.err
    )
    assert (
        "  module: late\n  kernel: k\n  target: none\n  location: gpu.func @k\n"
        "  device: cuda:0 (Fake GPU 0, sm_90)\n" in done.err
    )


@pytest.mark.parametrize(
    ("device", "first", "other"),
    [("cuda", "pass", "mgpuSetDefaultDevice(1)"), ("cuda:1", "mgpuSetDefaultDevice(0)", "pass")],
    ids=["which chose", "which never chose uses the environment's"],
)
def test_set_default_device_belongs_to_the_thread(
    runtime: Runtime, device: str, first: str, other: str
) -> None:
    script = f"""
        import threading
        def other():
            {other}
            {ALLOCATE}
        {first}
        {ALLOCATE}
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        {ALLOCATE}
    """
    done = runtime.run(script, device=device, cuda="9.0,8.0").ok()
    assert done.called("cuMemAlloc") == [f"cuMemAlloc ctx={c} 16" for c in (0, 1, 0)]


def test_a_module_is_loaded_on_each_device_that_launches_it(runtime: Runtime) -> None:
    script = """
        module = load(0)
        kernel = mgpuModuleGetFunction(module, b'k')
        launch(kernel)
        mgpuSetDefaultDevice(1)
        launch(kernel)
        launch(mgpuModuleGetFunction(module, b'k'))
        mgpuModuleUnload(module)
    """
    done = runtime.run(
        script, container(("sm_90", cubin()), ("sm_80", cubin())), device="cuda", cuda="9.0,8.0"
    ).ok()
    assert [c.split()[1] for c in done.called("cuModuleLoadData")] == ["ctx=0", "ctx=1"]
    assert [c.split()[1] for c in done.called("cuLaunchKernel")] == ["ctx=0", "ctx=1", "ctx=1"]
    assert len(done.called("cuModuleGetFunction")) == 2
    assert sorted(c.split()[1] for c in done.called("cuModuleUnload")) == ["ctx=0", "ctx=1"]


def test_many_threads_decide_once(runtime: Runtime) -> None:
    script = """
        import threading
        module = load(0)
        start = threading.Barrier(8)
        def work():
            start.wait()
            for _ in range(20):
                launch(mgpuModuleGetFunction(module, b'k'))
        threads = [threading.Thread(target=work) for _ in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
    """
    done = runtime.run(script, NVIDIA, cuda="9.0").ok()
    assert len(done.called("cuInit")) == len(done.called("cuModuleLoadDataEx")) == 1
    assert len(done.called("cuDevicePrimaryCtxRetain")) == len(done.called("cuModuleGetFunction")) == 1
    assert len(done.called("cuLaunchKernel")) == 160


# ---- variables ----


MALFORMED = {
    "GPUBUILD_DEVICE": (
        "gpu,CUDA,cuda:,cuda:x,cuda:-1,cuda: 1,cuda:64,cpu:0,auto:1,cudaa,hip:1x",
        "not a device; allowed are auto, cuda, cuda:N, hip, hip:N, opencl, opencl:N, cpu (N from 0 to 63)",
    ),
    "GPUBUILD_CPU_THREADS": (
        "0,-1,4097,two,1.5,+1, 1,99999999999999999999",
        "not a number of threads; allowed are 1 to 4096",
    ),
    "GPUBUILD_TRACE": ("2,yes,01x", "not a switch; allowed are 0 and 1"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed(runtime: Runtime, name: str) -> None:
    words, what = MALFORMED[name]
    values = words.split(",")
    ended = runtime.each([(ALLOCATE, {name: value}) for value in values])
    assert [(done.code, done.err) for done in ended] == [
        (1, f"gpubuild: {name}={value}: {what}\n  program: {PROGRAM}\n") for value in values
    ]


@pytest.mark.parametrize(
    "variables",
    [{}, {"device": "auto"}, {"device": "cpu"}, {"cuda": "9.0", "FAKE_FAIL": "cuInit=100"}],
    ids=["no word", "auto", "cpu", "a driver that does not start"],
)
def test_without_drivers_the_cpu_is_used(runtime: Runtime, variables: dict[str, str]) -> None:
    """It stands in for any number of a device, and says nothing that it was not asked for."""
    script = "mgpuSetDefaultDevice(1);" + ALLOCATE
    done = runtime.run(script, GPUBUILD_TRACE="1", GPUBUILD_CPU_THREADS="", **variables).ok()
    assert "gpubuild: trace: device cpu" in done.err
    assert runtime.run(script, GPUBUILD_TRACE="0", **variables).ok().err == ""


# ---- another vendor ----


HERE = Path(__file__).parent
FIRST = "    X(CUDA, cuda, true) \\\n"


@pytest.fixture(scope="module")
def with_vendor(built_runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    folder = tmp_path_factory.mktemp("vendor")
    root = folder / "runtime"
    shutil.copytree(RUNTIME, root, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "made_up").mkdir()
    shutil.copy(HERE / "made_up_device.c", root / "made_up")
    registry = root / "core" / "vendors.h"
    text = registry.read_text()
    assert FIRST in text
    registry.write_text(text.replace(FIRST, FIRST + "    X(MADE_UP, made_up, true) \\\n"))
    library = folder / "libgpubuild_rt.so"
    flags = [flag for flag in FLAGS if not flag.startswith("-I")]
    subprocess.run(
        ["cc", *flags, "-O0", *extra_flags(), f"-I{root}", "-shared", "-o", library, *root.glob("*/*.c"),
         *root.glob("*/*.S"), "-ldl", "-lm"],
        check=True,
    )  # fmt: skip
    return replace(built_runtime, library=library)


def test_its_images_and_devices_are_found(with_vendor: Runtime, tmp_path: Path) -> None:
    runtime = replace(with_vendor, scratch=tmp_path)
    done = runtime.run("load(0);" + ALLOCATE, b"MADE UP", GPUBUILD_TRACE="1").ok()
    assert "gpubuild: trace: not cuda: module (unnamed) has no image for it\n" in done.err
    assert "gpubuild: trace: device made_up:0\n" in done.err
    done = runtime.run("load(0);" + ALLOCATE, b"MADE UP", device="made_up:1", GPUBUILD_TRACE="1").ok()
    assert "gpubuild: trace: device made_up:1, as GPUBUILD_DEVICE says\n" in done.err
    done = runtime.run("load(0);" + ALLOCATE, b"MADE UP", device="cpu")
    assert "unknown chip (made-up format, 7 bytes): not a CPU image\n" in done.err
    done = runtime.run(ALLOCATE, device="made_up:x")
    assert (
        "allowed are auto, cuda, cuda:N, made_up, made_up:N, hip, hip:N, opencl, opencl:N, cpu (N" in done.err
    )
