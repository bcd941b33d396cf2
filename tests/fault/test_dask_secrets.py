"""No secret of a client or of a worker is in a message to the cluster, a log, a key or a kept file."""

from __future__ import annotations

from pathlib import Path

from e2e.command import gpubuild
from fault.dask_builds import arguments, make_project, project_for, workers
from fault.dask_cluster import Cluster, wait_until
from fault.far_server import serve
from unit.cache.servers import Raw, free_port

SECRETS = {
    "GPUBUILD_REMOTE_TOKEN": "t0ken-of-the-cache",
    "GPUBUILD_EXAMPLE_OF_A_VARIABLE": "s3cret-of-something-else",
}
OF_WORKERS = {"GPUBUILD_REMOTE_PASSWORD": "passw0rd-of-a-worker"}
CONTENT = b"math.exp"  # of the sources, which is sent


def test_nothing_that_is_sent_or_kept_has_a_secret(tmp_path: Path) -> None:
    """The cache is asked with the token, so it was read; the cluster never sees it."""
    project = make_project(tmp_path / "project")
    relayed = tmp_path / "sent"
    with Raw(serve({})) as cache, Cluster(tmp_path / "cluster") as cluster:
        port, far = int(cluster.address.rpartition(":")[2]), free_port()
        cluster.run("fault.relay", str(far), str(port), "0", "0", "0", str(relayed))
        wait_until(relayed.exists)
        far_file = tmp_path / "far.json"
        far_file.write_text(cluster.file.read_text().replace(f"127.0.0.1:{port}", f"127.0.0.1:{far}"))
        cluster.file = far_file
        cluster.start_worker("w1", "--no-nanny", **OF_WORKERS)
        cluster.wait_for_workers(1)
        # A step that fails sends a message and its log back, too.
        with (project / "main.mlir").open("a") as stream:
            stream.write('"nope.op"() : () -> ()\n')
        command = [*arguments(project_for(project, cluster, "secrets")), "--keep-going", "--json"]
        done = gpubuild(*command, cwd=project, env={**SECRETS, "GPUBUILD_REMOTE": cache.url})
    assert done.code == 1
    assert set(workers(done)) == {"w1"}
    assert any(SECRETS["GPUBUILD_REMOTE_TOKEN"] in head for head in cache.requests)
    sent = relayed.read_bytes()
    assert CONTENT in sent
    said = "".join((done.out, done.err, *(head.splitlines()[0] for head in cache.requests)))
    texts = {"sent": sent, "said": said.encode(), "bodies": b"".join(cache.bodies)}
    texts |= {str(path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for secret in (*SECRETS.values(), *OF_WORKERS.values()):
        assert not [where for where, data in texts.items() if secret.encode() in data], secret
