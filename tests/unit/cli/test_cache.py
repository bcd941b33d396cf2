"""The cache commands on a cache that was filled by hand."""

import errno
import json
import os
import time
from contextlib import closing
from pathlib import Path

import pytest
from unit.cache.samples import CONTENT, KEY, blob_path, make_result
from unit.projects import build_report, step_report

from gpubuild.build.log import BuildLog, log_file
from gpubuild.build.state import BuildState, StepRecord
from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.cli.cache import parse_age, parse_size
from gpubuild.cli.main import main
from gpubuild.errors import UsageError
from gpubuild.model.result import Status
from gpubuild.model.step import ActionResult, StepKind
from gpubuild.plan.layout import Layout
from gpubuild.plan.plan import Plan
from gpubuild.support.frozen import replace
from gpubuild.toolchain.run import collect_later

HIT = Status.HIT_LOCAL


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """One result."""
    with closing(DiskStore(tmp_path / "cache")) as store:
        assert store.publish(KEY, *make_result(tmp_path / "out"))
    return tmp_path / "cache"


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A project's folder: two builds that asked the cache are in its log, and a step's key in its state."""
    layout = Layout(root=tmp_path / "app", build_dir=tmp_path / "app" / "build")
    hit = step_report("a", HIT, kind=StepKind.COMPILE, target="sm_90")
    ran, same = replace(hit, id="b", status=Status.RAN), replace(hit, id="c", status=Status.UP_TO_DATE)
    for steps in ((hit, hit, hit, ran), (same,), (hit, same, replace(hit, kind=StepKind.CC, target=""))):
        BuildLog(log_file(layout)).append(Plan(steps={}), build_report(*steps), lambda _: None, workers=1)
    state = BuildState(layout.state_file, layout.root)
    state.remember("a", StepRecord(key=KEY, parts={}, result=ActionResult(blobs=())))
    state.save()
    return layout.root


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = main(["cache", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def test_stats(cache: Path, built: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--cache-dir", cache, "-f", built / "targets.yaml")
    code, out, _ = run(capsys, "stats", *where)
    assert code == 0
    assert "results      1" in out and "hit rate     75% 100% (last 2 builds of this project)" in out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert rows["compile"] == ["compile", "sm_90", "80%", "4", "0", "1"]
    assert rows["cc"] == ["cc", "-", "100%", "1", "0", "0"]
    document = json.loads(run(capsys, "stats", "--json", *where)[1])
    assert document["records"] == 1
    assert document["hit_rates"] == [0.75, 1.0]
    assert document["groups"][1] == {
        "kind": "compile", "target": "sm_90", "hit-local": 4, "hit-remote": 0, "ran": 1,
    }  # fmt: skip


def test_hit_rates_are_of_this_project_alone(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another project may use the same cache, and have programs of the same names."""
    code, out, _ = run(capsys, "stats", "--cache-dir", cache, "-f", cache / "elsewhere" / "targets.yaml")
    assert code == 0
    assert "results      1" in out and "hit rate" not in out


def test_verify(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "verify", "--cache-dir", cache)[:2] == (
        0,
        f"{cache}: 1 result, 3 blobs, 269 B: no damage\n",
    )
    path = blob_path(cache, CONTENT["object"])
    path.chmod(0o644)
    path.write_bytes(bytes(256))
    code, out, _ = run(capsys, "verify", "--cache-dir", cache)
    assert code == 1
    assert path.name in out and "1 damaged; 1 incomplete result dropped" in out
    document = json.loads(run(capsys, "verify", "--json", "--cache-dir", cache)[1])
    assert document["ok"] and document["records"] == 0


@pytest.mark.parametrize("command", ["stats", "verify", "gc", "clear"])
def test_a_cache_that_cannot_be_used_has_no_numbers(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("gpubuild.cache.local.index.Index", refuse)
    code, out, err = run(capsys, command, "--cache-dir", cache)
    assert (code, out) == (2, "")
    assert f"cannot use the cache {cache}: cannot open its index: Permission denied" in err


def test_gc(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(run(capsys, "gc", "--json", "--cache-dir", cache)[1])["freed_bytes"] == 0
    past = time.time() - 40 * 86400
    for path in (cache / "cas").rglob("*"):
        if path.is_file():
            os.utime(path, (past, past))
    code, out, _ = run(capsys, "gc", "--max-age", "30d", "--cache-dir", cache)
    assert code == 0 and "269 B freed, 1 result dropped, 0 B kept" in out


@pytest.mark.parametrize("command", ["gc", "clear"])
def test_what_deletes_nothing_fails(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    def refuse(self: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("gpubuild.cache.local.blobs.BlobFolder.prepare", refuse)
    assert main(["cache", command, "--cache-dir", str(cache)]) == 2
    assert capsys.readouterr().err == (
        f"warning: cannot write to the cache {cache}: Read-only file system\n"
        f"error: the cache {cache} cannot be written: nothing was deleted\n"
        "  hint: name another folder with --cache-dir, or make this one writable\n"
    )


def test_gc_in_a_process_of_its_own(cache: Path) -> None:
    """What a build that ends with a full cache starts."""
    collect_later(cache, 0)
    for _ in range(2400):  # at the lowest priority, on a machine that may be busy
        if not any(p.is_file() for p in (cache / "cas").rglob("*")):
            break
        time.sleep(0.05)
    else:
        pytest.fail("nothing was collected")


def test_export_and_import(
    cache: Path, built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.tar"
    where = ("--cache-dir", cache, "-f", built / "targets.yaml")
    assert run(capsys, "export", file, *where) == (0, f"{file}: 1 result, 269 B\n", "")
    second = tmp_path / "second"
    assert run(capsys, "import", file, "--cache-dir", second) == (0, f"{second}: 1 result, 269 B new\n", "")
    os.truncate(file, file.stat().st_size - 1500)
    code, out, err = run(capsys, "import", file, "--json", "--cache-dir", tmp_path / "third")
    assert code == 1
    assert json.loads(out)["records"] == 0
    assert "it ends early" in err
    code, _, err = run(capsys, "export", file, "--cache-dir", tmp_path / "empty")
    assert (code, "nothing to export" in err) == (0, True)
    code, _, err = run(capsys, "import", tmp_path / "none.tar", "--cache-dir", tmp_path / "empty")
    assert (code, "cannot read" in err) == (2, True)


SIZES = {"0": 0, "1000": 1000, "2GiB": 2 << 30, "1.5 MiB": 3 << 19, "7KB": 7000, "2 GB": 2 * 10**9}


def test_sizes_and_ages() -> None:
    assert {text: parse_size(text) for text in SIZES} == SIZES
    for text in ("", "-1", "2 XB", "many", "1e9", "2GiBs"):
        with pytest.raises(UsageError, match="not a size"):
            parse_size(text)
    assert [parse_age(t) for t in ("30m", "12h", "14d", "2w")] == [1800, 43200, 1209600, 1209600]
    with pytest.raises(UsageError, match="length of time"):
        parse_age("14")
