"""What goes wrong when a program runs, on each device: messages name program, module, kernel, place and target.

The table is run once for each device.
"""

# ruff: noqa: E501  (programs inside strings are not broken for width)

import platform
from dataclasses import dataclass
from pathlib import Path

import pytest
from unit.runtime.programs import PROGRAM, Runtime, cpu_image, cubin, hsaco

from gpubuild.model.offload_binary import Image, pack

CHIP = "x86-64" if "x86" in platform.machine() else "generic"
LAUNCH = "gpu.launch_func in @main at app.mlir:12:3"
AT_LAUNCH = "app.mlir:12:3 (gpu.launch_func in @main)"
AT_KERNEL = "app.mlir:3:5 (gpu.func @k)"

# k(i64), for workgroups of 32 work-items, and one that does nothing.
IMAGE = r"""
KERNEL(run) {}
static const uint64_t bytes[] = {8};
static const gb_cpu_kernel kernels[] = {
    {.name = "k", .run = run, .tier = GB_CPU_TIER_LOOP, .param_count = 1, .param_bytes = bytes, .required_block = {32, 1, 1}},
    {.name = "any", .run = run, .tier = GB_CPU_TIER_LOOP, .param_count = 1, .param_bytes = bytes},
};
IMAGE(kernels)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One failure: what the program does, on which devices, and what the message says.

    ``fails`` is what the fake driver answers. ``kernel`` is empty where a failure is about none.
    """

    code: str
    says: str
    devices: tuple[str, ...] = ("cpu", "cuda", "hip")
    fails: str = ""
    kernel: str = "k"
    target: bool = True


ROWS = (
    # A C host has found a kernel that is not there.
    Row(code="mgpuModuleGetFunction(load(0), b'none')", says="the module has no kernel of this name", devices=("cpu",), kernel="none"),
    Row(code="mgpuModuleGetFunction(load(0), b'none')", says="cuModuleGetFunction failed with CUDA_ERROR_FAKE (500)", devices=("cuda",), fails="cuModuleGetFunction=500", kernel="none"),
    Row(code="mgpuModuleGetFunction(load(0), b'none')", says="hipModuleGetFunction failed with", devices=("hip",), fails="hipModuleGetFunction=500", kernel="none"),
    # The image is for another device, or not what the driver takes.
    Row(code="mgpuMemAlloc(4, None, 0); mgpuModuleGetFunction(load(1), b'k')", says="no image of this module runs on the device that the program uses", target=False),
    Row(code="mgpuModuleGetFunction(load(0), b'k')", says="cuModuleLoadData failed with", devices=("cuda",), fails="cuModuleLoadData=209"),
    Row(code="mgpuModuleGetFunction(load(0), b'k')", says="hipModuleLoadData failed with", devices=("hip",), fails="hipModuleLoadData=209"),
    # Workgroups and grids.
    Row(code="launch(K(), block=(1025, 1, 1), params=[c_int64(1)])", says="1025 x 1 x 1 has more than 1024 work-items", devices=("cpu",)),
    Row(code="launch(K(), block=(64, 1, 1), params=[c_int64(1)])", says="compiled for workgroups of 32 x 1 x 1 work-items, not 64 x 1 x 1", devices=("cpu",)),
    Row(code="launch(K(), block=(1025, 1, 1), params=[c_int64(1)])", says="grid 1x1x1, block 1025x1x1", devices=("cuda",), fails="cuLaunchKernel=1"),
    Row(code="launch(K(), block=(1025, 1, 1), params=[c_int64(1)])", says="grid 1x1x1, block 1025x1x1", devices=("hip",), fails="hipModuleLaunchKernel=1"),
    Row(code="launch(K(), block=(-1, 1, 1), params=[c_int64(1)])", says="a workgroup extent of -1: it must be from 0 to"),
    Row(code="launch(K(), grid=(1 << 33, 1, 1), params=[c_int64(1)])", says="a grid extent of 8589934592: it must be from 0 to"),
    # Clusters and memory.
    Row(code="mgpuLaunchClusterKernel(K(), 0, 1, 1, 1, 1, 1, 32, 1, 1, 0, None, None, None)", says="a cluster of 0x1x1 workgroups"),
    Row(code="mgpuLaunchClusterKernel(K(), 2, 1, 1, 2, 1, 1, 32, 1, 1, 0, None, None, None)", says="which HIP devices do not have", devices=("hip",)),
    Row(code="mgpuLaunchClusterKernel(K(), 2, 1, 1, 3, 1, 1, 32, 1, 1, 0, None, None, None)", says="cannot be divided into clusters", devices=("cpu",)),
    Row(code="launch(K(), block=(32, 1, 1), shared=-1, params=[c_int64(1)])", says="-1 bytes of dynamic workgroup memory"),
    Row(code="launch(K(), block=(32, 1, 1), shared=1 << 30, params=[c_int64(1)])", says="the device has at most 232448", devices=("cuda",)),
    # Arguments that a C host passes.
    Row(code="launch(K(), block=(32, 1, 1), params=[c_int64(1), c_int64(2)])", says="the launch passes 2 parameters, and the kernel has 1"),
    Row(code="mgpuLaunchKernel(K(), 1, 1, 1, 32, 1, 1, 0, None, None, 64, 0)", says="in `extra`, which only GPU drivers support", devices=("cpu",)),
    # Memory: about no kernel.
    Row(code="a = mgpuMemAlloc(8, None, 0); mgpuMemcpy(a + 4, a, 8, None)", says="where the allocation of 8 bytes has 4 left", devices=("cpu",), kernel=""),
    Row(code="b = create_string_buffer(64); mgpuMemcpy(b, mgpuMemAlloc(8, None, 0), 9, None)", says="reads for a copy 9 bytes", devices=("cpu",), kernel=""),
    Row(code="mgpuMemset32(mgpuMemAlloc(8, None, 0), 0, 3, None)", says="the program sets 12 bytes", devices=("cpu",), kernel=""),
    Row(code="mgpuMemset16(mgpuMemAlloc(8, None, 0), 0, 5, None)", says="the program sets 10 bytes", devices=("cpu",), kernel=""),
    Row(code="a = mgpuMemAlloc(8, None, 0); mgpuMemFree(a, None); mgpuMemFree(a, None)", says="it is freed twice, or was not allocated by gpu.alloc", devices=("cpu",), kernel=""),
    Row(code="mgpuMemFree(mgpuMemAlloc(8, None, 0) + 4, None)", says="4 bytes inside an allocation of 8", devices=("cpu",), kernel=""),
    Row(code="mgpuMemFree(addressof(create_string_buffer(64)), None)", says="was not allocated by gpu.alloc", devices=("cpu",), kernel=""),
    Row(code="mgpuMemcpy(None, None, 4, None)", says="the address is NULL", kernel=""),
    Row(code="mgpuMemAlloc(8, None, 0)", says="cuMemAlloc failed with", devices=("cuda",), fails="cuMemAlloc=2", kernel=""),
    Row(code="mgpuMemAlloc(8, None, 0)", says="hipMalloc failed with", devices=("hip",), fails="hipMalloc=2", kernel=""),
)  # fmt: skip
# Chip, image, and the name and environment of the fake driver's device.
DEVICES = {
    "cpu": (CHIP, None, {}),
    "cuda": ("sm_90", cubin(), {"cuda": "9.0"}),
    "hip": ("gfx90a", hsaco(), {"hip": "gfx90a"}),
}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return cpu_image(tmp_path_factory.mktemp("diagnosis"), IMAGE)


def _container(chip: str, data: bytes) -> bytes:
    strings = {
        "arch": chip,
        "gpubuild.module": "m",
        "gpubuild.target": "mine",
        "gpubuild.kernels": '[{"name":"k","parameters":1,"registers":null}]',
    }
    return pack([Image(image_kind=1, offload_kind=0, strings=strings, data=data)])


@pytest.mark.parametrize("device", DEVICES)
def test_messages_name_everything(runtime: Runtime, image: bytes, device: str, tmp_path: Path) -> None:
    chip, data, driver = DEVICES[device]
    other = next(c for name, (c, _, _) in DEVICES.items() if name == ("cuda" if device != "cuda" else "hip"))
    images = [
        _container(chip, data or image),
        _container(other, DEVICES["cuda" if device != "cuda" else "hip"][1]),
    ]
    (tmp_path / "app.places.txt").write_text("@m::@other\tapp.mlir:1:1\n@m::@k\tapp.mlir:3:5\n")
    # The place is said once for the launch and once not at all.
    rows = [(row, at_launch) for row in ROWS if device in row.devices for at_launch in (True, False)]
    said = f"program, place = {str(tmp_path / 'app').encode()!r}, {LAUNCH.encode()!r}  # the runtime keeps addresses\n"
    said += "rt.gpubuildProgram(program)\nrt.gpubuildPlace({})\n"
    scripts = [
        said.format("place" if at_launch else None)
        + row.code.replace("K()", "mgpuModuleGetFunction(load(0), b'k')")
        for row, at_launch in rows
    ]
    given = [(script, {"FAKE_FAIL": row.fails}) for script, (row, _) in zip(scripts, rows, strict=True)]
    for done, (row, at_launch) in zip(
        runtime.each(given, *images, device=device, **driver), rows, strict=True
    ):
        text = done.err
        assert (done.code, row.says in text) == (1, True), (row, text)
        lines = text.splitlines()
        assert f"  program: {PROGRAM}" in lines
        if row.kernel:
            assert "  module: m" in lines, text
            assert f"  kernel: {row.kernel}" in lines, text
            assert (f"  target: mine ({chip}, " if row.target else "  target: none") in text
            place = AT_LAUNCH if at_launch else AT_KERNEL if row.kernel == "k" else f"gpu.func @{row.kernel}"
            assert f"  location: {place}" in lines, text
        else:
            assert (f"  location: {AT_LAUNCH}" in lines) is at_launch, text
        assert "  call: " in text
        assert f"  device: {device}" in text


def test_a_message_follows_what_was_printed(runtime: Runtime) -> None:
    script = "rt.printI64(c_int64(7)); mgpuMemcpy(None, None, 4, None)"
    done = runtime.run(script, device="cpu")
    assert (done.code, done.out) == (1, b"7")


@pytest.mark.parametrize("device", DEVICES)
def test_no_image_for_any_device(runtime: Runtime, device: str) -> None:
    """The choice of the device fails: what asked for it is named, and every image with its target."""
    chip, data, _ = DEVICES["hip" if device == "cuda" else "cuda"]
    script = (
        "rt.gpubuildPlace(b'gpu.launch_func in @main at app.mlir:12:3')\nmgpuModuleGetFunction(load(0), b'k')"
    )
    driver = DEVICES[device][2]
    done = runtime.run(script, _container(chip, data or b""), device=device, **driver)
    assert done.code == 1
    lines = done.err.splitlines()
    assert {"  module: m", "  kernel: k", f"  location: {AT_LAUNCH}", f"  program: {PROGRAM}"} <= set(lines)
    assert f"{chip} of target mine (" in done.err


def test_places_outside_of_launches(runtime: Runtime, image: bytes, tmp_path: Path) -> None:
    """An address finds its line in the build folder that the program lies in; what was said ends with NULL."""
    sources = tmp_path / "build/.gpubuild/sources/app.mlir"
    sources.mkdir(parents=True)
    (sources / "places.txt").write_text(
        "0123456789abcdef:2:30\tsrc/a b.mlir:70:1\n0123456789abcdef:2:3\tsrc/a b.mlir:7:1\n"
    )
    (sources.parent / "not-a-folder").write_text("")
    place = "gpu.alloc in @at at@main#0123456789abcdef:2:3"
    script = f"""
program, place = {str(tmp_path / "build/app/app")!r}.encode(), {place!r}.encode()  # kept: the runtime keeps addresses
rt.gpubuildProgram(program)
rt.gpubuildPlace(place)
"""
    said = runtime.run(script + "mgpuMemFree(4, None)", device="cpu").err
    assert "  location: src/a b.mlir:7:1 (gpu.alloc in @at at@main)\n" in said
    unknown = script.replace("2:3", "9:9") + "mgpuMemFree(4, None)"
    assert "  location: gpu.alloc in @at at@main\n" in runtime.run(unknown, device="cpu").err
    over = runtime.run(script + "rt.gpubuildPlace(None)\nmgpuMemFree(4, None)", device="cpu").err
    assert "location" not in over


def test_nothing_is_launched_for_nothing(runtime: Runtime, image: bytes) -> None:
    """An empty grid or workgroup is no failure on any device, and is traced."""
    for device, (chip, data, driver) in DEVICES.items():
        script = """
            kernel = mgpuModuleGetFunction(load(0), b'k')
            launch(kernel, block=(0, 1, 1), params=[c_int64(1)])
            launch(kernel, grid=(1, 0, 1), block=(2000, 1, 1), params=[c_int64(1)])
        """
        done = runtime.run(
            script, _container(chip, data or image), device=device, GPUBUILD_TRACE="1", **driver
        ).ok()
        assert done.err.count("launch skipped: ") == 2
        assert not done.called("cuLaunch", "hipModuleLaunch")
