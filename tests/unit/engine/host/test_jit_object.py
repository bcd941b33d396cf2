"""Objects prepared for the JIT linker, and files that are not objects."""

from __future__ import annotations

import pytest
from unit.engine.steps import run_step

from gpubuild.engine.host import jit
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


def test_arrays_of_constructors_get_symbols(data: bytes) -> None:
    found = jit.prepare(data, "a.o", "array", {"absent": "elsewhere"})
    assert found.has_thread_data
    assert sorted((a.priority, a.is_destructor, a.count) for a in found.arrays) == [
        (101, False, 1),
        (101, True, 1),
        (65535, False, 1),
    ]
    assert "main" in found.defined
    assert "early" not in found.defined  # a local symbol
    assert found.undefined == {"elsewhere"}
    # Read back, the changed object defines them.
    again = jit.prepare(found.data, "a.o", "again", {})
    assert again.defined == found.defined | {array.symbol for array in found.arrays}
    assert not again.arrays  # LLVM does not see them
    assert again.undefined == {"elsewhere"}


def test_an_object_cut_off_anywhere_is_refused(data: bytes) -> None:
    for end in [*range(0, 200), *range(200, len(data), 97)]:
        with pytest.raises(StepError, match="not a 64-bit ELF object"):
            jit.prepare(data[:end], "a.o", "array", {})


@pytest.mark.parametrize("junk", [b"", b"\x7fELF\1\1" + bytes(200), b"!<arch>\n" + bytes(100), bytes(64)])
def test_other_files_are_refused(junk: bytes) -> None:
    with pytest.raises(StepError) as caught:
        jit.prepare(junk, "lib/a.o", "array", {})
    assert "lib/a.o" in caught.value.message
