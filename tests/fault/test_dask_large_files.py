"""Files of over 1 MB travel through the remote cache: one that is gone from it is in the message instead."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from e2e.command import gpubuild
from fault.dask_builds import arguments, make_project, outputs, project_for, two_workers, workers
from unit.cache.servers import LOCATION, NGINX, nginx

# Importing it here would change how errors are pickled.
if find_spec("distributed") is None:
    pytest.skip("Dask is not installed", allow_module_level=True)
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed (apt-get install nginx-light)")

FORGETS = LOCATION.replace("{", "{ if ($request_method = GET) { return 404; }", 1)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that was built on this machine, into the folder ``build``. One source has over 1 MB."""
    return make_project(tmp_path_factory.mktemp("project"))


def requests(folder: Path) -> Iterator[tuple[str, str, int]]:
    """Method, path and status of all requests that nginx answered."""
    for line in (folder / "access.log").read_text().splitlines():
        _, asked, rest = line.split('"', 2)
        method, path, _ = asked.split()
        yield method, path, int(rest.split()[0])


@pytest.mark.parametrize("location", [LOCATION, FORGETS], ids=["kept", "gone"])
def test_a_large_source(local: Path, tmp_path: Path, location: str) -> None:
    with (
        nginx(tmp_path / "nginx", location) as url,
        two_workers(tmp_path / "cluster", GPUBUILD_REMOTE=url) as cluster,
    ):
        file = project_for(local, cluster, tmp_path.name)
        # Of all records none is found, and results of this build are not read again.
        done = gpubuild(*arguments(file), "--json", cwd=local, env={"GPUBUILD_REMOTE": url})
    assert done.code == 0, done.err
    assert outputs(file.with_suffix("")) == outputs(local / "build")
    assert set(workers(done)) == {"w1", "w2"}
    assert "on this machine" not in done.err
    read = [
        status for method, path, status in requests(tmp_path / "nginx") if method == "GET" and "/cas/" in path
    ]
    assert read == [200 if location == LOCATION else 404]


def test_workers_with_another_cache_get_it_in_the_message(local: Path, tmp_path: Path) -> None:
    with (
        nginx(tmp_path / "nginx") as url,
        two_workers(tmp_path / "cluster", GPUBUILD_REMOTE=f"{url}/other") as cluster,
    ):
        file = project_for(local, cluster, tmp_path.name)
        done = gpubuild(*arguments(file), "--json", cwd=local, env={"GPUBUILD_REMOTE": url})
        address = f"dask:{cluster.address}"
        doctor = gpubuild(
            "doctor", "--remote", "--executor", address, cwd=local, env={"GPUBUILD_REMOTE": url}
        )
    assert done.code == 0, done.err
    assert outputs(file.with_suffix("")) == outputs(local / "build")
    assert "on this machine" not in done.err
    assert not [
        path for method, path, _ in requests(tmp_path / "nginx") if method == "GET" and "/cas/" in path
    ]
    assert "differ from here: cache" in doctor.out
