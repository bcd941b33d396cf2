"""Split chains of tokens, so that work on different memory is in different streams.

``gpu-async-region`` makes one chain of all operations up to the next place where the host waits. Here
each launch and copy waits only for those before it that use the same memory, one of both writing to it.
Where all depends on what is before it, there is one chain as before: streams cost time, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.memrefs import MIRROR
from gpubuild.engine.ir.query import defining_op, matching, viewed_memory
from gpubuild.engine.source.memory_uses import Origins, may_share, origins, written_arguments

_LAUNCH, _COPY, _ALLOC, _FREE = "gpu.launch_func", "gpu.memcpy", "gpu.alloc", "gpu.dealloc"
_WORK = (_LAUNCH, _COPY, _ALLOC, _FREE)
_TOKEN = "!gpu.async.token"  # noqa: S105 - a type


@dataclass(eq=False, slots=True)
class _Chain:
    """Operations that run one after the other."""

    tail: ir.Value  # the token of the last one
    work: _Work | None = None  # the last launch or copy
    joined: _Chain | None = None  # the chain that waits for its end
    done: set[_Work] = field(default_factory=set)  # what has run when its last operation runs


@dataclass(eq=False, slots=True)
class _Work:
    """An operation of a chain, and those that it must follow."""

    op: ir.Operation
    reads: list[Origins]
    writes: list[Origins]
    needs: list[_Work] = field(default_factory=list)
    before: set[_Work] = field(default_factory=set)  # all that run before it, known when it is in a chain
    chain: _Chain | None = None

    @property
    def is_late(self) -> bool:
        """Return whether it is placed in front of what needs it: allocations, copies to the device."""
        to_device = self.op.name == _COPY and not _is_on_device(self.op.operands[2])
        return self.op.name == _ALLOC or (to_device and _is_on_device(self.op.operands[1]))


def split_chains(function: ir.Operation) -> None:
    """Split each chain of tokens in ``function``."""
    for end in matching(function, _is_end):
        works = _chain_before(end)
        if works:
            _Split(works, end).run()


def _is_end(op: ir.Operation) -> bool:
    return op.name == "gpu.wait" and not op.results and len(op.operands) == 1


def _chain_before(end: ir.Operation) -> list[_Work]:
    """Return the operations that ``end`` waits for, in order; none if they are not one plain chain."""
    found: list[_Work] = []
    op = defining_op(end.operands[0])
    while op is not None and op.block == end.block and op.name in _WORK:
        if len(list(op.results[-1].uses)) != 1 or _tokens(op) != 1 or _is_shared(op):
            return []
        found.append(_described(op))
        op = defining_op(op.operands[0])
    if op is None or op.name != "gpu.wait" or op.block != end.block or len(op.operands):
        return []
    works = found[::-1]
    for number, work in enumerate(works):
        work.needs = [other for other in works[:number] if _conflict(other, work)]
    return works


def _tokens(op: ir.Operation) -> int:
    return sum(str(value.type) == _TOKEN for value in op.operands)


def _is_shared(op: ir.Operation) -> bool:
    return op.name == _ALLOC and "hostShared" in op.attributes


def _described(op: ir.Operation) -> _Work:
    if op.name == _LAUNCH:
        written = written_arguments(op)
        memrefs = [(n, v) for n, v in enumerate(op.operands) if isinstance(v.type, ir.MemRefType)]
        reads, writes = ([v for n, v in memrefs if (n in written) == it_is] for it_is in (False, True))
    elif op.name == _COPY:
        reads, writes = [op.operands[2]], [op.operands[1]]
        if MIRROR not in op.attributes:  # its memory of the host may be that which kernels use
            reads, writes = (values + _mirrors(viewed_memory(values[0])) for values in (reads, writes))
    else:
        reads, writes = [], [op.results[0] if op.name == _ALLOC else op.operands[1]]
    return _Work(op=op, reads=[origins(v) for v in reads], writes=[origins(v) for v in writes])


def _mirrors(host: ir.Value) -> list[ir.Value]:
    """Return the memory of devices that stands for that of the host."""
    copies = [use.owner.operation for use in host.uses if use.owner.operation.name == _COPY]
    found = [value for copy in copies if MIRROR in copy.attributes for value in list(copy.operands)[1:]]
    return [value for value in dict.fromkeys(found) if _is_on_device(value) and value != host]


def _conflict(first: _Work, second: _Work) -> bool:
    pairs = ((first.writes, second.writes), (first.writes, second.reads), (first.reads, second.writes))
    return any(may_share(a, b) for left, right in pairs for a in left for b in right)


def _is_on_device(value: ir.Value) -> bool:
    op = defining_op(viewed_memory(value))
    return op is not None and op.name == _ALLOC


class _Split:
    """Places the operations of one chain in new ones."""

    def __init__(self, works: list[_Work], end: ir.Operation) -> None:
        self._works = works
        self._begin = works[0].op.operands[0]
        self._end = end
        self._chains: list[_Chain] = []

    def run(self) -> None:
        for work in self._works:
            if not work.is_late and work.op.name != _FREE:
                self._place(work)
            self._free(work)
        for work in self._works:  # what nothing before the end needs
            if work.chain is None and work.op.name != _FREE:
                self._place_last(work)
        self._free(self._works[-1], self._end)
        ends = [chain.tail for chain in self._chains if chain.joined is None]
        for work in self._works:
            if work.chain is None:  # memory that several chains have used
                work.op.operands[0] = ends[0] if len(ends) == 1 else _join(self._end, ends)
                work.op.move_before(self._end)
                ends = [_token(work.op)]
        Emitter(self._end).op("gpu.wait", ends, [])
        self._end.erase()
        self._begin.owner.operation.erase()

    def _place(self, work: _Work, at: ir.Operation | None = None) -> None:
        """Put ``work`` behind what it needs; in front of it the allocations and copies for it."""
        here = at or work.op
        late = _unplaced(work)
        copies = [one for one in late if one.op.name == _COPY]
        apart = [one for copy in copies for one in (*_unplaced(copy), copy)]
        needs = _placed((*late, work))
        if copies and needs and not _placed(apart):
            # These copies need not wait for what their user waits for.
            ahead = self._behind([], here)
            for one in dict.fromkeys(apart):
                self._append(one, ahead, here)
            late = [one for one in late if one.chain is None]
            needs.append(copies[-1])
        chain = self._behind(needs, here, is_copy=work.op.name == _COPY)
        for one in late:
            self._append(one, chain, here)
        self._append(work, chain, at)

    def _place_last(self, work: _Work) -> None:
        """Put what nothing needs behind another chain, rather than in one of its own."""
        free = [chain for chain in self._chains if chain.joined is None]
        if free and free[0].done.issuperset(_placed((work,))):
            for one in (*_unplaced(work), work):
                self._append(one, free[0], self._end)
        else:
            self._place(work, self._end)

    def _behind(self, needs: list[_Work], at: ir.Operation, *, is_copy: bool = False) -> _Chain:
        """Return the chain to continue behind ``needs``: one of theirs, or a new one in front of ``at``."""
        last = _without_implied(needs)
        if not last:
            new = _Chain(tail=Emitter(at).value("gpu.wait", [], ir.Type.parse(_TOKEN)))
        elif len(last) == 1:
            chain = _chain_of(last[0])
            copies_follow = is_copy and chain.work is not None and chain.work.op.name == _COPY
            if chain.joined is None and (chain.work == last[0] or copies_follow):
                return chain
            new = _Chain(tail=_token(last[0].op), done={last[0], *last[0].before})
        else:
            new = _Chain(tail=_join(at, [_last_token(work) for work in last]))
            for work in last:
                new.done |= {work, *work.before}
                if _chain_of(work).work == work:
                    _chain_of(work).joined = new
        self._chains.append(new)
        return new

    def _append(self, work: _Work, chain: _Chain, at: ir.Operation | None = None) -> None:
        """Make ``work`` the last one of ``chain``, and move it in front of ``at``."""
        if at is not None:
            _move(work.op, at)
        work.op.operands[0] = chain.tail
        work.chain, work.before = chain, set(chain.done)
        chain.tail = _token(work.op)
        chain.done.add(work)
        if work.op.name in (_LAUNCH, _COPY):
            chain.work = work

    def _free(self, now: _Work, end: ir.Operation | None = None) -> None:
        """Put deallocations up to ``now`` behind the one chain that is last to use the memory.

        They stay or go behind ``now``, or in front of ``end``.
        """
        at = now.op
        for work in self._works[: self._works.index(now) + 1]:
            if work.op.name != _FREE or work.chain is not None or _unplaced(work):
                continue
            last = _without_implied(work.needs)
            chain = _chain_of(last[0]) if len(last) == 1 else None
            while chain is not None and chain.joined is not None:
                chain = chain.joined
            if chain is None:
                continue
            if end is None and work is not now:
                work.op.move_after(at)
                at = work.op
            self._append(work, chain, end)


def _unplaced(work: _Work) -> list[_Work]:
    """Return what ``work`` needs and is in no chain yet, and what that needs, in order."""
    found: dict[_Work, None] = {}

    def find(one: _Work) -> None:
        for other in one.needs:
            if other.chain is None and other not in found:
                find(other)
                found[other] = None

    find(work)
    return list(found)


def _placed(works: Iterable[_Work]) -> list[_Work]:
    """Return what ``works`` need and is in a chain."""
    return [other for one in works for other in one.needs if other.chain is not None]


def _chain_of(work: _Work) -> _Chain:
    assert work.chain is not None  # noqa: S101 - it is placed
    return work.chain


def _without_implied(works: list[_Work]) -> list[_Work]:
    """Return each of ``works`` once, without those that run before another one anyway."""
    once = list(dict.fromkeys(works))
    return [one for one in once if not any(one in other.before for other in once)]


def _token(op: ir.Operation) -> ir.Value:
    return op.results[-1]


def _last_token(work: _Work) -> ir.Value:
    """Return the token to wait for: that of its chain's end, if only deallocations follow."""
    chain = _chain_of(work)
    return chain.tail if chain.work == work and chain.joined is None else _token(work.op)


def _join(at: ir.Operation, tokens: list[ir.Value]) -> ir.Value:
    return Emitter(at).value("gpu.wait", tokens, ir.Type.parse(_TOKEN))


def _move(op: ir.Operation, at: ir.Operation) -> None:
    """Move an operation, and views of its results, to ``at``."""
    op.move_before(at)
    for result in list(op.results)[:1]:
        for use in list(result.uses):
            user = use.owner.operation
            if (
                user.block == at.block
                and user != at
                and user.name not in _WORK
                and user.is_before_in_block(op)
            ):
                _move(user, at)
