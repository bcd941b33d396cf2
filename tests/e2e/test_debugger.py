"""Debug information of kernels: lines and variables, in files of all targets and in gdb."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from e2e.command import gpubuild, project_file, write
from elftools.elf.elffile import ELFFile
from variants import few

VARIABLES = """\
module attributes {gpu.container_module} {
  gpu.module @k {
    memref.global "private" @count : memref<2xi32, #gpu.address_space<workgroup>>
    func.func private @square(%v: i32) -> i32 {
      %w = arith.muli %v, %v : i32
      return %w : i32
    }
    gpu.func @f(%m: memref<8xf32>, %table: memref<2x4xf32>, %flag: i1, %half: bf16)
        workgroup(%tile: memref<8xf32, #gpu.address_space<workgroup>>)
        private(%own: memref<2xi16, #gpu.address_space<private>>) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : index
      %i = gpu.thread_id x
      %n = arith.index_cast %i : index to i32
      %n2 = func.call @square(%n) : (i32) -> i32
      %x = arith.sitofp %n2 : i32 to f32
      %0 = arith.addf %x, %x : f32
      memref.store %0, %tile[%i] : memref<8xf32, #gpu.address_space<workgroup>>
      %small = arith.trunci %n : i32 to i16
      memref.store %small, %own[%c1] : memref<2xi16, #gpu.address_space<private>>
      gpu.barrier
      %sum = scf.for %j = %c0 to %c3 step %c1 iter_args(%part = %x) -> (f32) {
        %element = memref.load %tile[%j] : memref<8xf32, #gpu.address_space<workgroup>>
        %next = arith.addf %part, %element : f32
        scf.yield %next : f32
      }
      %one = arith.constant 1 : i32
      %width = arith.constant 8 : i32
      %other, %valid = gpu.shuffle xor %x, %one, %width : f32
      %all = gpu.all_reduce add %sum {} : (f32) -> f32
      %twice = arith.addf %half, %half : bf16
      %four = vector.broadcast %sum : f32 to vector<4xf32>
      %eight = arith.addf %four, %four : vector<4xf32>
      %last = arith.cmpi eq, %i, %c3 : index
      %both = arith.andi %last, %flag : i1
      %chosen = scf.if %both -> (f32) {
        %count = memref.get_global @count : memref<2xi32, #gpu.address_space<workgroup>>
        memref.store %n, %count[%c0] : memref<2xi32, #gpu.address_space<workgroup>>
        %read = memref.load %table[%c1, %c0] : memref<2x4xf32>
        scf.yield %read : f32
      } else {
        scf.yield %all : f32
      }
      %wide = arith.extf %twice : bf16 to f32
      %lane = vector.extract %eight[2] : f32 from vector<4xf32>
      %back = memref.load %own[%c1] : memref<2xi16, #gpu.address_space<private>>
      %float = arith.sitofp %back : i16 to f32
      %a = arith.addf %wide, %lane : f32
      %b = arith.addf %a, %float : f32
      %c = arith.addf %b, %chosen : f32
      %d = arith.addf %c, %other : f32
      memref.store %d, %m[%i] : memref<8xf32>
      gpu.return
    }
  }
  func.func @main() {
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %flag = arith.constant true
    %half = arith.constant 2.5 : bf16
    %f = arith.constant 0.25 : f32
    %m = memref.alloc() : memref<8xf32>
    %table = memref.alloc() : memref<2x4xf32>
    linalg.fill ins(%f : f32) outs(%table : memref<2x4xf32>)
    gpu.launch_func @k::@f blocks in (%c1, %c1, %c1) threads in (%c8, %c1, %c1)
      args(%m : memref<8xf32>, %table : memref<2x4xf32>, %flag : i1, %half : bf16)
    gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
               threads(%tx, %ty, %tz) in (%lx = %c8, %ly = %c1, %lz = %c1) {
      memref.store %f, %m[%tx] : memref<8xf32>
      gpu.terminator
    }
    return
  }
}
"""
END = 1 + VARIABLES[: VARIABLES.index("memref.store %d,")].count("\n")


def values(i: int) -> dict[str, str]:
    """What gdb shows of work-item ``i`` at the end of the kernel, where every value is known."""
    x, last = float(i * i), i == 3
    total, other = 10 + x, (i ^ 1) ** 2
    chosen = 0.25 if last else sum(10.0 + n * n for n in range(8))
    numbers = {
        **{"half": 2.5, "i": i, "n": i, "n2": i * i, "x": x, "%0": 2 * x, "small": i, "j": 3},
        **{"part": total, "twice": 5, "other": other, "chosen": chosen, "wide": 5, "lane": 2 * total},
        **{"back": i, "float": i, "a": 5 + 2 * total, "b": 5 + 2 * total + i},
        **{"c": 5 + 2 * total + i + chosen, "d": 5 + 2 * total + i + chosen + other},
        **{"c0": 0, "c1": 1, "c3": 3},
    }
    return {
        **{name: f"{number:g}" for name, number in numbers.items()},
        **{"flag": "true", "last": str(last).lower(), "both": str(last).lower()},
        "tile": "{0, 2, 8, 18, 32, 50, 72, 98}",
        "own": f"{{0, {i}}}",
        "four": f"{{{', '.join([f'{total:g}'] * 4)}}}",
        "eight": f"{{{', '.join([f'{2 * total:g}'] * 4)}}}",
    }


UNCLEAR = {"c0", "c1", "c3", "other"}  # constants that code folds, and a value of several blocks
OUT_OF_SCOPE = {"element", "next", "read"}  # values inside the loop and the branch
NOT_FOLLOWED = {"sum", "valid"}  # see docs/reference/runtime.md
PARAMETERS = {"m": "f32*", "table": "f32[4]*", "flag": "i1", "half": "__bf16"}
# What files of GPUs must have at least, at any level: with a location or a constant.
LOCATED = {
    "sm_90": {
        *PARAMETERS,
        "tile",
        "count",
        "own",
        "i",
        "n",
        "n2",
        "x",
        "j",
        "part",
        "element",
        "chosen",
        "c",
    },
    "gfx942": {"n", "x", "c"},
}


def type_name(die: Any) -> str:
    if "DW_AT_name" in die.attributes:
        return str(die.attributes["DW_AT_name"].value, "utf-8")
    inner = type_name(die.get_DIE_from_attribute("DW_AT_type")) if "DW_AT_type" in die.attributes else "void"
    if die.tag == "DW_TAG_pointer_type":
        return f"{inner}*"
    counts = [child.attributes["DW_AT_count"].value for child in die.iter_children()]
    return inner + "".join(f"[{count}]" for count in counts)


def origin(die: Any) -> Any:
    """The declaration of what was inlined."""
    here = "DW_AT_abstract_origin" in die.attributes
    return die.get_DIE_from_attribute("DW_AT_abstract_origin") if here else die


def variables(path: Path, function: str) -> dict[str, tuple[str, str, bool]]:
    """Tag, type and whether a value is known, of each variable of ``function`` in a file's DWARF."""
    found: dict[str, tuple[str, str, bool]] = {}
    with path.open("rb") as stream:
        dwarf = ELFFile(stream).get_dwarf_info(relocate_dwarf_sections=False)
        dies = [die for unit in dwarf.iter_CUs() for die in unit.iter_DIEs()]
        for concrete in dies:
            if concrete.tag not in {"DW_TAG_formal_parameter", "DW_TAG_variable"}:
                continue
            die, owner = origin(concrete), origin(concrete.get_parent())
            name = die.attributes["DW_AT_name"].value.decode()
            around = owner.attributes["DW_AT_name"].value.decode()
            if owner.tag == "DW_TAG_compile_unit" or around == function:
                kind = type_name(die.get_DIE_from_attribute("DW_AT_type"))
                located = bool({"DW_AT_location", "DW_AT_const_value"} & set(concrete.attributes))
                located |= name in found and found[name][2]
                found[name] = (die.tag.removeprefix("DW_TAG_"), kind, located)
    return found


def build(folder: Path, env: dict[str, str], targets: str, defaults: str) -> None:
    yaml = project_file("app: {sources: [k.mlir]}", targets=targets, more=f"defaults: {{{defaults}}}\n")
    write(folder, {"k.mlir": VARIABLES, "targets.yaml": yaml})
    gpubuild("build", "-q", cwd=folder, env=env, code=0)


def run_gdb(folder: Path, commands: list[str]) -> str:
    gdb = shutil.which("gdb")
    if gdb is None:
        pytest.skip("no gdb")
    commands = ["set debuginfod enabled off", *commands, "kill"]
    process = subprocess.Popen(
        [gdb, "-nx", "-batch", *(part for text in commands for part in ("-ex", text)), "build/app/app"],
        cwd=folder,
        env={**os.environ, "GPUBUILD_DEVICE": "cpu", "GPUBUILD_CPU_THREADS": "1", "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    if "ptrace: Operation not permitted" in said or "Could not trace the inferior" in said:
        pytest.skip("this machine does not let gdb trace programs")
    return said


def test_a_breakpoint_on_a_kernels_line_stops_there(tmp_path: Path, shared_cache: dict[str, str]) -> None:
    """The first stop may be in host code: before the kernels are loaded, gdb knows no nearer line."""
    build(tmp_path, shared_cache, "cpu: {}", "debug: true, opt_level: 0")
    said = run_gdb(tmp_path, [f"break k.mlir:{END}", "run", "continue", "backtrace"])
    assert f"k.mlir:{END}\n{END}\t      memref.store %d, %m[%i] : memref<8xf32>" in said, said
    backtrace = said[said.index("#0") :]
    assert re.search(r"\bf \(", backtrace), said
    assert "gb_cpu_launch" in backtrace, said


@pytest.mark.parametrize("level", [0, 2])
def test_gdb_shows_the_values_of_a_work_item(
    tmp_path: Path, shared_cache: dict[str, str], level: int
) -> None:
    """Without optimisation all of them, else none that is wrong."""
    build(tmp_path, shared_cache, "cpu: {}", f"debug: full, opt_level: {level}")
    stop = [f"break k.mlir:{END}", "run", *["continue"] * 4]
    said = run_gdb(tmp_path, [*stop, "info args", "info locals"])
    shown = dict(re.findall(r"^(\S+) = (?:@0x\w+: )?(.*)$", said[said.rindex(f"\n{END}\t") :], re.MULTILINE))
    assert not NOT_FOLLOWED & set(shown), said
    wanted = values(int(shown["n"]))
    known = {name: value for name, value in shown.items() if name in wanted and "optimized out" not in value}
    assert known == {name: wanted[name] for name in known}, said
    assert len(known) > 5, said
    if level == 0:
        assert known.keys() >= wanted.keys() - UNCLEAR, said
        assert {shown[name] for name in OUT_OF_SCOPE & set(shown)} <= {"<optimized out>"}, said
        assert all(value.startswith("0x") for name, value in shown.items() if name in {"m", "table"}), said


@pytest.mark.parametrize("level", few([3, 0]))
def test_files_of_all_targets_describe_variables(
    tmp_path: Path, shared_cache: dict[str, str], level: int
) -> None:
    defaults = f"debug: full, opt_level: {level}"
    build(tmp_path, shared_cache, "cpu: {}, sm_90: {}, gfx942: {}", defaults)
    for target, suffix in (("cpu", "so"), ("sm_90", "cubin"), ("gfx942", "hsaco")):
        found = variables(tmp_path / f"build/app/k.{target}.{suffix}", "f")
        known = {name for name, (_, _, located) in found.items() if located}
        assert not NOT_FOLLOWED & set(found), target
        kinds = {name: kind for name, (tag, kind, _) in found.items() if tag == "formal_parameter"}
        assert kinds == {name: PARAMETERS[name] for name in kinds}, target
        assert found["tile"][:2] == ("variable", "f32[8]"), target
        assert found["n"][1] == "i32"
        if target in LOCATED:
            assert known >= LOCATED[target], (target, LOCATED[target] - known)
        launched = variables(tmp_path / f"build/app/main_kernel.{target}.{suffix}", "main_kernel")
        assert "bx" not in launched  # not used
        if target != "gfx942":
            assert launched["m"][:2] == ("formal_parameter", "f32*"), launched
            assert level or launched["tx"][:2] == ("variable", "index"), launched
