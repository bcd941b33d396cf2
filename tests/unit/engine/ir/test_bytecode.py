"""Sources that are MLIR bytecode: the same outputs as of text, and damaged files."""

import io
import random
from pathlib import Path

import pytest
from mlir import ir
from unit.engine.device_steps import in_child
from unit.engine.ir.test_resources import PROGRAM, section
from unit.engine.steps import failing_step, run_step

from gpubuild.engine.ir import contexts, resources
from gpubuild.engine.ir.bytecode import MARK_BYTES, take_out
from gpubuild.errors import StepError
from gpubuild.model.digest import digest_bytes
from gpubuild.model.step import OutlineParams, StepKind

COUNT = 320_000  # floats: more than 1 MiB
HOST, KERNEL = bytes(range(256)) * (COUNT // 64), bytes(range(255, -1, -1)) * (COUNT // 64)
SMALL = bytes(range(100))
LARGE = PROGRAM.replace("2000x", f"{COUNT}x")


def bytecode_of(text: str) -> bytes:
    with contexts.context():
        stream = io.BytesIO()
        ir.Module.parse(text).operation.write_bytecode(stream)
        return stream.getvalue()


def outlined(source: bytes | str) -> dict[str, bytes]:
    return in_child(_outlined, source)


def _outlined(source: bytes | str) -> dict[str, bytes]:
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        ran = run_step(Path(made), StepKind.OUTLINE, OutlineParams(source_name="k"), {"source": source}, ())
        found = {b.name: (Path(made) / "job/out" / b.name).read_bytes() for b in ran.result.result.blobs}
    # Bytecode has no names of arguments, and no lines.
    return {name: data for name, data in found.items() if name not in ("places.txt", "interface.json")}


@pytest.mark.parametrize("alignment", [1, 64, 4096])
def test_the_outputs_are_those_of_text(alignment: int) -> None:
    text = LARGE + section(alignment, w=HOST, c=KERNEL, unused=SMALL)
    outputs = outlined(bytecode_of(text))
    assert outputs == outlined(text)
    names = {resources.file_name(digest_bytes(data)) for data in (HOST, KERNEL)}
    assert {name for name in outputs if name.startswith("resource.")} == names


@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_large_dense_constants(element: str) -> None:
    kind = LARGE.replace("xf32", f"x{element}").replace("-> f32", f"-> {element}")
    kind = kind.replace(": f32", f": {element}")
    size = COUNT * (4 if element == "f32" else 2)
    if element == "bf16":  # at least a MiB
        kind, size = kind.replace(f"{COUNT}x", f"{2 * COUNT}x"), 4 * COUNT
    assert size == len(HOST)
    text = kind.replace("dense_resource<w>", f'dense<"0x{HOST.hex()}">')
    text = text.replace("dense_resource<c>", f'dense<"0x{KERNEL.hex()}">')
    assert outlined(bytecode_of(text)) == outlined(text)


def test_messages_name_the_file_that_the_bytecode_was_made_of(tmp_path: Path) -> None:
    text = 'memref.global @w : memref<9xf32> = dense_resource<w> loc("model.py":7:3)\n'
    source = bytecode_of(text + section(w=SMALL))
    error = failing_step(
        tmp_path, StepKind.OUTLINE, OutlineParams(source_name="k.mlirbc"), {"source": source}, ()
    )
    (found,) = error.diagnostics
    assert found.message == "dense_resource<w> has 100 bytes, tensor<9xf32> needs 36"
    assert (found.location.file, found.location.line) == ("model.py", 7)


def taken_out(data: bytes, least: int) -> tuple[bytes, dict[bytes, str], dict[str, bytes]]:
    stored: dict[str, bytes] = {}

    def store(content: memoryview) -> str:
        digest = digest_bytes(content)
        stored[digest] = bytes(content)
        return digest

    kept, marks = take_out(memoryview(data), least, store)
    return kept, marks, stored


def test_what_is_kept_has_marks_in_place_of_data() -> None:
    data = bytecode_of(LARGE + section(64, w=HOST, c=KERNEL, unused=SMALL))
    kept, marks, stored = taken_out(data, 1000)
    assert sorted(stored.values()) == sorted([HOST, KERNEL])
    assert sorted(marks.values()) == sorted(stored)
    assert all(mark in kept and len(mark) == MARK_BYTES for mark in marks)
    assert len(kept) < 3000
    with contexts.context():
        text = str(ir.Module.parse(kept))
    assert all(mark.hex().upper() in text for mark in marks)
    assert SMALL.hex().upper() not in text, "no operation uses it"


def test_resources_of_others_than_dialects() -> None:
    groups = bytes([3, 7, 5, 9, 11, 0, 11, 3, 1])  # one group: key 3, two resources: 5 bytes, one byte
    blob = bytes([9, 3, 0xCB, 0xCB, 17, 1])  # alignment 4, length 1, padding, data; then a flag
    data = b"ML\xefR\rnobody\0" + bytes([6, 19]) + groups + bytes([5, 13]) + blob
    kept, marks, stored = taken_out(data, 2)
    assert (marks, stored) == ({}, {})
    assert kept == b"ML\xefR\rnobody\0" + bytes([6, 19, 3, 7, 5, 9, 7, 0, 11, 3, 1, 5, 9, 3, 3, 17, 1])


def test_without_resources_nothing_changes() -> None:
    data = bytecode_of("module { func.func private @f() }")
    assert taken_out(data, 1) == (data, {}, {})


def test_truncated_and_damaged_files() -> None:
    data = bytecode_of(PROGRAM + section(64, w=HOST[:8000], c=KERNEL[:8000]))
    damaged = [data[:size] for size in range(0, len(data), 7)]
    generator = random.Random(1)
    for _ in range(3000):
        changed = bytearray(data)
        changed[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        damaged.append(bytes(changed))
    refused = 0
    for content in damaged:
        try:
            taken_out(content, 1000)
        except ValueError:  # nothing else
            refused += 1
    assert refused > len(data) // 7 - 20, "truncated ones, except between two sections"


def test_a_damaged_source_is_an_error(tmp_path: Path) -> None:
    data = bytecode_of(PROGRAM + section(w=HOST[:8000], c=KERNEL[:8000]))
    for number, source in enumerate((data[:-1], data[:40])):
        error = failing_step(
            tmp_path / str(number), StepKind.OUTLINE, OutlineParams(source_name="k"), {"source": source}, ()
        )
        assert "not valid MLIR bytecode: it ends early" in str(error)
        assert isinstance(error, StepError)
