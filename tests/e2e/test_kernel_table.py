"""Tables of kernels in objects: what they list for each vendor, upstream's for AMD, and tables as given."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import mlir
import pytest
from e2e.command import build_project, execute, gpubuild, project_file
from unit.engine.device_steps import tools

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.kernel_table import described

OWN_MLIR_OPT = Path(next(iter(mlir.__path__))) / "bin" / "mlir-opt"
TABLE = re.compile(r"kernels = <(\[#gpu\.kernel_metadata<.*?>\])>, ")
KERNELS = """
gpu.module @k {
  gpu.func @f(%a: memref<?xf32>, %s: f32 {llvm.noundef}, %p: !llvm.ptr {llvm.noalias})
      workgroup(%w: memref<64xf32, #gpu.address_space<workgroup>>) kernel
      attributes {known_block_size = array<i32: 16, 4, 1>} {
    %i = gpu.thread_id x
    memref.store %s, %w[%i] : memref<64xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    %c = arith.constant 3 : index
    %v = memref.load %w[%c] : memref<64xf32, #gpu.address_space<workgroup>>
    memref.store %v, %a[%i] : memref<?xf32>
    gpu.return
  }
  gpu.func @e() kernel { gpu.return }
}
"""
TYPE = "!llvm.func<void (ptr, ptr, i64, i64, i64, f32, ptr)>"
ATTRIBUTES = ["{}"] * 5 + ["{llvm.noundef}", "{llvm.noalias}"]
# For each target: names of metadata with the field of `inspect` that has the same value, and other values.
EXPECTED: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "sm_90": (
        {"registers": "registers", "shared_bytes": "shared_bytes", "spill_bytes": "spill_bytes"},
        {"private_bytes": 0, "max_work_items": 64},
    ),
    "gfx90a": (
        {"vgpr_count": "registers", "group_segment_fixed_size": "shared_bytes"},
        {"wavefront_size": 64, "max_flat_workgroup_size": 64, "reqd_workgroup_size": [16, 4, 1]},
    ),
    "cpu": (
        {"shared_bytes": "shared_bytes", "tier": "tier"},
        {"max_work_items": 64, "required_workgroup": [16, 4, 1], "tier_reason": "gpu.barrier"},
    ),
}
# A module as for gpu-module-to-binary, and the table that mlir-opt of LLVM 22.1.8 with AMDGPU makes of it.
ROCDL = """
module attributes {gpu.container_module} {
gpu.module @k [#rocdl.target<O = 3, chip = "gfx1100">] {
  llvm.mlir.global internal @s() {addr_space = 3 : i32} : !llvm.array<16 x f32>
  llvm.func @f(%a: !llvm.ptr {llvm.noalias}, %b: f32, %n: i64)
      attributes {gpu.kernel, rocdl.kernel, rocdl.reqd_work_group_size = array<i32: 32, 4, 2>} {
    %0 = llvm.mlir.addressof @s : !llvm.ptr<3>
    llvm.store %b, %a : f32, !llvm.ptr
    llvm.store volatile %b, %0 : f32, !llvm.ptr<3>
    llvm.return
  }
  llvm.func @e() attributes {gpu.kernel, rocdl.kernel, rocdl.flat_work_group_size = "1,64"} { llvm.return }
  llvm.func @helper() { llvm.return }
}
}
"""
COMMON = "private_segment_fixed_size = 0 : i64, reqd_workgroup_size"
SPILLS = "vgpr_spill_count = 0 : i64, wavefront_size = 32 : i64, workgroup_size_hint = array<i32: -1, -1, -1>"
UPSTREAM = (
    '[#gpu.kernel_metadata<"e", !llvm.func<void ()>, metadata = {agpr_count = 4294967295 : i64, '
    f"group_segment_fixed_size = 0 : i64, max_flat_workgroup_size = 64 : i64, {COMMON} = "
    "array<i32: -1, -1, -1>, sgpr_count = 0 : i64, sgpr_spill_count = 0 : i64, vgpr_count = 0 : i64, "
    f'{SPILLS}}}>, #gpu.kernel_metadata<"f", !llvm.func<void (ptr, f32, i64)>, '
    "arg_attrs = [{llvm.noalias}, {}, {}], metadata = {agpr_count = 4294967295 : i64, "
    f"group_segment_fixed_size = 64 : i64, max_flat_workgroup_size = 256 : i64, {COMMON} = "
    "array<i32: 32, 4, 2>, sgpr_count = 3 : i64, sgpr_spill_count = 0 : i64, vgpr_count = 2 : i64, "
    f"{SPILLS}}}>]"
)
GIVEN = '[#gpu.kernel_metadata<"double", (memref<?xf32>) -> (), metadata = {note = "as given"}>]'


def bundled(folder: Path, text: str, *targets: str) -> Path:
    """Return the gpu.binary that `gpubuild compile` makes of a file."""
    (folder / "k.mlir").write_text(text)
    chosen = [word for target in targets for word in ("-t", target)]
    gpubuild("compile", "k.mlir", *chosen, "--emit", "binary", "-o", "k.binary.mlir", cwd=folder, code=0)
    return folder / "k.binary.mlir"


def tables(text: str) -> list[list[dict[str, object]]]:
    with contexts.context():
        return [described(f"#gpu.kernel_table<{table}>") for table in TABLE.findall(text)]


def test_every_object_has_a_table_of_its_kernels(tmp_path: Path) -> None:
    path = bundled(tmp_path, KERNELS, *EXPECTED)
    execute(OWN_MLIR_OPT, path)
    objects = gpubuild("inspect", "--json", path, cwd=tmp_path).document["modules"][0]["objects"]
    text = gpubuild("inspect", path, cwd=tmp_path).out
    for item, target, table in zip(objects, EXPECTED, tables(path.read_text()), strict=True):
        f, e = item["kernels"]
        assert (f["function_type"], f["arg_attrs"]) == (TYPE, ATTRIBUTES)
        assert (e["function_type"], e["arg_attrs"]) == ("!llvm.func<void ()>", [])
        fields, values = EXPECTED[target]
        for kernel in (f, e):
            kept = {name: kernel[name] for name in ("name", "function_type", "arg_attrs", "metadata")}
            assert kept in table
            assert {name: kernel["metadata"][name] for name in fields} == {
                name: kernel[field] for name, field in fields.items()
            }
        assert {name: f["metadata"][name] for name in values} == values
        assert f"@k f: {TYPE}" in text
        (line,) = re.findall(rf"^@k f, {target}: (.*)$", text, re.MULTILINE)
        assert f"{next(iter(values))} {next(iter(values.values()))}" in line


def test_the_table_for_amd_is_that_of_upstream(tmp_path: Path) -> None:
    made = bundled(tmp_path, ROCDL, "gfx1100").read_text()
    ours, upstream = tables(made)[0], tables(f"kernels = <{UPSTREAM}>, ")[0]
    for table in (ours, upstream):
        for kernel in table:  # versions of LLVM allocate registers differently
            kernel["metadata"].update(sgpr_count=0, vgpr_count=0)  # type: ignore[attr-defined]
    assert ours == upstream


def test_upstream_makes_the_recorded_table(tmp_path: Path) -> None:
    found = shutil.which("mlir-opt-22") or shutil.which("mlir-opt")
    if not found or "22.1." not in subprocess.check_output([found, "--version"], text=True):
        pytest.skip("no mlir-opt 22.1 of a distribution (Debian: mlir-22-tools); the wheel's lacks AMDGPU")
    linker = tmp_path / "llvm" / "bin" / "ld.lld"
    linker.parent.mkdir(parents=True)
    linker.write_text(f'#!/bin/sh\nexec {" ".join(tools()["ld.lld"])} "$@"\n')
    linker.chmod(0o755)
    command = [found, f"--gpu-module-to-binary=toolkit={tmp_path}"]
    done = execute(*command, stdin=ROCDL, code=None)
    if "target was not built" in done.err:
        pytest.skip(f"{found} was built without AMDGPU")
    assert TABLE.findall(done.out) == [UPSTREAM], done.err


@pytest.mark.parametrize("given", ["", GIVEN])
def test_bitcode_keeps_its_table_or_gets_one(given: str, tmp_path: Path) -> None:
    text = (
        "llvm.func @double(%p: !llvm.ptr, %g: !llvm.ptr<1>, %n: i64, %h: bf16, %x: f64)"
        " attributes {gpu.kernel, nvvm.kernel} { llvm.return }"
    )
    source = f'gpu.module @k [#nvvm.target<chip = "sm_75">] {{\n{text}\n}}\n'
    command = [str(OWN_MLIR_OPT), "--gpu-module-to-binary=format=llvm"]
    made = execute(*command, stdin=source).out
    if given:
        made = made.replace("offload = ", f"kernels = <{given}>, offload = ")
    main = "  func.func @main() -> i32 {\n    %z = arith.constant 0 : i32\n    return %z : i32\n  }\n}"
    source = made.strip().removesuffix("}") + main
    built = build_project(tmp_path, project_file("app: {sources: [k.mlir]}"), {"k.mlir": source})
    binary = (built / "app/k.binary.mlir").read_text()
    ((entry,),) = tables(binary)
    kind = "(memref<?xf32>) -> ()" if given else "!llvm.func<void (ptr, ptr<1>, i64, bf16, f64)>"
    assert entry["function_type"] == kind
    assert (TABLE.findall(binary) == [given]) == bool(given)
