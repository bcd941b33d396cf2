"""Wording: small parts of sentences that messages share."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """``1 result``, ``2 results``: for nouns that take an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
