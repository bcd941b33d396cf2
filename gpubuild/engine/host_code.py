"""Host code: LLVM IR text to an optimised object for the machine that the program runs on."""

from __future__ import annotations

import re

from gpubuild.engine import assembly_reads, init_array, llvm
from gpubuild.engine.io import StepIO
from gpubuild.engine.ir_dump import dump

# A program must start on any machine of its architecture, whatever it was built on.
_GENERIC_CHIP = {"x86_64": "x86-64", "aarch64": "generic"}
_SOURCE_FILENAME = re.compile(r'^source_filename = "[^"]*"$', re.MULTILINE)


def compile_ir(text: str, *, triple: str, opt_level: int, io: StepIO) -> bytes:
    """An ELF object from LLVM IR text; constructors run whichever linker links it.

    ``opt_level`` is 0 to 3. Raises ``StepError``.
    """
    assembly_reads.discover(text.encode(), io)
    # The name ends up in the object: it must not be a path on the machine that made the text.
    text = _SOURCE_FILENAME.sub('source_filename = "host.ll"', text, count=1)
    with io.stage("optimise"):
        machine = llvm.target_machine(
            triple, _GENERIC_CHIP.get(triple.partition("-")[0], "generic"), "", opt_level
        )
        module = llvm.parse_assembly(init_array.rewrite(text), llvm.new_context(), name="host LLVM IR")
        llvm.set_target(module, machine)
        dump("ll", lambda: str(module))
        llvm.optimize(module, machine, opt_level)
        dump("ll", lambda: str(module))
    with io.stage("emit object"):
        return llvm.emit_object(module, machine)
