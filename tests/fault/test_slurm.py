"""A build on real SLURM through dask-jobqueue: two nodes on this machine, one cancelled in mid-build."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from fault.dask_builds import begin, ends_well, make_project, project_file
from fault.dask_cluster import PATIENCE, wait_until

if missing := [name for name in ("distributed", "dask_jobqueue") if find_spec(name) is None]:
    pytest.skip(f"{' and '.join(missing)} not installed", allow_module_level=True)
PROGRAMS = ("munged", "mungekey", "slurmctld", "slurmd", "sbatch", "scancel")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
if missing := [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]:
    pytest.skip(f"SLURM is not installed: no {', '.join(missing)}", allow_module_level=True)
if os.geteuid() != 0:
    pytest.skip("only root starts slurmd", allow_module_level=True)

CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={ports[0]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=2
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 RealMemory=1000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 RealMemory=1000
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""
# Its own process: Dask changes how exceptions are pickled.
CLUSTER = """\
import sys, dask_jobqueue
cluster = dask_jobqueue.SLURMCluster(
    cores=1, processes=1, memory="500MB", python=sys.argv[1], log_directory=sys.argv[2],
    scheduler_options={"host": "127.0.0.1", "dashboard": False},
    worker_extra_args=[
        "--host", "127.0.0.1", "--preload", "gpubuild.execute.dask_worker", "--memory-limit", "0"
    ],
)
cluster.scale(jobs=2)
print(cluster.scheduler_address, flush=True)
sys.stdin.read()
cluster.close()
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which commands of SLURM find two nodes."""
    folder = tmp_path_factory.mktemp("slurm")
    folder.chmod(0o755)
    ports = []
    for _ in range(3):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            ports.append(one.getsockname()[1])
    (folder / "state").mkdir()
    conf = folder / "slurm.conf"
    conf.write_text(CONF.format(host=socket.gethostname().split(".")[0], folder=folder, ports=ports))
    variables = {**os.environ, "PATH": _PATH, "SLURM_CONF": str(conf)}
    started: list[subprocess.Popen[bytes]] = []

    def start(*command: str) -> None:
        with (folder / "log").open("ab") as log:
            started.append(subprocess.Popen(command, env=variables, stdout=log, stderr=log, cwd=folder))

    key = str(folder / "munge.key")
    subprocess.run(["mungekey", "-k", key], env=variables, check=True)
    munge = [
        f"--{what}={folder}/munge.{what.split('-')[0]}"
        for what in ("socket", "pid-file", "log-file", "seed-file")
    ]
    start("munged", "--foreground", "--force", f"--key-file={key}", *munge)
    try:
        wait_until((folder / "munge.socket").exists, 20)
        start("slurmctld", "-D")
        for name in ("n1", "n2"):
            start("slurmd", "-D", "-N", name)

        def idle() -> bool:
            done = subprocess.run(
                ["sinfo", "-h", "-N", "-o", "%t"], env=variables, capture_output=True, text=True, check=False
            )
            return done.stdout.split() == ["idle", "idle"]

        wait_until(idle, 60)
        yield variables
    finally:
        subprocess.run(["scancel", "--state=RUNNING"], env=variables, check=False, timeout=30)
        for process in reversed(started):
            process.terminate()
        for process in reversed(started):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _jobs(variables: dict[str, str]) -> list[str]:
    listed = subprocess.run(
        ["squeue", "-h", "-o", "%i", "--states=RUNNING"],
        env=variables, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return sorted(listed.stdout.split())


def test_a_job_is_cancelled_in_mid_build(slurm: dict[str, str], tmp_path: Path) -> None:
    project = make_project(tmp_path / "project")
    cluster = subprocess.Popen(
        [sys.executable, "-c", CLUSTER, sys.executable, str(tmp_path / "logs")],
        env=slurm, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    try:
        assert cluster.stdin is not None
        address = cluster.stdout.readline().strip()
        wait_until(lambda: len(_jobs(slurm)) == 2, 60)
        settings = {"dask": address, "only": True, "timeouts": {"no_worker": 30, "step": 60}}
        file = project_file(project, "slurm", settings)
        build = begin(file)
        cancelled = _jobs(slurm)[0]
        subprocess.run(["scancel", cancelled], env=slurm, check=True)
        assert "on this machine" not in ends_well(build, file)
        wait_until(lambda: cancelled not in _jobs(slurm), 60)
        cluster.stdin.close()
        assert cluster.wait(PATIENCE) == 0
        wait_until(lambda: not _jobs(slurm), 60)
    finally:
        cluster.send_signal(signal.SIGKILL)
        cluster.wait()
