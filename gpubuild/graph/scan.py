"""Scan: what an outline step found in a source, read back from its ``index.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpubuild.errors import StepError
from gpubuild.frozen import frozen
from gpubuild.model.target import Kind


@frozen
class IrTarget:
    """A target attribute written in the IR, ``#nvvm.target<…>`` or ``#rocdl.target<…>``."""

    kind: Kind
    chip: str
    triple: str
    features: str = ""
    opt_level: int = 2
    fast_math: bool = False
    libraries: tuple[str, ...] = ()  # its `link = [...]`, as written


@frozen
class ScannedModule:
    """One gpu.module. ``dialect`` is ``gpu``, or what the module was already lowered to.

    ``rocm``: it may use ROCm's libraries, on targets that have them.
    """

    name: str
    index: int
    dialect: str = "gpu"
    handler: str = ""
    targets: tuple[IrTarget, ...] = ()
    rocm: bool = True


@frozen
class ScannedSource:
    """All gpu.modules of one source, in order."""

    modules: tuple[ScannedModule, ...]


def parse_index(text: str) -> ScannedSource:
    """Read ``index.json``. Raises ``StepError`` when it is not what the engine writes."""
    try:
        document = json.loads(text)
        if document["schema"] != 1:
            raise ValueError(f"schema {document['schema']}")
        return ScannedSource(modules=tuple(_module(m) for m in document["modules"]))
    except (ValueError, KeyError, TypeError) as error:
        raise StepError(f"a scan result is malformed: {error!r}", hint="run `gpubuild clean`") from error


def _module(data: Mapping[str, Any]) -> ScannedModule:
    return ScannedModule(
        name=str(data["name"]),
        index=int(data["index"]),
        dialect=str(data["dialect"]),
        handler=str(data["handler"]),
        rocm=bool(data.get("rocm", True)),
        targets=tuple(
            IrTarget(
                kind=Kind(t["kind"]),
                chip=str(t["chip"]),
                triple=str(t["triple"]),
                features=str(t.get("features", "")),
                opt_level=int(t.get("opt_level", 2)),
                fast_math=bool(t.get("fast_math", False)),
                libraries=tuple(str(x) for x in t.get("link", ())),
            )
            for t in data["targets"]
        ),
    )
