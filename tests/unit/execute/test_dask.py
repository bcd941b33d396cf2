"""What the executor of a cluster knows of its workers. tests/fault has builds on real clusters."""

import asyncio
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from unit.engine.device_steps import in_child

if find_spec("distributed") is None:
    pytest.skip("Dask is not installed", allow_module_level=True)


def test_a_worker_can_be_used_as_soon_as_it_has_listed_its_tools() -> None:
    """A step that another worker refuses at that moment would else run on this machine."""
    assert in_child(_able_before_and_after) == (set(), {"good"})


def _able_before_and_after() -> tuple[set[str], set[str]]:
    # Not in the tests' process: Dask changes how errors are pickled.
    from gpubuild.execute import dask, wire
    from gpubuild.model.project import Execute

    class Client:
        """Stands for Dask's: a worker that is asked for its tools lists them."""

        async def run(self, _: object, *, workers: list[str], **options: object) -> dict[str, dict[str, str]]:
            return {worker: {"python": wire.python_tag(), "wire": str(wire.VERSION)} for worker in workers}

    dask.DaskExecutor._connect = lambda self: None
    executor = dask.DaskExecutor(SimpleNamespace(workers=1), Execute(), print)
    executor._client = Client()
    executor._listed = {"good": 2}
    executor._identities = {"good": None}
    job = SimpleNamespace(fingerprints={})
    before = set(executor._able(job))
    asyncio.run(executor._ask("good"))
    return before, set(executor._able(job))
