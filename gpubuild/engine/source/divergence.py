"""Static detection of barrier divergence: barriers that only some work-items of a workgroup reach.

All work-items of a workgroup must execute a barrier or a ``gpu.all_reduce``, or none; all of a subgroup
matrix operations, uniform reductions, and shuffles of all lanes. If a condition around such a site
depends on ids, the kernel is cloned for some work-items of a launch. Their ids, the launch's sizes and
its constant arguments become constants, which MLIR folds. The result has lower and upper bounds of how
often each executes each site. Nothing is reported where these do not decide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf, prod
from typing import NamedTuple

from mlir import ir, passmanager

from gpubuild.engine.backends.cpu.fission.uniformity import ITEM_IDS, is_pure, nested, terminator
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.diagnostics import SourceText, locate
from gpubuild.engine.ir.query import callee, kernel_functions, scalar_bits, symbol_name
from gpubuild.engine.ir.workarounds import disable_wrong_patterns
from gpubuild.engine.source import launch_checks
from gpubuild.engine.source.launch_checks import KNOWN_SIZES, MAX_WORK_ITEMS
from gpubuild.errors import Diagnostic, StepError

_WORKGROUP = frozenset({"gpu.barrier", "gpu.all_reduce"})
_SHUFFLES = frozenset({"gpu.shuffle", "gpu.rotate"})
_MATRICES = frozenset(f"gpu.subgroup_mma_{what}" for what in ("compute", "load_matrix", "store_matrix"))
_SITES = _WORKGROUP | _SHUFFLES | _MATRICES | {"gpu.subgroup_reduce"}
_SUBGROUP = 32  # work-items at least; some AMD GPUs have 64
_CALLS = frozenset({"func.call", "llvm.call"})
_FUNCTIONS = frozenset({"gpu.func", "func.func", "llvm.func"})
_CHOICES = frozenset({"scf.if", "scf.index_switch"})
# The first operands decide whether, or how often, the regions of an operation run: how many.
_CONTROLS = {**dict.fromkeys(_CHOICES, 1), "scf.for": 3}
# Dialects whose operations can be barriers, and operations that may not return.
_VENDORS = frozenset({"amdgpu", "nvgpu", "nvvm", "rocdl", "spirv", "xegpu", "xevm"})
_OPAQUE = (
    *("func.call_indirect", "llvm.call_intrinsic", "llvm.inline_asm", "llvm.invoke", "llvm.unreachable"),
    *("llvm.intr.debugtrap", "llvm.intr.trap", "llvm.intr.ubsantrap", "ub.unreachable"),
)
_RULE = (
    "barrier divergence: all work-items of a workgroup must execute a barrier, or none (of a subgroup, "
    "for its operations); move it out of the code that only some of them run"
)
_SITE, _PROBE = "gpubuild.site.", "gpubuild.probe."  # callees, with the number of a point
_MOST_LAUNCHES, _MOST_CONSTANTS = 6, 12  # of a kernel
_FEWEST_ITEMS, _MOST_ITEMS, _MOST_OPS = 4, 32, 10_000  # clones for a workgroup, operations in all of them
_LARGE = (1 << 31) - 1  # largest constant that is used
# A kernel of unknown size is reported only if it is wrong in all of these.
_USUAL = ((8, 8, 8), (64, 1, 1), (32, 1, 1), (256, 1, 1), (1024, 1, 1), (16, 16, 1))

# How often a site is executed: at least; at least, with arguments for which it is often; at most.
_Count = tuple[float, float, float]
_Counts = dict[int, _Count]
_NEVER, _LOOP = (0, 0, 0), _Counts()  # the latter marks a loop of branches or calls
_Point = tuple[str, ir.Location]  # the operation of a site, or of a condition or loop


class _UndecidedError(Exception):
    """Folding does not decide."""


@dataclass(frozen=True, kw_only=True)
class _Launch:
    """A launch, and a workgroup of it. Zeros are unknown sizes. Without ``op`` the kernel has the size."""

    block: tuple[int, ...]
    grid: tuple[int, ...] = ()
    workgroup: tuple[int, ...] = (0, 0, 0)
    arguments: tuple[tuple[int, int], ...] = ()
    certain: bool = True  # in every run of its host function
    op: ir.Operation | None = field(default=None, compare=False)

    def ids(self, item: int) -> tuple[int, int, int]:
        """Return the ids of a work-item by its number in the workgroup, x fastest."""
        x, y, _ = self.block
        return item % x, item // x % y, item // (x * y)

    def value(self, op: ir.Operation, item: int) -> int | None:
        """Return the result of ``op`` for a work-item, if it reads a known id or size."""
        axis = "xyz".index(str(op.attributes["dimension"])[-2]) if "dimension" in op.attributes else 0
        thread = self.ids(item)[axis]
        return {
            "gpu.thread_id": thread,
            "gpu.block_id": self.workgroup[axis],
            "gpu.global_id": self.workgroup[axis] * self.block[axis] + thread,
            "gpu.block_dim": self.block[axis],
            "gpu.grid_dim": self.grid[axis] if self.grid else None,
            "gpu.lane_id": item % _SUBGROUP if item % (2 * _SUBGROUP) < _SUBGROUP else None,
            "gpu.subgroup_id": 0 if item < _SUBGROUP else None,  # if equal for both sizes of subgroups
        }.get(op.name)


class _Conflict(NamedTuple):
    """The first of two work-items executes a site more often than the other can; ``sure``: in every run."""

    sure: bool
    site: int
    items: tuple[int, int]
    traces: tuple[_Trace, _Trace]
    launch: _Launch


def has_sites(text: str) -> bool:
    """Return whether a source may have operations that work-items must reach together."""
    return any(name in text for name in _SITES)


def check_divergence(module: ir.Module, source: SourceText) -> list[Diagnostic]:
    """Return warnings about kernels in ``module``; raise ``StepError`` for those that are always wrong."""
    found: list[Diagnostic] = []
    for kernels in contexts.gpu_modules(module):
        functions = _functions(kernels)
        reaching = _reaching(kernels, functions)
        deciding = [value for function in functions.values() for value in _deciding(function, reaching)]
        if any(_varies(value) for decision in deciding for value in _slice(decision)):
            for kernel in kernel_functions(kernels):
                found += _search(module, kernel, source) if kernel in reaching else ()
    if errors := [one for one in found if one.severity == "error"]:
        message = "deadlock in a kernel: some work-items never reach a barrier that others wait at"
        raise StepError(message, diagnostics=errors, hint=_RULE)
    return found


def _is_site(op: ir.Operation) -> bool:
    """Return whether work-items must reach ``op`` together, such as shuffles of 32 lanes.

    Operations of subgroups with unused results are not executed.
    """
    if op.name in _WORKGROUP or op.name not in _SITES:
        return op.name in _WORKGROUP
    together = op.name != "gpu.subgroup_reduce" or "uniform" in op.attributes
    if op.name == "gpu.shuffle":
        together = launch_checks.number(op.operands[2]) == _SUBGROUP
    elif op.name == "gpu.rotate":
        together = op.attributes["width"].value == _SUBGROUP
    return together and (not len(op.results) or any(next(iter(result.uses), None) for result in op.results))


def _callee(op: ir.Operation) -> str:
    return callee(op) if op.name in _CALLS else ""


def _functions(kernels: ir.Operation) -> dict[str, ir.Operation]:
    """Return the functions of a gpu.module that have bodies, by name."""
    tops = [view.operation for view in kernels.regions[0].blocks[0]]
    bodies = [op for op in tops if op.name in _FUNCTIONS and len(op.regions[0].blocks)]
    return {symbol_name(op): op for op in bodies}


def _reaching(kernels: ir.Operation, functions: dict[str, ir.Operation]) -> set[ir.Operation]:
    """Return sites, calls of functions with sites, and the operations around them."""
    inside = nested(kernels)
    calls = [op for op in inside if op.name in _CALLS]
    new = [op for op in inside if _is_site(op)]
    reaching: set[ir.Operation] = set()
    while new:
        for around in new:
            while around != kernels and around not in reaching:
                reaching.add(around)
                around = around.parent.operation  # noqa: PLW2901
        new = [call for call in calls if call not in reaching and functions.get(_callee(call)) in reaching]
    return reaching


def _deciding(function: ir.Operation, reaching: Collection[ir.Operation]) -> Iterator[ir.Value]:
    """Yield the values that decide which of ``reaching`` in ``function`` are executed."""
    work = [function] if function in reaching else []
    while work:
        around = work.pop()
        blocks = [block for region in around.regions for block in region.blocks]
        for op in (view.operation for block in blocks for view in block.operations):
            work += [op] if op in reaching and not _is_site(op) else []
            yield from op.operands[:1] if len(op.successors) > 1 else ()
        if around.name == "scf.while":
            yield terminator(blocks[0]).operands[0]
        elif around.name not in _CALLS:
            yield from list(around.operands)[: _CONTROLS.get(around.name)]


def _slice(value: ir.Value) -> Iterator[ir.Value]:
    """Yield ``value`` and the values from which it is computed, without those in memory."""
    work, seen = [value], set[ir.Value]()
    while work:
        value = work.pop()
        if value not in seen:
            seen.add(value)
            yield value
            op = _owner(value)
            if op.name == "scf.for" and value == op.regions[0].blocks[0].arguments[0]:
                work += list(op.operands)[:3]
            elif len(op.regions) and op.name not in _FUNCTIONS:
                ends = [terminator(block) for region in op.regions for block in region.blocks]
                work += [*op.operands, *(operand for end in ends for operand in end.operands)]
            elif is_pure(op) or op.name.startswith("llvm."):
                work += op.operands


def _owner(value: ir.Value) -> ir.Operation:
    """Return the operation whose result ``value`` is, or in whose block it is an argument."""
    return (value.owner.owner if isinstance(value.owner, ir.Block) else value.owner).operation


def _varies(value: ir.Value) -> bool:
    """Return whether ``value`` is an id of a work-item, or may be computed from some."""
    op = _owner(value)
    if op.name in _FUNCTIONS:
        return "gpu.kernel" not in op.attributes or value.owner != op.regions[0].blocks[0]
    return op.name in _CALLS | ITEM_IDS | {"gpu.subgroup_id"}


def _search(module: ir.Module, kernel: ir.Operation, source: SourceText) -> list[Diagnostic]:
    """Return a diagnostic about ``kernel``: an error if it is wrong in all launches of ``module``."""
    kernels = kernel.parent.operation
    name = launch_checks.kernel_name(kernels, kernel)
    launches = _launches(module, name, kernel)
    known = [one for one in launches if 1 < prod(one.block) <= MAX_WORK_ITEMS][:_MOST_LAUNCHES]
    usual = launches and not any(prod(one.block) for one in launches)
    found: list[_Conflict] = []
    try:
        clones = _Clones(kernels, kernel)
        for launch in [_Launch(block=block) for block in _USUAL] if usual else known:
            one = clones.conflict(launch)
            found += [one] if one is not None else []
            if usual and (one is None or not one.sure):
                return []
    except (_UndecidedError, RecursionError, ir.MLIRError):
        return []
    if not found:
        return []
    worst, every = max(found, key=lambda one: one.sure), all(one.sure for one in found)
    always = every and len(found) == len(launches) and any(one.certain for one in known)
    where = "" if worst.launch.op else f", in workgroups of {launch_checks.shape(worst.launch.block)}"
    if usual:
        where = ", in workgroups of more than one work-item"
    elif worst.sure and not always:
        where = ", when it is launched so"
    report = _report(worst, clones.points, name, where, source)
    return [replace(report, severity="error" if always else "warning")]


def _launches(module: ir.Module, name: str, kernel: ir.Operation) -> list[_Launch]:
    """Return different launches of a kernel that are not empty; one, if the file has none."""
    written = next((kernel.attributes[key] for key in KNOWN_SIZES if key in kernel.attributes), None)
    size = tuple(written) if isinstance(written, ir.DenseI32ArrayAttr) else (0, 0, 0)
    ops = [op for op, kernel_name in launch_checks.launches(module) if kernel_name == name]
    found = [] if ops else [_Launch(block=size)]
    for op in ops:
        block, grid, holder = launch_checks.block(op), launch_checks.grid(op), op.parent.operation
        one = _Launch(
            block=tuple(n or 0 for n in block) if all(block) else size,
            grid=tuple(n or 0 for n in grid) if all(grid) else (),
            arguments=tuple(
                (index, n) for index, n in enumerate(launch_checks.arguments(op)) if n is not None
            ),
            certain=holder.name in _FUNCTIONS and op.block == holder.regions[0].blocks[0],
            op=op,
        )
        if 0 not in (*block, *grid) and one not in found:
            found.append(one)
    return found


class _Clones:
    """Compare work-items of a kernel, by clones of it and of the functions that it may call.

    In clones, calls of functions that do not exist replace sites, so that no folding changes those, and
    have the operands of conditions. Other functions become private, so that constants propagate there.
    """

    def __init__(self, kernels: ir.Operation, kernel: ir.Operation) -> None:
        self.points: list[_Point] = []  # in the order of the source
        self._kernel = symbol_name(kernel)
        self._module, self._clone = ir.Module.create(ir.Location.unknown()), kernels.clone()
        self._module.body.append(self._clone)
        for other in kernel_functions(self._clone):
            if symbol_name(other) != self._kernel:
                other.erase()
        functions = _functions(self._clone)
        for name in functions.keys() - {self._kernel}:
            functions[name].attributes["sym_visibility"] = ir.StringAttr.get("private")
        _run(self._module, "lower-affine")
        inside = nested(self._clone, ir.WalkOrder.PRE_ORDER)
        self._in_order = len(functions) == 1 and all(len(r.blocks) < 2 for op in inside for r in op.regions)
        for op in [op for op in inside if self._mark(op) or op.name.endswith(".store")]:
            op.erase()  # without stores, most of a kernel is dead code
        _run(self._module, "canonicalize")
        inside = nested(self._clone)
        self._size = len(inside)
        constants = {launch_checks.constant(value) for op in inside for value in op.results}
        self._constants = sorted(n for n in constants if n is not None and n < MAX_WORK_ITEMS)

    def conflict(self, launch: _Launch) -> _Conflict | None:
        """Return a conflict in the first or the last workgroup of ``launch``, a sure one if there is one."""
        both = dict.fromkeys([launch.workgroup, tuple(size - 1 for size in launch.grid) or launch.workgroup])
        found = [self._compare(replace(launch, workgroup=workgroup)) for workgroup in both]
        return max((one for one in found if one is not None), key=lambda one: one.sure, default=None)

    def _compare(self, launch: _Launch) -> _Conflict | None:
        traces = self._traces(launch)
        for sure in (True, False):
            for site in range(len(self.points)):
                fewest = min((trace.counts[site][2] for trace in traces.values()), default=0)
                for first, ours in traces.items():
                    often = ours.counts[site][0 if sure else 1]
                    for second, theirs in traces.items() if often > fewest else ():
                        one = _Conflict(sure, site, (first, second), (ours, theirs), launch)
                        if often > theirs.counts[site][2] and self._must_meet(one):
                            return one
        return None

    def _must_meet(self, conflict: _Conflict) -> bool:
        """Return whether the second work-item must reach the site if the first does."""
        _, site, (first, second), (ours, theirs), _ = conflict
        op = self.points[site][0]
        if op in _WORKGROUP or first // _SUBGROUP != second // _SUBGROUP:
            return op in _WORKGROUP
        # A shuffle does not wait for lanes that have returned, but for those at a later barrier.
        later = [n for n, (other, _) in enumerate(self.points) if n > site and other in _WORKGROUP]
        waits = any(ours.counts[n][0] > 0 and ours.counts[n][2] <= theirs.counts[n][0] for n in later)
        return op not in _SHUFFLES or (self._in_order and waits and first % (2 * _SUBGROUP) < _SUBGROUP)

    def _traces(self, launch: _Launch) -> dict[int, _Trace]:
        """Return traces of some work-items of a workgroup, those that folding decides."""
        items, wrapper = self._items(launch), ir.Module.create(ir.Location.unknown())
        for item in items:
            clone = self._clone.clone()
            wrapper.body.append(clone)
            clone.attributes["sym_name"] = ir.StringAttr.get(f"item{item}")
            entry = _functions(clone)[self._kernel].regions[0].blocks[0]
            known = [(op.results[0], launch.value(op, item)) for op in nested(clone) if len(op.results)]
            for value, number in [*known, *((entry.arguments[index], n) for index, n in launch.arguments)]:
                wide = scalar_bits(value.type) >= _LARGE.bit_length()
                if number is not None and number <= _LARGE and wide:
                    emit = Emitter(entry.operations[0] if value.owner == entry else value.owner.operation)
                    value.replace_all_uses_with(emit.constant(number, value.type))
        _run(wrapper, "sccp,canonicalize")
        traces = {}
        for item, view in zip(items, wrapper.body, strict=True):
            with suppress(_UndecidedError):
                traces[item] = _Trace(_functions(view.operation), self._kernel)
        return traces

    def _items(self, launch: _Launch) -> list[int]:
        """Return the work-items to compare: those at edges of the workgroup and of conditions."""
        most = min(_MOST_ITEMS, _MOST_OPS // self._size)
        if most < _FEWEST_ITEMS:
            raise _UndecidedError
        (x, y, z), count = launch.block, prod(launch.block)
        near = [*self._constants[:_MOST_CONSTANTS], *(n for _, n in launch.arguments)]
        near += [n - launch.workgroup[0] * x for n in near]
        edges = [0, count - 1, 1, 32, *near, *(n + d for n in near for d in (-1, 1)), x - 1, x, (y - 1) * x]
        edges += [(z - 1) * x * y, count // 2, *(n * m for n in near for m in (x, x * y))]
        edges += [n - d for n in (64, 32, 128, 16, 8, 4, 256, 512) for d in (0, 1)]
        found = [n for n in dict.fromkeys(edges) if 0 <= n < count][:most]
        return list(range(count)) if count <= most else sorted(found)

    def _mark(self, op: ir.Operation) -> bool:
        """Replace a site by a call, or insert one before a condition or loop; return whether it is a site."""
        site, loop = _is_site(op), op.name == "scf.for"
        if site or loop or op.name in _CHOICES or len(op.successors) > 1:
            operands = [] if site else list(op.operands)[: 3 if loop else 1]
            target = ir.FlatSymbolRefAttr.get(f"{_SITE if site else _PROBE}{len(self.points)}")
            results = list(op.results) if site else []
            call = Emitter(op).op("func.call", operands, [old.type for old in results], {"callee": target})
            for old, new in zip(results, call.results, strict=True):
                old.replace_all_uses_with(new)
            self.points.append((op.name, op.location))
        return site


class _Trace:
    """The sites that a work-item executes, from a folded clone. Raises ``_UndecidedError``."""

    def __init__(self, functions: dict[str, ir.Operation], kernel: str) -> None:
        self.decided: dict[int, int] = {}  # by point: the value of a condition, the iterations of a loop
        self._functions = functions
        self._known: dict[ir.Block, _Counts] = {}
        self._entry = functions[kernel].regions[0].blocks[0]
        self.counts = defaultdict(lambda: _NEVER, self._from(self._entry))

    def _from(self, block: ir.Block) -> _Counts:
        """Return the counts from ``block`` to the end of its region."""
        if block not in self._known:
            self._known[block] = _LOOP
            end = terminator(block)
            rest = self._one_of([self._from(one) for one in end.successors], list(end.operands)[:1])
            own = [self._operation(view.operation) for view in block.operations]
            self._known[block] = _sum([*own, rest])
        if self._known[block] is _LOOP:
            raise _UndecidedError
        return self._known[block]

    def _operation(self, op: ir.Operation) -> _Counts:
        called, operands = _callee(op), list(op.operands)
        if called.startswith(_SITE):
            return {int(called.removeprefix(_SITE)): (1, 1, 1)}
        if called.startswith(_PROBE):
            value = _iterations(operands) if len(operands) == 3 else launch_checks.constant(operands[0])
            if value is not None:
                self.decided.setdefault(int(called.removeprefix(_PROBE)), value)
            return {}
        if called in self._functions:
            return self._from(self._functions[called].regions[0].blocks[0])
        opaque = op.name in _CALLS or op.name in _OPAQUE or op.name.partition(".")[0] in _VENDORS
        if opaque or (op.name == "cf.assert" and launch_checks.constant(operands[0]) == 0):
            raise _UndecidedError
        inside = [self._from(region.blocks[0]) if len(region.blocks) else {} for region in op.regions]
        if op.name in _CHOICES:
            return self._one_of(inside, operands[:1])
        least, likely, most = 0.0, 0.0, inf
        if op.name == "scf.for":
            if (iterations := _iterations(operands[:3])) is not None:
                least = likely = most = float(iterations)
            elif self._on_arguments(operands[:3]):
                likely = 1
        return {
            site: (a * least, b * likely, most and c and c * most) for site, (a, b, c) in _sum(inside).items()
        }

    def _one_of(self, paths: list[_Counts], condition: list[ir.Value]) -> _Counts:
        best = max if len(paths) > 1 and self._on_arguments(condition) else min
        found = {}
        for site in {site for path in paths for site in path}:
            least, likely, most = zip(*(path.get(site, _NEVER) for path in paths), strict=True)
            found[site] = (min(least), best(likely), max(most))
        return found

    def _on_arguments(self, values: list[ir.Value]) -> bool:
        """Return whether ``values`` depend only on arguments of the kernel."""
        sources = [source for value in values for source in _slice(value)]
        return all(source.owner == self._entry or is_pure(_owner(source)) for source in sources)


def _sum(parts: Iterable[_Counts]) -> _Counts:
    total: _Counts = {}
    for part in parts:
        for site, (least, likely, most) in part.items():
            before = total.get(site, _NEVER)
            total[site] = (before[0] + least, before[1] + likely, before[2] + most)
    return total


def _iterations(bounds: list[ir.Value]) -> int | None:
    """Return the number of iterations of a loop with constant bounds that are not negative."""
    lower, upper, step = (launch_checks.constant(value) for value in bounds)
    if lower is None or upper is None or not step or max(lower, upper, step) > _LARGE:
        return None
    return max(0, -(-(upper - lower) // step))


def _run(module: ir.Module, passes: str) -> None:
    manager = passmanager.PassManager.parse(disable_wrong_patterns(f"builtin.module(gpu.module({passes}))"))
    manager.enable_verifier(False)  # callees do not exist
    manager.run(module.operation)


def _report(
    conflict: _Conflict, points: list[_Point], name: str, where: str, source: SourceText
) -> Diagnostic:
    """Return a message with the two work-items, the condition at which they part, and the launch."""
    sure, number, items, (ours, theirs), launch = conflict
    (site, here), (first, second) = points[number], (str(launch.ids(item)) for item in items)
    notes: list[Diagnostic] = []

    def at(where: ir.Location, text: str) -> Diagnostic:
        location, line = locate(where, source)
        return Diagnostic(message=text, severity="note", location=location, source_line=line)

    missed = "never reaches it"
    often = [n for n, counts in theirs.counts.items() if counts[0] > ours.counts[n][2]]
    if most := theirs.counts[number][2]:
        missed = f"reaches it {most:.0f} times, not {ours.counts[number][0]:.0f}"
    elif elsewhere := [n for n in often if points[n][0] in _WORKGROUP]:
        other, there = points[min(elsewhere)]
        missed = f"waits at {'another ' if other == site else ''}{other}"
        notes = [at(there, f"work-item {second} waits here")]
    both = [(n, ours.decided[n], value) for n, value in theirs.decided.items() if n in ours.decided]
    if parted := [one for one in both if one[0] < number and one[1] != one[2]]:
        n, *values = max(parted)
        decision, there = points[n]
        boolean = decision in {"scf.if", "cf.cond_br", "llvm.cond_br"}
        mine, its = (str(bool(value)).lower() if boolean else str(value) for value in values)
        what = "iterations of this loop" if decision == "scf.for" else "condition"
        notes.append(at(there, f"{what}: {mine} for work-item {first}, {its} for {second}"))
    if launch.op is not None:
        shape = launch_checks.shape(launch.block)
        notes.append(at(launch.op.location, f"launched here with workgroups of {shape}"))
    of = f" of workgroup {launch.workgroup}" if any(launch.workgroup) else ""
    waiting = f"work-item {first}{of} {'waits' if sure else 'may wait'} here at {site}"
    missing = f"work-item {second} of its {'workgroup' if site in _WORKGROUP else 'subgroup'} {missed}"
    report = at(here, f"{name}: {waiting}, but {missing}{where}")
    return replace(report, notes=tuple(note for note in notes if note.location))
