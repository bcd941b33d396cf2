"""Host code names its current operation, and the table of the source has its location.

Programs that say it are in tests/e2e/test_places.py.
"""

import re
from pathlib import Path

import pytest
from unit.engine.host_steps import HOST, LAUNCH, PLACEHOLDER, bundled, lowered, params
from unit.engine.steps import run_step

from gpubuild.engine.ir import contexts, locations
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.model.project import Offload
from gpubuild.model.step import HostParams, StepKind

SOURCE = f"""// a comment that canonical text has not
{HOST}"""
NAME = "app.mlir"


def texts(source: str) -> tuple[str, str, dict[str, str]]:
    """Canonical and located text of a source, and its table."""
    with contexts.context():
        module = contexts.parse(source, source_name=NAME)
        canonical = contexts.canonical_text(module)
        lines = locations.table(module, canonical, SourceText(source, NAME))
        return canonical, contexts.located_text(module), dict(line.rstrip("\n").split("\t") for line in lines)


def said(llvm: str) -> list[str]:
    """Return the texts that host code sets, in order; empty where it clears them."""
    held = dict(re.findall(r'@(gpubuild\.place\.\d+) = .* c"(.*)\\00"', llvm))
    return [held.get(name, "") for name in re.findall(r"call void @gpubuildPlace\(ptr @?([\w.]+)\)", llvm)]


def test_text_with_locations_is_said_as_it_is(tmp_path: Path) -> None:
    """With ``debug`` the compiled text has lines, so the program needs no table."""
    _, located, table = texts(SOURCE)
    launch, _ = said(lowered(tmp_path, located, params(debug=True)).text("llvm"))
    assert launch == f"gpu.launch_func in @run at {next(iter(table.values()))}"


def test_upstreams_code_says_nothing(tmp_path: Path) -> None:
    inputs = {"host": HOST, "binary.0": bundled(tmp_path)}
    ran = run_step(
        tmp_path / "w", StepKind.HOST, params(Offload.SELECT_OBJECT), inputs, ("mlir", "llvm", "object")
    )
    assert "gpubuildPlace" not in ran.text("llvm")


def test_each_operation_is_said_and_calls_of_others_are_not(tmp_path: Path) -> None:
    body = f"""    %c1 = arith.constant 1 : index
    %m = gpu.alloc (%n) : memref<?xf32>
    func.call @other() : () -> ()
    gpu.memcpy %m, %x : memref<?xf32>, memref<?xf32>
    scf.for %i = %c1 to %n step %c1 {{
  {LAUNCH}    }}
    gpu.dealloc %m : memref<?xf32>
"""
    text = HOST.replace(LAUNCH, body).replace(PLACEHOLDER, PLACEHOLDER + "\n  func.func private @other()")
    llvm = lowered(tmp_path, texts(text)[0]).text("llvm")
    function = llvm[llvm.index("define void @run(") :]
    held = dict(re.findall(r'@(gpubuild\.place\.\d+) = .* c"([\w.]+) in', llvm))
    steps = re.findall(
        r"call \w+ @(?:gpubuildPlace\(ptr @?([\w.]+)|(other|mgpu(?:Mem\w+|Launch\w+)))", function
    )
    found = [held.get(place, "") if place else call for place, call in steps]
    assert found == [
        *("gpu.alloc", "mgpuMemAlloc", "", "other", "gpu.memcpy", "mgpuMemcpy", ""),
        *("gpu.launch_func", "mgpuLaunchKernel", "", "gpu.dealloc", "mgpuMemFree", ""),
    ]


def test_host_code_without_the_gpu_says_nothing(tmp_path: Path) -> None:
    given = HostParams(modules=(), offload=Offload.DISPATCH)
    assert "gpubuildPlace" not in lowered(tmp_path, "func.func @f() { return }", given).text("llvm")


ON_LANE_0 = """gpu.warp_execute_on_lane_0(%lane)[32] {
      gpu.barrier
    }
"""  # whose terminator is not printed
RESULTS = """%x, %y = gpu.shuffle xor %lane32, %lane32, %lane32 : i32
    "gpu.barrier"() : () -> ()
"""


@pytest.mark.parametrize(("body", "count"), [(ON_LANE_0, 4), (RESULTS, 3), (RESULTS + ON_LANE_0, 6)])
def test_addresses_are_those_of_parsed_text(body: str, count: int) -> None:
    source = f"""gpu.module @k {{
  gpu.func @f() kernel {{
    %lane = gpu.lane_id
    %lane32 = arith.index_cast %lane : index to i32
    {body}
    gpu.return
  }}
}}
"""
    canonical, _, found = texts(source)
    digest = locations.text_digest(canonical)
    with contexts.context():
        parsed = contexts.parse(canonical)
        expected = [locations.address(digest, op)[1:] for op in locations._operations(parsed)]
    assert len(expected) == count
    assert {at for at in found if not at.startswith("@")} == set(expected)
