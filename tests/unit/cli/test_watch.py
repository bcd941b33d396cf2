"""What `gpubuild watch` keeps in memory between builds."""

import argparse
from pathlib import Path

import mlir
import pytest

import gpubuild
from gpubuild.build.watch import look
from gpubuild.cli import watch
from gpubuild.errors import GpubuildError
from gpubuild.execute.executor import early
from gpubuild.execute.local import close_early
from gpubuild.settings import Settings


def test_an_upgrade_ends_it(tmp_path: Path) -> None:
    """Compilers that were loaded before would build under the identity of the new ones."""
    code = watch._code_files(Settings())
    package, bindings = Path(gpubuild.__file__).parent, Path(next(iter(mlir.__path__)))
    assert {package / "engine/source/outline.py", package / "targets/nvidia.py"} <= set(code)
    assert any(path.is_relative_to(bindings) for path in code)
    copy = tmp_path / "module.py"
    copy.write_text("A = 1\n")
    loaded = look([*code, copy])
    watch._refuse_changed_code(loaded)
    copy.write_text("A = 12\n")
    with pytest.raises(GpubuildError, match=r"was changed: .*module\.py") as caught:
        watch._refuse_changed_code(loaded)
    assert "again" in caught.value.hint


@pytest.mark.parametrize(("text", "expected"), [("", 1), ("no: key\n", 0)])
def test_compilers_are_loaded_while_it_waits(tmp_path: Path, text: str, expected: int) -> None:
    """Not with a project file that has errors, which the build has shown."""
    file = tmp_path / "targets.yaml"
    (tmp_path / "app.mlir").touch()
    file.write_text(text + "version: 1\ntargets: {cpu: {}}\nprograms: {app: {sources: [app.mlir]}}\n")
    options = argparse.Namespace(file=file, settings=Settings(), targets=[], jobs=2)
    try:
        watch._load_compilers(options)
        assert [executor.workers for executor in early] == [2] * expected
    finally:
        close_early()
    assert not early
