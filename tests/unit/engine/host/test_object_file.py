"""Reading of objects: what the JIT must know of them, and objects that are none."""

from __future__ import annotations

import pytest
from unit.engine.steps import run_step

from gpubuild.engine.host import object_file
from gpubuild.errors import StepError
from gpubuild.model.step import LlvmParams, StepKind

SOURCE = """
%entry = type { i32, ptr, ptr }
@llvm.global_ctors = appending global [2 x %entry] [%entry { i32 65535, ptr @late, ptr null },
                                                    %entry { i32 101, ptr @early, ptr null }]
@llvm.global_dtors = appending global [1 x %entry] [%entry { i32 101, ptr @end, ptr null }]
@each = thread_local global i32 0
define internal void @late() { ret void }
define internal void @early() { ret void }
define void @end() { ret void }
define weak i32 @main() {
  %r = call i32 @absent()
  ret i32 %r
}
declare i32 @absent()
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    params = LlvmParams(triple="x86_64-unknown-linux-gnu")
    folder = tmp_path_factory.mktemp("object")
    return run_step(folder, StepKind.LLVM, params, {"source": SOURCE}, ("object",)).outputs["object"]


def test_symbols_and_constructors(data: bytes) -> None:
    found = object_file.read(data, "a.o")
    symbols = {s.name: s for s in found.symbols}
    assert found.has_thread_data
    assert sorted(start.priority for start in found.constructors) == [101, 65535]
    assert [start.priority for start in found.destructors] == [101]
    assert symbols["early"].is_local
    assert symbols["main"].is_weak
    assert not symbols["main"].is_local
    assert symbols["absent"].section == 0
    place = {start.priority: (start.section, start.offset) for start in found.constructors}
    assert place[101] == (symbols["early"].section, symbols["early"].value)
    assert place[65535] == (symbols["late"].section, symbols["late"].value)


def test_an_object_cut_off_anywhere_is_refused(data: bytes) -> None:
    for end in [*range(0, 200), *range(200, len(data), 97)]:
        with pytest.raises(StepError, match="not a 64-bit ELF object"):
            object_file.read(data[:end], "a.o")


@pytest.mark.parametrize("junk", [b"", b"\x7fELF\1\1" + bytes(200), b"!<arch>\n" + bytes(100), bytes(64)])
def test_other_files_are_refused(junk: bytes) -> None:
    with pytest.raises(StepError) as caught:
        object_file.read(junk, "lib/a.o")
    assert "lib/a.o" in caught.value.message
