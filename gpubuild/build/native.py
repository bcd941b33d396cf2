"""Native: what ``chip: native`` means on this machine."""

from __future__ import annotations

from gpubuild.model.project import Project
from gpubuild.support.frozen import replace
from gpubuild.targets.target import Kind


def resolve_native(project: Project) -> Project:
    """Replace ``chip: native`` by this machine's CPU, so that it becomes part of the key."""
    if not any(t.kind is Kind.CPU and t.chip == "native" for t in project.targets.values()):
        return project
    from gpubuild.engine.ir.llvm import host_cpu

    name, features = host_cpu()
    targets = {
        key: replace(t, chip=name, features=",".join(f for f in (features, t.features) if f))
        if t.kind is Kind.CPU and t.chip == "native"
        else t
        for key, t in project.targets.items()
    }
    return replace(project, targets=targets)
