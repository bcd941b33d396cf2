"""What went wrong in a cache: one message for each cause."""

from __future__ import annotations

import threading


class Warnings:
    """The first message about each cause, and how often it occurred. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._causes: dict[str, tuple[str, int]] = {}

    def add(self, cause: str, message: str) -> None:
        """Keep the first ``message`` about ``cause`` and count the others."""
        with self._lock:
            first, count = self._causes.get(cause, (message, 0))
            self._causes[cause] = (first, count + 1)

    def drop(self, cause: str) -> None:
        """Forget a cause that another message covers."""
        with self._lock:
            self._causes.pop(cause, None)

    def messages(self) -> tuple[str, ...]:
        """Return one message for each cause."""
        with self._lock:
            causes = list(self._causes.values())
        return tuple(message + (f" ({count} times)" if count > 1 else "") for message, count in causes)
