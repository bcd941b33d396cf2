"""Native: what ``chip: native`` means on this machine."""

from __future__ import annotations

from gpubuild.model.project import Project
from gpubuild.support.frozen import replace
from gpubuild.targets.registry import vendor
from gpubuild.targets.target import Target


def resolve_native(project: Project) -> Project:
    """Replace ``chip: native`` by this machine's CPU, so that it becomes part of the key."""
    if not any(map(_is_native, project.targets.values())):
        return project
    from gpubuild.engine.ir.llvm import host_cpu

    name, features = host_cpu()
    targets = {
        key: replace(t, chip=name, features=",".join(f for f in (features, t.features) if f))
        if _is_native(t)
        else t
        for key, t in project.targets.items()
    }
    return replace(project, targets=targets)


def _is_native(target: Target) -> bool:
    return target.chip == vendor(target.kind).native_chip
