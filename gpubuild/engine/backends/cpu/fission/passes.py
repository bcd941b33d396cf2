"""The passes of fission, in order: each changes all workgroup functions of a module."""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir

from gpubuild.engine.backends.cpu.fission.applicability import (
    functions_with_barriers,
    inline_barrier_calls,
    refuse_unknown,
)
from gpubuild.engine.backends.cpu.fission.context_arrays import allocate_attributions, place_private_memory
from gpubuild.engine.backends.cpu.fission.fission import fission
from gpubuild.engine.backends.cpu.fission.guard_to_loop_bounds import has_bounds_check
from gpubuild.engine.backends.cpu.fission.loop_interchange import has_interchangeable_loop
from gpubuild.engine.backends.cpu.fission.shuffles import lower_shuffles
from gpubuild.engine.backends.cpu.fission.structured_control_flow import (
    count_in_indices,
    lift_branches,
    open_divergent_loops,
    simplify_structures,
)
from gpubuild.engine.backends.cpu.fission.uniformity import has_versions, operations
from gpubuild.engine.backends.cpu.fission.workgroup_functions import SUFFIX, each_workgroup_function
from gpubuild.engine.backends.cpu.reductions.tree import shorten_trees
from gpubuild.engine.backends.cpu.state import NO_FISSION, WORKGROUP_OF, CpuLowering, kernel_module
from gpubuild.engine.ir.passes import Pass
from gpubuild.engine.ir.query import symbol_name
from gpubuild.targets.target import Sanitize


def add_workgroup_functions(module: ir.Module, _: CpuLowering) -> None:
    """Copy each kernel that has barriers, or that gains from loops over its work-items."""
    kernels = kernel_module(module)
    body = kernels.regions[0].blocks[0]
    waiting = functions_with_barriers(kernels)
    taken = {symbol_name(op) for op in operations(body)}
    for kernel in [op for op in operations(body) if op.name == "gpu.func" and "gpu.kernel" in op.attributes]:
        name = symbol_name(kernel)
        gains = has_interchangeable_loop(kernel) or has_bounds_check(kernel) or has_versions(kernel)
        if name + SUFFIX in taken:
            kernel.attributes[NO_FISSION] = ir.StringAttr.get(f"the module has a symbol @{name}{SUFFIX}")
        elif name in waiting or gains:
            function = kernel.clone(ir.InsertionPoint(kernel)).operation
            function.attributes["sym_name"] = ir.StringAttr.get(name + SUFFIX)
            function.attributes[WORKGROUP_OF] = ir.StringAttr.get(name)


def _each(
    name: str, change: Callable[[ir.Operation], None], *, checked_barriers: bool = True
) -> Pass[CpuLowering]:
    """Return a pass that changes each workgroup function on its own."""

    def run(module: ir.Module, _: CpuLowering) -> None:
        each_workgroup_function(kernel_module(module), change)

    def when(lowering: CpuLowering) -> bool:
        return checked_barriers or Sanitize.BARRIER not in lowering.sanitize

    return Pass(name=name, run=run, when=when)


FISSION_PASSES: tuple[Pass[CpuLowering], ...] = (
    Pass(name="add-workgroup-functions", run=add_workgroup_functions),
    _each("lift-control-flow", lift_branches),
    Pass(name="inline-barrier-calls", run=inline_barrier_calls),
    _each("structure-control-flow", simplify_structures),
    _each("index-loop-counters", count_in_indices),
    _each("allocate-private-attributions", allocate_attributions),
    _each("shuffle-through-memory", lower_shuffles),
    _each("private-memory-to-context-arrays", place_private_memory),
    # Where barriers are checked, such loops keep fibers: see fission.
    _each("divergent-loops-to-while", open_divergent_loops, checked_barriers=False),
    Pass(name="refuse-fission", run=refuse_unknown),
    _each("tree-reductions", shorten_trees),
    Pass(name="fission", run=fission),
)
