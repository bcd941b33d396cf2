"""Files of over 1 MB, as one source has, travel through the remote cache, or in the message instead."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.command import gpubuild
from fault.dask_builds import arguments, outputs, project_for, two_workers, workers
from fault.dask_cluster import Cluster
from unit.cache.servers import LOCATION, NGINX, nginx
from variants import few

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed (apt-get install nginx-light)")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a cache, and its folder. With a file ``gone`` there, it stores but returns nothing."""
    folder = tmp_path_factory.mktemp("server") / "nginx"
    forgets = f"{{ if (-f {folder}/gone) {{ set $gone $request_method; }} if ($gone = GET) {{ return 404; }}"
    with nginx(folder, LOCATION.replace("{", forgets, 1)) as url:
        yield url, folder


@pytest.fixture(scope="module")
def cluster(server: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with two_workers(tmp_path_factory.mktemp("cluster"), GPUBUILD_REMOTE=server[0]) as cluster:
        yield cluster


# "gone", from which on the server has nothing, comes last.
CACHES = few([("kept", [200]), ("other", []), ("off", []), ("gone", [404])], 2)


@pytest.mark.parametrize(("name", "read"), CACHES)
def test_a_large_source(
    local: Path, server: tuple[str, Path], cluster: Cluster, name: str, read: list[int]
) -> None:
    """What workers read from the cache, of which the one large file in the project is all."""
    url, folder = server
    (folder / "access.log").write_text("")
    if name == "gone":
        (folder / "gone").touch()
    own = {"GPUBUILD_REMOTE": f"{url}/{name}" if name == "other" else url}
    own |= {"GPUBUILD_CACHE": "off"} if name == "off" else {}
    file = project_for(local, cluster, name)
    done = gpubuild(*arguments(file), "--json", cwd=local, env=own)
    assert done.code == 0, done.err
    assert outputs(file.with_suffix("")) == outputs(local / "build")
    assert set(workers(done)) == {"w1", "w2"}
    assert "on this machine" not in done.err
    assert [status for path, status in _answers(folder) if "/cas/" in path] == read
    doctor = gpubuild("doctor", "--remote", "--executor", f"dask:{cluster.address}", cwd=local, env=own)
    assert ("differ from here: cache" in doctor.out) == (name == "other")


def _answers(folder: Path) -> Iterator[tuple[str, int]]:
    """Path and status of each GET that nginx answered."""
    for line in (folder / "access.log").read_text().splitlines():
        _, asked, rest = line.split('"', 2)
        method, path, _ = asked.split()
        if method == "GET":
            yield path, int(rest.split()[0])
