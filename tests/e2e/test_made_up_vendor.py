"""A vendor from a folder of its own (``tests/made_up_vendor``), without an edit in the package.

Its kernels are planned, compiled, bundled, put into a program's container beside those of others,
inspected, extracted and reported.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.command import execute, project_file, seed, write
from made_up_vendor.facts import WASM

from gpubuild import load_project
from gpubuild.cli.main import main
from gpubuild.config.load import loads
from gpubuild.errors import ConfigError
from gpubuild.inspect.reader import inspect_file
from gpubuild.model.result import Status
from gpubuild.settings import Settings
from gpubuild.targets import registry
from gpubuild.toolchain.find import Toolchain

SOURCE = """
module attributes {gpu.container_module} {
gpu.module @k {
  gpu.func @fill(%out: memref<?xf32>, %value: f32) kernel {
    %i = gpu.thread_id x
    memref.store %value, %out[%i] : memref<?xf32>
    gpu.return
  }
  gpu.func @twice(%out: memref<?xf32>) kernel {
    %i = gpu.thread_id x
    %x = memref.load %out[%i] : memref<?xf32>
    %y = arith.addf %x, %x : f32
    memref.store %y, %out[%i] : memref<?xf32>
    gpu.return
  }
}
func.func @main() -> i32 {
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  %value = arith.constant 21.0 : f32
  %out = gpu.alloc host_shared (%four) : memref<?xf32>
  gpu.launch_func @k::@fill blocks in (%one, %one, %one) threads in (%four, %one, %one)
    args(%out : memref<?xf32>, %value : f32)
  gpu.launch_func @k::@twice blocks in (%one, %one, %one) threads in (%four, %one, %one)
    args(%out : memref<?xf32>)
  %got = memref.load %out[%one] : memref<?xf32>
  %exit = arith.fptosi %got : f32 to i32
  return %exit : i32
}
}
"""
TARGETS = "cpu: {}, machine: {kind: wasm, chip: wasm-mvp, features: +simd128, opt_level: 2}"


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    remove = registry.register(WASM)
    yield
    remove()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    yaml = project_file("app: {sources: [app.mlir]}", targets=TARGETS)
    write(tmp_path, {"app.mlir": SOURCE, "targets.yaml": yaml})
    seed(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_from_source_to_report(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "-q"]) == 0
    built = project / "build" / "app"
    image = built / "k.machine.wasm"
    assert image.read_bytes().startswith(b"\0asm")
    assert "simd128" in (built / "k.machine.wat").read_text()
    assert execute(built / "app", code=None).code == 42  # the other image is the CPU's

    # Bundled, and in the program's container.
    cpu, machine = inspect_file(built / "k.binary.mlir").modules[0].objects
    assert (cpu.kind, machine.kind, machine.data) == ("cpu", "wasm", image.read_bytes())
    (module,) = inspect_file(built / "app").modules
    _, found = module.objects
    assert (found.target, found.kind, found.chip, found.triple) == (
        "machine", "wasm", "wasm-mvp", "wasm32-unknown-unknown",
    )  # fmt: skip
    assert found.data == image.read_bytes()
    assert [k.name for k in found.kernels] == ["fill", "twice"]
    assert all(k.code_bytes and k.registers for k in found.kernels)
    (bare,) = inspect_file(image).modules[0].objects
    assert (bare.kind, bare.triple) == ("wasm", "wasm32-unknown-unknown")
    assert [(k.name, k.code_bytes) for k in bare.kernels] == [(k.name, k.code_bytes) for k in found.kernels]

    # Listed, extracted, reported.
    capsys.readouterr()
    assert main(["inspect", "build/app/app", "-t", "machine", "--extract", "images"]) == 0
    assert "fill" in (table := capsys.readouterr().out)
    assert "100%" in table
    assert (project / "images" / "k.machine.wasm").read_bytes() == image.read_bytes()
    assert main(["report", "-o", "report.html"]) == 0
    assert "machine" in (project / "report.html").read_text()
    capsys.readouterr()
    assert main(["doctor", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["targets"]
    assert rows[1]["kind"] == "wasm"
    assert rows[1]["found"]


def test_an_option_of_its_target_compiles_nothing_else(project: Path) -> None:
    assert load_project("targets.yaml").build().ok
    yaml = project / "targets.yaml"
    yaml.write_text(yaml.read_text().replace("opt_level: 2", "opt_level: 0"))
    report = load_project("targets.yaml").build()
    assert report.ok
    ran = {step.id for step in report.steps if step.status is Status.RAN}
    assert "app/compile/k/machine" in ran
    assert "app/compile/k/cpu" not in ran


def test_compile_without_a_project(project: Path) -> None:
    assert main(["compile", "app.mlir", "-t", "wasm-generic", "--emit", "obj", "-q"]) == 0
    (bare,) = inspect_file(project / "k.wasm-generic.wasm").modules[0].objects
    assert [k.name for k in bare.kernels] == ["fill", "twice"]


def test_its_chips_and_features_are_checked(project: Path) -> None:
    text = (project / "targets.yaml").read_text()
    wrong = text.replace("chip: wasm-mvp, features: +simd128", "chip: wasm-nvp, features: +simd")
    with pytest.raises(ConfigError) as caught:
        loads(wrong, project / "targets.yaml")
    assert [p.message.partition(" (")[0] for p in caught.value.problems] == [
        "unknown WebAssembly chip 'wasm-nvp'",
        "unknown feature 'simd' for wasm-nvp",
    ]


def test_its_code_is_in_the_keys_of_its_steps(project: Path) -> None:
    tools = Toolchain(Settings())
    names = [f"gpubuild{part}" for part in ("", "/targets", "/nvvm", "/rocdl", "/spirv", "/cpu", "/wasm")]
    assert len({tools.require(name).fingerprint for name in names}) == len(names)
    _, paths = tools.evidence()
    assert any(path.endswith("made_up_vendor/engine/compile.py") for path in paths)
    with pytest.raises(KeyError):
        tools.find("gpubuild/vulkan")
