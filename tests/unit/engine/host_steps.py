"""Host steps: what tests of host code lower, and how they look at the result."""

import re
from pathlib import Path

import mlir as mlir_package
from elftools.elf.elffile import ELFFile
from unit.engine.host.test_bundle import inputs
from unit.engine.host.test_bundle import params as bundle_params
from unit.engine.steps import Ran, run_step

from gpubuild.engine.ir import contexts
from gpubuild.model.project import Offload
from gpubuild.model.step import HostParams, StepKind

UPSTREAM = Path(next(iter(mlir_package.__path__))) / "bin"


OUTPUTS = ("mlir", "llvm", "object")


PLACEHOLDER = 'gpu.binary @saxpy_kernels <#gpu.select_object> [#gpu.object<#nvvm.target, bin = "">]'


LAUNCH = """    %one = arith.constant 1 : index
    gpu.launch_func @saxpy_kernels::@saxpy blocks in (%one, %one, %one) threads in (%n, %one, %one)
      args(%a : f32, %x : memref<?xf32>)
"""


HOST = f"""module attributes {{gpu.container_module}} {{
  {PLACEHOLDER}
  func.func @run(%a: f32, %x: memref<?xf32>, %n: index) attributes {{llvm.emit_c_interface}} {{
{LAUNCH}    return
  }}
}}
"""


def bundled(tmp_path: Path, handler: str = "#gpu.select_object<2>") -> str:
    params = bundle_params(handler)
    return run_step(tmp_path / "bundle", StepKind.BUNDLE, params, inputs(), ("binary",)).text("binary")


def params(offload: Offload = Offload.DISPATCH, **more: object) -> HostParams:
    return HostParams(modules=("saxpy_kernels",), offload=offload, **more)


def lowered(tmp_path: Path, text: str = HOST, given: HostParams | None = None) -> Ran:
    given = given or params()
    embedded = () if given.offload is Offload.DISPATCH else given.modules
    binaries = {f"binary.{n}": bundled(tmp_path) for n in range(len(embedded))}
    return run_step(tmp_path / "host", StepKind.HOST, given, {"host": text, **binaries}, OUTPUTS)


def section(tmp_path: Path, data: bytes, name: str) -> bytes | None:
    (tmp_path / "host.o").write_bytes(data)
    with (tmp_path / "host.o").open("rb") as stream:
        found = ELFFile(stream).get_section_by_name(name)
        return found.data() if found else None


def symbols(tmp_path: Path, data: bytes) -> dict[str, str]:
    """Global symbols and whether they are defined."""
    (tmp_path / "host.o").write_bytes(data)
    with (tmp_path / "host.o").open("rb") as stream:
        table = ELFFile(stream).get_section_by_name(".symtab")
        return {
            s.name: "undefined" if s["st_shndx"] == "SHN_UNDEF" else "defined"
            for s in table.iter_symbols()
            if s["st_info"]["bind"] == "STB_GLOBAL"
        }


def run_body(tmp_path: Path, lines: str, arguments: str = "%n: index") -> str:
    """LLVM IR of a host function with this body."""
    function = f"func.func @f({arguments}) {{\n{lines}\n return\n}}"
    text = f"module attributes {{gpu.container_module}} {{\n{PLACEHOLDER}\n{function}\n}}"
    return lowered(tmp_path, text).text("llvm")


def calls(llvm: str) -> list[str]:
    return re.findall(r"call .*@(mgpu\w+)\(", llvm.split("define void @f")[1].split("\n}\n", maxsplit=1)[0])


def located_inputs(tmp_path: Path, text: str) -> dict[str, bytes | str | Path]:
    (tmp_path / "app.mlir").write_text(text)
    with contexts.context():
        module = contexts.parse(text, source_name=str(tmp_path / "app.mlir"))
        return {"host": contexts.canonical_text(module), "located": contexts.located_text(module)}
