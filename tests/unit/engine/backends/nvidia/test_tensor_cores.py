"""Matrix units of NVIDIA chips: used where they can do all of a module, and never counted on elsewhere."""

import pytest
from unit.engine.device_steps import compile_module
from unit.engine.steps import refused

LARGE = {"A": (16, 16), "B": (16, 16), "C": (16, 16)}
SHAPES = {"f64": {"A": (8, 4), "B": (4, 8), "C": (8, 8)}, "tf32": {**LARGE, "A": (16, 8), "B": (8, 16)}}
ELEMENTS = {"f16": ("f16", "f32"), "si8": ("si8", "i32"), "f64": ("f64", "f64"), "tf32": ("f32", "f32"),
            "f32": ("f32", "f32"), "mixed": ("f16", "f16")}  # fmt: skip


def product(name: str) -> str:
    """Each matrix in the first elements of a memref of its own."""
    factor, result = ELEMENTS[name]
    kinds, loads, arguments = {}, [], []
    for role, (rows, columns) in SHAPES.get(name, LARGE).items():
        element = result if role == "C" else factor
        memory = f"memref<?x{element.lstrip('su')}>"
        kinds[role] = f'!gpu.mma_matrix<{rows}x{columns}x{element}, "{role}Op">'
        arguments.append(f"%{role.lower()}: {memory}")
        loads.append(
            f"%{role} = gpu.subgroup_mma_load_matrix %{role.lower()}[%c0] {{leadDimension = 16 : index}}"
            f" : {memory} -> {kinds[role]}"
        )
    return f"""gpu.module @k {{ gpu.func @f({", ".join(arguments)}) kernel {{
      %c0 = arith.constant 0 : index
      {" ".join(loads)}
      %D = gpu.subgroup_mma_compute %A, %B, %C : {kinds["A"]}, {kinds["B"]} -> {kinds["C"]}
      gpu.subgroup_mma_store_matrix %D, %c[%c0] {{leadDimension = 16 : index}} : {kinds["C"]}, {memory}
      gpu.return }} }}"""


@pytest.mark.parametrize(
    ("memory", "place", "lead", "wrong"),
    [
        ("memref<20x20xf32>", "%c2, %c3", 20, "begins at byte 172 of its memory"),
        ("memref<32x20xf16>", "%c0, %c0", 20, "has rows that are 40 bytes apart"),
        ("memref<32x24xf32, strided<[24, 1], offset: 4>>", "%c0, %c0", 24, "begins at byte 16 of its memory"),
        ("memref<20x24xf32>", "%c2, %c8", 24, ""),
        ("memref<20x20xf32>", "%c2, %i", 20, ""),  # not known
    ],
)  # fmt: skip
def test_misaligned_matrices_are_refused(memory, place, lead, wrong):
    """An H200 ended such kernels with CUDA_ERROR_MISALIGNED_ADDRESS."""
    element = "f16" if "f16" in memory else "f32"
    matrix = f'!gpu.mma_matrix<16x16x{element}, "COp">'
    text = f"""gpu.module @k {{ gpu.func @f(%m: {memory}, %i: index) kernel {{
      %c0 = arith.constant 0 : index
      %c2 = arith.constant 2 : index
      %c3 = arith.constant 3 : index
      %c8 = arith.constant 8 : index
      %zero = arith.constant 0.0 : {element}
      %z = gpu.subgroup_mma_constant_matrix %zero : {matrix}
      gpu.subgroup_mma_store_matrix %z, %m[{place}] {{leadDimension = {lead} : index}} : {matrix}, {memory}
      gpu.return }} }}"""
    if wrong:
        error = refused(compile_module, text, "sm_90")
        assert wrong in error.render()
    else:
        assert b"\x7fELF" in compile_module(text, "sm_90").object


@pytest.mark.parametrize(
    ("name", "chip", "lack"),
    [
        ("f16", "sm_70", ""),
        ("mixed", "sm_70", ""),
        ("si8", "sm_70", "16x16 si8 elements"),  # LLVM aborts on what upstream makes of it
        ("si8", "sm_72", ""),
        ("f64", "sm_75", "8x4 f64 elements"),
        ("f64", "sm_80", ""),
        ("tf32", "sm_75", "16x8 f32 elements"),
        ("tf32", "sm_80", ""),
        ("f32", "sm_90", "16x16 f32 elements"),
    ],
)
def test_what_units_cannot_do_is_done_without_them(name: str, chip: str, lack: str) -> None:
    built = compile_module(product(name), chip)
    assert ("wmma.mma.sync" in built.asm) == (not lack)
    warnings = built.ran.result.result.warnings
    if not lack:
        assert warnings == ()
        return
    assert warnings == (
        f"the matrix units of {chip} cannot do 'gpu.subgroup_mma_load_matrix' of {lack}: all matrix "
        "operations of the module are compiled without them",
    )


def test_chips_without_units_say_nothing() -> None:
    assert compile_module(product("f16"), "sm_60").ran.result.result.warnings == ()


def test_a_workgroup_without_whole_subgroups_is_refused_for_each_size_of_subgroup() -> None:
    sized = product("f16").replace(
        "kernel {", "kernel attributes {known_block_size = array<i32: 32, 1, 1>} {"
    )
    assert compile_module(sized, "gfx1100").object
    with pytest.raises(Exception, match="cannot compile this module") as caught:
        compile_module(sized, "gfx90a")
    assert "32 work-items has no whole subgroups of 64" in caught.value.diagnostics[0].message
