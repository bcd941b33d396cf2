"""The section with the data of resources, and the text without these."""

from __future__ import annotations

import io

import pytest

from gpubuild.engine.ir.resources import Digits, separate
from gpubuild.model.digest import digest_bytes

PROGRAM = rb"""memref.global @w : memref<4xi8> = dense_resource<w> // {-# "
func.func @f() attributes {a.b = "{-# dialect_resources: { builtin: { w: \"0x04000000FF\" } } #-}"} { return }
"""


def data(digits: Digits) -> bytes:
    stream = io.BytesIO()
    assert digits.copy_to(stream) == digest_bytes(stream.getvalue())
    return stream.getvalue()


def test_data_are_taken_out_of_the_section_only() -> None:
    section = rb"""{-#
      dialect_resources: {
        builtin: { w: "0x0400000001020aFF", none: "0x04000000", "a\22 b\\": "0x0100000042" }
      }
    #-}"""
    text, found = separate(PROGRAM + section + b"func.func @g() { return }")
    assert {name: data(digits) for name, digits in found.items()} == {
        "w": bytes.fromhex("01020aff"),
        'a" b\\': b"\x42",
    }
    bare = section.replace(b"01020aFF", b"").replace(b'"0x0100000042"', b'"0x01000000"')
    assert text == PROGRAM + bare + b"func.func @g() { return }"


def test_many_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpubuild.engine.ir.resources._CHUNK", 6)
    content = bytes(range(256))
    text = b'{-# dialect_resources: {builtin: {w: "0x04000000' + content.hex().encode() + b'"}} #-}'
    assert data(separate(text)[1]["w"]) == content


def test_the_last_of_two_sections_counts() -> None:
    section = b'{-# dialect_resources: {builtin: {w: "0x04000000%b"}} #-}'
    found = separate(section % b"01" + b"\n" + section % b"02")[1]
    assert data(found["w"]) == b"\2"


@pytest.mark.parametrize(
    "text",
    [
        PROGRAM,
        b"module {}",
        b'{-# dialect_resources: { builtin: { w: "0x0400000001" }',
        b'{-# dialect_resources: { builtin: { w: "0x0400000001',
        b'{-# dialect_resources: { builtin: { w "0x0400000001" } } #-}',
        b'{-# dialect_resources: { builtin: { w: "0x0400000001" } } } #-}',
        b'{-# dialect_resources: { builtin: { w: "0x0400000001" } #-}',
        b"{-# dialect_resources: { builtin: { w: } } #-}",
        b'{-# dialect_resources: { { w: "0x0400000001" } } #-}',
        b'{-# dialect_resources: { builtin: { w: "0x0400000001" } } , ; #-}',
        b'{-# dialect_resources: { builtin: { "\\ff": "0x0400000001" } } #-}',
        b'{-# dialect_resources: { builtin: { w: "0x040000001" } } #-}',
        b'{-# dialect_resources: { builtin: { w: "04000000FFFF" } } #-}',
        b'{-# dialect_resources: { other: { w: "0x04000000FFFF" } } #-}',
        b'{-# dialect_resources: { builtin: { w: "0x0400000001" }, other: {} } #-}',
        b'// {-# dialect_resources: { builtin: { w: "0x0400000001" } } #-}',
    ],
)
def test_what_is_no_section_of_data_stays(text: bytes) -> None:
    assert separate(text) == (text, {})
