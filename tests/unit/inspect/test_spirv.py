"""What a SPIR-V module says of its kernels, and its disassembly."""

import json
import shutil
from functools import cache
from pathlib import Path

import pytest
from unit.engine.device_steps import compile_module, kernel

from gpubuild.errors import ToolNotFoundError
from gpubuild.inspect import disassemble as module
from gpubuild.inspect.disassemble import disassemble
from gpubuild.inspect.elf import DamagedError
from gpubuild.inspect.reader import inspect_file
from gpubuild.inspect.records import describe_image, to_json
from gpubuild.inspect.table import render_table
from gpubuild.model.offload_binary import Image, pack
from gpubuild.settings import Settings
from gpubuild.targets.vendor import ImageKind, OffloadKind

BODY = """
  %s, %v = gpu.shuffle xor %x, %n, %n : f32
  memref.store %s, %tile[%i] : memref<64xf32, #gpu.address_space<workgroup>>
  gpu.barrier
  %r = memref.load %tile[%i] : memref<64xf32, #gpu.address_space<workgroup>>
  memref.store %r, %a[%i] : memref<?xf32>
  vector.store %w, %b[%i] : memref<?xi8>, vector<4xi8>
"""


@cache
def image() -> bytes:
    text = kernel(BODY, arguments="%w: vector<4xi8>, %z: complex<f64>, %b: memref<?xi8>")
    tile = "workgroup(%tile: memref<64xf32, #gpu.address_space<workgroup>>) kernel"
    return compile_module(text.replace(") kernel", f") {tile}", 1), "spirv1.3").object


MEMREF = ["ptr<global>", "ptr<global>", "i64", "i64", "i64"]
PARAMETERS = [
    *MEMREF, *MEMREF, "i64", "i64", "i64", "f32", "i32", "vector<4xi8>", "16 bytes", *MEMREF, "i32", "i32",
]  # fmt: skip


def test_kernels_tell_parameters_and_requirements(tmp_path: Path) -> None:
    (tmp_path / "k.spv").write_bytes(image())
    found = inspect_file(tmp_path / "k.spv")
    (item,) = to_json(found)["modules"][0]["objects"]
    assert (item["kind"], item["chip"], item["format"]) == ("spirv", "spirv1.3", "bin")
    (only,) = item["kernels"]
    assert list(only["parameters"]) == PARAMETERS
    assert {key: only[key] for key in ("name", "shared_bytes", "subgroup_size", "workgroup_size")} == {
        "name": "f",
        "shared_bytes": 256,
        "subgroup_size": 32,
        "workgroup_size": None,
    }
    line = render_table(found).splitlines()[-1]
    assert line.startswith("@- f, spirv1.3: (ptr<global>, ptr<global>, i64,")
    assert line.endswith(", i32, i32) in subgroups of 32")


def test_an_image_of_a_program_tells_what_the_build_did_not_note(tmp_path: Path) -> None:
    noted = json.dumps([{"name": "f", "parameters": 22, "shared_bytes": 256}])
    strings = {"arch": "spirv1.3", "gpubuild.module": "k", "gpubuild.target": "t", "gpubuild.kernels": noted}
    (tmp_path / "k.bin").write_bytes(
        pack(
            [Image(image_kind=ImageKind.SPIRV, offload_kind=OffloadKind.SYCL, strings=strings, data=image())]
        )
    )
    (only,) = inspect_file(tmp_path / "k.bin").modules[0].objects[0].kernels
    assert (list(only.parameters or ()), only.subgroup_size) == (PARAMETERS, 32)


def test_damaged_modules_are_refused() -> None:
    for wrong in (image()[:100], image()[:22], image() + b"\0\0\0\0"):
        with pytest.raises(DamagedError):
            describe_image(wrong)


@pytest.mark.skipif(shutil.which("spirv-dis") is None, reason="needs spirv-dis (Debian: spirv-tools)")
def test_disassembly(tmp_path: Path) -> None:
    (tmp_path / "k.spv").write_bytes(image())
    text = disassemble(inspect_file(tmp_path / "k.spv").modules[0].objects[0], Settings.from_environ())
    assert 'OpEntryPoint Kernel %f "f"' in text or 'OpEntryPoint Kernel %1 "f"' in text
    assert "SubgroupSize 32" in text


def test_what_to_install_without_a_disassembler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_find", lambda *_: [])
    (tmp_path / "k.spv").write_bytes(image())
    with pytest.raises(ToolNotFoundError, match="no disassembler here reads spirv1.3 code") as caught:
        disassemble(inspect_file(tmp_path / "k.spv").modules[0].objects[0], Settings())
    assert caught.value.hint == "install spirv-dis (Debian: spirv-tools)"
