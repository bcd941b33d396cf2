"""The whole compile step for CPUs: what it writes, that it is the same every time, what it refuses."""

import io
import json
import re
import sys
from functools import cache
from types import FrameType

import pytest
from e2e.cpu_harness import compile_module
from elftools.elf.elffile import ELFFile
from unit.engine.steps import refused
from unit.projects import TARGETS
from variants import few

from gpubuild.engine.backends.cpu.compile import lower_text
from gpubuild.model.step import CompileParams

VECADD = """gpu.module @k {
  gpu.func @vecadd(%a: memref<?xf32>, %b: memref<?xf32>, %c: memref<?xf32>) kernel {
    %i = gpu.global_id x
    %x = memref.load %a[%i] : memref<?xf32>
    %y = memref.load %b[%i] : memref<?xf32>
    %s = arith.addf %x, %y : f32
    memref.store %s, %c[%i] : memref<?xf32>
    gpu.return
  }
}"""
SCALE = """gpu.module @k {
  llvm.func @scale(f32) -> f32
  gpu.func @f(%a: memref<?xf32>) kernel {
    %i = gpu.global_id x
    %x = memref.load %a[%i] : memref<?xf32>
    %y = llvm.call @scale(%x) : (f32) -> f32
    memref.store %y, %a[%i] : memref<?xf32>
    gpu.return
  }
}"""
BARRIER = """gpu.module @k {
  gpu.func @f() kernel {
    gpu.barrier
    gpu.return
  }
}"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Compiles a module with its options once for all tests."""
    return cache(lambda text, **options: compile_module(text, tmp_path_factory.mktemp("k"), **options))


@pytest.mark.parametrize(("chip", "lanes"), [("x86-64", 4), ("x86-64-v3", 8)])
def test_the_loop_over_work_items_is_vectorised(built, chip, lanes):
    out = built(VECADD, chip=chip)
    runs = re.findall(r"define [^\n]*@gpubuild\.run\.0.*?\n}", (out / "llvm").read_text(), re.DOTALL)
    run = next(body for body in runs if "run.0.apart(" in body.partition("\n")[0])
    assert f"fadd <{lanes} x float>" in run
    assert "call void @vecadd" not in run
    if lanes == 8:
        assert "vaddps" in (out / "asm").read_text() and "%ymm" in (out / "asm").read_text()


def test_the_object_exports_the_image_only_and_needs_nothing(built):
    data = (built(VECADD) / "object").read_bytes()
    elf = ELFFile(io.BytesIO(data))
    assert elf["e_type"] == "ET_DYN"
    assert [s.name for s in elf.get_section_by_name(".dynsym").iter_symbols() if s.name] == [
        "gpubuild_cpu_image"
    ]
    tags = {t.entry.d_tag for t in elf.get_section_by_name(".dynamic").iter_tags()}
    assert not tags & {"DT_NEEDED", "DT_SONAME", "DT_RPATH", "DT_RUNPATH", "DT_TEXTREL"}
    assert elf.get_section_by_name(".note.gnu.build-id") is None


@pytest.mark.parametrize("options", [{}, {"debug": True}, {"opt_level": 0}])
def test_outputs_are_the_same_everywhere(built, tmp_path, options):
    first = built(VECADD, **options)
    second = compile_module(VECADD, tmp_path / "some" / "other folder", **options)
    for name in ("llvm", "asm", "object", "info"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name
    assert str(tmp_path).encode() not in (second / "object").read_bytes()


def test_debug_keeps_lines_and_names_places(built):
    out = built(VECADD, debug=True)
    assert re.search(r"\.loc\s+\d+ 6 10", (out / "asm").read_text())
    assert b".debug_line" in (out / "object").read_bytes()
    assert b".debug_line" not in (built(VECADD) / "object").read_bytes()
    for options, place in (({"debug": True}, " at user.mlir:3:5"), ({}, "")):
        info = json.loads((built(BARRIER, **options) / "info").read_text())
        assert info["kernels"][0]["tier_reason"] == f"gpu.barrier{place}"


def test_user_libraries(tmp_path):
    library = "define float @scale(float %x) { %r = fmul float %x, 3.0\n ret float %r }\n"
    out = compile_module(SCALE, tmp_path / "a", libraries=(library,))
    assert "fmul <8 x float>" in (out / "llvm").read_text()
    error = refused(compile_module, SCALE, tmp_path / "b")
    assert error.message == "undefined in @k: scale"
    assert error.stage == "libraries"


@pytest.mark.parametrize("chip", few(["x86-64-v4", "native", "x86-64-v2", "znver3"], 2))
def test_chips(built, chip):
    assert (built(VECADD, chip=chip) / "object").read_bytes()[:4] == b"\x7fELF"


def test_optimisation_levels(built):
    vectors = ["<8 x float>" in (built(VECADD, opt_level=level) / "llvm").read_text() for level in (0, 2)]
    assert vectors == [False, True]


def test_passes_of_the_user_replace_ours(tmp_path):
    error = refused(compile_module, VECADD, tmp_path, passes="builtin.module(canonicalize)")
    assert re.search("target cpu cannot lower .*gpu.func", error.message)


STREAMING = """gpu.module @k {
  gpu.func @copy(%a: memref<?xf32>, %out: memref<?xf32>)
      workgroup(%s : memref<256xf32, #gpu.address_space<workgroup>>) kernel {
    %t = gpu.thread_id x
    %g = gpu.global_id x
    %v = memref.load %a[%g] : memref<?xf32>
    memref.store %v, %s[%t] : memref<256xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    %w = memref.load %s[%t] : memref<256xf32, #gpu.address_space<workgroup>>
    memref.store %w, %out[%g] : memref<?xf32>
    gpu.return
  }
  gpu.func @neighbours(%a: memref<?xf32>, %out: memref<?xf32>) kernel {
    %c1 = arith.constant 1 : index
    %g = gpu.global_id x
    %h = arith.addi %g, %c1 : index
    %v = memref.load %a[%g] : memref<?xf32>
    %w = memref.load %a[%h] : memref<?xf32>
    %s = arith.addf %v, %w : f32
    memref.store %s, %out[%g] : memref<?xf32>
    gpu.return
  }
  gpu.func @exponential(%a: memref<?xf32>) kernel {
    %g = gpu.global_id x
    %v = memref.load %a[%g] : memref<?xf32>
    %w = math.exp %v : f32
    memref.store %w, %a[%g] : memref<?xf32>
    gpu.return
  }
}"""


def test_memory_of_workgroups_is_known_to_be_apart_and_aligned(built):
    """So that vectors of it are loaded without a question."""
    out = built(STREAMING, chip="x86-64-v4")
    text = (out / "llvm").read_text()
    entries = re.findall(r"^define [^\n]*@gpubuild\.run\.0\.(?:apart|any)\([^\n]*", text, re.MULTILINE)
    assert entries
    for entry in entries:
        assert re.search(r"noalias [^,]*\balign 64\b[^,]* %shared", entry)
    assert re.search(r"store <8 x float> [^\n]* align (?:32|64)\b", text)


def test_kernels_that_stream(built):
    """They use shorter vectors and call no memcpy; what finds data in caches or computes does not change."""
    text = (built(STREAMING, chip="x86-64-v4") / "llvm").read_text()
    groups = dict(re.findall(r"^attributes #(\d+) = (.*)$", text, re.MULTILINE))
    entries = re.findall(
        r"^define [^\n]*@gpubuild\.run\.(\d)[^\n]* #(\d+) \{(.*?)^\}", text, re.MULTILINE | re.DOTALL
    )
    short = {kernel for kernel, group, _ in entries if '"prefer-vector-width"="256"' in groups[group]}
    assert {kernel for kernel, _, _ in entries} == {"0", "1", "2"}
    assert short == {"0"}
    assert not any("memcpy" in body for _, _, body in entries)


# ---- many kernels ----


PARAMS = CompileParams(module="many", target=TARGETS["cpu"])
BOUNDED = """\
    gpu.func @kNUMBER(%a: f32, %x: memref<?xf32>, %n: index) kernel {
      %i = gpu.global_id x
      %inside = arith.cmpi ult, %i, %n : index
      scf.if %inside {
        %old = memref.load %x[%i] : memref<?xf32>
        %new = arith.mulf %a, %old : f32
        memref.store %new, %x[%i] : memref<?xf32>
      }
      gpu.return
    }
"""
HELPER = """\
    func.func @wait(%x: memref<?xf32>, %i: index) {
      %v = memref.load %x[%i] : memref<?xf32>
      gpu.barrier
      memref.store %v, %x[%i] : memref<?xf32>
      return
    }
"""
WAITING = """\
    gpu.func @kNUMBER(%x: memref<?xf32>)
        workgroup(%w: memref<64xf32, #gpu.address_space<workgroup>>) kernel {
      %i = gpu.thread_id x
      %v = memref.load %x[%i] : memref<?xf32>
      memref.store %v, %w[%i] : memref<64xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %c63 = arith.constant 63 : index
      %other = arith.subi %c63, %i : index
      %u = memref.load %w[%other] : memref<64xf32, #gpu.address_space<workgroup>>
      %s = math.sin %u : f32
      memref.store %s, %x[%i] : memref<?xf32>
      func.call @wait(%x, %i) : (memref<?xf32>, index) -> ()
      gpu.return
    }
"""


def calls_to_lower(kernel: str, count: int, others: str = "") -> int:
    """How many calls of Python functions it takes: a measure of work that no other load disturbs."""
    kernels = "".join(kernel.replace("NUMBER", str(100 + n)) for n in range(count))
    text = f"module {{\n  gpu.module @many {{\n{others}{kernels}  }}\n}}\n"
    calls = 0

    def count_call(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count_call)
    try:
        lower_text(text, PARAMS)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize(("kernel", "others"), [(BOUNDED, ""), (WAITING, HELPER)], ids=["bounded", "waiting"])
def test_each_kernel_of_a_large_module_costs_the_same(kernel: str, others: str) -> None:
    calls_to_lower(kernel, 1, others)  # what is done once in a process
    few, more, most = (calls_to_lower(kernel, count, others) for count in (10, 20, 30))
    assert few > 10 * 1000
    # A walk over the module for each kernel would cost the last ten 200 calls more than those before.
    assert abs((most - more) - (more - few)) < 50
