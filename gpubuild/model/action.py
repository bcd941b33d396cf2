"""Action: a step with every digest known, and the key that names its result."""

from __future__ import annotations

from gpubuild.frozen import frozen
from gpubuild.model.digest import Digest, digest_bytes, encode, is_digest
from gpubuild.model.params import Params
from gpubuild.model.step import StepKind

KEY_VERSION = "gpubuild.action/1"  # Raise when a field is added or changes meaning.


@frozen
class Action:
    """Everything that can change the bytes of a step's outputs.

    ``inputs`` are (role, content digest) pairs in the order of the step; ``tools`` are (name,
    fingerprint) pairs, with the word ``absent`` for an optional tool that is not there.
    Raises ``ValueError`` when a digest is not spelled like one.
    """

    kind: StepKind
    params: Params
    inputs: tuple[tuple[str, Digest], ...]
    tools: tuple[tuple[str, str], ...]
    version: str = KEY_VERSION

    def __post_init__(self) -> None:
        for role, digest in self.inputs:
            if not is_digest(digest):
                raise ValueError(f"input {role}: expected 64 hexadecimal digits, got {digest!r}")


def action_key(action: Action) -> Digest:
    """The name under which the action's result is cached: SHA-256 of its injective encoding."""
    return digest_bytes(encode(action))
