from dataclasses import replace

import pytest
from unit.engine.steps import refused
from unit.projects import TARGETS

from gpubuild.engine.backends.cpu.compile import lower_text
from gpubuild.engine.backends.cpu.image import escaped
from gpubuild.engine.backends.cpu.lower.memory import size_in_bytes
from gpubuild.errors import StepError
from gpubuild.model.step import CompileParams


def params(**options):
    return CompileParams(module="k", target=replace(TARGETS["cpu"], **options))


def lower(body, **options):
    return lower_text(f"gpu.module @k {{\n{body}\n}}", params(**options))


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("f32", 4), ("!llvm.array<3 x i16>", 6), ("!llvm.array<2 x array<8 x f64>>", 128),
        ("!llvm.array<4 x vector<4xf32>>", 64), ("!llvm.ptr<3>", 8), ("!llvm.array<0 x i8>", 0), ("i24", 4),
        ("i1", 1), ("!llvm.array<10 x vector<3xi32>>", 160), ("!llvm.array<2 x vector<5xi8>>", 16),
    ],
)  # fmt: skip
def test_size_of_workgroup_variables(kind, size):
    assert size_in_bytes(kind) == size


def test_size_of_an_unknown_type():
    with pytest.raises(StepError, match="workgroup memory of type"):
        size_in_bytes('!llvm.target<"x">')


def test_memory_intrinsics_get_the_right_name():
    out, _ = lower("""gpu.func @f(%a: memref<64xf32>)
      workgroup(%s: memref<64xf32, #gpu.address_space<workgroup>>) kernel {
    memref.copy %a, %s : memref<64xf32> to memref<64xf32, #gpu.address_space<workgroup>>
    %c0 = arith.constant 0 : index
    gpu.barrier
    %v = memref.load %s[%c0] : memref<64xf32, #gpu.address_space<workgroup>>
    memref.store %v, %a[%c0] : memref<64xf32>
    gpu.return
  }""")
    assert "@llvm.memcpy.p0.p0.i64" in out
    assert "addrspace" not in out


def test_known_block_size_reaches_the_image():
    _, facts = lower(
        "gpu.func @f() kernel attributes {known_block_size = array<i32: 8, 4, 1>} { gpu.return }"
    )
    assert facts.kernels[0].required_block == (8, 4, 1)


_CALLED = """func.func @g(%n: i64, %m: memref<i64>) {
    %p = memref.alloca() : memref<1500xi64>
    %i = memref.load %m[] : memref<i64>
    %at = arith.index_cast %i : i64 to index
    memref.store %n, %p[%at] : memref<1500xi64>
    %v = memref.load %p[%at] : memref<1500xi64>
    memref.store %v, %m[] : memref<i64>
    return
  }
"""


@pytest.mark.parametrize(
    ("array", "size", "units"),
    [
        ("memref<2048xi64>", "", 0),  # 16 KiB
        ("memref<3000xi64>", "", 5),  # 256 KiB for all else
        ("memref<2x1500xi32>", "func.call @g(%size, %m) : (i64, memref<i64>) -> ()", 5),  # 12 KB each
        ("memref<4194304xvector<3xf32>>", "", 1028),
        ("memref<?xi64>", "%n = arith.index_cast %size : i64 to index", 132),  # as the pool's threads have
    ],
)
def test_kernels_that_need_more_stack_than_a_thread_has(array: str, size: str, units: int) -> None:
    indices = "%c0, %c0" if "2x" in array else "%c0"
    _, facts = lower(f"""{_CALLED if "@g" in size else ""}gpu.func @f(%size: i64, %m: memref<i64>) kernel {{
    %c0 = arith.constant 0 : index
    {size}
    %p = memref.alloca({"%n" if "?" in array else ""}) : {array}
    %v = memref.load %p[{indices}] : {array}
    memref.store %v, %p[{indices}] : {array}
    gpu.return
  }}""")
    assert facts.kernels[0].stack_units == units


@pytest.mark.parametrize(
    ("op", "said"),
    [
        (
            "%r = nvvm.redux.sync fmin %f, %m : f32 -> f32\nmemref.store %r, %o[%c0] : memref<?xf32>",
            "a subgroup reduction",
        ),
        ("nvvm.cp.async.wait.group 0", "nvvm.cp.async.wait.group"),
        ("nvvm.barrier id = %m number_of_threads = %m", "only a barrier of the whole workgroup"),
    ],
)
def test_unsupported_operations_are_named_with_their_place(op, said):
    body = f"""gpu.func @f(%o: memref<?xf32>, %f: f32, %m: i32) kernel {{
    %c0 = arith.constant 0 : index
    {op}
    gpu.return
  }}"""
    error = refused(lower, body)
    assert said in error.render()
    assert "target cpu" in error.message
    assert error.diagnostics[0].location.line == 4
    assert "nvvm." in error.diagnostics[0].source_line


def test_a_module_without_kernels():
    with pytest.raises(StepError, match="no kernel"):
        lower("func.func @f() { return }")


def test_names_are_escaped_in_ir_text():
    assert escaped('a"b\\c\n') == "a\\22b\\5Cc\\0A"
    assert escaped("ä") == "\\C3\\A4"


LOOP = """gpu.func @f(%o: memref<?xi32>, %n: index) kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %i1 = arith.constant 1 : i32
    {}
    gpu.return
  }}"""


def test_printing_in_a_loop_takes_no_more_stack():
    text, _ = lower(
        LOOP.format("""scf.for %i = %c0 to %n step %c1 {
      gpu.printf "%d\\n", %i : index
    }""")
    )
    entry = text[text.index("@f(") : text.index("br label")]
    assert text.count("= alloca") == entry.count("= alloca") == 1
