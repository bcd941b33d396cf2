"""NVIDIA's own dialects: chips that lack an instruction say so, descriptors reach kernels and launches."""

import pytest
from unit.engine.device_steps import compile_module, in_child, kernel
from unit.engine.steps import refused

from gpubuild.engine.host import lowering
from gpubuild.engine.ir import contexts

FENCE = "nvvm.wgmma.fence.aligned"
DESCRIPTOR = (
    "!nvgpu.tensormap.descriptor<tensor = memref<64x64xf16, #gpu.address_space<workgroup>>, "
    "swizzle = none, l2promo = none, oob = zero, interleave = none>"
)
LAUNCH = f"""module attributes {{gpu.container_module}} {{
  gpu.binary @k [#gpu.object<#nvvm.target, "">]
  func.func @launch(%m: memref<*xf16>, %n: index) {{
    %d = nvgpu.tma.create.descriptor %m box[%n, %n] : memref<*xf16> -> {DESCRIPTOR}
    gpu.launch_func @k::@f blocks in (%n, %n, %n) threads in (%n, %n, %n) args(%d : {DESCRIPTOR})
    return
  }}
}}"""
MMA = "%d = nvgpu.mma.sync (%l, %r, %s) {{mmaShape = {shape}}} : ({l}, {r}, {s}) -> {s}"


@pytest.mark.parametrize(
    ("chip", "body", "reason"),
    [
        ("sm_90", FENCE, "'nvvm.wgmma.fence.aligned' needs sm_90a; sm_90 does not have it"),
        ("sm_100a", FENCE, "needs sm_90a; sm_100a does not have it"),
        ("sm_75", "nvvm.cp.async.commit.group", "needs sm_80 or later"),
        ("sm_60", "%r = nvvm.match.sync any %n, %n : i32 -> i32", "needs sm_70 or later"),
        ("sm_80", "%r = nvvm.read.ptx.sreg.nclusterid.y : i32", "needs sm_90 or later"),
        (
            "sm_75",
            "%r = nvvm.convert.f32x2.to.f16x2 %x, %x {rnd = #nvvm.fp_rnd_mode<rn>} : vector<2xf16>",
            "needs sm_80",
        ),
        ("sm_90", "%r = nvvm.redux.sync fmin %x, %n : f32 -> f32", "needs sm_100a"),
    ],
)
def test_chips_that_lack_an_instruction_are_told_which_have_it(chip: str, body: str, reason: str) -> None:
    """LLVM would end the process, or ptxas would complain about PTX that nobody wrote."""
    error = refused(compile_module, kernel(body), chip, target="mine")
    assert "target mine cannot compile" in error.message
    assert reason in error.diagnostics[0].message


def test_instructions_get_the_ptx_version_they_are_in() -> None:
    """LLVM ended the process on `elect.sync` for a plain sm_90, whose own PTX 7.8 lacks it."""
    elect = "%e = nvvm.elect.sync -> i1\n%r = arith.select %e, %x, %x : f32\nnvvm.fence.mbarrier.init"
    assert ".version 8.0" in compile_module(kernel(elect), "sm_90").asm
    assert ".version 8.4" in compile_module(kernel(elect), "sm_90", features="+ptx84").asm
    assert ".version 7.8" in compile_module(kernel("nvvm.cluster.arrive"), "sm_90").asm
    error = refused(compile_module, kernel(elect), "sm_90", features="+ptx78")
    assert "needs PTX 8.0, and `features` of the target say 7.8" in error.diagnostics[0].message


@pytest.mark.parametrize(
    ("types", "shape", "oldest"),
    [
        (("vector<2x2xf16>", "vector<1x2xf16>", "vector<2x2xf16>"), "[16, 8, 8]", "sm_75"),
        (("vector<1x4xi8>", "vector<1x4xi8>", "vector<1x2xi32>"), "[8, 8, 16]", "sm_75"),
        (("vector<2x4xi8>", "vector<1x4xi8>", "vector<2x2xi32>"), "[16, 8, 16]", "sm_80"),
        (("vector<4x2xbf16>", "vector<2x2xbf16>", "vector<2x2xf32>"), "[16, 8, 16]", "sm_80"),
    ],
)
def test_the_oldest_chip_of_a_shape_compiles_it(types: tuple[str, ...], shape: str, oldest: str) -> None:
    """What is refused for the chip before is assembled for this one."""
    left, right, start = types
    body = MMA.format(shape=shape, l=left, r=right, s=start) + (
        f'\nllvm.inline_asm has_side_effects "// $0", "r" %e : ({start.rpartition("x")[2][:-1]}) -> ()'
    )
    element = f"%e = vector.extract %d[0, 0] : {start.rpartition('x')[2][:-1]} from {start}\n"
    body = body.replace("\nllvm", f"\n{element}llvm")
    if start.endswith("f16>") or start.endswith("f32>"):
        body = body.replace('"r"', '"h"' if start.endswith("f16>") else '"f"')
    text = kernel(body, arguments=f"%l: {left}, %r: {right}, %s: {start}")
    assert "mma.sync.aligned" in compile_module(text, oldest).asm
    error = refused(compile_module, text, {"sm_75": "sm_72", "sm_80": "sm_75"}[oldest])
    assert f"needs {oldest} or later" in error.diagnostics[0].message


def test_a_newer_ptx_is_advised_where_ptxas_asks_for_it() -> None:
    """sm_90's own PTX 7.8 is older than some of its instructions."""
    instruction = "mbarrier.arrive.expect_tx.shared.b64 _, [$0], 8;"
    body = f'llvm.inline_asm has_side_effects "{instruction}", "r" %n : (i32) -> ()'
    error = refused(compile_module, kernel(body), "sm_90")
    assert '"+ptx80"' in error.hint
    assert compile_module(kernel(body), "sm_90", features="+ptx80").object


def test_a_loop_carries_the_sums_of_a_warpgroup() -> None:
    """Upstream's conversion takes these types through loops, not through the blocks of cf."""
    tile = "memref<64x64xf16, #gpu.address_space<workgroup>>"
    sums = "!nvgpu.warpgroup.accumulator<fragmented = vector<64x64xf32>>"
    factor = f"!nvgpu.warpgroup.descriptor<tensor = {tile}>"
    described = DESCRIPTOR.replace("swizzle = none", "swizzle = swizzle_128b")
    body = f"""
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %l = nvgpu.warpgroup.generate.descriptor %tile, %map : {tile}, {described} -> {factor}
    %zero = nvgpu.warpgroup.mma.init.accumulator -> {sums}
    %d = scf.for %step = %c0 to %i step %c1 iter_args(%sum = %zero) -> ({sums}) {{
      %next = nvgpu.warpgroup.mma %l, %l, %sum {{transposeB}} : {factor}, {factor}, {sums} -> {sums}
      scf.yield %next : {sums}
    }}
    nvgpu.warpgroup.mma.store %d, %out : {sums} to memref<64x64xf32>"""
    text = kernel(body, arguments=f"%tile: {tile}, %map: {described}, %out: memref<64x64xf32>")
    asm = compile_module(text, "sm_90a", opt_level=1).asm
    assert "wgmma.mma_async" in asm and "bra" in asm


def test_tensor_map_descriptors_are_pointers_to_launches() -> None:
    assert "mgpuTensorMapEncodeTiledMemref" in in_child(_lowered_host, LAUNCH)


def _lowered_host(text: str) -> str:
    with contexts.context():
        module = contexts.parse(text)
        lowering.lower_host(module)
        return contexts.canonical_text(module)
