"""Prepared: a step about to be brought up to date."""

from __future__ import annotations

from collections.abc import Mapping

from gpubuild.frozen import frozen
from gpubuild.model.digest import Digest
from gpubuild.model.job import JobInput
from gpubuild.model.step import Step
from gpubuild.toolchain.tool import Tool


@frozen
class Prepared:
    """A step whose inputs exist and whose key is known."""

    step: Step
    key: Digest
    parts: Mapping[str, str]
    inputs: tuple[JobInput, ...]
    tools: Mapping[str, Tool]
    missing: Mapping[str, str]  # optional tools that were not found, and why
    why: str  # what differs from the last time it was brought up to date
    versions: Mapping[str, str]  # of tools by fingerprint
    started: float  # time.monotonic()
