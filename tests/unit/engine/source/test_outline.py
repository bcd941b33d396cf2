"""Outlining: the index, the text of each module, the host part."""

import json
import re
import subprocess
from pathlib import Path

import mlir as mlir_package
import pytest
from unit.engine.device_steps import outline_source
from unit.engine.steps import refused

from gpubuild.errors import Location, StepError
from gpubuild.support.code_lines import moved

UPSTREAM = Path(next(iter(mlir_package.__path__))) / "bin" / "mlir-opt"

TWO = """// two modules
module attributes {gpu.container_module} {
  gpu.module @a <#gpu.select_object<1>> [
      #nvvm.target<chip = "sm_90", link = ["x>.bc"], flags = {fast}>,
      #rocdl.target,
      #nvvm.target<triple = "x86_64-unknown-linux-gnu", chip = "x86-64-v3", O = 1>] {
    gpu.func @f(%x: f32, %m: memref<?xf32>) kernel {
      %0 = gpu.thread_id x
      memref.store %x, %m[%0] : memref<?xf32>
      gpu.return
    }
    func.func @helper() { return }
  }
  gpu.module @"odd \\22name" {
    llvm.func @g(%p: !llvm.ptr, %n: i64) attributes {gpu.kernel, nvvm.kernel} { llvm.return }
  }
  gpu.binary @ready [#gpu.object<#nvvm.target, bin = "x">]
  func.func @main(%x: f32, %m: memref<?xf32>, %c: index) {
    gpu.launch_func @a::@f blocks in (%c, %c, %c) threads in (%c, %c, %c) args(%x : f32, %m : memref<?xf32>)
    return
  }
}
"""

INLINE = """memref.global "private" constant @table : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]>
func.func private @twice(%x: f32) -> f32 { %r = arith.addf %x, %x : f32
  return %r : f32 }
func.func @run(%m: memref<8xf32>, %n: index) {
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  scf.for %i = %c1 to %n step %c1 {
    scf.for %j = %c1 to %n step %c1 {
      gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
                 threads(%tx, %ty, %tz) in (%sx = %c4, %sy = %c1, %sz = %c1) {
        %t = memref.get_global @table : memref<4xf32>
        %v = memref.load %t[%tx] : memref<4xf32>
        %w = func.call @twice(%v) : (f32) -> f32
        memref.store %w, %m[%tx] : memref<8xf32>
        gpu.terminator
      }
    }
    gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
               threads(%tx, %ty, %tz) in (%sx = %c4, %sy = %c1, %sz = %c1) {
      %f = arith.constant 0.0 : f32
      memref.store %f, %m[%i] : memref<8xf32>
      gpu.terminator
    }
  }
  return
}
"""


def accepted_upstream(text: str) -> bool:
    done = subprocess.run([UPSTREAM], input=text, capture_output=True, text=True, check=False)
    return done.returncode == 0


def in_index(kind: str, triple: str, chip: str, **others: object) -> dict[str, object]:
    usual = {"features": "", "opt_level": 2, "fast_math": False, "abi": ""}
    lists = {"flags": [], "assembler_options": [], "link": []}
    return {"kind": kind, "triple": triple, "chip": chip, **usual, **lists, **others}


def test_index_says_what_the_modules_say() -> None:
    index = json.loads(outline_source(TWO)["index.json"])
    assert (index["schema"], index["has_main"], index["binaries"]) == (2, True, ["ready"])
    first, second = index["modules"]
    assert (first["name"], first["index"], first["dialect"]) == ("a", 0, "gpu")
    assert first["kernels"] == [{"name": "f", "args": ["f32", "memref<?xf32>"]}]
    assert first["handler"] == "#gpu.select_object<1 : i64>"
    assert first["targets"] == [
        in_index("nvvm", "nvptx64-nvidia-cuda", "sm_90", fast_math=True, link=["x>.bc"]),
        in_index("rocdl", "amdgcn-amd-amdhsa", "gfx900"),
        in_index("cpu", "x86_64-unknown-linux-gnu", "x86-64-v3", opt_level=1),
    ]
    assert (second["name"], second["index"], second["dialect"]) == ('odd "name', 1, "nvvm")
    assert second["kernels"] == [{"name": "g", "args": ["!llvm.ptr", "i64"]}]
    assert (second["handler"], second["targets"]) == ("", [])


def test_host_keeps_placeholders_of_the_same_names_and_handlers() -> None:
    host = outline_source(TWO)["host.mlir"]
    assert "gpu.module" not in host
    assert "gpu.binary @a <#gpu.select_object<1 : i64>>" in host
    assert 'gpu.binary @"odd \\22name"' in host
    assert "gpu.binary @ready" in host
    assert "NULL" not in host


def test_upstream_accepts_every_text() -> None:
    for text in (TWO, INLINE):
        for name, written in outline_source(text).items():
            assert not name.endswith(".mlir") or accepted_upstream(written), name


def test_a_modules_text_does_not_depend_on_its_list_of_targets() -> None:
    other = TWO.replace('chip = "sm_90"', 'chip = "sm_80"').replace("<#gpu.select_object<1>>", "")
    assert outline_source(other)["module.0.mlir"] == outline_source(TWO)["module.0.mlir"]


def lines_before(text: str) -> str:
    return "\n\n// moved\nfunc.func private @new()\n" + text


VARIANTS = {
    "comments": INLINE.replace("{\n", "{ // why\n"),
    "names": INLINE.replace("%v", "%value").replace("%tx", "%lane"),
    "white space": INLINE.replace("  ", "\t "),
    "position": lines_before(INLINE),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_module_text_ignores(name: str) -> None:
    before, after = outline_source(INLINE), outline_source(VARIANTS[name], name=f"elsewhere/{name}.mlir")
    for number in (0, 1):
        assert after[f"module.{number}.mlir"] == before[f"module.{number}.mlir"]
        assert after[f"located.{number}.mlir"] != before[f"located.{number}.mlir"]
    if name != "position":
        assert after["host.mlir"] == before["host.mlir"]
        assert after["index.json"] == before["index.json"]


def test_module_text_sees_a_changed_constant_only_where_it_is() -> None:
    before, after = outline_source(INLINE), outline_source(INLINE.replace("0.0 : f32", "1.0 : f32"))
    assert after["module.0.mlir"] == before["module.0.mlir"]
    assert after["module.1.mlir"] != before["module.1.mlir"]


def test_inline_launches_bring_the_symbols_they_use_and_keep_constants() -> None:
    written = outline_source(INLINE)
    index = json.loads(written["index.json"])
    assert [m["name"] for m in index["modules"]] == ["run_kernel", "run_kernel_0"]
    assert index["has_main"] is False
    assert "func.func private @twice" in written["module.0.mlir"]
    assert "memref.global" in written["module.0.mlir"]
    assert "known_block_size = array<i32: 4, 1, 1>" in written["module.0.mlir"]
    assert written["host.mlir"].count("gpu.launch_func") == 2
    assert "gpu.container_module" in written["host.mlir"]


@pytest.mark.parametrize("text", [TWO, INLINE])
def test_a_comment_changes_numbers_of_lines_only(text: str) -> None:
    """So a table of places with new numbers is the one that outlining would write."""
    edited = "// a kernel\n\n" + re.sub(r" \{\n", " {  // more {\n// a line\n", text)
    before, after = outline_source(text), outline_source(edited)
    for name in before.keys() - {"places.txt"}:
        if "located" not in name:
            assert after[name] == before[name], name
    assert before["places.txt"].count("\n") > 2
    assert moved(before["places.txt"], edited) == after["places.txt"] != before["places.txt"]


@pytest.mark.parametrize(
    "text",
    [
        'gpu.module @m { gpu.func @k(%b: i1) kernel { cf.assert %b, "" gpu.return } }',
        'gpu.module @m { gpu.func @k() kernel { gpu.return loc("other.mlir":1:1) } }',
    ],
)
def test_more_than_the_table_may_depend_on_lines(text: str) -> None:
    assert not outline_source(text)["places.txt"].startswith("code\t")


def test_data_layout_around_a_module_stays_visible_to_it() -> None:
    text = "module attributes {dlti.dl_spec = #dlti.dl_spec<index = 32 : i64>} { gpu.module @k {} }"
    assert "dlti.dl_spec" in outline_source(text)["module.0.mlir"]


def test_a_file_without_kernels_is_all_host() -> None:
    written = outline_source("func.func @main() -> i32 { %0 = arith.constant 0 : i32\n return %0 : i32 }")
    assert set(written) == {"host.mlir", "host_located.mlir", "index.json", "places.txt"}
    assert re.fullmatch(r"code\t[0-9a-f]{64} 1\+2\n", written["places.txt"])
    assert json.loads(written["index.json"])["has_main"] is True


def test_a_schedule_that_has_run_is_left_out() -> None:
    """Otherwise the host part has transform ops, which no pass lowers."""
    schedule = """
  transform.named_sequence @__transform_main(%top: !transform.any_op {transform.readonly}) {
    %loops = transform.structured.match ops{["scf.for"]} in %top : (!transform.any_op) -> !transform.any_op
    transform.loop.unroll %loops {factor = 4} : !transform.any_op
    transform.yield
  }
"""
    code = """
  func.func @run(%m: memref<4xf32>, %x: f32) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    scf.for %i = %c0 to %c4 step %c1 {
      memref.store %x, %m[%i] : memref<4xf32>
    }
    return
  }
"""
    inside = f"module attributes {{transform.with_named_sequence}} {{{code}{schedule}}}"
    beside = f"{code}module attributes {{transform.with_named_sequence}} {{{schedule}}}"
    for text in (inside, beside):
        host = outline_source(text, passes="builtin.module(transform-interpreter)")["host.mlir"]
        assert host.count("memref.store") == 4 and "transform" not in host
        assert "transform.loop.unroll" in outline_source(text)["host.mlir"]


def test_user_passes_run_first() -> None:
    text = """func.func @run(%m: memref<64xf32>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c64 = arith.constant 64 : index
      %f = arith.constant 2.0 : f32
      scf.parallel (%i) = (%c0) to (%c64) step (%c1) { memref.store %f, %m[%i] : memref<64xf32>
        scf.reduce }
      return
    }"""
    passes = "builtin.module(func.func(gpu-map-parallel-loops),convert-parallel-loops-to-gpu)"
    assert len(json.loads(outline_source(text, passes=passes)["index.json"])["modules"]) == 1
    assert json.loads(outline_source(text)["index.json"])["modules"] == []


LAUNCH = """module attributes {{gpu.container_module}} {{
  gpu.module @k {{ gpu.func @f(%a: i32, %b: i64) kernel {{ gpu.return }} }}
  func.func @run(%a: i32, %b: i64, %c: index) {{
    gpu.launch_func @k::@{kernel} blocks in (%c, %c, %c) threads in (%c, %c, %c) args({args})
    return
  }}
}}"""


@pytest.mark.parametrize(
    ("kernel", "args", "message"),
    [
        ("f", "%a : i32", "got 1 kernel operands but expected 2"),
        ("f", "%b : i64, %b : i64", "type of function argument 0 does not match"),
        ("g", "%a : i32, %b : i64", "kernel function '@k::@g' is undefined"),
    ],
)
def test_launches_are_checked_before_placeholders_hide_the_kernels(kernel, args, message) -> None:
    error = refused(outline_source, LAUNCH.format(kernel=kernel, args=args), name="run.mlir")
    (diagnostic,) = error.diagnostics
    assert message in diagnostic.message
    assert diagnostic.location == Location(file="run.mlir", line=4, column=5)
    assert diagnostic.source_line.strip().startswith("gpu.launch_func")


def test_nested_modules_are_refused() -> None:
    error = refused(outline_source, "module {\n  module {\n    gpu.module @k {}\n  }\n}")
    assert error.diagnostics[0].location == Location(file="k.mlir", line=3, column=5)


def test_unknown_target_attribute_is_refused() -> None:
    with pytest.raises(StepError, match="has no compiler"):
        outline_source('gpu.module @k [#xevm.target<triple = "nvptx64-nvidia-cuda">] {}')


@pytest.mark.parametrize(
    ("attribute", "passes", "flags"),
    [
        ('[#xevm.target<chip = "pvc", flags = {subgroup32}>]', "", ["subgroup32"]),
        ("", "builtin.module(xevm-attach-target{chip=pvc})", []),
    ],
)
def test_a_target_of_an_intel_gpu(attribute, passes, flags) -> None:
    text = f"gpu.module @k {attribute} {{ gpu.func @f() kernel {{ gpu.return }} }}"
    (module,) = json.loads(outline_source(text, passes=passes)["index.json"])["modules"]
    assert module["targets"] == [in_index("spirv", "spirv64v1.3-unknown-unknown", "pvc", flags=flags)]


def test_source_that_is_not_utf8(tmp_path: Path) -> None:
    from unit.engine.steps import failing_step

    from gpubuild.model.step import OutlineParams, StepKind

    error = failing_step(tmp_path, StepKind.OUTLINE, OutlineParams(), {"source": b"// ok\n// \xff\n"}, ())
    assert error.message == "in.source is not UTF-8 text"
    assert [str(d.location).rpartition("/")[2] for d in error.diagnostics] == ["in.source:2:4"]
    assert error.hint


def test_a_byte_order_mark_is_no_mistake() -> None:
    assert outline_source("\ufeff// nothing\n")["index.json"]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("llvm.func @g(i32) attributes {gpu.kernel}", "kernel @g has no body"),
        (
            "llvm.func @g(%x: f32) -> f32 attributes {nvvm.kernel} { llvm.return %x : f32 }",
            "kernel @g returns a value, and no launch could take it",
        ),
    ],
)
def test_kernels_that_cannot_be_launched(function: str, message: str) -> None:
    """Upstream accepts both; code generators abort or complain about generated code."""
    error = refused(outline_source, f"gpu.module @k {{\n  {function}\n}}\n", name="k.mlir")
    (diagnostic,) = error.diagnostics
    assert (diagnostic.message, diagnostic.location) == (message, Location(file="k.mlir", line=2, column=3))


SIZED = """module attributes {{gpu.container_module}} {{
  gpu.module @k {{ gpu.func @f() kernel {known} {{ gpu.return }} }}
  func.func @run(%n: index) {{
    %x = arith.constant {x} : index
    %y = arith.constant 32 : index
    %w = arith.shli %y, %x : index
    gpu.launch_func @k::@f blocks in (%n, %n, %n) threads in (%x, %y, {z})
    gpu.launch blocks(%a, %b, %c) in (%d = %n, %e = %n, %g = %n)
        threads(%t, %u, %v) in (%o = %x, %p = %y, %q = %y)
    {{
      gpu.terminator
    }}
    return
  }}
}}
"""


@pytest.mark.parametrize(
    ("x", "z", "known", "lines"),
    [
        (1, "%y", "", []),
        (2, "%y", "", [7, 8]),
        (2, "%n", "", [8]),
        (1, "%w", "", [7]),
        (1, "%n", "attributes {known_block_size = array<i32: 1025, 1, 1>}", [2]),
        (1, "%n", "attributes {known_block_size = array<i32: 32, 32, 1>}", []),
    ],
)
def test_workgroups_that_no_device_takes(x: int, z: str, known: str, lines: list[int]) -> None:
    text = SIZED.format(x=x, z=z, known=known)
    if not lines:
        assert outline_source(text)["index.json"]
        return
    error = refused(outline_source, text, name="run.mlir")
    assert [d.location.line for d in error.diagnostics if d.location] == lines
    assert all("has more than 1024 work-items" in d.message for d in error.diagnostics)


@pytest.mark.parametrize(
    ("launch", "name"),
    [
        ("gpu.launch blocks(%1, %2, %3) in (%4 = %c, %5 = %c, %6 = %c) "
         "threads(%7, %8, %9) in (%10 = %c, %11 = %c, %12 = %c) {\ngpu.terminator\n}", "gpu.launch"),
        ("gpu.launch_func @k::@f blocks in (%c, %c, %c) threads in (%c, %c, %c)", "gpu.launch_func"),
    ],
)  # fmt: skip
def test_a_launch_inside_a_kernel_is_refused_at_its_place(launch: str, name: str) -> None:
    text = f"""module attributes {{gpu.container_module}} {{
gpu.module @k {{
gpu.func @f() kernel {{
%c = arith.constant 1 : index
{launch}
gpu.return
}}
}}
}}"""
    with pytest.raises(StepError, match="a launch is inside a kernel") as caught:
        outline_source(text)
    (found,) = caught.value.diagnostics
    assert found.message == f"'{name}' inside a kernel: kernels cannot launch kernels"
    assert found.location is not None and found.location.line == 5


# ---- patterns of the transform dialect ----


_SOURCE = """module attributes {transform.with_named_sequence} {
gpu.module @k {
  gpu.func @f(%m: memref<32xf32>, %v: vector<4xf32>) kernel {
    BODY
    gpu.return
  }
}
transform.named_sequence @__transform_main(%top: !transform.any_op) {
  %kernels = transform.structured.match ops{["gpu.module"]} in %top : (!transform.any_op) -> !transform.any_op
  transform.apply_patterns to %kernels {
    PATTERN
  } : !transform.any_op
  transform.yield
}
}
"""
_REDUCTION = """%t = gpu.thread_id x
    %x = memref.load %m[%t] : memref<32xf32>
    %r = gpu.all_reduce add %x uniform {} : (f32) -> f32
    memref.store %r, %m[%t] : memref<32xf32>"""
_BARRIERS = "gpu.barrier\n    gpu.barrier\n    gpu.barrier"
_SHUFFLE = """%t = gpu.thread_id x
    %x = memref.load %m[%t] : memref<32xf32>
    %by = arith.constant 16 : i32
    %width = arith.constant 64 : i32
    %r, %valid = gpu.shuffle xor %x, %by, %width : f32
    memref.store %r, %m[%t] : memref<32xf32>"""


@pytest.mark.parametrize(
    ("pattern", "body", "gone", "made"),
    [
        ("gpu.gpu_rewrite_patterns", _REDUCTION, "gpu.all_reduce", "gpu.shuffle"),
        ("gpu.eliminate_barriers", _BARRIERS, "gpu.barrier", "gpu.return"),
        ('gpu.gpu_shuffle_to_amdgpu chipset = "gfx950"', _SHUFFLE, "gpu.shuffle", "amdgpu.permlane_swap"),
    ],
)
def test_patterns_of_the_gpu_dialect(pattern: str, body: str, gone: str, made: str) -> None:
    text = _SOURCE.replace("BODY", body).replace("PATTERN", f"transform.apply_patterns.{pattern}")
    asked = outline_source(text, passes="builtin.module(transform-interpreter)")["module.0.mlir"]
    assert gone not in asked
    assert made in asked
    assert gone in outline_source(text)["module.0.mlir"]
