"""The page about the dialect's documents is current and complete, and its tests and messages exist."""

import dialect_documents as documents
from dialect_documents import OUTSIDE, REFUSED
from unit.test_pages import _texts, defined_in


def test_the_page_is_current() -> None:
    assert documents.DOCUMENT.read_text() == documents.render()


def test_rows_have_a_test_a_message_or_a_reason() -> None:
    for rows in (documents.operations(), *documents.SECTIONS.values()):
        for what, row in rows.items():
            file, _, name = row.test.partition("::")
            assert (not name) if row.status == OUTSIDE else name in defined_in(file), what
            assert row.note or row.status not in (OUTSIDE, REFUSED), what
            if row.status == REFUSED:
                parts = [part.strip() for part in row.note.split("…")]
                assert any(all(part in text for part in parts) for text in _texts()), row.note


def test_no_attribute_or_type_is_left_out() -> None:
    assert "gpu.kernel_table" in documents.registered()
    assert sorted(documents.registered() - set(documents.ATTRIBUTES)) == []


def test_passes_and_options_are_those_of_mlir() -> None:
    assert documents.options() == set(documents.PASSES)
