"""Stand-ins for the layers below the build: an executor and stores with given behaviour."""

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from gpubuild.cache.store import Store
from gpubuild.execute.executor import Future
from gpubuild.model.digest import Digest, digest_bytes
from gpubuild.model.job import Job, JobResult
from gpubuild.model.step import ActionResult, Blob, Params


def finish_job(job: Job, outputs: Mapping[str, bytes]) -> JobResult:
    """Write ``outputs`` where a worker would and describe them as a worker would."""
    out = job.workdir / "out"
    out.mkdir(parents=True, exist_ok=True)
    blobs = []
    for name, data in sorted(outputs.items()):
        (out / name).write_bytes(data)
        blobs.append(
            Blob(
                name=name,
                digest=digest_bytes(data),
                size_bytes=len(data),
                executable=name in job.executable_outputs,
            )
        )
    return JobResult(step_id=job.step_id, result=ActionResult(blobs=tuple(blobs)))


class FakeExecutor:
    """Runs ``run(job)`` at once, in the calling thread. ``jobs`` are those submitted so far."""

    def __init__(self, run: Callable[[Job], JobResult], workers: int = 1) -> None:
        self._run = run
        self._workers = workers
        self.jobs: list[Job] = []
        self.cancelled = False
        self.closed = False

    @property
    def workers(self) -> int:
        return self._workers

    def submit(self, job: Job, rank: int = 0) -> Future:
        assert not self.closed, "submit after close"
        self.jobs.append(job)
        future = Future()
        try:
            future.set_result(self._run(job))
        except BaseException as error:
            future.set_exception(error)
        return future

    def expect(self, params: Iterable[Params]) -> None:
        pass

    def finish(self) -> None:
        pass

    def cancel(self) -> None:
        self.cancelled = True

    def close(self) -> None:
        self.closed = True


class MemoryStore(Store):
    """A store in two dictionaries, open to a test's meddling."""

    def __init__(self) -> None:
        self.records: dict[Digest, ActionResult] = {}
        self.blobs: dict[Digest, bytes] = {}
        self._warnings: list[str] = []

    def lookup(self, key: Digest) -> ActionResult | None:
        result = self.records.get(key)
        if result is None or any(blob.digest not in self.blobs for blob in result.blobs):
            return None
        return result

    def fetch(self, blob: Blob, destination: Path) -> bool:
        data = self.blobs.get(blob.digest)
        if data is None or digest_bytes(data) != blob.digest:
            self.blobs.pop(blob.digest, None)
            return False
        destination.parent.mkdir(parents=True, exist_ok=True)
        temporary = destination.with_name(f".{destination.name}.tmp")
        temporary.write_bytes(data)
        temporary.chmod(0o755 if blob.executable else 0o644)
        temporary.replace(destination)
        return True

    def publish(self, key: Digest, result: ActionResult, files: Mapping[str, Path]) -> bool:
        found = {blob.digest: files[blob.name].read_bytes() for blob in result.blobs}
        if any(digest_bytes(data) != digest for digest, data in found.items()):
            return False
        self.blobs.update(found)
        self.records[key] = result
        return True

    @property
    def identity(self) -> str:
        return "memory"

    def discard(self, key: Digest) -> None:
        self.records.pop(key, None)

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)


class FaultyStore(MemoryStore):
    """``inner``, with the methods named in ``broken`` failing as the interface lets them fail."""

    def __init__(self, inner: MemoryStore, broken: Collection[str]) -> None:
        super().__init__()
        unknown = set(broken) - {"lookup", "fetch", "publish"}
        assert not unknown, f"cannot break {unknown}"
        self.records, self.blobs = inner.records, inner.blobs
        self.broken = set(broken)

    def _fails(self, method: str) -> bool:
        message = f"the cache failed on purpose: {method}"
        if method in self.broken and message not in self._warnings:
            self._warnings.append(message)
        return method in self.broken

    def lookup(self, key: Digest) -> ActionResult | None:
        return None if self._fails("lookup") else super().lookup(key)

    def fetch(self, blob: Blob, destination: Path) -> bool:
        return not self._fails("fetch") and super().fetch(blob, destination)

    def publish(self, key: Digest, result: ActionResult, files: Mapping[str, Path]) -> bool:
        return not self._fails("publish") and super().publish(key, result, files)

    def keep(self, key: Digest, result: ActionResult, files: Mapping[str, Path]) -> bool:
        return not self._fails("publish") and super().keep(key, result, files)
