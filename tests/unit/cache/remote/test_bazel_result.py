from __future__ import annotations

import pytest

from gpubuild.cache.record import RecordError
from gpubuild.cache.remote.bazel_result import decode_bazel_result, encode_bazel_result
from gpubuild.model.digest import Digest

A, B = Digest("a" * 64), Digest("b" * 64)


def test_the_bytes_of_a_message() -> None:
    """Field by field; bazel-remote 2.6.2 (protobuf-go 1.36) stores the very same bytes for it."""
    assert encode_bazel_result([("asm", A, 300), ("empty", B, 0)], b"text") == (
        b"\x12\x4c"  # output_files, 76 bytes
        b"\x0a\x03asm"  # path
        b"\x12\x45"  # digest, 69 bytes
        b"\x0a\x40" + b"a" * 64 + b"\x10\xac\x02"  # hash; size_bytes, 300 = 2 * 128 + 44
        b"\x12\x4b\x0a\x05empty\x12\x42\x0a\x40" + b"b" * 64 +  # a size of 0 is left out
        b"\x2a\x04text"  # stdout_raw
        b"\x4a\x0a\x0a\x08gpubuild"  # execution_metadata {worker}
    )  # fmt: skip


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 300_000])
def test_there_and_back(size: int) -> None:
    text = bytes(n % 251 for n in range(size))
    assert decode_bazel_result(encode_bazel_result([("asm", A, 1 << 40)], text)) == text


def test_what_a_server_adds_is_skipped() -> None:
    """In any order, of every type, with unused numbers."""
    others = (
        b"\x20\x80\x01",  # exit_code 128
        b"\x20" + b"\xff" * 9 + b"\x01",  # exit_code -1: ten bytes
        b"\x4a\x03\x12\x01\x08",  # execution_metadata
        b"\xf9\x3f12345678",  # field 1023, eight bytes
        b"\xfd\xff\xff\xff\x0f1234",  # field 2**29 - 1, four bytes
    )
    data = encode_bazel_result([("asm", A, 300)], b"text")
    for other in others:
        assert decode_bazel_result(other + data) == decode_bazel_result(data + other) == b"text"
    assert decode_bazel_result(b"".join(others) + data + b"".join(others)) == b"text"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x4a\x00",  # a result without our text, as Bazel writes them
        b"\x2a\x01a\x2a\x01b",  # two texts
        b"\x28\x01",  # a number where the text should be
        b"\x2a\x05text",  # ends early
        b"\x2a",
        b"\x2a\x80",
        b"\xff" * 20,  # a number without end
        b"\x2a\x04text\x2b",  # a group, which the format no longer has
        b"\x2a\x04text\x2e",  # a type it never had
        b"\x2a" + b"\xff" * 9 + b"\x01",  # a length of 2**64 - 1
    ],
)
def test_what_is_no_message(data: bytes) -> None:
    with pytest.raises(RecordError):
        decode_bazel_result(data)
