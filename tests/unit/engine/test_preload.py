"""The process that forks steps loads everything they need, and nothing that a fork would break."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpubuild.engine.ir import contexts

LOADED = """
import json, os, sys
from gpubuild.engine import dispatch
for part in sys.argv[2:]:
    dispatch.preload(part)
before = set(sys.modules)
threads = len(os.listdir("/proc/self/task"))
pid = os.fork()
if pid == 0:
    from gpubuild.engine.ir import contexts as mlir
    with mlir.context():
        module = mlir.parse(open(sys.argv[1]).read())
        names = [str(op) for op in module.body] and [mlir.gpu_modules(module)[0].name]
        mlir.run_passes(module, "builtin.module(gpu.module(convert-gpu-to-nvvm),canonicalize)")
    json.dump({
        "threads": threads, "numpy": "numpy" in sys.modules, "names": names,
        "loaded later": sorted(set(sys.modules) - before),
        "toolkits": [name for name in os.environ if name in ("CUDA_HOME", "ROCM_PATH")],
    }, sys.stdout)
    sys.stdout.flush()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""
OUTLINE = "gpubuild.engine.source.outline"
SOURCE = """
module attributes {gpu.container_module} {
  gpu.module @m {
    gpu.func @k(%x: f32) kernel { gpu.return }
  }
  func.func @main() { return }
}
"""


@pytest.mark.parametrize("parts", [[OUTLINE], [OUTLINE, "gpubuild.engine.backends.nvidia.compile"]])
def test_forks_find_all_they_need_and_no_thread(tmp_path: Path, parts: list[str]) -> None:
    source = tmp_path / "k.mlir"
    source.write_text(SOURCE)
    command = [sys.executable, "-c", LOADED, source, *parts]
    environment = {**os.environ, "CUDA_HOME": "/usr", "ROCM_PATH": "/usr"}  # serializers would read them
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    loaded = json.loads(done.stdout)
    assert loaded == {
        "threads": 1,
        "numpy": False,
        "names": ["gpu.module"],
        "loaded later": [],
        "toolkits": [],
    }


def test_the_process_that_schedules_loads_no_mlir() -> None:
    """MLIR must be imported by `engine.ir.bindings`, in the processes that run steps."""
    program = "import sys, gpubuild.execute.local; sys.exit(bool({'mlir', 'numpy'} & {*sys.modules}))"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_spare_context_is_used_once() -> None:
    contexts.make_spare_contexts()
    contexts.make_spare_contexts()
    with contexts.context() as first:
        assert contexts.parse("module {}").context == first
    with contexts.context() as second:
        assert second is not first
    assert first.emit_error_diagnostics and second.emit_error_diagnostics
