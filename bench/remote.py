"""What a cluster costs: the client's time and memory per step, overhead per step, and efficiency.

``python bench/remote.py [overhead|100|1000|client|real]``: a real scheduler and our own ``DaskExecutor``.
Steps are replaced by sleeps on workers with many threads: everything but the compiler is real. ``real``
builds a project of large kernels on one worker with one job slot, then on two.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from queue import SimpleQueue

from generate import large_kernel

from gpubuild.execute.dask import DaskExecutor
from gpubuild.execute.executor import Future
from gpubuild.execute.local import LocalExecutor
from gpubuild.model.digest import digest_bytes
from gpubuild.model.job import Job, JobInput
from gpubuild.model.project import Execute
from gpubuild.model.step import OutlineParams, StepKind

PROCESSES = 4  # worker processes; their threads are the simulated workers
# Loaded into each worker: answers a job after a sleep. The result is one blob of 28 kB, as measured.
SLEEP = """
import os, time
from distributed import get_worker
from gpubuild.execute import dask_worker as dask, wire
from gpubuild.model.digest import digest_bytes
SECONDS = float(os.environ["BENCH_SECONDS"])
DATA = bytes(28_000)
def run_message(message):
    time.sleep(SECONDS)
    request = wire.unpack_request(message)
    blob = {"name": "module", "digest": digest_bytes(DATA), "size_bytes": len(DATA), "executable": False}
    result = {"step_id": request.step, "result": {"blobs": [blob], "seconds": SECONDS}}
    return get_worker().address, wire._pack({"worker": "w", "result": result, "blobs": [DATA]})
dask.run_message = run_message
"""


def _jobs(folder: Path, count: int) -> list[Job]:
    source = folder / "source"
    source.write_bytes(bytes(10_000))
    digest = digest_bytes(bytes(10_000))
    jobs = []
    for number in range(count):
        workdir = folder / str(number)
        workdir.mkdir()
        jobs.append(
            Job(
                step_id=f"step/{number}", kind=StepKind.OUTLINE, params=OutlineParams(),
                inputs=(JobInput(name="source", path=source, digest=digest),),
                output_names=("module",), tools={}, workdir=workdir,
            )
        )  # fmt: skip
    return jobs


def simulate(workers: int, seconds: float, count: int) -> dict[str, float]:
    """Run ``count`` sleeping steps on ``workers`` slots, as a build does: a full queue, kept full."""
    with tempfile.TemporaryDirectory(prefix="bench-remote-") as name:
        folder = Path(name)
        (folder / "sleep.py").write_text(SLEEP)
        file = folder / "s.json"
        environment = {**os.environ, "BENCH_SECONDS": str(seconds)}
        run = [sys.executable, "-m"]
        started = [
            subprocess.Popen(
                [*run, "distributed.cli.dask_scheduler", "--scheduler-file", str(file), "--host",
                 "127.0.0.1", "--port", "0", "--no-dashboard"], stderr=subprocess.DEVNULL,
            )
        ]  # fmt: skip
        local = LocalExecutor(1)
        try:
            processes = min(PROCESSES, workers)
            for _ in range(processes):
                started.append(
                    subprocess.Popen(
                        [*run, "gpubuild", "worker", "--scheduler-file", str(file), "--jobs",
                         str(workers // processes), "--quiet", "--", "--preload", str(folder / "sleep.py"),
                         "--host", "127.0.0.1"], env=environment, stderr=subprocess.DEVNULL,
                    )
                )  # fmt: skip
            while not file.exists():
                time.sleep(0.1)
            jobs = _jobs(folder, count)
            executor = DaskExecutor(local, Execute(scheduler_file=file, only=True), print)
            while executor.workers < 1 + 2 * workers:
                time.sleep(0.1)
            began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
            ended: SimpleQueue[Future] = SimpleQueue()
            futures: list[Future] = []
            done = 0
            for job in jobs:
                while len(futures) - done >= executor.workers:
                    ended.get()
                    done += 1
                futures.append(executor.submit(job))
                futures[-1].when_done(ended.put)
            for future in futures:
                future.result()
            wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF)
            executor.close()
        finally:
            for process in started:
                process.kill()
            for process in started:
                process.wait()
            local.close()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "wall s": wall,
        "efficiency %": 100 * count * seconds / workers / wall,
        "client CPU ms per step": 1e3 * cpu / count,
        "overhead ms per step": 1e3 * (wall - count * seconds / workers) * workers / count,
        "client memory MB": after.ru_maxrss / 1024,
        "of it for steps MB": (after.ru_maxrss - before.ru_maxrss) / 1024,
    }


def build(workers: int) -> float:
    """Return the seconds of a build of large kernels on workers with one job slot each."""
    with tempfile.TemporaryDirectory(prefix="bench-remote-") as name:
        folder = Path(name)
        names = [f"kernel{number}.mlir" for number in range(24)]
        for number, source in enumerate(names):
            text = large_kernel(8000 + 100 * number).replace("@m ", f"@m{number} ")
            (folder / source).write_text(f"module attributes {{gpu.container_module}} {{{text}}}")
        (folder / "main.c").write_text("int main(void) { return 0; }")
        sources = ", ".join([*names, "main.c"])
        (folder / "targets.yaml").write_text(
            f"version: 1\ntargets: {{sm_90: {{}}}}\nprograms: {{app: {{sources: [{sources}]}}}}\n"
        )
        file = folder / "s.json"
        run = [sys.executable, "-m"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        at_once = ["--host", "127.0.0.1"]
        started = [
            subprocess.Popen(
                [*run, "distributed.cli.dask_scheduler", "--scheduler-file", str(file), *at_once,
                 "--port", "0", "--no-dashboard"], **quiet,
            )
        ]  # fmt: skip
        try:
            for _ in range(workers):
                started.append(
                    subprocess.Popen(
                        [*run, "gpubuild", "worker", "--scheduler-file", str(file), "--jobs", "1", "--",
                         *at_once], **quiet,
                    )
                )  # fmt: skip
            time.sleep(8)
            address = json.loads(file.read_text())["address"]
            began = time.monotonic()
            subprocess.run(
                [*run, "gpubuild", "build", "-q", "--executor", f"dask:{address}", "--cache-dir", "cache"],
                cwd=folder, env={**os.environ, "GPUBUILD_EXECUTE_ONLY": "1"}, check=True,
            )  # fmt: skip
            return time.monotonic() - began
        finally:
            for process in reversed(started):
                process.terminate()
            for process in started:
                process.wait()


CASES = {
    "overhead": (1, 0.2, 50),
    "100": (100, 2.0, 1000),
    "1000": (1000, 10.0, 10_000),
    "client": (200, 0.0, 10_000),
}


if __name__ == "__main__":
    for name in sys.argv[1:] or [*CASES, "real"]:
        if name == "real":
            one, two = (build(workers) for workers in (1, 2))
            print(f"real: 1 worker {one:.1f} s, 2 workers {two:.1f} s, {one / two:.2f} times as fast")
            continue
        workers, seconds, count = CASES[name]
        found = simulate(workers, seconds, count)
        print(f"{name}: {count} steps of {seconds:g} s, {workers} workers: ", end="")
        print(", ".join(f"{key} {value:.1f}" for key, value in found.items()), flush=True)
