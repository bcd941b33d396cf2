"""Modules and contexts may be freed in any order: a traceback keeps both in a cycle."""

import subprocess
import sys

SCRIPT = """
import gc
from gpubuild.engine.ir import llvm

def cycle():
    context = llvm.new_context()
    library = llvm.parse_assembly("define void @b() { ret void }", context)
    module = llvm.parse_assembly("declare void @b() define void @a() { call void @b() ret void }", context)
    module.link_in(library)
    copy = llvm.parse_bitcode(module.as_bitcode(), context)
    kept = [context, module, library, copy]
    kept.append(kept)

gc.disable()
for _ in range(50):
    cycle()
gc.collect()
"""


def test_collecting_a_module_after_its_context_does_not_end_the_process() -> None:
    assert subprocess.run([sys.executable, "-c", SCRIPT], check=False).returncode == 0
