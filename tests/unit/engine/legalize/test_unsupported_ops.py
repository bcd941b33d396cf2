"""Unsupported operations are refused with a location and a reason, before a pass or LLVM fails."""

import re

import pytest
from e2e import cpu_harness
from unit.engine.device_steps import compile_module, in_child, kernel
from unit.engine.legalized import prepared
from unit.engine.steps import refused as of_a_call

from gpubuild.engine.ir import contexts
from gpubuild.errors import Location, StepError

ALL = ("sm_90", "gfx90a", "cpu")
GPUS = ("sm_90", "gfx90a")
I128 = "%w = arith.extui %n : i32 to i128\n%r = gpu.all_reduce add %w uniform {} : (i128) -> (i128)"
BRANCH = "%c = arith.cmpi slt, %n, %n : i32\nscf.if %c {\n%r = gpu.all_reduce add %n {} : (i32) -> (i32)\n}"
BARE = "%r = gpu.all_reduce add %n {} : (i32) -> (i32)"
CASES = [
    (BRANCH, ALL, "'gpu.all_reduce' without `uniform`: all work-items of a workgroup must reach it"),
    (
        "%r = gpu.subgroup_reduce add %n cluster(size = 64) : (i32) -> (i32)",
        ("sm_90", "cpu"),
        "'gpu.subgroup_reduce' over clusters of 64 work-items, where a subgroup has 32",
    ),
    (
        "%r = gpu.subgroup_reduce add %n cluster(size = 32, stride = 4) : (i32) -> (i32)",
        ALL,
        "over clusters of 32 work-items that are 4 apart, where a subgroup has ",
    ),
    ("%r, %v = gpu.rotate %n, 3, 64 : i32", ("sm_90", "cpu"), "of 64 work-items, where a subgroup has 32"),
    (
        "%o = arith.constant 1 : i32 %w = arith.constant 64 : i32 %r, %v = gpu.shuffle xor %n, %o, %w : i32",
        ("sm_90", "cpu"),
        "'gpu.shuffle' of 64 work-items, where a subgroup has 32",
    ),
    ('gpu.printf "%s", %n : i32', ALL, "'gpu.printf': '%s' asks for a string, which kernels do not have"),
    ('gpu.printf "%d"', ALL, "asks for 1 argument, and there are 0 (give 1, or write %% for a percent sign)"),
    ('gpu.printf "%d", %x : f32', ALL, "'%d' asks for an integer, and argument 1 is f32"),
    ("gpu.wait", ALL, "'gpu.wait' is an operation of host code; kernels cannot do it"),
    ("gpu.memset %a, %x : memref<?xf32>, f32", ALL, "'gpu.memset' is an operation of host code"),
    ("%q = amx.tile_zero : !amx.tile<16x16xf32>", ALL, "is an operation of x86 CPUs"),
    ("%0 = mpi.init : !mpi.retval", ALL, "'mpi.init' is an operation of host code"),
    (
        '%r = llvm.call_intrinsic "llvm.no.such"(%x) : (f32) -> f32',
        ALL,
        "LLVM has no intrinsic 'llvm.no.such'",
    ),
    ('%r = llvm.call_intrinsic "llvm.x86.rdtsc"() : () -> i64', GPUS, "is an instruction of x86 CPUs"),
    (
        "%w = arith.extui %n : i32 to i129\n%r = arith.sitofp %w : i129 to f32",
        ALL,
        "'arith.sitofp' of i129: integers of at most 128 bits become floats",
    ),
    (I128, ("sm_90", "cpu"), "'gpu.all_reduce' of i128: it supports at most 64 bits"),
]
PARAMETERS = [
    (
        "%t: tensor<4xf32>",
        "",
        ALL,
        "parameter 6 of the kernel is of type tensor<4xf32>, which a launch cannot",
    ),
    ("%t: !gpu.async.token", "", ALL, "of type !gpu.async.token, which a launch cannot pass"),
    ("%t: f80", "", GPUS, "parameter 6 is of type f80, which GPUs have no arithmetic for"),
    ("%t: memref<4xf32, affine_map<(d0) -> (d0 floordiv 2)>>", "", ALL, "whose layout has no strides"),
    ('%t: memref<4xf32, "here">', "", ALL, "whose memory space is no #gpu.address_space and no number"),
    ("%t: memref<4xf32, 77>", "", ("gfx90a",), "whose memory space AMD GPUs do not have"),
    ("%t: f4E2M1FN", "", ALL, "parameter 6 of the kernel is of type f4E2M1FN; pass its bits as i8"),
    (
        "%t: memref<?xf4E2M1FN>",
        "%v = vector.load %t[%i] : memref<?xf4E2M1FN>, vector<8xf4E2M1FN>",
        ALL,
        "memory of f4E2M1FN elements is not supported; keep their bits in i8",
    ),
    (
        "%t: memref<?xi24>",
        "%v = vector.load %t[%i] : memref<?xi24>, vector<4xi24>",
        ALL,
        "vectors of i24 elements in memory are not supported; use i32",
    ),
    (
        "%t: memref<?xi48>, %v: vector<4xi48>, %k: vector<4xi1>",
        "vector.maskedstore %t[%i], %k, %v : memref<?xi48>, vector<4xi1>, vector<4xi48>",
        ALL,
        "vectors of i48 elements in memory are not supported; use i64",
    ),
    (
        "%t: memref<?xi24>, %v: i24",
        "%r = memref.atomic_rmw addi %v, %t[%i] : (i24, memref<?xi24>) -> i24",
        ALL,
        "'memref.atomic_rmw' of i24: targets have atomic operations of 8, 16, 32 and 64 bits",
    ),
    (
        "%t: memref<?xi128>",
        "%r = memref.generic_atomic_rmw %t[%i] : memref<?xi128> {\n"
        "^bb0(%o: i128):\nmemref.atomic_yield %o : i128 }",
        ALL,
        "'memref.generic_atomic_rmw' of i128",
    ),
    (
        "%t: memref<?xf8E4M3FN>, %v: f8E4M3FN",
        "%r = memref.atomic_rmw addf %v, %t[%i] : (f8E4M3FN, memref<?xf8E4M3FN>) -> f8E4M3FN",
        ALL,
        "use memref.generic_atomic_rmw",
    ),
]


def located(text: str) -> str:
    with contexts.context():
        return contexts.located_text(contexts.parse(text, source_name="user.mlir").operation)


def refused(text: str, target: str, folder) -> StepError:
    with pytest.raises(StepError) as caught:
        if target == "cpu":
            cpu_harness.compile_in_child(text, folder)
        else:
            compile_module(text, target, located=in_child(located, text))
    return caught.value


@pytest.mark.parametrize("target", ALL)
def test_errors_have_a_reason_and_a_location(tmp_path, target: str) -> None:
    cases = [(body, "", targets, reason) for body, targets, reason in CASES]
    cases += [(body, given, targets, reason) for given, body, targets, reason in PARAMETERS]
    functions, reasons = [], []
    for number, (body, arguments, targets, reason) in enumerate(cases):
        if target in targets:
            one = kernel(body, arguments=arguments).replace("@f(", f"@f{number}(")
            functions.append(one[one.index("gpu.func") : one.rindex("}")])
            reasons.append(reason)
    error = refused("gpu.module @k {\n" + "".join(functions) + "}", target, tmp_path)
    assert error.message == f"target {target} cannot compile this module"
    assert error.hint
    locations = [d.location for d in error.diagnostics]
    assert all(at and at.file == "user.mlir" and at.line for at in locations)
    for reason in reasons:
        assert any(reason in d.message for d in error.diagnostics), reason


@pytest.mark.parametrize(
    ("space", "refusing"), [("", ("gfx90a",)), (", 5", ()), (", #gpu.address_space<private>", ())]
)
def test_private_memory_has_a_space_that_is_right_everywhere(tmp_path, space: str, refusing) -> None:
    text = f"""gpu.module @k {{
  gpu.func @f(%a: memref<?xf32>, %i: index) private(%p: memref<2xf32{space}>) kernel {{
    %x = memref.load %a[%i] : memref<?xf32>
    memref.store %x, %p[%i] : memref<2xf32{space}>
    gpu.return
  }}
}}"""
    for target in ALL:
        if target in refusing:
            (found,) = refused(text, target, tmp_path).diagnostics
            assert "write #gpu.address_space<private> for its space" in found.message
        elif target == "cpu":
            assert cpu_harness.compile_in_child(text, tmp_path)
        else:
            assert compile_module(text, target).object


@pytest.mark.parametrize(
    ("attribution", "message"),
    [
        (
            "workgroup(%s: memref<8xf32>)",
            "workgroup memory of type memref<8xf32>: write #gpu.address_space<wo",
        ),
        ("workgroup(%s: memref<?xf32, 3>)", "workgroup memory of type memref<?xf32, 3>: write its size"),
        ("private(%s: memref<?xf32>)", "private memory of type memref<?xf32>: write its size"),
    ],
)
def test_workgroup_memory_has_a_space_and_all_memory_a_size(tmp_path, attribution: str, message: str) -> None:
    kind = attribution.partition(": ")[2][:-1]
    text = f"""gpu.module @k {{
  gpu.func @f(%x: f32, %i: index) {attribution} kernel {{
    memref.store %x, %s[%i] : {kind}
    gpu.return
  }}
}}"""
    for target in ALL:
        (found,) = refused(text, target, tmp_path).diagnostics
        assert found.message.startswith(message)


def test_errors_of_a_pass_have_types_target_and_advice(tmp_path) -> None:
    body = "%r = amdgpu.ext_packed_fp8 %v[0] : vector<4xf8E4M3FNUZ> to f32\n"
    body += "memref.store %r, %a[%i] : memref<?xf32>"
    text = kernel(body, arguments="%v: vector<4xf8E4M3FNUZ>")
    error = refused(text, "gfx90a", tmp_path)
    assert error.message.startswith("target gfx90a cannot compile this module: ")
    assert "`passes:`" in error.hint
    (found,) = (d for d in error.diagnostics if "amdgpu.ext_packed_fp8" in d.message)
    assert "'amdgpu.ext_packed_fp8' of type (vector<4xf8E4M3FNUZ>) -> f32 cannot be lowered" in found.message
    assert str(found.location) == "user.mlir:4:6"


def test_integers_that_ptx_has_no_types_for_are_parameters_of_nvidia_kernels() -> None:
    """ptxas stopped at `.u24`: "Parsing error". Bits that the host did not write count for nothing."""
    stores = [
        f"%w{width} = arith.extui %v{width} : i{width} to i64\n%p{width} = arith.constant {width} : index\n"
        f"memref.store %w{width}, %b[%p{width}] : memref<?xi64>"
        for width in (7, 24, 48)
    ]
    built = compile_module(
        kernel("\n".join(stores), arguments="%b: memref<?xi64>, %v7: i7, %v24: i24, %v48: i48"), "sm_60"
    )
    types = re.findall(r"\.param \.(u\d+)", built.asm)
    assert types[-3:] == ["u8", "u32", "u64"]
    for mask in (", 127;", ", 16777215;", ", 32, 16;"):
        assert mask in built.asm


NARROW = "%v = arith.constant 0 : i4\nmemref.store %v, %b[%i] : memref<?xi4>"


@pytest.mark.parametrize(
    ("body", "chip", "said", "place"),
    [
        ("%r = gpu.subgroup_reduce add %x : (f32) -> f32", "gfx700", "exchange", (4, 6)),
        ("%r = gpu.all_reduce add %x {} : (f32) -> f32", "gfx700", "exchange", (4, 6)),
        ("%w = arith.extf %x : f32 to f128", "sm_60", "f128", (4, 6)),
        (NARROW, "sm_60", "i4", (5, 1)),
    ],
)
def test_what_a_chip_lacks_is_refused(body: str, chip: str, said: str, place: tuple[int, int]) -> None:
    """Shuffles, wide floats, and narrow integers in memory."""
    (found,) = of_a_call(prepared, body, chip, arguments="%b: memref<?xi4>").diagnostics
    assert said in found.message
    assert found.location == Location(file="k.mlir", line=place[0], column=place[1])


def test_all_reduce_outside_of_branches_becomes_uniform() -> None:
    """Upstream lowers no other form."""
    assert "gpu.all_reduce  add %arg4 uniform" in prepared(BARE)


def test_uniform_is_accepted_in_a_branch() -> None:
    body = f"%c = arith.cmpi slt, %n, %n : i32\nscf.if %c {{\n{BARE.replace('{}', 'uniform {}')}\n}}"
    assert "uniform" in prepared(body)


@pytest.mark.parametrize("body", [f"cf.br ^b\n^b:\n{BARE}", f"scf.execute_region {{\n{BARE}\nscf.yield\n}}"])
def test_all_reduce_elsewhere_needs_uniform(body: str) -> None:
    assert "without `uniform`" in of_a_call(prepared, body).diagnostics[0].message


@pytest.mark.parametrize(
    "body",
    [
        "%r, %v = gpu.rotate %n, 3, 64 : i32",
        "%r = gpu.subgroup_reduce add %n cluster(size = 64) : (i32) -> (i32)",
    ],
)
def test_a_subgroup_of_64_is_large_enough_for_64(body: str) -> None:
    assert prepared(body, "gfx90a")
