"""Each pass of the gpu dialect and each of its options has its effect in ``passes: source:``, or an error."""

import json
import re
from functools import cache

import pytest
from unit.engine.device_steps import outline_source
from unit.engine.steps import refused

KERNEL = """module attributes {gpu.container_module} {
gpu.module @k {
  gpu.func @f(%m: memref<16xf32>, %x: i32) kernel {
    %i = gpu.thread_id x
    %v = memref.load %m[%i] : memref<16xf32>
    gpu.barrier
    gpu.barrier
    memref.store %v, %m[%i] : memref<16xf32>
    gpu.printf "%d", %x : i32
    gpu.return
  }
}
func.func @main(%m: memref<16xf32>, %c: index, %x: i32) {
  gpu.launch_func @k::@f blocks in (%c, %c, %c) threads in (%c, %c, %c) args(%m : memref<16xf32>, %x : i32)
  return
}}
"""
LAUNCH = """func.func @main(%m: memref<4x4xf32>, %n: memref<?xi8>) {
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  gpu.launch blocks(%a, %b, %c) in (%d = %c1, %e = %c1, %f = %c1)
             threads(%x, %y, %z) in (%u = %c4, %v = %c4, %w = %c1) {
    %k = arith.addi %c4, %x : index
    %s = memref.subview %m[%x, 0] [1, 4] [1, 1]
        : memref<4x4xf32> to memref<1x4xf32, strided<[4, 1], offset: ?>>
    %c0 = arith.constant 0 : index
    %o = memref.load %s[%c0, %y] : memref<1x4xf32, strided<[4, 1], offset: ?>>
    memref.store %o, %m[%y, %x] : memref<4x4xf32>
    gpu.terminator
  }
  return
}
"""
LOOPS = """func.func @main(%m: memref<4x4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %f = arith.constant 1.0 : f32
  scf.parallel (%i, %j) = (%c0, %c0) to (%c4, %c4) step (%c1, %c1) {
    memref.store %f, %m[%i, %j] : memref<4x4xf32>
    scf.reduce
  }
  return
}
"""
TARGETS = {
    "nvvm-attach-target{chip=sm_80 O=1 features=+ptx80}": {
        "kind": "nvvm", "chip": "sm_80", "opt_level": 1, "features": "+ptx80", "fast_math": False,
    },
    "nvvm-attach-target{chip=sm_80 fast=true}": {"fast_math": True, "flags": []},
    "nvvm-attach-target{chip=sm_80 ftz=true}": {"fast_math": False, "flags": ["ftz"]},
    "nvvm-attach-target{l=a.bc,b.bc}": {"link": ["a.bc", "b.bc"]},
    'nvvm-attach-target{ptxas-cmd-options="-lineinfo -maxrregcount 32"}': {
        "assembler_options": ["-lineinfo", "-maxrregcount", "32"]
    },
    "nvvm-attach-target{triple=x86_64-unknown-linux-gnu}": {"kind": "cpu"},
    "nvvm-attach-target{module=k}": {"kind": "nvvm"},
    "nvvm-attach-target{module=other}": None,
    "rocdl-attach-target{chip=gfx90a O=3 abi=500 features=+xnack l=x.bc}": {
        "kind": "rocdl", "chip": "gfx90a", "opt_level": 3, "abi": "500", "features": "+xnack",
        "link": ["x.bc"], "flags": [],
    },
    "rocdl-attach-target{fast=true}": {"fast_math": True, "flags": []},
    "rocdl-attach-target{daz=true}": {"fast_math": False, "flags": ["daz"]},
    "rocdl-attach-target{finite-only=true}": {"flags": ["finite_only"]},
    "rocdl-attach-target{unsafe-math=true}": {"flags": ["unsafe_math"]},
    "rocdl-attach-target{correct-sqrt=false}": {"flags": ["unsafe_sqrt"]},
    "rocdl-attach-target{chip=gfx1100 wave64=false}": {"flags": ["no_wave64"]},
    "rocdl-attach-target{triple=amdgcn-amd-amdhsa}": {"triple": "amdgcn-amd-amdhsa"},
    "rocdl-attach-target{module=other}": None,
}  # fmt: skip


@pytest.mark.parametrize("passes", TARGETS)
def test_options_that_describe_a_target(passes: str) -> None:
    [module] = json.loads(outline_source(KERNEL, passes=f"builtin.module({passes})")["index.json"])["modules"]
    expected = TARGETS[passes]
    assert len(module["targets"]) == (expected is not None)
    for target in module["targets"]:
        assert {name: target[name] for name in expected or ()} == expected


REDUCE = KERNEL.replace("gpu.barrier", "%s = gpu.subgroup_reduce add %x uniform : (i32) -> i32", 1)
BARRIERS = "func.func @main() {\n  gpu.barrier\n  gpu.barrier\n  return\n}\n"
COPY = KERNEL.replace(
    "gpu.barrier",
    "%g = nvgpu.device_async_create_group\n    nvgpu.device_async_wait %g {numGroups = 1 : i32}",
    1,
)
# Passes, a source, and what only the result has, and only the source.
EFFECTS = {
    "gpu-kernel-outlining{data-layout-str=#dlti.dl_spec<index=32:i32>}": (LAUNCH, r"dlti\.dl_spec", None),
    "gpu-kernel-outlining": (LAUNCH, r"args\(%c4 : index", None),  # gpubuild sinks constants first
    "func.func(gpu-async-region)": (KERNEL, r"launch_func async", None),
    "gpu-decompose-memrefs": (LAUNCH, r"reinterpret_cast", r"memref\.subview"),
    "func.func(gpu-register-host-buffers)": (KERNEL, r"host_register", None),
    "func.func(gpu-eliminate-barriers)": (BARRIERS, None, r"gpu\.barrier"),
    "func.func(gpu-map-parallel-loops)": (LOOPS, r"processor = block_x.*processor = block_y", None),
    "func.func(gpu-map-parallel-loops{mapping-policy=innermost-first})": (
        LOOPS, r"processor = block_y.*processor = block_x", None
    ),
    "func.func(gpu-map-parallel-loops),convert-parallel-loops-to-gpu": (
        LOOPS, r"gpu\.func", r"scf\.parallel"
    ),
    "gpu.module(convert-gpu-to-nvvm)": (KERNEL, r"nvvm\.read\.ptx\.sreg\.tid\.x", r"gpu\.thread_id"),
    "gpu.module(convert-gpu-to-nvvm{has-redux=true})": (REDUCE, r"nvvm\.redux", r"gpu\.subgroup_reduce"),
    "gpu.module(convert-gpu-to-nvvm{index-bitwidth=32})": (KERNEL, r"array<1 x i32>", None),
    "gpu.module(convert-gpu-to-nvvm{use-bare-ptr-memref-call-conv=true})": (
        KERNEL, r"@f\(%\w+: !llvm.ptr, %\w+: i32\)", None
    ),
    "gpu.module(convert-gpu-to-nvvm{allowed-dialects=arith,cf,func,memref})": (
        KERNEL, r"nvvm\.read\.ptx", None
    ),
    "gpu.module(convert-gpu-to-nvvm{allow-pattern-rollback=false})": (KERNEL, r"nvvm\.read\.ptx", None),
    "gpu.module(convert-gpu-to-rocdl{chipset=gfx90a runtime=HIP})": (KERNEL, r"__ockl_printf", None),
    "gpu.module(convert-gpu-to-rocdl{chipset=gfx90a runtime=OpenCL})": (KERNEL, r"@printf", None),
    "gpu.module(convert-gpu-to-rocdl{index-bitwidth=32 runtime=HIP})": (KERNEL, r"array<1 x i32>", None),
    "gpu.module(convert-gpu-to-rocdl{use-bare-ptr-memref-call-conv=true runtime=HIP})": (
        KERNEL, r"@f\(%\w+: !llvm.ptr, %\w+: i32\)", None
    ),
    "gpu.module(convert-gpu-to-rocdl{allowed-dialects=arith,cf,func,memref,index,math,ub runtime=HIP})": (
        KERNEL, r"rocdl\.workitem", None
    ),
    "gpu.module(convert-gpu-to-llvm-spv)": (KERNEL, r"_Z12get_local_idj\(i32\) -> i32", None),
    "gpu.module(convert-gpu-to-llvm-spv{use-64bit-index=true})": (
        KERNEL, r"_Z12get_local_idj\(i32\) -> i64", None
    ),
    "gpu.module(convert-gpu-to-nvvm),gpu-to-llvm": (KERNEL, r"args\((%\w+ : [^,]+, ){5}", None),
    "gpu.module(convert-gpu-to-nvvm{use-bare-ptr-memref-call-conv=true}),"
    "gpu-to-llvm{use-bare-pointers-for-host=true use-bare-pointers-for-kernels=true}": (
        KERNEL, r"args\(%\w+ : !llvm\.ptr, %\w+ : i32\)", None
    ),
    "gpu.module(convert-nvgpu-to-nvvm)": (COPY, r"nvvm\.cp\.async\.wait\.group", r"nvgpu"),
}  # fmt: skip


@cache
def texts(source: str, passes: str) -> str:
    outputs = outline_source(source, passes=passes)
    return outputs["host.mlir"] + outputs.get("module.0.mlir", "")


@pytest.mark.parametrize("passes", EFFECTS)
def test_passes_have_their_effect(passes: str) -> None:
    source, made, gone = EFFECTS[passes]
    before, after = texts(source, ""), texts(source, f"builtin.module({passes})")
    for pattern, inside, outside in ((made, after, before), (gone, before, after)):
        if pattern:
            assert re.search(pattern, inside, re.DOTALL), inside
            assert not re.search(pattern, outside, re.DOTALL)


def test_constants_are_sunk_into_launches() -> None:
    sunk = texts(LAUNCH, "builtin.module(gpu-launch-sink-index-computations,gpu-kernel-outlining)")
    assert "args(%arg0 : memref<4x4xf32>)" in sunk
    assert "args(%c4 : index" in texts(LAUNCH, "builtin.module(gpu-kernel-outlining)")


REFUSED = {
    "spirv-attach-target{ver=v1.0}": "k.mlir:2:1: error: #spirv.target_env",
    "xevm-attach-target{triple=bogus}": 'k.mlir:2:1: error: #xevm.target<triple = "bogus">',
    "nvvm-attach-target{triple=bogus}": 'k.mlir:2:1: error: #nvvm.target<triple = "bogus">',
    "rocdl-attach-target{triple=bogus}": 'k.mlir:2:1: error: #rocdl.target<triple = "bogus">',
    "rocdl-attach-target{chip=gfx90a wave64=false}": "gfx90a has no subgroups of 32 work-items",
    "convert-gpu-to-spirv": "k.mlir:3:3: error: 'gpu.func'",
    "nvvm-attach-target,gpu-module-to-binary{format=bogus}": "gpu-module-to-binary{format=bogus",
    "nvvm-attach-target,gpu-module-to-binary{format=isa l=x.bc}": "l={x.bc}",
    "nvvm-attach-target,gpu-module-to-binary{format=isa toolkit=/x}": "toolkit=/x",
    "nvvm-attach-target,gpu-module-to-binary{format=bin opts=-O1}": "opts=-O1",
    "nvvm-attach-target,gpu-module-to-binary{section=.x}": "section=.x",
    "gpu-to-llvm{intersperse-sizes-for-kernels=true}": "sizes for the Vulkan runtime",
}


@pytest.mark.parametrize("passes", REFUSED)
def test_what_has_no_effect_is_an_error(passes: str) -> None:
    error = refused(outline_source, KERNEL, passes=f"builtin.module({passes})")
    assert REFUSED[passes] in error.render()


KERNELS = "nvvm-attach-target{chip=sm_80},gpu.module(convert-gpu-to-nvvm)"


@pytest.mark.parametrize("options", ["", "{format=bin}", "{format=binary}", "{format=fatbin}"])
def test_formats_that_need_tools_are_made_by_gpubuild(options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLIR would take the ptxas of PATH or CUDA's folder, which no key has."""
    monkeypatch.setenv("PATH", "")
    outputs = outline_source(KERNEL, passes=f"builtin.module({KERNELS},gpu-module-to-binary{options})")
    [module] = json.loads(outputs["index.json"])["modules"]
    assert (module["name"], module["targets"][0]["chip"]) == ("k", "sm_80")


@pytest.mark.parametrize(
    ("options", "made"),
    [
        ("{format=isa}", 'assembly = "//'),
        ("{format=assembly}", 'assembly = "//'),
        ("{format=isa section=.x}", 'section = ".x"'),
    ],
)
def test_formats_that_mlir_makes(options: str, made: str) -> None:
    outputs = outline_source(KERNEL, passes=f"builtin.module({KERNELS},gpu-module-to-binary{options})")
    assert made in outputs["host.mlir"]
    assert json.loads(outputs["index.json"])["modules"] == []


FORALL = """module attributes {transform.with_named_sequence} {
func.func @main(%m: memref<128xf32>) {
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %f = arith.constant 1.0 : f32
  gpu.launch blocks(%a, %b, %c) in (%d = %c1, %e = %c1, %g = %c1)
             threads(%x, %y, %z) in (%u = %c128, %v = %c1, %w = %c1) {
    scf.forall (%i) in (COUNT) {
      memref.store %f, %m[%i] : memref<128xf32>
    } {mapping = [MAPPING]}
    gpu.terminator
  }
  return
}
transform.named_sequence @__transform_main(%top: !transform.any_op {transform.readonly}) {
  %l = transform.structured.match ops{["gpu.launch"]} in %top : (!transform.any_op) -> !transform.any_op
  transform.gpu.MAP : (!transform.any_op) -> !transform.any_op
  transform.yield
}
}
"""
THREADS = "map_nested_forall_to_threads %l block_dims = [128, 1, 1]"


@pytest.mark.parametrize(
    ("mapping", "count", "transform", "made"),
    [
        ("#gpu.thread<x>", 128, THREADS, r"store %cst, %arg0\[%thread_id_x\w*\]"),
        ("#gpu.warp<x>", 4, THREADS, r"s0 floordiv 32"),
        ("#gpu.warpgroup<x>", 1, THREADS, r"s0 floordiv 128"),
        ("#gpu.lane<x>", 32, THREADS, r"mod 32"),
        ("#gpu.block<x>", 4, "map_forall_to_blocks %l grid_dims = [4, 1, 1]", r"%arg0\[%block_id_x"),
    ],
)
def test_loops_mapped_by_attributes(mapping: str, count: int, transform: str, made: str) -> None:
    source = FORALL.replace("COUNT", str(count)).replace("MAPPING", mapping).replace("MAP", transform)
    result = texts(source, "builtin.module(transform-interpreter)")
    assert re.search(made, result), result
    assert "scf.forall" not in result


def test_operations_are_verified_for_the_target() -> None:
    kernel = """gpu.module @k [#nvvm.target<chip = "sm_60"VERIFY>] {
  llvm.func @f(%a: i32) attributes {gpu.kernel, nvvm.kernel} {
    %r = nvvm.redux.sync add %a, %a : i32 -> i32
    llvm.return
  }
}
"""
    error = refused(outline_source, kernel.replace("VERIFY", ""))
    assert "k.mlir:3:10: error: 'nvvm.redux.sync' op is not supported on sm_60" in error.render()
    outline_source(kernel.replace("VERIFY", ", verifyTarget = false"))
