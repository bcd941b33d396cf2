"""The wire form: what travels arrives, and nothing else is accepted."""

from pathlib import Path
from typing import Any

import msgpack
import pytest
from unit.cache.samples import noise
from unit.cache.servers import NGINX, nginx

from gpubuild.cache.remote.store import RemoteStore
from gpubuild.errors import Diagnostic, InputChangedError, Location, NoRoomError, StepError
from gpubuild.execute import wire
from gpubuild.model.digest import digest_bytes
from gpubuild.model.job import Job, JobInput, JobResult, StageTime
from gpubuild.model.project import Offload
from gpubuild.model.step import (
    ActionResult,
    Blob,
    BundleParams,
    CompileParams,
    HostParams,
    LlvmParams,
    OutlineParams,
    Params,
    StepKind,
)
from gpubuild.support.files import delete_tree
from gpubuild.support.frozen import replace
from gpubuild.targets.target import Sanitize, Target

TARGET = Target(
    name="mine", kind="cpu", chip="x86-64-v3", triple="x86_64-unknown-linux-gnu", debug="full",
    sanitize=(Sanitize.RACE,), flags=("ftz",),
)  # fmt: skip
TEXT = b"module {}"
PARAMS: dict[StepKind, Params] = {
    StepKind.OUTLINE: OutlineParams(passes="builtin.module(cse)", source_name="a.mlir", names=True),
    StepKind.COMPILE: CompileParams(module="k", target=TARGET, relocatable=True),
    StepKind.BUNDLE: BundleParams(
        module="k", handler="#h", targets=(TARGET,), names=("a",), formats=("bin",)
    ),
    StepKind.HOST: HostParams(modules=("k",), offload=Offload.SELECT_OBJECT, chosen=("k",)),
    StepKind.LLVM: LlvmParams(triple="t", bitcode=True),
}


def job(folder: Path, kind: StepKind = StepKind.OUTLINE, **changes: Any) -> Job:
    (folder / "w").mkdir(parents=True, exist_ok=True)
    source = folder / "a.mlir"
    source.write_bytes(TEXT)
    made = Job(
        step_id="p/x", kind=kind, params=PARAMS[kind],
        inputs=(JobInput(name="source", path=source, digest=digest_bytes(TEXT)),),
        output_names=("object",), tools={"mlir": ("/here",)}, fingerprints={"mlir": "1" * 64},
        workdir=folder / "w", timeout_seconds=5.0, missing_tools={"rocm": "why"},
    )  # fmt: skip
    return replace(made, **changes)


def result(job: Job, **changes: Any) -> JobResult:
    out = job.workdir / "out"
    out.mkdir(exist_ok=True)
    (out / "object").write_bytes(b"code")
    blob = Blob(name="object", digest=digest_bytes(b"code"), size_bytes=4, executable=True)
    made = replace(ActionResult(blobs=(blob,), warnings=("w",), seconds=0.5), **changes)
    return JobResult(step_id=job.step_id, result=made, stages=(StageTime(stage="s", seconds=1.0),))


@pytest.mark.parametrize("kind", PARAMS)
def test_a_job_arrives(tmp_path: Path, kind: StepKind) -> None:
    sent = job(tmp_path, kind)
    got = wire.unpack_job(wire.pack_job(sent), tmp_path / "there", {"mlir": ("/there",)})
    assert got.params == sent.params
    assert repr(got.params) == repr(sent.params)
    assert [(i.name, i.digest, i.path.name) for i in got.inputs] == [("source", digest_bytes(TEXT), "a.mlir")]
    assert got.inputs[0].path.read_bytes() == TEXT
    assert (got.tools, got.missing_tools, got.timeout_seconds) == (
        {"mlir": ("/there",)},
        {"rocm": "why"},
        5.0,
    )


def test_an_answer_arrives(tmp_path: Path) -> None:
    here, there = (job(tmp_path / name) for name in ("here", "there"))
    got = wire.unpack_answer(wire.pack_answer(result(there), "w1", there), here)
    assert (got.result, got.stages, got.worker) == (result(there).result, result(there).stages, "w1")
    written = here.workdir / "out" / "object"
    assert (written.read_bytes(), written.stat().st_mode & 0o777) == (b"code", 0o755)


@pytest.mark.parametrize("kind", [StepError, NoRoomError])
def test_an_error_arrives_with_files_of_this_machine(tmp_path: Path, kind: type[StepError]) -> None:
    here, there = (job(tmp_path / name) for name in ("here", "there"))
    file = str(there.inputs[0].path)
    where = Diagnostic(message=f"in {file}", location=Location(file=file, line=1, column=2))
    sent = kind("no", stage="parse", hint="h", output="o", kernel="k", diagnostics=[where])
    got = wire.unpack_answer(wire.pack_answer(sent, "w1", there), here)
    assert type(got) is kind
    assert got.render() == sent.render().replace(str(tmp_path / "there"), str(tmp_path / "here"))


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed (apt-get install nginx-light)")
def test_large_files_are_in_the_cache(tmp_path: Path) -> None:
    """Not in the messages; what the cache lost or spoiled is an error of the wire."""
    data = noise(wire.LARGE_BYTES + 1)
    with nginx(tmp_path / "nginx") as url:
        here, there, other = (RemoteStore(f"{url}{name}") for name in ("", "", "/other"))
        sent = job(tmp_path)
        sent.inputs[0].path.write_bytes(data)
        sent = replace(sent, inputs=(replace(sent.inputs[0], digest=digest_bytes(data)),))
        message = wire.pack_job(sent, here)
        got = wire.unpack_job(message, tmp_path / "there", {}, there)
        assert got.inputs[0].path.read_bytes() == data
        made = result(got)
        (got.workdir / "out" / "object").write_bytes(data[::-1])
        blob = Blob(name="object", digest=digest_bytes(data[::-1]), size_bytes=len(data), executable=True)
        made = replace(made, result=replace(made.result, blobs=(blob,)))
        answer = wire.pack_answer(made, "w1", got, there)
        assert wire.unpack_answer(answer, sent, here) == replace(made, worker="w1")
        written = sent.workdir / "out" / "object"
        assert (written.read_bytes(), written.stat().st_mode & 0o777) == (data[::-1], 0o755)
        assert len(message) + len(answer) < 4000
        for path in (tmp_path / "nginx/srv/gpubuild/cas").iterdir():
            path.write_bytes(b"spoiled")
        for store in (there, other, None):
            with pytest.raises(wire.WireError, match="the remote cache does not return 'source'"):
                wire.unpack_job(message, tmp_path / repr(store), {}, store)
        with pytest.raises(wire.WireError, match="the remote cache does not return 'object'"):
            wire.unpack_answer(answer, sent, here)
    # Without a server, and for an input that changed.
    assert data in wire.pack_job(sent, RemoteStore("http://127.0.0.1:1"))
    sent.inputs[0].path.write_bytes(data + b" ")
    with pytest.raises(InputChangedError, match="changed"):
        wire.pack_job(sent)


def changed(message: bytes, **changes: Any) -> bytes:
    return bytes(msgpack.packb(msgpack.unpackb(message) | changes))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"python": "cpython-399"}, "the step is for cpython-399, not "),
        ({"version": 1}, "not version 2"),
        ({"kind": "link"}, "do not travel"),
        ({"params": {"passes": 3}}, "expected str, got int"),
        ({"params": {"nope": 3}}, "no 'nope'"),
        ({"inputs": [["source", "a", "0" * 64, len(TEXT), TEXT]]}, "another digest"),
        ({"inputs": [["source", "a", "0" * 64, 9]]}, "expected 5 values, got 4"),
        ({"timeout": "x"}, "expected float"),
        ({"more": 1}, "no 'more'"),
    ],
)
def test_jobs_that_are_refused(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    message = changed(wire.pack_job(job(tmp_path)), **changes)
    with pytest.raises(wire.WireError, match=why):
        wire.unpack_job(message, tmp_path / "there", {})


def test_names_of_inputs_stay_in_the_folder(tmp_path: Path) -> None:
    message = changed(
        wire.pack_job(job(tmp_path)), inputs=[["source", "../../x", digest_bytes(TEXT), len(TEXT), TEXT]]
    )
    got = wire.unpack_job(message, tmp_path / "there", {})
    assert got.inputs[0].path == tmp_path / "there" / "in" / "0" / "source"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"blobs": [b"cod3"]}, "another digest or size"),
        ({"blobs": []}, "do not match"),
        ({"result": {"step_id": "p/x"}}, "result"),
        ({"result": 3}, "got int"),
        ({"error": {"kind": "SystemExit", "message": "x"}}, "unknown kind"),
        ({"refused": "other ptxas"}, "other ptxas"),
    ],
)
def test_answers_that_are_refused(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    there = job(tmp_path / "there")
    message = changed(wire.pack_answer(result(there), "w1", there), **changes)
    with pytest.raises(wire.WireError, match=why):
        wire.unpack_answer(message, job(tmp_path))


@pytest.mark.parametrize("name", ["../object", "other", "/etc/passwd"])
def test_outputs_stay_in_the_folder(tmp_path: Path, name: str) -> None:
    there = job(tmp_path / "there")
    message = msgpack.unpackb(wire.pack_answer(result(there), "w1", there))
    message["result"]["result"]["blobs"][0]["name"] = name
    for outputs in [("object",)] + [()] * (name != "other"):
        with pytest.raises(wire.WireError):
            wire.unpack_answer(msgpack.packb(message), job(tmp_path, output_names=outputs))
        delete_tree(tmp_path / "w" / "out")


def test_what_stays_here(tmp_path: Path) -> None:
    assert wire.why_local(job(tmp_path)) == ""
    assert "names a file" in wire.why_local(job(tmp_path, params=OutlineParams(passes="x{file=/a}")))
    assert "IR" in wire.why_local(job(tmp_path, dump_ir=tmp_path))
    large = tmp_path / "large"
    large.write_bytes(b"x" * (wire.MOST_BYTES + 1))
    inputs = (JobInput(name="source", path=large, digest=digest_bytes(b"")),)
    assert "larger" in wire.why_local(job(tmp_path, inputs=inputs))
