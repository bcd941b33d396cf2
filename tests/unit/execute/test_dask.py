"""What the executor of a cluster knows of its workers. tests/fault has builds on real clusters."""

import asyncio
from types import SimpleNamespace

import pytest

pytest.importorskip("distributed")
from gpubuild.execute import dask, wire
from gpubuild.model.project import Execute

LIKE_US = {"python": wire.python_tag(), "wire": str(wire.VERSION)}


class Client:
    """Stands for Dask's: a worker that is asked for its tools lists them."""

    async def run(self, _: object, *, workers: list[str], **options: object) -> dict[str, dict[str, str]]:
        return dict.fromkeys(workers, LIKE_US)


def test_a_worker_can_be_used_as_soon_as_it_has_listed_its_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that another worker refuses at that moment would else run on this machine."""
    monkeypatch.setattr(dask.DaskExecutor, "_connect", lambda self: None)
    executor = dask.DaskExecutor(SimpleNamespace(workers=1), Execute(), print)
    executor._client = Client()
    executor._listed = {"good": 2}
    executor._identities = {"good": None}
    job = SimpleNamespace(fingerprints={})
    assert not executor._able(job)
    asyncio.run(executor._ask("good"))
    assert executor._able(job) == {"good"}
