"""Weights in `dense_resource`: the numbers that programs see, what is built again, and how it scales."""

from __future__ import annotations

import io
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from devices import at_hand
from e2e.command import ROOT, Outcome, gpubuild, project_file, run_python
from e2e.command import write as write_files
from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.resources import file_name
from gpubuild.model.digest import digest_bytes

LARGE, SMALL = 5000, 16  # elements; the small ones end up in the text


@dataclass(frozen=True)
class Element:
    """An element type: its weights, what a kernel computes of them (in MLIR), and the same by NumPy."""

    mlir: str
    ctype: str
    weights: np.ndarray
    code: str
    expected: np.ndarray


def bf16(values: np.ndarray) -> np.ndarray:
    """The nearest bfloat16 as bits, of floats that have no longer fraction."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def elements() -> Mapping[str, Element]:
    generator = np.random.default_rng(13)
    floats = generator.standard_normal(LARGE, dtype=np.float32)
    bytes_ = generator.integers(-128, 128, LARGE, dtype=np.int8)
    halves = np.round(generator.integers(-100, 100, LARGE) / 4, 2)
    return {
        "f32": Element("f32", "float", floats, "arith.addf %w, %w : f32", floats + floats),
        "i8": Element("i8", "signed char", bytes_, "arith.addi %w, %w : i8", bytes_ + bytes_),
        "bf16": Element(
            "bf16", "unsigned short", bf16(halves), "arith.addf %w, %w : bf16", bf16(halves + halves)
        ),
    }


ELEMENTS = elements()
APP = "app: {sources: [k.mlir, k.c]}"
MAIN = """\
#include <stdint.h>
#include <stdio.h>
#include <string.h>
typedef struct { void *base, *data; int64_t offset, size, stride; } memref;
void _mlir_ciface_large(memref *), _mlir_ciface_small(memref *), _mlir_ciface_kernel(memref *);
static TYPE values[COUNT];
static void show(void (*get)(memref *), int64_t count) {
  memref m = {values, values, 0, COUNT, 1};
  memset(values, 0, sizeof values);
  get(&m);
  fwrite(values, sizeof *values, count, stdout);
}
int main(void) {
  show(_mlir_ciface_large, COUNT);
  show(_mlir_ciface_small, SMALL);
  show(_mlir_ciface_kernel, COUNT);
}
"""


def hexadecimal(data: bytes, alignment: int) -> str:
    return f'"0x{alignment.to_bytes(4, "little").hex()}{data.hex()}"'


def getter(name: str, count: int, kind: str, total: int) -> str:
    return f"""
  func.func @{name}(%out: memref<{total}x{kind}>) attributes {{llvm.emit_c_interface}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %n = arith.constant {count} : index
    %all = memref.get_global @{name}_weights : memref<{count}x{kind}>
    scf.for %i = %c0 to %n step %c1 {{
      %w = memref.load %all[%i] : memref<{count}x{kind}>
      memref.store %w, %out[%i] : memref<{total}x{kind}>
    }}
    return
  }}
"""


def source(element: Element, alignment: int, weights: np.ndarray, kernel_weights: np.ndarray) -> str:
    kind, total = element.mlir, weights.size
    return f"""module attributes {{gpu.container_module}} {{
  memref.global "private" constant @large_weights : memref<{total}x{kind}> = dense_resource<large>
  memref.global "private" constant @small_weights : memref<{SMALL}x{kind}> = dense_resource<"small one">
  gpu.module @k {{
    memref.global "private" constant @weights : memref<{total}x{kind}> = dense_resource<kernel>
    gpu.func @twice(%out: memref<{total}x{kind}>) kernel {{
      %all = memref.get_global @weights : memref<{total}x{kind}>
      %i = gpu.global_id x
      %w = memref.load %all[%i] : memref<{total}x{kind}>
      %v = {element.code}
      memref.store %v, %out[%i] : memref<{total}x{kind}>
      gpu.return
    }}
  }}
{getter("large", total, kind, total)}{getter("small", SMALL, kind, total)}
  func.func @kernel(%out: memref<{total}x{kind}>) attributes {{llvm.emit_c_interface}} {{
    %one = arith.constant 1 : index
    %threads = arith.constant 250 : index
    %blocks = arith.constant {total // 250} : index
    gpu.launch_func @k::@twice blocks in (%blocks, %one, %one) threads in (%threads, %one, %one)
      args(%out : memref<{total}x{kind}>)
    return
  }}
}}
{{-#
  dialect_resources: {{
    builtin: {{
      unused: "0x0400000000000000",
      large: {hexadecimal(weights.tobytes(), alignment)},
      "small one": {hexadecimal(weights[:SMALL].tobytes(), alignment)},
      kernel: {hexadecimal(kernel_weights.tobytes(), alignment)}
    }}
  }}
#-}}
"""


def write(folder: Path, element: Element, *, alignment: int = 4, name: str = "k") -> None:
    """The source ``NAME.mlir`` and a main function for it."""
    reverse = element.weights[::-1].copy()
    defines = {"TYPE": element.ctype, "COUNT": str(element.weights.size), "SMALL": str(SMALL)}
    text = MAIN
    for word, value in defines.items():
        text = text.replace(word, value)
    mlir = source(element, alignment, element.weights, reverse)
    write_files(folder, {f"{name}.mlir": mlir, f"{name}.c": text})


def build(
    folder: Path,
    cache: dict[str, str],
    *programs: str,
    targets: str = "cpu: {}",
    options: tuple[str, ...] = (),
) -> Outcome:
    """Build programs whose sources are there."""
    (folder / "targets.yaml").write_text(project_file(*(programs or [APP]), targets=targets))
    return gpubuild("build", *options, cwd=folder, env=cache, code=0)


def expected(element: Element) -> bytes:
    return b"".join(
        part.tobytes() for part in (element.weights, element.weights[:SMALL], element.expected[::-1])
    )


def output(executable: Path, device: str = "cpu", **variables: str) -> bytes:
    environment = {**os.environ, "GPUBUILD_DEVICE": device, **variables}
    return subprocess.run([executable], env=environment, capture_output=True, timeout=60, check=True).stdout


def test_programs_see_the_weights(tmp_path: Path, shared_cache: dict[str, str]) -> None:
    """Of each type and alignment, with each option of a target that treats them in another way."""
    cases = [
        ("f32", 1, ""),
        ("i8", 4, ""),
        ("bf16", 64, ""),
        ("f32", 4, "debug: true"),
        ("f32", 4, "sanitize: [bounds, race, barrier, uninitialized]"),
        ("f32", 4, "opt_level: 0"),
    ]
    programs, targets = [], []
    for number, (name, alignment, options) in enumerate(cases):
        write(tmp_path, ELEMENTS[name], alignment=alignment, name=f"p{number}")
        targets.append(f"t{number}: {{kind: cpu, chip: x86-64-v2, {options}}}")
        programs.append(f"p{number}: {{sources: [p{number}.mlir, p{number}.c], targets: [t{number}]}}")
    build(tmp_path, shared_cache, *programs, targets=", ".join(targets))
    for number, (name, *_) in enumerate(cases):
        assert output(tmp_path / f"build/p{number}/p{number}") == expected(ELEMENTS[name]), cases[number]


@at_hand.NEEDS_OPENCL
def test_more_weights_than_one_instruction_of_spirv_holds(
    tmp_path: Path, shared_cache: dict[str, str]
) -> None:
    one = ELEMENTS["f32"]
    element = replace(one, weights=np.tile(one.weights, 4), expected=np.tile(one.expected, 4))
    assert element.weights.nbytes > 65_536
    write(tmp_path, element)
    build(tmp_path, shared_cache, targets="spirv: {}")
    assert output(tmp_path / "build/app/app", "opencl", **(at_hand.opencl() or {})) == expected(element)


def test_large_dense_constants_pass_through_no_text(tmp_path: Path, shared_cache: dict[str, str]) -> None:
    weights = np.random.default_rng(16).standard_normal(5_000_000, dtype=np.float32)
    large = replace(ELEMENTS["f32"], weights=weights, expected=weights + weights)
    write(tmp_path, large)
    text = (tmp_path / "k.mlir").read_text().partition("{-#")[0]
    for name, values in (("large", weights), ("kernel", weights[::-1]), ('"small one"', weights[:SMALL])):
        text = text.replace(f"dense_resource<{name}>", f'dense<"0x{values.tobytes().hex()}">')
    (tmp_path / "k.mlir").write_text(text)
    targets = "cpu: {}, checked: {kind: cpu, sanitize: [bounds]}"
    build(tmp_path, shared_cache, targets=targets, options=("--dump-ir", "ir"))
    for check in "01":
        assert output(tmp_path / "build/app/app", GPUBUILD_CHECK=check) == expected(large)
    texts = [path for path in tmp_path.rglob("*") if path.suffix in {".mlir", ".ll", ".s", ".txt", ".json"}]
    assert len(texts) > 20
    assert max(path.stat().st_size for path in texts if path.name != "k.mlir") < 1_000_000
    inspected = gpubuild("inspect", "build/app/k.binary.mlir", cwd=tmp_path, code=2)
    assert "inspect k.images.o" in inspected.err
    gpubuild("inspect", "build/app/k.images.o", cwd=tmp_path, code=0)
    gpubuild("build", cwd=tmp_path, env=shared_cache, code=0)
    gpubuild("clean", cwd=tmp_path, env=shared_cache, code=0)
    outcome = gpubuild("build", "--json", cwd=tmp_path, env=shared_cache)
    assert set(outcome.statuses().values()) == {"hit-local"}
    assert output(tmp_path / "build/app/app") == expected(large)


def test_bytecode(tmp_path: Path, shared_cache: dict[str, str]) -> None:
    weights = np.random.default_rng(17).standard_normal(500_000, dtype=np.float32)
    element = replace(ELEMENTS["f32"], weights=weights, expected=weights + weights)
    write(tmp_path, element, alignment=64)
    build(tmp_path, shared_cache)
    (tmp_path / "k.mlirbc").write_bytes(bytecode_of((tmp_path / "k.mlir").read_text()))
    outcome = build(tmp_path, shared_cache, APP.replace("k.mlir", "k.mlirbc"), options=("--json",))
    ran = [step for step, status in outcome.statuses().items() if status == "ran"]
    assert ran == ["outline/k.mlirbc"], "its outputs are those of the text"
    assert output(tmp_path / "build/app/app") == expected(element)


def bytecode_of(text: str) -> bytes:
    with contexts.context():
        stream = io.BytesIO()
        ir.Module.parse(text).operation.write_bytecode(stream)
        return stream.getvalue()


PAGE = (ROOT / "docs" / "how-to" / "tensors.md").read_text()
ADD_WEIGHTS = """{declaration}
func.func @add(%x: tensor<1000x512xf32>) -> tensor<1000x512xf32> attributes {{llvm.emit_c_interface}} {{
  {use}
  %e = tensor.empty() : tensor<1000x512xf32>
  %y = linalg.{operation} ins(%x, %w : tensor<1000x512xf32>, tensor<1000x512xf32>)
      outs(%e : tensor<1000x512xf32>) -> tensor<1000x512xf32>
  return %y : tensor<1000x512xf32>
}}
"""
CALL = """
import numpy as np, sys
sys.path.insert(0, "build/app")
import app
x = np.ones((1000, 512), np.float32)
y = np.empty_like(x)
app.add(x, y)
print(np.array_equal(y, eval(sys.argv[1])(x, np.arange(512000, dtype=np.float32).reshape(x.shape))))
"""


def test_weights_in_a_source_of_their_own(tmp_path: Path, shared_cache: dict[str, str]) -> None:
    definition, code = re.findall(r"```mlir\n(memref.global constant @weights .*?)```", PAGE, re.DOTALL)
    declaration, use = code.split("…\n")
    data = hexadecimal(np.arange(512_000, dtype=np.float32).tobytes(), 4)
    text = f"{definition}{{-#\n  dialect_resources: {{ builtin: {{ w: {data} }} }}\n#-}}\n"
    (tmp_path / "w.mlirbc").write_bytes(bytecode_of(text))
    for operation, numpy in (("add", "np.add"), ("mul", "np.multiply")):
        (tmp_path / "k.mlir").write_text(
            ADD_WEIGHTS.format(declaration=declaration, use=use, operation=operation)
        )
        app = "app: {sources: [k.mlir, w.mlirbc], pipeline: linalg, product: shared}"
        outcome = build(tmp_path, shared_cache, app, options=("--json",))
        done = run_python(CALL, numpy, cwd=tmp_path, env={**os.environ, "GPUBUILD_DEVICE": "cpu"})
        assert done.out == "True\n"
    changed = {step for step, status in outcome.statuses().items() if status != "up-to-date"}
    assert changed and not any("w.mlirbc" in step for step in changed), changed


def test_gpu_code_with_too_large_weights_is_refused(tmp_path: Path, shared_cache: dict[str, str]) -> None:
    kind = f"memref<{17 << 20}xf32>"
    data = hexadecimal(np.arange(17 << 20, dtype=np.float32).tobytes(), 4)
    (tmp_path / "k.mlir").write_text(f"""gpu.module @k {{
  memref.global "private" constant @weights : {kind} = dense_resource<w>
  gpu.func @first(%out: memref<1xf32>) kernel {{
    %all = memref.get_global @weights : {kind}
    %i = gpu.thread_id x
    %w = memref.load %all[%i] : {kind}
    memref.store %w, %out[%i] : memref<1xf32>
    gpu.return
  }}
}}
{{-# dialect_resources: {{ builtin: {{ w: {data} }} }} #-}}
""")
    yaml = project_file("app: {sources: [k.mlir], product: object}", targets="gfx90a: {}, sm_90: {}")
    (tmp_path / "targets.yaml").write_text(yaml)
    outcome = gpubuild("build", "-k", cwd=tmp_path, env=shared_cache, code=1)
    assert "@k has 68 MiB of constants; code for gfx90a, sm_90 can have 64 MiB" in outcome.err
    assert "move the memref.global to host code" in outcome.err


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, shared_cache: dict[str, str]) -> Path:
    folder = tmp_path_factory.mktemp("resources")
    write(folder, ELEMENTS["i8"])
    build(folder, shared_cache, targets="cpu: {}, sm_90: {}, gfx90a: {}")
    return folder


def test_gpu_code_has_the_weights(project: Path) -> None:
    weights = ELEMENTS["i8"].weights[::-1].tobytes()
    for name in ("k.cpu.so", "k.sm_90.cubin", "k.gfx90a.hsaco"):
        assert weights in (project / "build/app" / name).read_bytes()


def test_dumped_ir_has_no_data(project: Path, shared_cache: dict[str, str]) -> None:
    gpubuild("build", "--dump-ir", "ir", cwd=project, env=shared_cache, code=0)
    texts = {path: path.read_text() for path in (project / "ir").rglob("*.mlir") if path.is_file()}
    weights = ELEMENTS["i8"].weights.tobytes()
    assert any(file_name(digest_bytes(weights))[9:73] in text for text in texts.values())
    assert not any(weights[:100].hex() in text.lower() for text in texts.values())


def test_a_module_is_written_with_its_data(project: Path, tmp_path: Path) -> None:
    source, again = project / "k.mlir", tmp_path / "again.mlir"
    gpubuild("compile", source, "-t", "cpu", "--emit", "mlir", "-o", again, cwd=tmp_path, code=0)
    code = []
    for file in (source, again):
        options = ("-t", "cpu", "--kind", "cpu", "--emit", "obj", "-o", "code")
        gpubuild("compile", file, *options, cwd=tmp_path, code=0)
        code.append((tmp_path / "code").read_bytes())
    assert code[0] == code[1]
    assert ELEMENTS["i8"].weights[::-1].tobytes() in code[0]


def test_only_steps_that_use_a_resource_run_again(project: Path, shared_cache: dict[str, str]) -> None:
    element = ELEMENTS["i8"]
    changed = element.weights.copy()
    changed[-1] += 1
    reverse = element.weights[::-1].copy()

    def ran(alignment: int, weights: np.ndarray, kernel_weights: np.ndarray) -> set[str]:
        (project / "k.mlir").write_text(source(element, alignment, weights, kernel_weights))
        outcome = gpubuild("build", "--json", cwd=project, env=shared_cache, code=0)
        return {step for step, status in outcome.statuses().items() if status == "ran"}

    assert ran(4, element.weights, reverse) <= {"outline/k.mlir"}
    assert ran(16, element.weights, reverse) == {"outline/k.mlir"}
    assert ran(16, changed, reverse) == {"outline/k.mlir", "app/host", "app/link"}
    targets = {f"app/compile/k/{target}" for target in ("cpu", "sm_90", "gfx90a")}
    assert targets < ran(16, changed, changed)
    gpubuild("explain", "app/host", cwd=project, env=shared_cache, code=0)
    weights = [changed, changed[:SMALL], changed + changed]
    assert output(project / "build/app/app") == b"".join(part.tobytes() for part in weights)


def test_a_source_with_passes(tmp_path: Path, shared_cache: dict[str, str]) -> None:
    weights = ELEMENTS["f32"].weights
    (tmp_path / "k.mlir").write_text(f"""
      func.func @main() -> i32 {{
        %i = arith.constant 77 : index
        %w = arith.constant dense_resource<w> : tensor<{LARGE}xf32>
        %v = tensor.extract %w[%i] : tensor<{LARGE}xf32>
        vector.print %v : f32
        %z = arith.constant 0 : i32
        return %z : i32
      }}
      {{-# dialect_resources: {{ builtin: {{ w: {hexadecimal(weights.tobytes(), 4)} }} }} #-}}
    """)
    app = 'app: {sources: [k.mlir], passes: {source: "builtin.module(one-shot-bufferize)"}}'
    (tmp_path / "targets.yaml").write_text(project_file(app))
    outcome = gpubuild("run", "-q", "app", cwd=tmp_path, env=shared_cache, code=0)
    assert float(outcome.out) == pytest.approx(weights[77], rel=1e-5)


def test_the_command_that_shows_a_failure_again_finds_the_data(
    tmp_path: Path, shared_cache: dict[str, str]
) -> None:
    write(tmp_path, ELEMENTS["f32"])
    text = (tmp_path / "k.mlir").read_text()
    bad = "%bad = llvm.intr.pow(%w, %w) : (f32, f32) -> f32\n      %v = arith.addf %w, %bad : f32"
    (tmp_path / "k.mlir").write_text(text.replace(f"%v = {ELEMENTS['f32'].code}", bad))
    (tmp_path / "targets.yaml").write_text(project_file(APP, targets="sm_90: {}"))
    outcome = gpubuild("build", "--json", cwd=tmp_path, env=shared_cache, code=1)
    assert "llvm.intr.pow" in outcome.out
    located = next(tmp_path.rglob("located.0.mlir"))
    again = gpubuild(
        "compile", located, "-t", "sm_90", "--emit", "bin", cwd=tmp_path, env=shared_cache, code=1
    )
    assert "llvm.intr.pow" in again.err
    assert "dense_resource" not in again.err
