"""Connect to the scheduler of a Dask cluster, follow which workers it has, and query them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Set
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpubuild.errors import UsageError
from gpubuild.execute import wire
from gpubuild.execute.agent import identity
from gpubuild.model.job import Job
from gpubuild.model.project import Execute
from gpubuild.support.frozen import frozen

INSTALL = 'install it: pip install "distributed>=2026.8"'
_ROUND_TRIPS = 3
_START = "start one: dask scheduler --scheduler-file FILE"
_LOOK_SECONDS = 0.05
_FOLLOW_SECONDS = 1.0
_FIRST_SECONDS = 0.1  # the same until a worker is known


class NoSchedulerError(UsageError):
    """No scheduler answered."""


@frozen
class RemoteWorker:
    """A worker, with the identity that ``execute.agent`` reports; without an answer it has a ``problem``."""

    name: str
    address: str
    threads: int
    identity: Mapping[str, str]
    seconds: float  # one round trip
    problem: str = ""


def scheduler_address(execute: Execute) -> str:
    """Return the address of the scheduler, from its file where one is named. Waits for that file.

    Raises ``UsageError`` where the address is not allowed, ``NoSchedulerError`` without a file.
    """
    address = execute.dask
    if execute.scheduler_file is not None:
        address = _address_in(execute.scheduler_file, execute.connect_seconds)
    check_address(address, insecure=execute.insecure)
    return address


def check_address(address: str, *, insecure: bool) -> None:
    """Raise ``UsageError`` for an address that would send steps unprotected over a network.

    Nor may it contain a user name or a password: Dask has none, and addresses are shown in messages.
    """
    scheme, _, rest = address.partition("://")
    host = rest.rpartition(":")[0].strip("[]")
    if "@" in address:
        raise UsageError(
            "the address of a Dask scheduler contains a user name or a password: Dask has neither",
            hint="write tls://HOST:PORT; certificates in Dask's configuration say who may connect",
        )
    if scheme not in ("tcp", "tls", "unix", "inproc"):
        raise UsageError(f"{address!r} is no address of a Dask scheduler", hint="write tls://HOST:PORT")
    if scheme != "tcp" or host in ("127.0.0.1", "::1", "localhost") or insecure:
        return
    raise UsageError(
        f"{address} is not encrypted: readers of the network see the sources, and writers run code",
        hint="use tls:// with certificates in Dask's configuration, or allow it with --insecure-remote",
    )


def _address_in(file: Path, seconds: float) -> str:
    end = time.monotonic() + seconds
    while True:
        try:
            return str(json.loads(file.read_text(encoding="utf-8"))["address"])
        except (OSError, ValueError, TypeError, KeyError) as error:  # it is not there yet, or half written
            if time.monotonic() >= end:
                raise NoSchedulerError(f"no scheduler wrote {file}: {error}", hint=_START) from error
        time.sleep(_LOOK_SECONDS)


def connect(execute: Execute) -> Any:  # noqa: ANN401 - Dask's client, which has no types
    """Return a client of the scheduler.

    Raises ``UsageError`` without Dask, certificates or an answer, or where the address is not allowed.
    """
    try:
        import dask
        import distributed
    except ImportError as error:
        raise UsageError("Dask is not installed here", hint=INSTALL) from error
    # Its advice about large arguments is for analysts. wire.MOST_BYTES limits ours.
    dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 GiB"})
    where: dict[str, Any] = {"address": scheduler_address(execute), "timeout": execute.connect_seconds}
    where |= {"name": "gpubuild", "set_as_default": False}
    make: Any = distributed.Client
    try:
        return _in_time(lambda: make(**where), 2 * execute.connect_seconds)
    except (OSError, TimeoutError, ValueError) as error:
        raise NoSchedulerError(
            f"no Dask scheduler answers at {execute.shown}: {error or type(error).__name__}",
            hint=_START,
        ) from error
    except TypeError as error:  # of tls:// without an ssl_context
        raise UsageError(
            f"{execute.shown} needs certificates, and Dask's configuration names none",
            hint="set DASK_DISTRIBUTED__COMM__TLS__CA_FILE and the others of docs/how-to/cluster.md",
        ) from error


def _in_time(make: Callable[[], Any], seconds: float) -> Any:  # noqa: ANN401
    """Return what ``make`` returns. Raises its error, or ``TimeoutError``.

    Dask's client waits without an end if the scheduler stops while it connects.
    """
    made: Future[Any] = Future()

    def run() -> None:
        try:
            made.set_result(make())
        except Exception as error:
            made.set_exception(error)

    threading.Thread(target=run, name="gpubuild-connect", daemon=True).start()
    return made.result(seconds)


class Workers:
    """The workers of a cluster, and which of them can run a job. Thread-safe.

    A worker can run a job if its Python and tools are the same bytes as here. ``changed`` is called when
    more jobs may be able to run.
    """

    def __init__(self, client: Any, cache: str, changed: Callable[[], None]) -> None:  # noqa: ANN401 - Dask's
        self._client = client
        self._cache = cache  # the address of our cache for large files; empty: none
        self._changed = changed
        self._lock = threading.Lock()
        self._listed: Mapping[str, int] = {}  # threads of all workers, by address
        self._identities: dict[str, Mapping[str, str] | None] = {}  # None: asked for
        self._able: dict[frozenset[tuple[str, str]], frozenset[str]] = {}  # by needed tools
        self.threads: Mapping[str, int] = {}  # of workers with our Python and wire form, by address
        self.slots = 0  # threads of all these
        self.sharing: Set[str] = frozenset()  # addresses of workers with our cache
        self._answered = threading.Event()  # a worker listed its tools
        self._ended = threading.Event()

    @property
    def are_known(self) -> bool:
        """Whether every worker has listed its tools."""
        return None not in self._identities.values()

    def able(self, job: Job) -> frozenset[str]:
        """Return the addresses of the workers with the tools of a job."""
        wanted = frozenset(job.fingerprints.items())
        with self._lock:
            if wanted not in self._able:
                self._able[wanted] = frozenset(
                    address for address in self.threads if wanted <= (self._identities[address] or {}).items()
                )
            return self._able[wanted]

    def are_all(self, addresses: Set[str]) -> bool:
        """Whether the cluster has no other workers."""
        return len(addresses) == len(self._identities)

    def forget(self) -> None:
        """Ask all workers again."""
        with self._lock:
            self._identities = {}
            self._refresh()

    def follow(self) -> None:
        """Follow which workers there are, until :meth:`end`. Runs in a thread."""
        import asyncio  # Dask has loaded it

        while not self._ended.is_set():
            try:
                if self._client.status not in ("running", "connecting"):
                    raise OSError
                known = self._client.nthreads()  # scheduler_info has 1 kB for each worker
            except Exception:
                known = {}
            with self._lock:
                self._answered.clear()
                self._listed = known
                new = known.keys() - self._identities.keys()
                if known.keys() != self._identities.keys():
                    self._identities = {address: self._identities.get(address) for address in known}
                    self._refresh()
            for address in new:
                asyncio.run_coroutine_threadsafe(self._ask(address), self._client.loop.asyncio_loop)
            self._changed()
            self._answered.wait(_FOLLOW_SECONDS if self.threads else _FIRST_SECONDS)

    def end(self) -> None:
        """Follow no longer."""
        self._ended.set()
        self._answered.set()

    async def _ask(self, address: str) -> None:
        """Ask a new worker for its tools. Runs in the loop of Dask's client."""
        found: dict[str, Mapping[str, str]] = {}
        with suppress(Exception):  # a worker that is gone again
            found = await self._client.run(identity, workers=[address], on_error="ignore")
        with self._lock:
            if address in self._identities:
                self._identities[address] = found.get(address, {})
                self._refresh()  # at once: a step that another worker refuses meanwhile can run there
        self._answered.set()
        self._changed()

    def _refresh(self) -> None:
        """Note what follows from the identities. The lock is held."""
        ours = {"python": wire.python_tag(), "wire": str(wire.VERSION)}.items()
        answers = {address: found for address, found in self._identities.items() if found}
        self.threads = {a: self._listed[a] for a, found in answers.items() if ours <= found.items()}
        self.slots = sum(self.threads.values())
        self.sharing = {a for a, found in answers.items() if found.get("cache") == self._cache}
        self._able.clear()


def query(execute: Execute) -> tuple[float, list[RemoteWorker]]:
    """Return the round trip time of the scheduler and its workers, by name.

    Raises ``UsageError`` as :func:`connect`.
    """
    client = connect(execute)
    try:
        seconds = _fastest(lambda: client.run_on_scheduler(int))
        known = client.scheduler_info(n_workers=-1)["workers"]
        return seconds, _ask_all(client, known, execute.connect_seconds)
    finally:
        with suppress(Exception):
            client.close(timeout=2)


def _ask_all(client: Any, known: Mapping[str, Any], patience: float) -> list[RemoteWorker]:  # noqa: ANN401
    """Ask all workers at once. One that does not answer in time is reported so."""
    answers: dict[str, tuple[float, Any]] = {}

    def ask(address: str) -> None:
        try:
            found = client.run(identity, workers=[address], on_error="return")[address]
            answers[address] = (_fastest(lambda: client.run(int, workers=[address])), found)
        except Exception as error:
            answers[address] = (0.0, error)

    threads = [threading.Thread(target=ask, args=(address,), daemon=True) for address in known]
    for thread in threads:
        thread.start()
    end = time.monotonic() + patience
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    rows = []
    for address, about in known.items():
        silent = TimeoutError(f"no answer after {patience:g} s")
        seconds, found = answers.get(address, (0.0, silent))
        is_known = isinstance(found, dict)
        rows.append(
            RemoteWorker(
                name=str(about.get("name", address)),
                address=address,
                threads=int(about["nthreads"]),
                identity=found if is_known else {},
                seconds=seconds,
                problem="" if is_known else str(found) or type(found).__name__,
            )
        )
    return sorted(rows, key=lambda row: row.name)


def _fastest(call: Callable[[], object]) -> float:
    """Return the time of the fastest of some calls."""
    times = []
    for _ in range(_ROUND_TRIPS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)
