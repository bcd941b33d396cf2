"""Run compile steps on the workers of a Dask cluster. Only the modules ``dask*`` import Dask.

A step goes to workers whose Python and tools are the same bytes as here, small ones of a kind together.
What cannot be sent, or comes back without an answer, runs on this machine, unless the user forbids that.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gpubuild.errors import (
    GpubuildError,
    InterruptedBuildError,
    NoRoomError,
    StepError,
    StepKilledError,
)
from gpubuild.execute import wire
from gpubuild.execute.dask_cluster import NoSchedulerError, Workers, connect
from gpubuild.execute.dask_worker import run_messages
from gpubuild.execute.executor import Executor, Future
from gpubuild.execute.local_queue import LocalQueue
from gpubuild.model.job import Job, JobResult
from gpubuild.model.project import Execute
from gpubuild.model.step import Params, StepKind
from gpubuild.support.files import delete_tree
from gpubuild.support.frozen import replace
from gpubuild.support.text import counted

if TYPE_CHECKING:
    from gpubuild.cache.remote.store import RemoteStore

_PER_SLOT = 2  # messages in flight, so that a worker never waits for the network
_MESSAGE_SECONDS = 0.5  # of the steps in a message, if there are several
_MESSAGE_STEPS = 8
_SMALL_BYTES = 1 << 17  # a step with larger inputs travels alone
_WATCH_SECONDS = 1.0
_SLOW_SECONDS = 2.0  # a step that has an answer sooner is not started here, too
_UNKNOWN_SECONDS = 10.0  # assumed of steps of a kind of which none has ended
_RESULT_SECONDS = 30.0
_CLOSE_SECONDS = 2.0
_NO_WORKER = "no worker with the same tools is left"


class _Message:
    """Steps that travel together, with their keys, and Dask's future."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, _Sent]] = []
        self.remote: Any = None
        self.wanted = 0  # steps whose answer is still of use


class _Sent:
    """A step for the cluster: its job, our future, and the message it travels in."""

    def __init__(self, job: Job, rank: int) -> None:
        self.job = job
        self.rank = rank
        self.future = Future()
        self.key = ""  # another one each time it is sent
        self.message: _Message | None = None
        self.workers: Set[str] = frozenset()  # the addresses that could run it when it was sent
        self.refused: set[str] = set()  # the addresses that did not, or could not finish it
        self.input_bytes = 0
        self.submitted_at = time.monotonic()
        self.sent_at = 0.0
        self.stranded_since = 0.0  # no worker can run it
        self.is_started_here = False


class DaskExecutor:
    """An ``Executor`` in front of ``local``, which runs what cannot be sent.

    ``local`` has forked its processes already: Dask starts threads. Raises ``UsageError`` when Dask is not
    installed, the address is not allowed, or no scheduler answers and ``execute.fallback`` is off.
    Large files go through ``cache`` to workers that use the same one.
    """

    def __init__(
        self,
        local: Executor,
        execute: Execute,
        warn: Callable[[str], None],
        cache: RemoteStore | None = None,
    ) -> None:
        self._local = LocalQueue(local)
        self._execute = execute
        self._warn = warn
        self._cache = cache  # for large files
        self._lock = threading.Lock()
        self._open: dict[str, _Sent] = {}  # steps without an answer, by key
        self._waiting: dict[str, _Sent] = {}  # those of them that are not sent yet
        self._messages: set[_Message] = set()  # without an answer
        self._most_steps = 1  # of steps so far, how many of the smallest kind fit in a message
        self._seconds: dict[StepKind, tuple[float, int]] = {}  # of ended steps: sum and number
        self._here: Counter[str] = Counter()  # why steps ran here
        self._has_reported_waiting = False  # for the first worker
        self._has_waited_for_workers = False  # later steps do not wait again
        self._heard_at = time.monotonic()  # when the last answer came
        self._can_send = threading.Event()  # there may be steps to send, or room for them
        self._ended = threading.Event()
        self._client = self._connect()
        self._workers = Workers(self._client, cache.url if cache else "", self._note_workers)
        if self._client is not None:
            # Three: a scheduler or worker that is stopped must not stop the clock.
            for loop in (self._workers.follow, self._send_waiting, self._watch):
                threading.Thread(target=loop, name="gpubuild-dask", daemon=True).start()

    @property
    def workers(self) -> int:
        """See ``Executor``. Changes when workers come and go."""
        return self._local.workers + self._room * self._most_steps

    @property
    def _room(self) -> int:
        """How many messages may be under way at once."""
        room = _PER_SLOT * self._workers.slots
        return min(room, self._execute.jobs or room)

    def submit(self, job: Job, rank: int = 0) -> Future:
        """See ``Executor``."""
        sent = _Sent(job, rank)
        reason = ""
        if wire.travels(job):
            sent.future.when_done(partial(self._note_seconds, job.kind))
            if self._client is None:
                reason = "the scheduler cannot be reached"
            elif not (reason := wire.why_local(job)):
                workers = self._workers
                is_full = _PER_SLOT * len(self._open) >= self._room
                if self._has_waited_for_workers:
                    reason = _NO_WORKER
                elif workers.threads and workers.are_known and not workers.able(job):
                    reason = "no worker has the same tools"
                elif self._execute.only or not is_full or not self._local.is_idle:
                    sent.input_bytes = wire.input_bytes(job)
                    self._send(sent)
                    return sent.future
        self._run_here(sent, reason)
        return sent.future

    def expect(self, params: Iterable[Params]) -> None:
        """See ``Executor``."""
        if self._client is None:
            self._local.executor.expect(params)

    def finish(self) -> None:
        """See ``Executor``."""
        self._local.executor.finish()

    def cancel(self) -> None:
        """See ``Executor``."""
        self._end()
        self._local.executor.cancel()

    def close(self) -> None:
        """See ``Executor``. Reports why steps ran on this machine."""
        self._end()
        for reason, count in self._here.items():
            self._warn(f"{counted(count, 'step')} ran on this machine: {reason}")
        self._here.clear()
        self._local.executor.close()

    def _connect(self) -> Any:  # noqa: ANN401 - Dask's client, or None
        try:
            return connect(self._execute)
        except NoSchedulerError as error:
            if not self._execute.fallback:
                raise error.with_(hint="start it, or leave --no-fallback out") from error
            self._warn(f"{error.message}; all steps run on this machine")
            return None

    # --- steps on workers ------------------------------------------------------------------------------

    def _note_workers(self) -> None:
        """Send steps again whose workers are all gone, and those that wait."""
        workers = self._workers
        with self._lock:
            if workers.threads:
                self._has_waited_for_workers = False
            stranded = [
                sent
                for sent in self._open.values()
                if sent.workers and sent.workers.isdisjoint(workers.threads) and workers.able(sent.job)
            ]
        for sent in stranded:
            if self._take(sent.key):
                self._send(sent)
        self._can_send.set()

    def _send(self, sent: _Sent) -> None:
        """Send a step as soon as a worker can run it and there is room."""
        self._cancel(sent)
        with self._lock:
            sent.key = uuid.uuid4().hex
            sent.workers = frozenset()
            has_ended = self._ended.is_set()
            if not has_ended:
                self._open[sent.key] = self._waiting[sent.key] = sent
        if has_ended:
            sent.future.set_exception(InterruptedBuildError("the step was stopped"))
        self._can_send.set()

    def _send_waiting(self) -> None:
        while not self._ended.is_set():
            self._can_send.wait()
            self._can_send.clear()
            for message in self._next_messages():
                if message.steps[0][1].input_bytes <= wire.LARGE_BYTES:
                    self._submit(message)
                else:  # smaller ones do not wait for it
                    threading.Thread(
                        target=self._submit, args=(message,), name="gpubuild-send", daemon=True
                    ).start()

    def _next_messages(self) -> list[_Message]:
        """Put waiting steps into messages while there is room, those with the longest way first."""
        made: list[_Message] = []
        last: dict[tuple[StepKind, Set[str]], _Message] = {}  # has room for a small step
        with self._lock:
            free = self._room - len(self._messages)
            if free <= 0:
                return []
            share = -(-len(self._waiting) // free)  # no worker idles while others have several steps
            for sent in sorted(self._waiting.values(), key=lambda sent: -sent.rank):
                able = self._workers.able(sent.job)
                able = able - sent.refused if sent.refused else able
                if not able:
                    continue
                kind = (sent.job.kind, able)
                message = last.get(kind) if sent.input_bytes <= _SMALL_BYTES else None
                if message is None:
                    if len(made) == free:
                        continue
                    message = _Message()
                    made.append(message)
                    if sent.input_bytes <= _SMALL_BYTES:
                        last[kind] = message
                message.steps.append((sent.key, sent))
                message.wanted += 1
                if len(message.steps) >= min(share, self._steps_per_message(sent.job.kind)):
                    last.pop(kind, None)
                del self._waiting[sent.key]
                sent.message, sent.workers, sent.sent_at = message, able, time.monotonic()
            self._messages.update(made)
        return made

    def _steps_per_message(self, kind: StepKind) -> int:
        """Return how many small steps of a kind fit in a message, by the time that they took so far."""
        seconds, count = self._seconds.get(kind, (_UNKNOWN_SECONDS, 1))
        return max(1, min(_MESSAGE_STEPS, int(_MESSAGE_SECONDS * count / (seconds or 1e-9))))

    def _shared_cache(self, sent: _Sent) -> RemoteStore | None:
        """Return the cache for the large files of a step: not the second time, which may be its fault."""
        cache = self._cache
        if cache is None or sent.refused or not (cache.readable and cache.writable):
            return None
        return cache if sent.workers <= self._workers.sharing else None

    def _submit(self, message: _Message) -> None:
        """Give a message to Dask."""
        packed = []
        for key, sent in list(message.steps):
            try:
                packed.append(wire.pack_job(sent.job, self._shared_cache(sent)))
            except (GpubuildError, OSError) as error:
                message.steps.remove((key, sent))
                if self._take(key):
                    self._cancel(sent)
                    sent.future.set_exception(error)
        if not message.steps:
            return
        able = message.steps[0][1].workers
        is_everywhere = self._workers.are_all(able)
        try:
            message.remote = remote = self._client.submit(
                run_messages,
                packed,
                key=f"gpubuild-{uuid.uuid4().hex}",
                workers=None if is_everywhere else list(able),  # a thousand addresses per step cost time
                priority=max(sent.rank for _, sent in message.steps),
                pure=False,
            )
        except Exception as error:
            self._drop(message)
            for key, sent in message.steps:
                if self._take(key):
                    self._run_here(sent, f"the scheduler cannot be reached ({type(error).__name__})")
            return
        remote.add_done_callback(lambda done: self._settle(message, done))
        if not message.wanted:  # since it was packed
            _quietly(remote.cancel)

    def _take(self, key: str) -> _Sent | None:
        """Return a step to the one caller that completes it."""
        with self._lock:
            self._waiting.pop(key, None)
            return self._open.pop(key, None)

    def _drop(self, message: _Message) -> None:
        """Make room for another message."""
        with self._lock:
            self._messages.discard(message)
        self._can_send.set()

    def _settle(self, message: _Message, remote: Any) -> None:  # noqa: ANN401 - a future of Dask
        """Complete our futures. Runs in a thread of Dask's."""
        self._heard_at = time.monotonic()
        self._drop(message)
        with self._lock:
            if not any(key in self._open for key, _ in message.steps):
                return
        answers = self._fetch(remote, len(message.steps))
        message.remote = None  # its callback refers to the message
        later = 0.0  # seconds of the steps that ran after this one
        for (key, sent), (worker, answer) in reversed(list(zip(message.steps, answers, strict=True))):
            # Until here it can be sent again, for the worker may end before its answer is here.
            if self._take(key):
                sent.message = None
                found = answer if isinstance(answer, str) else self._unpack(answer, sent.job)
                if isinstance(found, JobResult):
                    self._accept(sent, replace(found, waited_seconds=later))
                    later += sum(stage.seconds for stage in found.stages)
                else:
                    self._run_again(sent, worker, found)

    def _run_again(self, sent: _Sent, worker: str, answer: GpubuildError | str) -> None:
        """Run a step elsewhere, unless its error is its own."""
        reason = answer if isinstance(answer, str) else f"a worker failed: {answer.message}"
        if isinstance(answer, GpubuildError) and not _may_be_the_machine(answer):
            sent.future.set_exception(answer)
            return
        with self._lock:
            sent.refused |= {worker} if worker else set()
        # Workers that have not listed their tools yet may have them.
        is_possible = bool(self._workers.able(sent.job) - sent.refused) or not self._workers.are_known
        if worker and is_possible and len(sent.refused) <= self._execute.retries:
            _empty(sent.job.workdir)
            self._send(sent)
        else:
            self._run_here(sent, reason, alone=isinstance(answer, StepKilledError))

    def _fetch(self, remote: Any, count: int) -> Sequence[tuple[str, bytes | str]]:  # noqa: ANN401 - Dask's
        """Return the address of the worker and its answer to each of ``count`` steps.

        Where there is none, return a text with the reason.
        """
        try:
            if remote.status == "error":
                reason = f"a worker was lost ({type(remote.exception(timeout=_RESULT_SECONDS)).__name__})"
            elif remote.status != "finished":
                reason = "the scheduler was lost"
            else:
                found = cast(Sequence[tuple[str, bytes]], remote.result(timeout=_RESULT_SECONDS))
                answers = [(str(worker), message) for worker, message in found]
                if len(answers) == count:
                    return answers
                reason = f"a worker answered {len(answers)} of {count} steps"
        except Exception as error:
            reason = f"a worker's answer was lost ({type(error).__name__})"
        return [("", reason)] * count

    def _unpack(self, message: bytes, job: Job) -> JobResult | GpubuildError | str:
        try:
            return wire.unpack_answer(message, job, self._cache)
        except wire.WireError as error:
            return f"a worker's answer was refused: {error}"
        except Exception as error:
            return f"a worker's answer was lost ({type(error).__name__})"

    def _accept(self, sent: _Sent, answer: JobResult) -> None:
        if random.random() < self._execute.verify:  # noqa: S311
            self._verify(sent, answer)
        else:
            sent.future.set_result(answer)

    def _verify(self, sent: _Sent, answer: JobResult) -> None:
        """Make the result of a worker here, too, and compare."""

        def compare(done: Future, _: Path) -> JobResult:
            error = done.exception()
            differing = [] if error else _differing(answer, done.result())
            if error is None and not differing:
                return answer
            raise StepError(
                f"worker {answer.worker} made other bytes than this machine: "
                f"{', '.join(differing) or str(error)}",
                hint="do not use this worker, and delete what it stored in shared caches: `gpubuild "
                "cache clear`; its memory or processor may be damaged",
            )

        try:
            self._run_twice(sent, compare)
        except OSError as error:
            sent.future.set_exception(_not_here(error))

    # --- steps on this machine -------------------------------------------------------------------------

    def _run_here(self, sent: _Sent, reason: str, *, alone: bool = False) -> None:
        """Run a step here, for a ``reason`` if a worker should have run it."""
        if reason and not self._execute.fallback:
            sent.future.set_exception(
                StepError(
                    f"no worker ran the step: {reason}",
                    hint="leave --no-fallback out to run such steps on this machine",
                )
            )
            return
        if reason:
            with self._lock:
                self._here[reason] += 1
            _empty(sent.job.workdir)
        self._local.run(sent.job, sent.future, alone=alone)

    def _watch(self) -> None:
        """Take back steps that no worker can run any more, or that have no answer."""
        while not self._ended.wait(_WATCH_SECONDS):
            now = time.monotonic()
            with self._lock:
                steps, has_workers = list(self._open.values()), bool(self._workers.threads)
                able = {sent.key for sent in steps if self._workers.able(sent.job) - sent.refused}
            if steps and not has_workers and not self._has_reported_waiting:
                self._has_reported_waiting = True
                self._warn(f"{self._execute.shown} has no workers yet: waiting")
            for sent in steps:
                sent.stranded_since = 0.0 if sent.key in able else sent.stranded_since or now
                if sent.stranded_since and now - sent.stranded_since >= self._execute.no_worker_seconds:
                    self._has_waited_for_workers = not has_workers
                    self._take_back(sent, _NO_WORKER)
                elif sent.message is not None and now - sent.sent_at >= self._execute.step_seconds:
                    if now - self._heard_at >= self._execute.step_seconds:
                        # No step had an answer for so long, as if the scheduler was stopped.
                        self._workers.forget()
                        self._has_waited_for_workers = True
                    self._take_back(sent, f"no answer after {self._execute.step_seconds:g} s")
            if self._local.is_idle and not self._execute.only:
                self._start_slowest(steps, now)

    def _take_back(self, sent: _Sent, reason: str) -> None:
        if self._take(sent.key):
            self._cancel(sent)
            self._run_here(sent, reason)

    def _start_slowest(self, steps: Iterable[_Sent], now: float) -> None:
        """Start the step with the longest path to the end here, too, if a worker takes too long for it."""
        late = [
            sent
            for sent in steps
            if not sent.is_started_here and now - sent.submitted_at > self._usual_seconds(sent.job.kind)
        ]
        if not late:
            return
        sent = max(late, key=lambda one: one.rank)
        sent.is_started_here = True

        def use(done: Future, folder: Path) -> JobResult | None:
            if done.exception() is not None or not self._take(sent.key):
                return None
            self._cancel(sent)
            _empty(sent.job.workdir)
            (folder / "out").rename(sent.job.workdir / "out")
            with self._lock:
                self._here["the workers took longer"] += 1
            return done.result()

        with suppress(OSError):  # the workers' result will do
            self._run_twice(sent, use)

    def _run_twice(self, sent: _Sent, use: Callable[[Future, Path], JobResult | None]) -> None:
        """Run a step that a worker has, too, in another folder; what ``use`` returns or raises is its end.

        Raises ``OSError`` where there can be no folder.
        """
        # The caller uses the step's own folder again when a worker is first.
        folder = sent.job.workdir.with_name(f"{sent.job.workdir.name}-{uuid.uuid4().hex}")
        folder.mkdir()

        def settle(done: Future) -> None:
            try:
                result = use(done, folder)
            except (OSError, StepError) as error:
                sent.future.set_exception(_not_here(error) if isinstance(error, OSError) else error)
                return
            finally:
                delete_tree(folder)
            if result is not None:
                sent.future.set_result(result)

        self._local.run(replace(sent.job, workdir=folder)).when_done(settle)

    def _note_seconds(self, kind: StepKind, done: Future) -> None:
        if done.exception() is None:
            with self._lock:
                seconds, count = self._seconds.get(kind, (0.0, 0))
                self._seconds[kind] = (seconds + done.result().result.seconds, count + 1)
                self._most_steps = max(map(self._steps_per_message, self._seconds))

    def _usual_seconds(self, kind: StepKind) -> float:
        """Return how long steps of this kind took so far."""
        with self._lock:
            seconds, count = self._seconds.get(kind, (_UNKNOWN_SECONDS, 1))
        return max(seconds / count, _SLOW_SECONDS)

    def _cancel(self, sent: _Sent) -> threading.Thread | None:
        """Cancel the message of a step, if it has no other.

        In a thread: a stopped scheduler never answers.
        """
        with self._lock:
            message, sent.message = sent.message, None
            if message is None:
                return None
            message.wanted -= 1
            if message.wanted:
                return None
        self._drop(message)
        if message.remote is None:
            return None
        thread = threading.Thread(
            target=_quietly, args=(message.remote.cancel,), name="gpubuild-cancel", daemon=True
        )
        thread.start()
        return thread

    def _end(self) -> None:
        if self._ended.is_set():
            return
        self._ended.set()
        self._workers.end()
        self._can_send.set()
        self._local.end()
        with self._lock:
            left, self._open, self._waiting = list(self._open.values()), {}, {}
        threads = [self._cancel(sent) for sent in left]
        for sent in left:
            sent.future.set_exception(InterruptedBuildError("the step was stopped"))
        end = time.monotonic() + _CLOSE_SECONDS
        for thread in filter(None, threads):
            thread.join(max(0.0, end - time.monotonic()))
        if self._client is not None:
            with suppress(Exception):
                self._client.close(timeout=_CLOSE_SECONDS)


def _quietly(call: Callable[[], object]) -> None:
    with suppress(Exception):
        call()


def _not_here(error: OSError) -> StepError:
    """Return the error for a step that ``error`` keeps from being made, or used, on this machine."""
    return NoRoomError(f"cannot write {error.filename2 or error.filename}: {error.strerror}")


def _may_be_the_machine(error: GpubuildError) -> bool:
    """Whether a step may have failed because of the worker: for memory, room or a signal."""
    return isinstance(error, StepKilledError | NoRoomError)


def _differing(one: JobResult, other: JobResult) -> list[str]:
    first, second = ({blob.name: blob.digest for blob in done.result.blobs} for done in (one, other))
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


def _empty(folder: Path) -> None:
    for entry in list(folder.iterdir()):
        delete_tree(entry)
