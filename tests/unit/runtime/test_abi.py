"""Everything that MLIR's own runtime libraries export is here, save what is named below."""

from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from unit.runtime.programs import Runtime, upstreams_libraries

# Sorting, random numbers and sparse tensors of c_runner_utils belong to upstream's sparse tests.
LEFT_OUT = (
    "__mlir_execution_engine", "Sparse", "sparse", "LexInsert", "lexInsert", "expInsert", "stdSort",
    "shuffle", "rtsrand", "rtrand", "rtdrand",
)  # fmt: skip
LEFT_OUT_EXACTLY = {"getTensorFilename"}


def functions(library: Path) -> set[str]:
    with library.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".dynsym")
        return {
            symbol.name
            for symbol in table.iter_symbols()
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] != "SHN_UNDEF"
        }


@pytest.mark.parametrize(
    "name", ["cuda_runtime", "runner_utils", "c_runner_utils", "float16_utils", "async_runtime"]
)
def test_symbols(runtime: Runtime, name: str) -> None:
    wanted = {
        function
        for function in functions(*upstreams_libraries(name))
        if not function.startswith("_Z")
        and function not in ("_init", "_fini")
        and not any(p in function for p in LEFT_OUT)
    } - LEFT_OUT_EXACTLY
    assert len(wanted) > 1
    assert wanted - functions(runtime.library) == set()


def test_only_known_prefixes_are_exported(runtime: Runtime) -> None:
    """A static archive shares its name space with the program."""
    known = (
        "mgpu", "gpubuild", "gb_", "__trunc", "print", "verify", "_mlir_", "mlir", "rtclock", "nanoTime",
        "memrefCopy", "_init", "_fini",
    )  # fmt: skip
    assert {f for f in functions(runtime.library) if not f.startswith(known)} == set()
