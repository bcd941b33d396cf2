"""The C and C++ header of a library: what compiles and runs, and what must not compile or link."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from e2e.command import ROOT, Outcome, execute, gpubuild, saxpy_project
from e2e.library_programs import COMPILERS, build_library, compiler, functions

MAIN = r"""
#include "lib.h"
#include <stdio.h>
#include <stdlib.h>

#define CHECK(x) do { if (!(x)) { printf("line %d: %s\n", __LINE__, #x); return 1; } } while (0)

int main(void) {
    float a[6] = {0, 1, 2, 3, 4, 5}, b[8] = {0, 10, 20, 0, 30, 40, 50, 0};
    gpubuild_memref_f32_2 x = gpubuild_make_f32_2(a, 2, 3), y = gpubuild_make_f32_2(b, 2, 3);
    y.strides[0] = 4;
    CHECK(sized(&x, &y) == 44);
    fresh_results made = fresh(3, 7);
    CHECK(made.result0.sizes[0] == 3 && made.result0.aligned[2] == 7 && made.result1 == true);
    CHECK(made.result2.re == 1.5f && made.result2.im == -2.0f);
    CHECK(made.result3.aligned == made.result0.aligned);
    free(made.result0.allocated);
    gpubuild_memref_f32_1 z = gpubuild_make_f32_1(a, 6), same_z = same(&z);
    CHECK(same_z.aligned == a && same_z.sizes[0] == 6);
    CHECK(constants().aligned[1] == -2);
    float one = 1;
    gpubuild_memref_f32_0 scalar = gpubuild_make_f32_0(&one);
    gpubuild_complex_f64 c = {100, 0.25};
    CHECK(mixed(gpubuild_f16_of(0x3e00), &scalar, c, -3, gpubuild_bf16_of(0xc080), true, 0.5, -7) ==
          1.5 + 1 + 0.25 - 3 - 4 + 1 + 0.5 - 7);
    CHECK(echo_i1(true) && !echo_i1(false));
    CHECK(echo_i8(-128) == -128 && echo_i16(-32768) == -32768 && echo_i32(-5) == -5);
    CHECK(echo_i64(INT64_MIN) == INT64_MIN && echo_index(-1) == -1);
    CHECK(echo_f32(0.1f) == 0.1f && echo_f64(0.1) == 0.1);
    CHECK(gpubuild_f16_bits(echo_f16(gpubuild_f16_of(0x1234))) == 0x1234);
    CHECK(gpubuild_bf16_bits(echo_bf16(gpubuild_bf16_of(0x4321))) == 0x4321);
    gpubuild_complex_f32 d = {1, 2};
    CHECK(echo_complex_f32(d).re == 1 && echo_complex_f32(d).im == 2);
    CHECK(echo_complex_f64(c).re == 100 && echo_complex_f64(c).im == 0.25);
    _mlir_ciface_rank_0(&scalar, &scalar);
    CHECK(a_b(0.5f) == 0.5f && a_b_(-5) == -5 && _1st(7) == 7 && max(d, 3) == 3);
    CHECK(fresh_results_(2) == 2);
    puts("ok");
    return 0;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("header"), "lib", functions())


def compiled(library: Path, work: Path, name: str, text: str, *flags: str) -> Outcome:
    (work / "main.c").write_text(text)
    command = [*compiler(name), f"-I{library}", "main.c", "-x", "none", str(library / "liblib.so"), *flags]
    return execute(*command, f"-Wl,-rpath,{library}", "-o", "main", cwd=work, code=None)


@pytest.mark.parametrize("name", COMPILERS)
def test_functions_of_every_type(library: Path, tmp_path: Path, name: str) -> None:
    made = compiled(library, tmp_path, name, MAIN)
    assert made.code == 0, made.err
    done = execute(tmp_path / "main", code=None)
    assert (done.out, done.code) == ("ok\n", 0), done


MISMATCHES = {
    "element": "double a[2]; gpubuild_memref_f32_1 z = gpubuild_make_f32_1(a, 2); same(&z);",
    "rank": "float a[2]; gpubuild_memref_f32_2 z = gpubuild_make_f32_2(a, 1, 2); same(&z);",
    "pointer": "float a[2]; same(a);",
    "count": "same();",
    "result": "gpubuild_memref_i32_1 z = constants(); (void)z;",
}


@pytest.mark.parametrize("name", ["c", "zig-c++"])
@pytest.mark.parametrize("case", MISMATCHES)
def test_a_mismatch_does_not_compile(library: Path, tmp_path: Path, case: str, name: str) -> None:
    made = compiled(library, tmp_path, name, f'#include "lib.h"\nint main(void) {{ {MISMATCHES[case]} }}\n')
    assert made.code != 0
    assert "error:" in made.err


def test_a_header_of_another_library_does_not_link(library: Path, tmp_path: Path) -> None:
    other = (library / "lib.h").read_text()
    changed = build_library(
        tmp_path / "changed",
        "lib",
        "func.func @echo_i32(%a: i64) -> i64 attributes {llvm.emit_c_interface} { return %a : i64 }\n",
    )
    (changed / "lib.h").write_text(other)
    made = compiled(changed, tmp_path, "c", '#include "lib.h"\nint main(void) { return echo_i32(1); }\n')
    assert made.code != 0
    assert "gpubuild_abi_echo_i32_" in made.err


def test_static_sizes_are_asserted(library: Path, tmp_path: Path) -> None:
    text = (
        '#include "lib.h"\nint main(void) { float a[6] = {0};'
        "gpubuild_memref_f32_2 x = gpubuild_make_f32_2(a, 3, 2); return (int)sized(&x, &x); }\n"
    )
    assert compiled(library, tmp_path, "c", text).code == 0
    done = execute(tmp_path / "main", code=None)
    assert done.code != 0
    assert "x->sizes[0] == 2" in done.err


def test_text(library: Path) -> None:
    text = (library / "lib.h").read_text()
    assert "/* sized: (memref<2x3xf32>, memref<?x3xf32, strided<[4, 1]>>) -> f32\n" in text
    assert " *   x: memref<2x3xf32>, contiguous, read only\n" in text
    assert " *   returns memref<?xi32>; free(result.allocated) when it is not used any more\n" in text
    assert " *   x: memref<1xf32>, contiguous, read only\n *   y: memref<1xf32>, contiguous */\n" in text
    assert "static inline double mixed(gpubuild_f16 class_, gpubuild_memref_f32_0 *b," in text
    assert " * not available: it takes vector<4xf32> */\n" in text
    assert " * not available: it takes memref<*xf32>: write a function for each rank, " in text
    assert "not_exported" not in text


def test_the_page(tmp_path: Path) -> None:
    library = build_library(tmp_path, "saxpy", (ROOT / "examples" / "saxpy" / "saxpy.mlir").read_text())
    (block,) = re.findall(r"```c\n(.*?)```", (ROOT / "docs" / "how-to" / "embedding.md").read_text(), re.S)
    main = "int main(void) { float x = 2, y = 1; run(&x, &y, 1); return y != 5; }\n"
    (tmp_path / "main.c").write_text(block + main)
    command = [*compiler("c"), f"-I{library}", "main.c", "-x", "none", str(library / "libsaxpy.so")]
    execute(*command, f"-Wl,-rpath,{library}", "-o", "main", cwd=tmp_path)
    execute(tmp_path / "main", env=os.environ | {"GPUBUILD_DEVICE": "cpu"})


def test_an_executable_has_no_interface(tmp_path: Path) -> None:
    project = saxpy_project(
        tmp_path / "saxpy",
        "version: 1\ntargets: {cpu: {}}\nprograms: {saxpy: {sources: [saxpy.mlir, main.c]}}\n",
    )
    outcome = gpubuild("build", "--json", cwd=project, seeded=True)
    assert "saxpy/interface" not in outcome.statuses()
    assert not (project / "build" / "saxpy" / "saxpy.h").exists()
