"""The library as programs get it: linked statically, modules loaded before main and unloaded after it."""

# ruff: noqa: E501  (programs inside strings are not broken for width)

from pathlib import Path

import pytest
from unit.runtime.programs import FLAGS, Runtime, compile_c, container, cubin, extra_flags

PROGRAM = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
extern void *mgpuModuleLoad(void *, size_t), *mgpuModuleGetFunction(void *, const char *);
extern void mgpuModuleUnload(void *);
extern void mgpuLaunchKernel(void *, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, int32_t, void *, void **,
                             void **, size_t);
extern void _mlir_ciface_printMemrefF32(void *), printI64(int64_t), printNewline(void);
static unsigned char image[] = {IMAGE};
static void *module;
__attribute__((constructor(123))) static void load(void) { module = mgpuModuleLoad(image, sizeof image); }
__attribute__((destructor(123))) static void unload(void) { mgpuModuleUnload(module); }

/* What MLIR makes of `func.func private @printMemrefF32(memref<*xf32>) attributes {llvm.emit_c_interface}`. */
void printMemrefF32(int64_t rank, void *memref) {
    struct { int64_t rank; void *memref; } unranked = {rank, memref};
    _mlir_ciface_printMemrefF32(&unranked);
}
void printComma(void) { printf("mine"); }

int main(int count, char **arguments) {
    (void)arguments;
    float data[2] = {1, 2};
    struct { void *base, *data; int64_t offset, size, stride; } memref = {data, data, 0, 2, 1};
    printMemrefF32(1, &memref);
    printI64(7);
    printComma();
    printNewline();
    if (count > 1) {
        mgpuLaunchKernel(mgpuModuleGetFunction(module, "k"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL, 0);
    }
    return 5;
}
"""


@pytest.fixture(scope="module")
def program(built_runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    image = container(("sm_90", cubin()), module="m")
    source = folder / "main.c"
    source.write_text(PROGRAM.replace("IMAGE", ",".join(map(str, image))))
    libraries = (built_runtime.archive, "-ldl", "-lm")
    return compile_c(folder / "program", source, *libraries, flags=(*FLAGS, *extra_flags()))


def test_a_program_s_own_functions_win(program: Path, runtime: Runtime) -> None:
    done = runtime.start(program)
    assert (done.code, done.err) == (5, "")
    assert done.out.endswith(b"[1,  2]\n7mine\n")


def test_programs_contain_no_sparse_matrices_unless_they_use_them(program: Path, runtime: Runtime) -> None:
    assert b"mgpuSpMV" in runtime.archive.read_bytes()
    assert b"mgpuSpMV" not in program.read_bytes()


def test_a_module_that_is_never_used_needs_no_device(program: Path, runtime: Runtime) -> None:
    """Its only image is for sm_90, and there is no such thing here."""
    done = runtime.start(program, driver=runtime.cuda, GPUBUILD_DEVICE="cuda")
    assert (done.code, done.calls) == (5, ())


def test_unloading_follows_main(program: Path, runtime: Runtime) -> None:
    device = {"FAKE_DEVICES": "9.0", "GPUBUILD_TRACE": "1"}
    done = runtime.start(program, "launch", driver=runtime.cuda, **device)
    assert done.code == 5, done.err
    calls = [call.split()[0] for call in done.calls]
    used = [call for call in calls if not call.startswith("cuFunc")]
    assert used[-4:] == ["cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel", "cuModuleUnload"]
    assert done.err.splitlines()[0].startswith("gpubuild: trace: register module m")
    assert done.err.splitlines()[-1] == "gpubuild: trace: unload module m"


def test_a_failure_in_a_destructor_changes_the_exit_code(program: Path, runtime: Runtime) -> None:
    """A kernel that failed after the last wait of the program shows when its module is unloaded."""
    device = {"FAKE_DEVICES": "9.0", "FAKE_FAIL": "cuModuleUnload=700"}
    done = runtime.start(program, "launch", driver=runtime.cuda, **device)
    assert done.code == 1
    assert done.err.startswith("gpubuild: cuModuleUnload failed with CUDA_ERROR_FAKE (700)")
    assert b"7mine" in done.out
