"""Libraries and objects that programs are linked into: what they export, and their use by other programs."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from e2e.command import Outcome, execute, gpubuild, project_file, run_on_cpu, run_python, seed, shared_cache
from e2e.library_programs import ZIG_CC
from elftools.elf.elffile import ELFFile
from once import once
from simulators.cuda_driver import standin
from variants import few

UNLOADING = Path(__file__).parents[1] / "unit" / "runtime" / "unloading.c"
PROJECT = """\
version: 1
targets: {sm_60: {}, cpu: {}}
programs:
  scale: {sources: [scale.mlir, main.c]}
  first: {sources: [scale.mlir, call.c], product: shared}
  second: {sources: [scale.mlir, call.c], product: shared}
  plus: {sources: [scale.mlir, call.c, plus.cpp], product: static}
  part: {sources: [scale.mlir, call.c], product: object}
"""
CALL = """\
#include <stdint.h>
struct memref { float *allocated, *data; int64_t offset, size, stride; };
void _mlir_ciface_scale(float, struct memref *);
int internal(void);
int counter;
__attribute__((visibility("hidden"))) int internal(void) { return 3; }
static void scale_by(float factor, float *data) {
    struct memref x = {data, data, 0, 4, 1};
    _mlir_ciface_scale(factor, &x);
}
int call(void);
int call(void) {
    float data[4] = {1, 2, 3, 4};
    scale_by((float)internal(), data);
    __atomic_add_fetch(&counter, 1, __ATOMIC_RELAXED);
    return data[0] == 3 && data[3] == 12;
}
"""
PLUS = """\
#include <vector>
template <typename T> T sum(const std::vector<T> &v) { T s{}; for (auto x : v) s += x; return s; }
template int sum(const std::vector<int> &);
extern "C" int call(void);
int plus(int n) { return call() + sum(std::vector<int>(n, 2)); }
"""
USER = {
    ".c": "int call(void); int internal(void) { return 0; }\n"
    "int main(void) { return call() && internal() == 0 ? 0 : 1; }\n",
    ".cpp": "int plus(int); int main() { return plus(4) == 9 ? 0 : 1; }\n",
}
INTERFACE = {"scale", "_mlir_ciface_scale", "call", "counter"}
PRODUCTS = {"first": "libfirst.so", "second": "libsecond.so", "plus": "libplus.a", "part": "part.o"}
CPU = {"GPUBUILD_DEVICE": "cpu", "GPUBUILD_CPU_THREADS": "3"}


def write_project(folder: Path, text: str = PROJECT) -> Path:
    gpubuild("init", "demo", cwd=folder, code=0)
    project = folder / "demo"
    (project / "targets.yaml").write_text(text)
    (project / "call.c").write_text(CALL)
    (project / "plus.cpp").write_text(PLUS)
    return project


def _build(folder: Path) -> None:
    project = write_project(folder)
    seed(project)
    gpubuild("build", cwd=project, code=0)


@pytest.fixture(scope="module")
def built() -> Path:
    """The project, built; no test may write to it."""
    return once("products", _build) / "demo"


def product(built: Path, name: str) -> Path:
    return built / "build" / name / PRODUCTS[name]


def exports(file: Path) -> set[str]:
    """Return the names of the defined symbols that other files can refer to."""
    with file.open("rb") as stream:
        elf = ELFFile(stream)
        table = elf.get_section_by_name(".dynsym") or elf.get_section_by_name(".symtab")
        return {
            s.name
            for s in table.iter_symbols()
            if s["st_info"]["bind"] != "STB_LOCAL"
            and s["st_shndx"] != "SHN_UNDEF"
            and s["st_other"]["visibility"] == "STV_DEFAULT"
            and not s.name.startswith("gpubuild_abi_")  # of the header and the Python module
        }


def member(archive: Path, folder: Path) -> Path:
    execute("ar", "x", archive, cwd=folder)
    (found,) = folder.iterdir()
    return found


def test_only_the_users_functions_are_exported(built: Path, tmp_path: Path) -> None:
    assert exports(product(built, "first")) == INTERFACE
    assert exports(product(built, "part")) == INTERFACE
    assert member(product(built, "plus"), tmp_path).name == "plus.o"
    cxx = exports(tmp_path / "plus.o")
    assert INTERFACE | {"_Z4plusi"} <= cxx
    assert all(name.startswith("_Z") for name in cxx - INTERFACE), cxx
    with product(built, "first").open("rb") as stream:
        tags = {t.entry.d_tag: t for t in ELFFile(stream).get_section_by_name(".dynamic").iter_tags()}
    assert tags["DT_SONAME"].soname == "libfirst.so"


@pytest.mark.parametrize("name", PRODUCTS)
def test_inspect_lists_the_images(built: Path, name: str) -> None:
    printed = gpubuild("inspect", product(built, name), cwd=built).out
    assert printed.count("@scale_kernels") == 1
    assert "sm_60" in printed


@pytest.mark.parametrize(
    "language, names",
    [(".c", ["first"]), (".c", ["part"]), (".cpp", ["plus"]), (".cpp", ["plus", "second"])],
)
def test_a_program_links_it(built: Path, tmp_path: Path, language: str, names: list[str]) -> None:
    """The library's hidden functions do not clash with the program's."""
    source = tmp_path / f"user{language}"
    source.write_text(USER[language])
    compiler = shutil.which("c++" if language == ".cpp" else "cc")
    assert compiler
    files = [product(built, name) for name in names]
    paths = [f"-Wl,-rpath,{file.parent}" for file in files]
    program = tmp_path / "user"
    execute(compiler, source, *files, *paths, "-lm", "-ldl", "-lpthread", "-o", program)
    assert run_on_cpu(program, **CPU) == Outcome(0, "", "")


@pytest.mark.parametrize("what", ["call", "again", "two", "threads", "later", "fork"])
def test_a_library_is_opened_and_closed(built: Path, tmp_path: Path, what: str) -> None:
    program = tmp_path / "unloading"
    execute("cc", "-std=gnu11", "-pthread", UNLOADING, "-ldl", "-o", program)
    libraries = [product(built, name) for name in ("first", "second")]
    assert run_on_cpu(program, what, *libraries, **CPU) == Outcome(0, "", "")


BESIDE_CUDA = """
import sys
from ctypes import *
cuda = CDLL("libcuda.so.1")
def check(code): assert code == 0, code
check(cuda.cuInit(0))
device, primary, now, memory = c_int(), c_void_p(), c_void_p(), c_uint64()
check(cuda.cuDeviceGet(byref(device), 0))
check(cuda.cuDevicePrimaryCtxRetain(byref(primary), device))
check(cuda.cuCtxPushCurrent_v2(primary))
check(cuda.cuMemAlloc_v2(byref(memory), c_size_t(4)))
check(cuda.cuMemsetD32Async(memory, 7, c_size_t(1), None))
for library in sys.argv[1:] * 2:
    library = CDLL(library)
    assert library.call() == 1
    handle = library._handle
    del library
    check(CDLL(None).dlclose(c_void_p(handle)))
value = (c_int * 1)()
check(cuda.cuMemcpyAsync(c_uint64(addressof(value)), memory, c_size_t(4), None))
check(cuda.cuStreamSynchronize(None))
check(cuda.cuCtxPopCurrent_v2(byref(now)))
assert (value[0], now.value) == (7, primary.value)
print("the context is the same")
"""


def test_two_libraries_beside_another_user_of_cuda(built: Path, tmp_path: Path) -> None:
    """Both use the device's primary context; they leave the current one and its memory alone."""
    standin.translate((built / "build" / "first").glob("*.ptx"), "7.0", tmp_path)
    environment = standin.environment("7.0", modules=tmp_path, GPUBUILD_TRACE="1")
    libraries = [product(built, name) for name in ("first", "second")]
    done = run_python(BESIDE_CUDA, *libraries, env={"PATH": os.environ["PATH"], **environment})
    assert done.out == "the context is the same\n"
    assert done.err.count("unload module scale_kernels") == 4, "dlclose unloads"


INLINE = """\
#define LOCAL __attribute__((visibility("hidden"), noinline)) inline
LOCAL int count() { static int n; return ++n; }
extern "C" int NAME() { return count(); }
"""


Compiled = tuple[Path, list[str]]  # the project, and the C compiler that has made its products


@pytest.fixture(scope="module", params=few(["system", "zig"]))
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """With objects ``one`` and ``two`` of C++."""
    folder = tmp_path_factory.mktemp(request.param)
    added = [f"  {name}: {{sources: [{name}.cpp], product: object}}\n" for name in ("one", "two")]
    project = write_project(folder, PROJECT + "".join(added))
    for name in ("one", "two"):
        (project / f"{name}.cpp").write_text(INLINE.replace("NAME", name))
    zig = request.param == "zig"
    env = ({"PATH": str(folder)} if zig else {}) | shared_cache()  # zig is used where no other compiler is
    programs = ("first", "plus", "part", "one", "two")
    gpubuild("build", *programs, "-t", "cpu", cwd=project, env=env, code=0)
    return project, ZIG_CC if zig else ["cc"]


def link(compiled: Compiled, text: str, *files: Path) -> Path:
    """A program of C with ``files``, by the compiler that made them."""
    project, compiler = compiled
    source, program = project / "user.c", project / "user"
    source.write_text(text)
    libraries = ("-lm", "-ldl", "-lpthread")
    execute(*compiler, source, *files, *libraries, "-o", program)
    return program


def test_products_of_each_compiler(compiled: Compiled) -> None:
    library, part = product(compiled[0], "first"), product(compiled[0], "part")
    assert exports(library) == exports(part) == INTERFACE
    script = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).call())"
    done = run_on_cpu(Path(sys.executable), "-c", script, library, **CPU)
    assert (done.out, done.err) == ("1\n", "")
    assert run_on_cpu(link(compiled, USER[".c"], part), **CPU).code == 0


def test_hidden_inline_functions_of_two_libraries_stay_apart(compiled: Compiled) -> None:
    """A linker keeps one of several equal groups of sections, unless their symbols are local."""
    objects = [compiled[0] / "build" / name / f"{name}.o" for name in ("one", "two")]
    assert [exports(file) for file in objects] == [{"one"}, {"two"}]
    text = "int one(void), two(void);\nint main(void) { return one() + one() + two() != 4; }\n"
    assert run_on_cpu(link(compiled, text, *objects)).code == 0


# Programs of one project, and what is said of each.
REFUSED = {
    "static, offload: clang": "'product: static' cannot have `offload: clang`",
    "executable, install: {version: 1}": "'install' is for libraries and objects; an executable is",
    "shared, install: {version: 0x10}": "expected a version, got 0x10; write 1.2.0",
    "shared, install: {include: ../include}": (
        "expected a folder below the prefix, got '../include'; write include/NAME and the like"
    ),
    "dll": "unknown word 'dll' (one of: executable, shared, static, object)",
}
FAILING = {
    "none: {sources: [main.c], product: object}": "none.o would export no function",
    "missing: {sources: [call.c], product: shared}": "cannot link: nothing defines _mlir_ciface_scale",
    "odd: {sources: [odd.mlir], product: shared}": (
        'libodd.so cannot export _mlir_ciface_a@1: linkers take no @ and no " in names'
    ),
    "lto: {sources: [lto.o], product: static}": (
        "cannot list the functions that lto.o exports: it was compiled with -flto"
    ),
}


def test_errors(tmp_path: Path) -> None:
    programs = [f"p{n}: {{sources: [scale.mlir], product: {keys}}}" for n, keys in enumerate(REFUSED)]
    project = write_project(tmp_path, project_file(*programs))
    refused = gpubuild("build", cwd=project, code=2).err
    assert [message for message in REFUSED.values() if message not in refused] == []
    seed(project)
    (project / "odd.mlir").write_text('func.func @"a@1"() attributes {llvm.emit_c_interface} { return }\n')
    execute("gcc", "-flto", "-c", "call.c", "-o", "lto.o", cwd=project)
    (project / "targets.yaml").write_text(project_file(*FAILING))
    failed = gpubuild("build", "-k", cwd=project, code=1).err
    assert [message for message in FAILING.values() if message not in failed] == []
    (project / "targets.yaml").write_text(project_file("lib: {sources: [scale.mlir], product: shared}"))
    for command in ("run", "export"):
        message = f"{command} is for executables, and lib has `product: shared`"
        assert message in gpubuild(command, "lib", cwd=project, code=2).err


def test_another_product_replaces_the_last(tmp_path: Path) -> None:
    project = write_project(
        tmp_path, project_file("lib: {sources: [scale.mlir]}", targets="sm_60: {}, cpu: {}")
    )
    seed(project)
    text = (project / "targets.yaml").read_text()
    for kind, name in (("shared", "liblib.so"), ("static", "liblib.a"), ("object", "lib.o")):
        (project / "targets.yaml").write_text(text.replace("mlir]", f"mlir], product: {kind}"))
        gpubuild("build", cwd=project, code=0)
        found = {file.name for file in (project / "build" / "lib").iterdir()}
        assert found & {"liblib.so", "liblib.a", "lib.o"} == {name}
