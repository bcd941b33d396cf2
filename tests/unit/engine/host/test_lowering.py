"""Host code: binaries in place of placeholders, lowering, dispatch or selection as upstream does it."""

import re
import subprocess
from pathlib import Path

import pytest
from unit.engine.host.test_bundle import BLOBS, OBJECTS
from unit.engine.host_steps import (
    HOST,
    LAUNCH,
    OUTPUTS,
    PLACEHOLDER,
    UPSTREAM,
    bundled,
    located_inputs,
    lowered,
    params,
    section,
    symbols,
)
from unit.engine.steps import failing_step, run_step

from gpubuild.engine.host import gpu_binary, lowering
from gpubuild.engine.ir import contexts
from gpubuild.model.project import Offload
from gpubuild.model.step import HostParams, StepKind

ALONE = HostParams(modules=(), offload=Offload.DISPATCH)


def test_mlir_output_has_the_real_binaries_and_upstream_takes_it(tmp_path: Path) -> None:
    text = lowered(tmp_path, given=params(Offload.SELECT_OBJECT)).text("mlir")
    made = subprocess.run([UPSTREAM / "mlir-opt"], input=text, capture_output=True, text=True, check=True)
    with contexts.context():
        objects = gpu_binary.read_objects(gpu_binary.binaries(contexts.parse(made.stdout))["saxpy_kernels"])
    assert tuple(o.data for o in objects) == BLOBS
    assert "gpu.launch_func" in text


@pytest.mark.parametrize("name", ["saxpy_kernels", 'a "k\\.ü'])
def test_dispatch_refers_to_images_in_another_object(tmp_path: Path, name: str) -> None:
    text = HOST.replace("@saxpy_kernels", f"@{gpu_binary.quoted(name)}")
    given = HostParams(modules=(name,), offload=Offload.DISPATCH)
    ran = run_step(tmp_path, StepKind.HOST, given, {"host": text}, OUTPUTS)
    found = symbols(tmp_path, ran.outputs["object"])
    symbol = f"gpubuild.images.{name}"
    assert found[symbol] == found[f"{symbol}.size"] == "undefined"


def test_modules_are_loaded_by_constructors_that_every_linker_keeps(tmp_path: Path) -> None:
    data = lowered(tmp_path).outputs["object"]
    assert section(tmp_path, data, ".init_array.00123") == bytes(8)
    assert section(tmp_path, data, ".fini_array.00123") == bytes(8)
    assert section(tmp_path, data, ".ctors.65412") is None
    found = symbols(tmp_path, data)
    assert found["mgpuModuleLoad"] == found["mgpuLaunchKernel"] == "undefined"
    assert found["run"] == found["_mlir_ciface_run"] == "defined"


def upstream_llvm(text: str, passes: str = "") -> str:
    """Return the LLVM IR that upstream's own tools generate for the host with its gpu.binary ops."""
    usual = lowering.PASSES.replace("builtin.module(", "builtin.module(func.func(gpu-async-region),", 1)
    for tool, option in (
        ("mlir-opt", f"--pass-pipeline={passes or usual}"), ("mlir-translate", "--mlir-to-llvmir"),
    ):  # fmt: skip
        command = [UPSTREAM / tool, option]
        text = subprocess.run(command, input=text, capture_output=True, check=True, text=True).stdout
    return text


@pytest.mark.parametrize("index", range(len(OBJECTS)))
def test_select_object_gives_upstreams_llvm_ir(tmp_path: Path, index: int) -> None:
    binary = bundled(tmp_path, f"#gpu.select_object<{index}>")
    checked = HOST.replace(LAUNCH, f'%ok = ub.poison : i1\n    cf.assert %ok, "no"\n{LAUNCH}')
    inputs = {"host": checked, "binary.0": binary}
    ran = run_step(tmp_path / "host", StepKind.HOST, params(Offload.SELECT_OBJECT), inputs, OUTPUTS)
    assert ran.text("llvm") == upstream_llvm(ran.text("mlir"))
    size = re.search(r"@saxpy_kernels_binary = internal constant \[(\d+) x i8\]", ran.text("llvm"))
    assert int(size[1]) == len(BLOBS[index])
    assert section(tmp_path, ran.outputs["object"], ".llvm.offloading") is None


def test_a_pipeline_of_the_users_gives_upstreams_llvm_ir(tmp_path: Path) -> None:
    """The module is otherwise unchanged, too."""
    passes = "builtin.module(gpu-to-llvm{use-bare-pointers-for-kernels=1},reconcile-unrealized-casts,cse)"
    inputs = {"host": HOST.replace("?xf32", "64xf32"), "binary.0": bundled(tmp_path)}
    given = params(Offload.SELECT_OBJECT, passes=passes)
    ran = run_step(tmp_path / "host", StepKind.HOST, given, inputs, OUTPUTS)
    assert ran.text("llvm") == upstream_llvm(ran.text("mlir"), passes)
    assert ran.text("llvm") != upstream_llvm(ran.text("mlir"))


def test_ready_binaries_of_the_users_pass_through(tmp_path: Path) -> None:
    ready = PLACEHOLDER.replace('bin = ""', 'properties = {O = 1 : i32}, assembly = "their own"')
    ran = lowered(tmp_path, HOST.replace(PLACEHOLDER, ready), ALONE)
    assert 'assembly = "their own"' in ran.text("mlir")
    assert "mgpuModuleLoadJIT" in symbols(tmp_path, ran.outputs["object"])


def test_a_source_without_kernels_is_lowered_too(tmp_path: Path) -> None:
    text = "module { func.func @f(%x: f32) -> f32 { %y = math.erf %x : f32\n return %y : f32 } }"
    ran = lowered(tmp_path, text, ALONE)
    assert symbols(tmp_path, ran.outputs["object"]) == {"f": "defined", "erff": "undefined"}


@pytest.mark.parametrize("debug", [False, True])
def test_debug_information_only_when_asked_for(tmp_path: Path, debug: bool) -> None:
    with contexts.context():
        text = contexts.located_text(contexts.parse(HOST, source_name="src/saxpy.mlir"))
    ran = lowered(tmp_path, text, params(debug=debug))
    assert (section(tmp_path, ran.outputs["object"], ".debug_line") is not None) == debug


@pytest.mark.parametrize(
    "constant", ["", "memref.global constant @c : memref<1xcomplex<f32>> = dense<[(0.5, 1.5)]>"]
)
def test_main_without_a_result_ends_with_zero(tmp_path: Path, constant: str) -> None:
    llvm = lowered(tmp_path, f"{constant}\nfunc.func @main() {{ return }}", ALONE).text("llvm")
    assert "define i32 @main()" in llvm
    assert "ret i32 0" in llvm


@pytest.mark.parametrize(
    ("text", "signature"),
    [
        ("func.func @main() -> i32 { %c = arith.constant 3 : i32\n return %c : i32 }", "define i32 @main()"),
        ("func.func @main(%x: i32) { return }", "define void @main(i32"),
        (
            "func.func @main() { return } func.func @g() { call @main() : () -> ()\n return }",
            "define void @main()",
        ),
        ("func.func private @main()\nfunc.func @g() { return }", "define void @g()"),
    ],
)
def test_other_mains_stay_as_they_are(tmp_path: Path, text: str, signature: str) -> None:
    assert signature in lowered(tmp_path, text, ALONE).text("llvm")


def test_the_machine_is_that_of_the_build(tmp_path: Path) -> None:
    text = (
        'module attributes {llvm.data_layout = "e-m:e-p:32:32", llvm.target_triple = "riscv32"} {\n'
        "  func.func @f() -> memref<4xf32> {\n    %m = memref.alloc() : memref<4xf32>\n"
        "    return %m : memref<4xf32>\n  }\n}\n"
    )
    llvm = lowered(tmp_path, text, ALONE).text("llvm")
    assert "riscv32" not in llvm
    assert "p:32:32" not in llvm


def test_what_cannot_be_lowered_points_into_the_users_file(tmp_path: Path) -> None:
    text = (
        "// one\n// two\nfunc.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}\n"
    )
    error = failing_step(tmp_path / "w", StepKind.HOST, ALONE, located_inputs(tmp_path, text), OUTPUTS)
    assert error.diagnostics, error.render()
    location = error.diagnostics[0].location
    assert location.file.endswith("app.mlir")
    assert location.line in (3, 4)
    assert error.message.startswith("host code cannot lower ")
    assert "passes" in error.hint
    assert error.stage == "translate host"


def test_kernels_in_spirv_are_no_host_code(tmp_path: Path) -> None:
    text = (
        'spirv.module Logical GLSL450 {\n  spirv.func @f() "None" {\n    spirv.Return\n  }\n}\n'
        "func.func @g() { return }\n"
    )
    error = failing_step(tmp_path / "w", StepKind.HOST, ALONE, {"host": text}, OUTPUTS)
    assert error.hint.startswith("a spirv.module cannot be linked: write a gpu.module")


def test_a_pipeline_of_the_users_replaces_ours(tmp_path: Path) -> None:
    given = HostParams(modules=(), offload=Offload.DISPATCH, passes="builtin.module(no-such-pass)")
    error = failing_step(tmp_path, StepKind.HOST, given, {"host": "func.func @f() { return }"}, OUTPUTS)
    assert "no-such-pass" in error.render()
    assert error.stage == "lower host"


def test_a_missing_placeholder_is_an_error(tmp_path: Path) -> None:
    error = failing_step(
        tmp_path, StepKind.HOST, params(), {"host": "module {}", "binary.0": bundled(tmp_path)}, OUTPUTS
    )
    assert "no place for the binary of gpu.module @saxpy_kernels" in error.message


@pytest.mark.parametrize("opt_level", [0, 3])
def test_only_programs_with_tasks_mention_their_runtime(tmp_path: Path, opt_level: int) -> None:
    given = HostParams(modules=(), offload=Offload.DISPATCH, opt_level=opt_level)
    plain = lowered(tmp_path / "a", "func.func @f() { return }", given).text("llvm")
    assert "mlirAsyncRuntime" not in plain
    text = "func.func @f() { %t = async.execute { async.yield }\n async.await %t : !async.token\n return }"
    ran = lowered(tmp_path / "b", text, given)
    found = symbols(tmp_path, ran.outputs["object"])
    assert "mlirAsyncRuntimeAwaitToken" in found
    assert not [name for name in found if "coro" in name]
    assert "coro.begin" in ran.text("llvm")
