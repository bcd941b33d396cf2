"""Matrix units of AMD chips: the instructions that LLVM emits, and code that does without them."""

import re

import pytest
from e2e.test_cpu_matrices import load, matrix, multiplication, store
from unit.engine.device_steps import compile_module
from variants import few

PRODUCTS = [
    ("gfx908", "f16", "v_mfma_f32_16x16x16f16"),
    ("gfx908", "f64", ""),
    ("gfx90a", "half", "v_mfma_f32_16x16x16f16"),
    ("gfx90a", "si8", "v_mfma_i32_16x16x16i8"),
    ("gfx90a", "f32", "v_mfma_f32_16x16x4f32"),
    ("gfx90a", "f64", "v_mfma_f64_16x16x4f64"),
    ("gfx90a", "ui8", ""),
    ("gfx942", "f16", "v_mfma_f32_16x16x16_f16"),
    ("gfx942", "si8", "v_mfma_i32_16x16x32_i8"),
    ("gfx942", "f64", "v_mfma_f64_16x16x4_f64"),
    ("gfx950", "f32", "v_mfma_f32_16x16x4_f32"),
    ("gfx1100", "f16", "v_wmma_f32_16x16x16_f16"),
    ("gfx1100", "f32", ""),
    ("gfx1151", "si8", r"v_wmma_i32_16x16x16_iu8 .* neg_lo:\[1,1,0\]"),
    ("gfx11-generic", "ui8", r"v_wmma_i32_16x16x16_iu8 (?!.*neg_lo)"),
    ("gfx1030", "f16", ""),
]
F16, WIDE = (
    [matrix(16, 16, element, role) for element, role in zip(elements, "ABC", strict=True)]
    for elements in (("f16", "f16", "f32"), ("f16", "f16", "f64"))
)
SMALL, SMALL_OF_F32 = (matrix(8, 8, element, "C") for element in ("f64", "f32"))
HALF, SINGLE, DOUBLE = "memref<?xf16>", "memref<?xf32>", "memref<?xf64>"
LOADS = load("A", "h", "%c0", 16, HALF, F16[0]) + load("B", "h", "%c0", 16, HALF, F16[1])
SUM = load("C", "s", "%c0", 16, SINGLE, F16[2])
COMPUTE = f"%D = gpu.subgroup_mma_compute %A, %B, %C : {F16[0]}, {F16[1]} -> {F16[2]}\n"
STORE = store("D", F16[2], "s", "%c0", 16, SINGLE)


def function(name: str, body: str, kind: str = "kernel") -> str:
    return f"""gpu.func @{name}(%h: {HALF}, %s: {SINGLE}, %d: {DOUBLE}) {kind} {{
      %c0 = arith.constant 0 : index
      {body}
      gpu.return }}"""


def instructions(text: str, chip: str, **options) -> tuple[list[str], tuple[str, ...]]:
    """Return the matrix instructions of a module's code, and warnings."""
    built = compile_module(f"gpu.module @k {{{text}}}", chip, **options)
    assert built.object
    return re.findall(r"v_(?:s?mfma|s?wmma)\w* .*", built.asm), built.ran.result.result.warnings


@pytest.mark.parametrize(
    ("chip", "mix", "name", "level"),
    [(*row, 3) for row in PRODUCTS]
    + few([(*row, 0) for row in PRODUCTS if row[0] in ("gfx90a", "gfx1100")], 2),
)
def test_products_use_the_instructions_of_a_chip(chip: str, mix: str, name: str, level: int) -> None:
    found, warnings = instructions(multiplication("f", 16, 16, 16, mix, False), chip, opt_level=level)
    if not name:
        units = chip != "gfx1030"
        assert found == [] and ["matrix units of" in text for text in warnings] == [True] * units
        return
    assert len(found) == (4 if mix in ("f32", "f64") else 1) and warnings == ()
    assert all(re.match(name, line) for line in found), found


@pytest.mark.parametrize(
    ("body", "lack"),
    [
        (load("X", "d", "%c0", 8, DOUBLE, SMALL), "'gpu.subgroup_mma_load_matrix' of 8x8 f64 elements"),
        (
            load("X", "d", "%c0", 16, DOUBLE, WIDE[2])
            + f"%Y = gpu.subgroup_mma_compute %A, %B, %X : {WIDE[0]}, {WIDE[1]} -> {WIDE[2]}\n",
            "'gpu.subgroup_mma_compute' of f16 and f16 factors to f64",
        ),
        (
            f"%X = gpu.subgroup_mma_elementwise extf %A : ({F16[0]}) -> {matrix(16, 16, 'f32', 'A')}\n",
            "'gpu.subgroup_mma_elementwise' extf of factors",
        ),
    ],
)
def test_a_function_with_more_than_units_can_do_is_compiled_without_them(body: str, lack: str) -> None:
    both = function("f", LOADS + body + SUM + COMPUTE + STORE) + function("g", LOADS + SUM + COMPUTE + STORE)
    found, warnings = instructions(both, "gfx90a")
    assert len(found) == 1  # of @g
    assert warnings == (
        f"the matrix units of gfx90a cannot do {lack}: the matrix operations of @f are compiled without them",
    )


def test_functions_that_pass_matrices_have_one_layout() -> None:
    helper = f"""func.func private @twice(%m: {F16[2]}) -> {F16[2]} attributes {{no_inline}} {{
      %r = gpu.subgroup_mma_elementwise addf %m, %m : ({F16[2]}, {F16[2]}) -> {F16[2]}
      EXTRA
      return %r : {F16[2]} }}"""
    call = f"%E = func.call @twice(%D) : ({F16[2]}) -> {F16[2]}\n" + STORE.replace("%D", "%E")
    text = helper + function("f", LOADS + SUM + COMPUTE + call)
    found, warnings = instructions(text.replace("EXTRA", ""), "gfx90a")
    assert len(found) == 1 and warnings == ()
    lacks = "%z = arith.constant 0.0 : f32\n%s = gpu.subgroup_mma_constant_matrix %z : " + SMALL_OF_F32
    found, (warning,) = instructions(text.replace("EXTRA", lacks), "gfx90a")
    assert found == [] and "of 8x8 f32 elements: the matrix operations of @twice, @f are" in warning


@pytest.mark.parametrize(
    ("chip", "options"),
    [("gfx1100", {"features": "+wavefrontsize64"}), ("gfx90a", {"features": "-mai-insts"})],
)
def test_targets_without_usable_units_have_none(chip: str, options: dict[str, str]) -> None:
    assert instructions(function("f", LOADS + SUM + COMPUTE + STORE), chip, **options) == ([], ())


def test_code_without_products_needs_no_units() -> None:
    text = function("f", load("X", "d", "%c0", 8, DOUBLE, SMALL) + SUM + STORE.replace("%D", "%C"))
    assert instructions(text, "gfx90a") == ([], ())
