"""Programs with SPIR-V images, run by Intel's OpenCL runtime for CPUs."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import mlir
import numpy as np
import pytest
import yaml
from devices import at_hand
from devices.pack import Launch, Pack
from e2e.command import ROOT, Outcome, build_project, execute, gpubuild, project_file, run_python
from op_coverage.compiling import ALL_ROWS
from unit.engine.device_steps import compile_module
from variants import few

MLIR_OPT = Path(next(iter(mlir.__path__))) / "bin" / "mlir-opt"
EXAMPLES = ("saxpy/saxpy.mlir", "saxpy/main.c", "reduction/reduction.mlir")
PROJECT = """\
version: 1
targets: {sm_60: {}, sm_90: {}, gfx90a: {}, spirv: {}, xe: {}, cpu: {}}
programs:
  saxpy: {sources: [saxpy.mlir, main.c], targets: [sm_60, sm_90, gfx90a, spirv, cpu]}
  reduction: {sources: [reduction.mlir], targets: [sm_60, sm_90, gfx90a, spirv, cpu]}
  arguments: {sources: [arguments.mlir], targets: [spirv]}
  three: {sources: [three.mlir], targets: [spirv]}
  four: {sources: [four.mlir], targets: [spirv]}
  lanes_of_spirv: {sources: [lanes.mlir], targets: [spirv]}
  lanes_of_xe: {sources: [lanes.mlir], targets: [xe]}
  lanes_of_both: {sources: [lanes.mlir], targets: [spirv, xe]}
  printing: {sources: [printing.mlir], targets: [spirv, cpu]}
"""
FAILING = """
module attributes {gpu.container_module} {
gpu.module @k {
  gpu.func @f(%out: memref<?xi32>) kernel {
    %i = gpu.thread_id x
    %c = arith.constant 3 : index
    %right = arith.cmpi ult, %i, %c : index
    cf.assert %right, "only three"
    %n = arith.index_cast %i : index to i32
    memref.store %n, %out[%i] : memref<?xi32>
    gpu.return
  }
}
func.func @main() -> i32 {
  %one = arith.constant 1 : index
  %many = arith.constant COUNT : index
  %out = gpu.alloc host_shared (%many) : memref<?xi32>
  gpu.launch_func @k::@f blocks in (%one, %one, %one) threads in (%many, %one, %one)
    args(%out : memref<?xi32>)
  %zero = arith.constant 0 : i32
  return %zero : i32
}
}
"""
ARGUMENTS = """
module attributes {gpu.container_module} {
gpu.module @k {
  gpu.func @f(%out: memref<?xf64>, %a: i1, %b: i8, %c: f16, %d: f64, %e: vector<3xf32>,
              %z: complex<f32>, %w: complex<f64>) kernel {
    %a1 = arith.uitofp %a : i1 to f64
    %b1 = arith.sitofp %b : i8 to f64
    %c1 = arith.extf %c : f16 to f64
    %e0 = vector.extract %e[2] : f32 from vector<3xf32>
    %e1 = arith.extf %e0 : f32 to f64
    %z0 = complex.im %z : complex<f32>
    %z1 = arith.extf %z0 : f32 to f64
    %w1 = complex.im %w : complex<f64>
    %all = vector.from_elements %a1, %b1, %c1, %d, %e1, %z1, %w1 : vector<7xf64>
    %zero = arith.constant 0 : index
    vector.store %all, %out[%zero] : memref<?xf64>, vector<7xf64>
    gpu.return
  }
}
func.func private @printMemrefF64(memref<*xf64>) attributes {llvm.emit_c_interface}
func.func @main() -> i32 {
  %one = arith.constant 1 : index
  %many = arith.constant 7 : index
  %out = gpu.alloc host_shared (%many) : memref<?xf64>
  %a = arith.constant true
  %b = arith.constant -7 : i8
  %c = arith.constant 0.25 : f16
  %d = arith.constant 1.5 : f64
  %e = arith.constant dense<[1.0, 2.0, 4.5]> : vector<3xf32>
  %z = complex.constant [1.0 : f32, 2.5 : f32] : complex<f32>
  %w = complex.constant [1.0 : f64, 3.5 : f64] : complex<f64>
  gpu.launch_func @k::@f blocks in (%one, %one, %one) threads in (%one, %one, %one)
    args(%out : memref<?xf64>, %a : i1, %b : i8, %c : f16, %d : f64, %e : vector<3xf32>,
         %z : complex<f32>, %w : complex<f64>)
  %cast = memref.cast %out : memref<?xf64> to memref<*xf64>
  func.call @printMemrefF64(%cast) : (memref<*xf64>) -> ()
  %zero = arith.constant 0 : i32
  return %zero : i32
}
}
"""
LANES = """
module attributes {gpu.container_module} {
gpu.module @k {
  gpu.func @f(%out: memref<?xi32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %i = gpu.thread_id x
    %lane = gpu.lane_id
    %n = arith.index_cast %lane : index to i32
    %sum = gpu.subgroup_reduce add %n : (i32) -> i32
    memref.store %sum, %out[%i] : memref<?xi32>
    gpu.return
  }
}
func.func private @printMemrefI32(memref<*xi32>) attributes {llvm.emit_c_interface}
func.func @main() -> i32 {
  %one = arith.constant 1 : index
  %items = arith.constant 64 : index
  %out = gpu.alloc host_shared (%items) : memref<?xi32>
  gpu.launch_func @k::@f blocks in (%one, %one, %one) threads in (%items, %one, %one)
    args(%out : memref<?xi32>)
  %cast = memref.cast %out : memref<?xi32> to memref<*xi32>
  func.call @printMemrefI32(%cast) : (memref<*xi32>) -> ()
  %zero = arith.constant 0 : i32
  return %zero : i32
}
}
"""
PRINTING = """
module attributes {gpu.container_module} {
gpu.module @k {
  gpu.func @say(%x: memref<?xf32>) kernel {
    %i = gpu.thread_id x
    %n = arith.index_cast %i : index to i32
    %value = memref.load %x[%i] : memref<?xf32>
    %twice = arith.addf %value, %value : f32
    gpu.printf "item %d of %lld: %.2f, twice %f %%\\0A", %n, %i, %value, %twice : i32, index, f32, f32
    memref.store %twice, %x[%i] : memref<?xf32>
    gpu.return
  }
  gpu.func @nothing() kernel {
    gpu.return
  }
}
func.func @main() -> i32 {
  %one = arith.constant 1 : index
  %many = arith.constant 5 : index
  %bytes = arith.constant 256 : index
  %x = gpu.alloc host_shared (%bytes) : memref<?xf32>
  %zero = arith.constant 0 : index
  scf.for %i = %zero to %many step %one {
    %n = arith.index_cast %i : index to i32
    %f = arith.sitofp %n : i32 to f32
    memref.store %f, %x[%i] : memref<?xf32>
  }
  scf.for %i = %zero to %many step %one {
    gpu.launch_func @k::@nothing blocks in (%one, %one, %one) threads in (%one, %one, %one)
  }
  gpu.launch_func @k::@say blocks in (%one, %one, %one) threads in (%many, %one, %one)
    args(%x : memref<?xf32>)
  gpu.launch_func @k::@say blocks in (%one, %one, %one) threads in (%many, %one, %one)
    args(%x : memref<?xf32>)
  %code = arith.constant 0 : i32
  return %code : i32
}
}
"""
pytestmark = at_hand.NEEDS_OPENCL


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("opencl")
    files = {name: (ROOT / "examples" / name).read_text() for name in EXAMPLES}
    files |= {"arguments.mlir": ARGUMENTS, "lanes.mlir": LANES, "printing.mlir": PRINTING}
    files |= {"three.mlir": FAILING.replace("COUNT", "3"), "four.mlir": FAILING.replace("COUNT", "4")}
    return build_project(folder, PROJECT, {Path(name).name: text for name, text in files.items()})


def run(build: Path, name: str, device: str, **variables: str) -> Outcome:
    environment = {**os.environ, **(at_hand.opencl() or {}), "GPUBUILD_DEVICE": device, **variables}
    return execute(build / name / name, cwd=build.parent, env=environment, code=None)


@pytest.mark.parametrize("name", few(["reduction", "saxpy"]))
def test_five_images_run_on_two_devices(build: Path, tmp_path: Path, name: str) -> None:
    found = gpubuild("inspect", build / name / name, "--json", cwd=build).document
    chips = {image["chip"] for module in found["modules"] for image in module["objects"]}
    assert chips >= {"sm_60", "sm_90", "gfx90a", "spirv1.3"}
    profile = tmp_path / "profile.json"
    opencl, cpu = run(build, name, "opencl", GPUBUILD_PROFILE=str(profile)), run(build, name, "cpu")
    assert (opencl.code, opencl.out) == (cpu.code, cpu.out) == (0, opencl.out), opencl
    assert "opencl:0" in profile.read_text()
    for tool in filter(None, (MLIR_OPT, shutil.which("mlir-opt-22"))):  # the wheel's, and Debian's
        for binary in (build / name).glob("*.binary.mlir"):
            execute(tool, binary)


def test_all_examples(tmp_path: Path) -> None:
    """The repository's own project for SPIR-V alone."""
    project = yaml.safe_load((ROOT / "targets.yaml").read_text())
    if not ALL_ROWS:  # matrix_units takes Intel's compiler most of a minute
        some = ("saxpy", "reduction", "softmax", "collatz", "edges")
        project["programs"] = {name: program for name, program in project["programs"].items() if name in some}
    project["targets"] = {"spirv": {}}
    for program in project["programs"].values():
        program.pop("targets", None)
        program.pop("modules", None)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    build = build_project(tmp_path, json.dumps(project), {})
    for name in project["programs"]:
        done = run(build, name, "opencl")
        expected = (ROOT / "examples" / name / "expected.txt").read_text()
        assert (done.out, done.err, done.code) == (expected, "", 0), name


def test_arguments_of_every_kind(build: Path) -> None:
    done = run(build, "arguments", "opencl")
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("\n[1,  -7,  0.25,  1.5,  4.5,  2.5,  3.5]\n")


@pytest.mark.parametrize(("name", "code"), [("three", 0), ("four", 1)])
def test_a_failed_assertion_ends_the_program(build: Path, name: str, code: int) -> None:
    done = run(build, name, "opencl")
    assert done.code == code, done.err
    assert ("k: f: assertion failed: only three" in done.out) == (code == 1)
    assert ("an assertion failed in a kernel" in done.err) == (code == 1)


def test_auto_leaves_a_cpu_device_alone(build: Path) -> None:
    done = run(build, "three", "auto")
    assert done.code == 1
    assert "opencl:0 is no GPU; it is used with GPUBUILD_DEVICE=opencl:0" in done.err
    assert "there is no opencl:7" in run(build, "three", "opencl:7").err


@pytest.mark.parametrize(("targets", "sum_of_lanes"), [("spirv", 496), ("xe", 120), ("both", 120)])
def test_subgroups_have_the_size_of_the_target(build: Path, targets: str, sum_of_lanes: int) -> None:
    """Of both, Intel's runtime takes the image for Intel's chips."""
    done = run(build, f"lanes_of_{targets}", "opencl")
    assert done.code == 0, done.err
    assert done.out.endswith(f"[{',  '.join([str(sum_of_lanes)] * 64)}]\n")


WANDERING = """
gpu.module @k {
  gpu.func @f(%a: memref<?xi32>, %out: memref<?xi32>, %count: index, %m: index) kernel {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %three = arith.constant 3 : i32
    %g = gpu.global_id x
    %r = arith.remui %g, %m : index
    %start = arith.index_cast %r : index to i32
    %step = memref.load %a[%g] : memref<?xi32>
    %next, %value = scf.for %i = %zero to %count step %one
        iter_args(%now = %start, %before = %start) -> (i32, i32) {
      %then = arith.addi %now, %step : i32
      scf.yield %then, %now : i32, i32
    }
    %thrice = arith.muli %next, %three : i32
    %both = arith.xori %value, %thrice : i32
    memref.store %both, %out[%g] : memref<?xi32>
    gpu.return
  }
}
"""


@pytest.mark.parametrize("opt_level", [0, 3])
def test_values_behind_loops_are_right(tmp_path: Path, opt_level: int) -> None:
    """Intel's compiler vectorises such a loop wrongly: engine/backends/spirv/loop_values.py."""
    items, divisor = np.arange(70, dtype=np.int32), 13
    steps = 7 * items - 100
    image = compile_module(WANDERING, "spirv1.3", opt_level=opt_level).object
    pack, counts = Pack(tmp_path / "pack", "spirv1.3"), (1, 2, 7, 8, 9, 17)
    sizes = [np.int64(count) for count in counts]
    arguments = [(steps, np.zeros_like(items), size, np.int64(divisor)) for size in sizes]
    pack.add("f", image, [Launch(kernel="f", grid=2, block=35, args=given) for given in arguments])
    for count, result in zip(counts, pack.run(at_hand.OPENCL), strict=True):
        value = items % divisor + (count - 1) * steps
        np.testing.assert_array_equal(result.args[1], value ^ (value + steps) * 3, f"{count} iterations")


def test_prints_what_the_cpu_prints(build: Path) -> None:
    """The order of work-items is the device's; that of launches is not."""
    opencl, cpu = (run(build, "printing", device) for device in ("opencl", "cpu"))
    assert (opencl.code, opencl.err, cpu.code, cpu.err) == (0, "", 0, "")
    found, expected = opencl.out.splitlines(), cpu.out.splitlines()
    assert len(expected) == 10
    assert "item 3 of 3: 3.00, twice 6.000000 %" in expected[:5]
    assert "item 3 of 3: 6.00, twice 12.000000 %" in expected[5:]
    assert sorted(found[:5]) == sorted(expected[:5])
    assert sorted(found[5:]) == sorted(expected[5:])


def test_profiles_as_the_cpu_does(build: Path, tmp_path: Path) -> None:
    """Times are the device's own; the memory that launches reach is known on CPUs only."""
    for device, reached in (("opencl", {"say": None, "nothing": None}), ("cpu", {"say": 2048, "nothing": 0})):
        profile = tmp_path / f"{device}.json"
        assert run(build, "printing", device, GPUBUILD_PROFILE=str(profile)).code == 0
        kernels = {kernel["kernel"]: kernel for kernel in json.loads(profile.read_text())["kernels"]}
        assert {name: kernel["bytes"] for name, kernel in kernels.items()} == reached
        assert {name: kernel["launches"] for name, kernel in kernels.items()} == {"say": 2, "nothing": 5}
        assert kernels["say"]["min_ns"] > 0
        for kernel in kernels.values():
            assert kernel["module"] == "k"
            assert kernel["device"].startswith(device)
            mean = kernel["total_ns"] // kernel["launches"]
            assert kernel["min_ns"] <= mean <= kernel["max_ns"] <= kernel["total_ns"]


CALL_EACH = "import ctypes, sys; print([ctypes.CDLL(path).call() for path in sys.argv[1:]])"


def test_two_libraries_at_the_end_of_a_process(tmp_path: Path) -> None:
    """The driver has ended when the second one unloads its modules."""
    programs = [f"{name}: {{sources: [k.mlir], product: shared}}" for name in ("first", "second")]
    called = FAILING.replace("@main() -> i32", "@call() -> i32 attributes {llvm.emit_c_interface}")
    source = called.replace("COUNT", "3").replace("%zero = arith.constant 0", "%zero = arith.constant 7")
    built = build_project(tmp_path, project_file(*programs, targets="spirv: {}"), {"k.mlir": source})
    libraries = [built / name / f"lib{name}.so" for name in ("first", "second")]
    environment = {**os.environ, **(at_hand.opencl() or {}), "GPUBUILD_DEVICE": "opencl"}
    ran = run_python(CALL_EACH, *libraries, env=environment)
    assert (ran.out, ran.err) == ("[7, 7]\n", "")
