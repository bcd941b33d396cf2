import json

import pytest

from gpubuild.cache.record import MAX_BLOBS, MAX_RECORD_BYTES, RecordError, decode_record, encode_record
from gpubuild.model.digest import digest_bytes
from gpubuild.model.step import ActionResult, Blob

KEY = digest_bytes(b"key")
OTHER = digest_bytes(b"other")
RESULT = ActionResult(
    blobs=(
        Blob(name="object", digest=OTHER, size_bytes=12, executable=True),
        Blob(name="info", digest=KEY, size_bytes=0),
    ),
    discovered=(("/usr/include/stdio.h", OTHER),),
    warnings=("spills 4 bytes",),
    seconds=1.5,
)


def forge(change) -> bytes:
    """A record with a right checksum and a changed body."""
    document = json.loads(encode_record(KEY, RESULT).partition(b"\n")[2])
    document = change(document) or document
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return digest_bytes(KEY.encode() + b"\n" + body).encode() + b"\n" + body


def test_round_trip() -> None:
    read = decode_record(KEY, encode_record(KEY, RESULT))
    assert read == RESULT == decode_record(KEY, forge(lambda d: None))
    assert read.seconds == RESULT.seconds


def test_a_record_belongs_to_one_key() -> None:
    with pytest.raises(RecordError, match="checksum"):
        decode_record(OTHER, encode_record(KEY, RESULT))


def test_every_flipped_bit_is_seen() -> None:
    data = encode_record(KEY, RESULT)
    for position in range(len(data) * 8):
        bad = bytearray(data)
        bad[position // 8] ^= 1 << position % 8
        with pytest.raises(RecordError):
            decode_record(KEY, bytes(bad))


def test_every_truncation_is_seen() -> None:
    data = encode_record(KEY, RESULT)
    for length in range(len(data)):
        with pytest.raises(RecordError):
            decode_record(KEY, data[:length])


def blob(**changes: object) -> dict[str, object]:
    return {"name": "object", "digest": OTHER, "size_bytes": 1, "executable": False, **changes}


BAD = {
    "not an object": lambda d: b"[]",
    "not JSON": lambda d: b"{",
    "not UTF-8": lambda d: b'{"schema": "\xff"}',
    "deep": lambda d: b"[" * 200_000,
    "huge number": lambda d: b'{"schema": ' + b"9" * 6000 + b"}",
    "schema": lambda d: d.update(schema="gpubuild.record/2"),
    "extra": lambda d: d.update(extra=1),
    "missing": lambda d: d.pop("blobs") and None,
    "blobs": lambda d: d.update(blobs={}),
    "too many blobs": lambda d: d.update(blobs=[blob(name=f"b{n}") for n in range(MAX_BLOBS + 1)]),
    "one name twice": lambda d: d.update(blobs=[blob(), blob()]),
    "path": lambda d: d.update(blobs=[blob(name="../../etc/passwd")]),
    "hidden": lambda d: d.update(blobs=[blob(name=".bashrc")]),
    "empty name": lambda d: d.update(blobs=[blob(name="")]),
    "long name": lambda d: d.update(blobs=[blob(name="a" * 256)]),
    "number name": lambda d: d.update(blobs=[blob(name=7)]),
    "digest path": lambda d: d.update(blobs=[blob(digest="../" * 21 + "a")]),
    "digest case": lambda d: d.update(blobs=[blob(digest=OTHER.upper())]),
    "negative size": lambda d: d.update(blobs=[blob(size_bytes=-1)]),
    "true size": lambda d: d.update(blobs=[blob(size_bytes=True)]),
    "fraction": lambda d: d.update(blobs=[blob(size_bytes=1.0)]),
    "vast": lambda d: d.update(blobs=[blob(size_bytes=1 << 41)]),
    "executable": lambda d: d.update(blobs=[blob(executable=1)]),
    "escaping": lambda d: d.update(discovered=[["../a.h", OTHER]]),
    "NUL": lambda d: d.update(discovered=[["/a\0b", OTHER]]),
    "triple": lambda d: d.update(discovered=[["/a.h", OTHER, 1]]),
    "warning": lambda d: d.update(warnings=[None]),
    "seconds": lambda d: d.update(seconds="1"),
    "true seconds": lambda d: d.update(seconds=True),
    "NaN": lambda d: d.update(seconds=float("nan")),
    "infinite": lambda d: d.update(seconds=float("inf")),
    "before": lambda d: d.update(seconds=-1),
    "too large for a float": lambda d: d.update(seconds=10**400),
}


@pytest.mark.parametrize("what", BAD)
def test_a_forged_record_is_refused(what: str) -> None:
    with pytest.raises(RecordError):
        decode_record(KEY, forge(BAD[what]))


def test_a_record_too_long_to_read_is_not_written() -> None:
    warnings = ("x" * 60_000,) * (MAX_RECORD_BYTES // 60_000 + 1)
    with pytest.raises(RecordError):
        encode_record(KEY, ActionResult(blobs=(), warnings=warnings))
