"""Index errors: what can be wrong with the index. Apart from it, because it imports sqlite3."""

from __future__ import annotations


class DamagedIndexError(Exception):
    """The database is corrupt and must be set aside."""


class UnavailableIndexError(Exception):
    """The database is locked, unwritable, full or on a file system without locks."""


class MalformedRowError(ValueError):
    """A row is not one of ours."""
