"""Warnings about attributes with misspelt names."""

from __future__ import annotations

import re

import pytest
from unit.engine.device_steps import in_child

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.source import source_checks

TEXT = """module attributes {gpu.containermodule, my.note = 1} {
  gpu.module @m attributes {target = 1, owner = "me", my.targets = 2} {
    // known_blocksize is wrong below
    gpu.func @k(%a: memref<4xf32> {llvm.noaliass, llvm.noalias, my.a = 1}) kernel attributes {
        known_blocksize = array<i32: 64, 1, 1>,
        nvvm.maxntidx = array<i32: 64, 1, 1>, nvvm.maxntid = array<i32: 64, 1, 1>,
        rocdl.waves_pereu = 2 : i32, kernel_id = 3, id = 1, gpubuild.fast, nvvm.speed = 3 : i32,
        my.known_block_siz = 1
    } {
      gpu.return
    }
    gpu.func @right(%a: memref<4xf32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>,
        known_grid_size = array<i32: 1, 1, 1>, gpu.known_block_size = array<i32: 1, 1, 1>,
        rocdl.waves_per_eu = 2 : i32, rocdl.flat_work_group_size = "1,64",
        rocdl.unsafe_fp_atomics = true, nvvm.minctasm = 1 : i32, nvvm.maxnreg = 32 : i32} {
      gpu.return
    }
  }
  func.func @host() attributes {llvm.emit_c_interfaces} { return }
  func.func private @other() attributes {emit_c_interface, llvm.emit_c_interface}
}
"""
TOLD = [
    "k.mlir:1:20: 'gpu.containermodule'; did you mean 'gpu.container_module'?",
    "k.mlir:2:29: 'target'; did you mean 'targets'?",
    "k.mlir:4:36: 'llvm.noaliass'; did you mean 'llvm.noalias'?",
    "k.mlir:5:9: 'known_blocksize'; did you mean 'known_block_size'?",
    "k.mlir:6:9: 'nvvm.maxntidx'; did you mean 'nvvm.maxntid'?",
    "k.mlir:7:9: 'rocdl.waves_pereu'; did you mean 'rocdl.waves_per_eu'?",
    "k.mlir:7:61: 'gpubuild.fast'",
    "k.mlir:7:76: 'nvvm.speed'",
    "k.mlir:19:33: 'llvm.emit_c_interfaces'; did you mean 'llvm.emit_c_interface'?",
    "k.mlir:20:42: 'emit_c_interface'; did you mean 'llvm.emit_c_interface'?",
]


def told(text: str) -> list[str]:
    with contexts.context():
        found = source_checks.find_misspelt(
            contexts.parse(text, source_name="k.mlir"), SourceText(text, "k.mlir")
        )
        return [
            f"{d.location}: {d.message.replace('the attribute ', '').replace(' means nothing here', '')}"
            for d in found
            if d.severity == "warning"
        ]


def test_what_is_told_and_what_is_the_users_own() -> None:
    def by_place(text: str) -> list[int]:
        return list(map(int, re.findall(r"\d+", text)[:2]))

    assert sorted(in_child(told, TEXT), key=by_place) == TOLD


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("maxntid", "nvvm.maxntid"),
        ("nvmm.maxntid", "nvvm.maxntid"),
        ("nvvm.known_block_size", "known_block_size"),
        ("known_block_sizes", "known_block_size"),
        ("knownBlockSize", "known_block_size"),
        ("block_size", "known_block_size"),
        ("rocdl.reqd_workgroup_size", "rocdl.reqd_work_group_size"),
        ("gpu.kernal", "gpu.kernel"),
        ("kernel_name", ""),
        ("author", ""),
        ("kernels.kernel", ""),
        ("tune.block_size", ""),
    ],
)
def test_what_was_meant(name: str, meant: str) -> None:
    assert source_checks.closest(name, (*source_checks._KERNEL, *source_checks._FUNCTION)) == meant
