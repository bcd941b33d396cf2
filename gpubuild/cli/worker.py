"""``gpubuild worker``: start a Dask worker that runs compile steps, in place of this process."""

from __future__ import annotations

import argparse
import math
import os
import platform
import sys
from importlib.util import find_spec

from gpubuild import environment
from gpubuild.cli.cache import parse_size
from gpubuild.errors import UsageError
from gpubuild.model.project import Execute
from gpubuild.support.text import counted


def execute(options: argparse.Namespace) -> int:
    """Run the command. Does not return: Dask's own command handles Ctrl-C and SIGTERM, and ends cleanly."""
    from gpubuild.execute import dask_cluster, dask_worker

    if bool(options.address) == bool(options.scheduler_file):
        raise UsageError("name either the ADDRESS of a scheduler or its --scheduler-file")
    if find_spec("distributed") is None:
        raise UsageError("Dask is not installed here", hint=dask_cluster.INSTALL)
    scheduler = Execute(
        dask=options.address or "",
        scheduler_file=options.scheduler_file,
        insecure=options.insecure_remote,
        connect_seconds=math.inf,  # its job may start later than this one
    )
    where = [dask_cluster.scheduler_address(scheduler)]
    memory = parse_size(options.memory) if options.memory else 0
    threads = options.jobs or options.settings.jobs
    threads = threads or dask_worker.default_threads(len(os.sched_getaffinity(0)), memory)
    name = options.name or f"{platform.node()}-{os.getpid()}"
    command = dask_worker.worker_command(where, name, threads, options.program_arguments)
    if not options.quiet:
        options.console.note(f"worker {name}: {counted(threads, 'step')} at once")
    os.execve(sys.executable, command, {**dask_worker.ENVIRONMENT, **environment.whole()})  # noqa: S606 - our own interpreter
