import json
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from unit.cache.samples import KEY, remote_record

from gpubuild.cache.record import RecordError
from gpubuild.cache.remote.bazel_result import (
    RemoteRecord,
    decode_bazel_result,
    decode_remote,
    decompress,
    encode_bazel_result,
    encode_remote,
)
from gpubuild.model.digest import Digest, digest_bytes

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


# ---- records ----


@pytest.fixture
def record(tmp_path: Path) -> RemoteRecord:
    return remote_record(tmp_path / "out")


def document_of(record: RemoteRecord) -> dict:
    return json.loads(decode_bazel_result(encode_remote(KEY, record)))


def packed(document: object) -> bytes:
    return encode_bazel_result([], json.dumps(document).encode())


def test_every_truncation_and_a_flipped_bit_in_every_byte(record: RemoteRecord) -> None:
    data = encode_remote(KEY, record)
    end_of_text = data.index(decode_bazel_result(data)) + len(decode_bazel_result(data))
    for length in range(len(data)):
        if length != end_of_text:  # nothing of ours comes after that
            with pytest.raises(RecordError):
                decode_remote(KEY, data[:length])
    for position in range(len(data)):
        bad = bytearray(data)
        bad[position] ^= 1 << position % 8
        try:
            found = decode_remote(KEY, bytes(bad))
        except RecordError:
            continue
        # What is not under the record's checksum says where bytes are, never what they are.
        assert found.result == record.result


def test_a_record_of_another_key(record: RemoteRecord) -> None:
    with pytest.raises(RecordError):
        decode_remote(digest_bytes(b"other"), encode_remote(KEY, record))


def test_servers_are_told_what_is_stored_under_which_digest(record: RemoteRecord) -> None:
    """The compressed blob's own digest, not that of its content: they look for it in /cas/."""
    data = encode_remote(KEY, record)
    outputs = data[: data.index(decode_bazel_result(data))]
    for blob in record.result.blobs:
        assert record.stored[blob.digest].digest.encode() in outputs
    assert record.result.blobs[1].digest.encode() not in outputs


def place(digest: object, size_bytes: object, encoding: object) -> dict[str, object]:
    return {"digest": digest, "size_bytes": size_bytes, "encoding": encoding}


@pytest.mark.parametrize(
    "stored", [None, {}, {"x": place("0" * 64, 1, "identity")}, {"a" * 64: place("a" * 64, 1, "identity")}]
)
def test_a_table_that_does_not_fit(record: RemoteRecord, stored: object) -> None:
    document = document_of(record)
    document["stored"] = stored
    with pytest.raises(RecordError):
        decode_remote(KEY, packed(document))


@pytest.mark.parametrize(
    "value",
    [
        None, [], {"digest": "0" * 64, "size_bytes": 1}, place("../x", 1, "zlib"),
        place("0" * 64, -1, "zlib"),
        place("0" * 64, True, "zlib"), place("0" * 64, 1 << 50, "zlib"), place("0" * 64, 1, "brotli"),
        place("0" * 64, 1, ["zlib"]), place("0" * 64, 1, "identity"),
    ],
)  # fmt: skip
def test_a_place_that_cannot_be(record: RemoteRecord, value: object) -> None:
    document = document_of(record)
    document["stored"][record.result.blobs[0].digest] = value
    with pytest.raises(RecordError):
        decode_remote(KEY, packed(document))


def test_files_of_another_machine_are_refused(record: RemoteRecord) -> None:
    result = replace(record.result, discovered=(("/usr/include/x.h", KEY),))
    with pytest.raises(RecordError):
        encode_remote(KEY, RemoteRecord(result=result, stored=record.stored))


@pytest.mark.parametrize("size", [0, 1, 1 << 18, (1 << 18) + 1, 3_000_000])
def test_decompression(size: int) -> None:
    data = bytes(i * i % 251 for i in range(size))
    packed = zlib.compress(data)
    pieces = [packed[at : at + 1000] for at in range(0, len(packed), 1000)]
    assert b"".join(decompress(pieces, size)) == data
