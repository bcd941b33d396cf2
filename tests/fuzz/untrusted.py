"""Entry points for files and answers that gpubuild does not trust (SECURITY.md), with seeds and damage.

``python -m fuzz.untrusted ENTRY`` in ``tests/`` searches with atheris, guided by coverage, where it is
installed; test_untrusted.py runs a fixed number of random cases.
"""

from __future__ import annotations

import base64
import json
import random
import sys
import tempfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unit.cache.samples import KEY, make_result, noise, remote_record
from unit.inspect import samples

from gpubuild.cache import record
from gpubuild.cache.local.archive import _header, _padding, export_archive, import_archive
from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.cache.record import RecordError
from gpubuild.cache.remote import bazel_result
from gpubuild.config.load import loads
from gpubuild.errors import GpubuildError
from gpubuild.inspect.reader import inspect_file
from gpubuild.inspect.records import to_json
from gpubuild.inspect.table import render_table
from gpubuild.model.digest import digest_bytes
from gpubuild.model.offload_binary import Image, pack
from gpubuild.report.profile import profile_section, read_profile
from gpubuild.targets.nvidia import TRIPLE
from gpubuild.targets.vendor import ImageKind

ROOT = Path(__file__).parents[2]
Damage = Callable[[bytes, random.Random], bytes]
VALUES = (
    None,
    True,
    -1,
    0,
    10**400,
    1e308,
    2**63,
    "",
    "\ud800",
    "\0",
    "\x1b[2J",
    "../../x",
    "/etc/x",
    [],
    {},
    "a" * 70000,
)
WORDS = (
    b"\xff", b"\0", b"\xf0\x9f", b"\xed\xa0\x80", b"\xe2\x80\xae", b"\x1b[2J", b"\t", b"9" * 400, b"-1",
    b"1e999", b"&a [*a, *a]", b"*a", b"<<: *a", b"{", b"[" * 2000,
    b"!!python/object/apply:os.system [touch x]", b"../" * 3, b"${x}", b"version: 1\n",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A reader of untrusted bytes: it returns, or raises ``GpubuildError`` or ``RecordError``."""

    read: Callable[[bytes, Path], object]
    seeds: Callable[[Path], list[bytes]]
    damages: Sequence[Damage]
    share: int = 1  # of the cases; what is slow gets less


def bytes_changed(data: bytes, chance: random.Random) -> bytes:
    """One to four edits of bytes."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at, size = chance.randrange(len(changed) + 1), chance.choice((1, 1, 2, 8, 100))
        match chance.randrange(5):
            case 0:
                del changed[at : at + size]
            case 1:
                changed[at:at] = chance.choice(WORDS)
            case 2:
                changed[at : at + size] = chance.randbytes(size)
            case 3:
                other = chance.randrange(len(changed) + 1)
                changed[at:at] = changed[other : other + size]
            case _:
                del changed[at:]
    return bytes(changed)


def value_changed(document: Any, chance: random.Random) -> Any:
    """Replace, or remove, one value at any depth."""
    if not isinstance(document, dict | list) or not document or not chance.randrange(8):
        return chance.choice(VALUES)
    key = chance.choice(list(document) if isinstance(document, dict) else range(len(document)))
    copy = document.copy()
    if chance.randrange(8):
        copy[key] = value_changed(copy[key], chance)
    else:
        del copy[key]
    return copy


def as_json(document: Any) -> bytes:
    return json.dumps(document).encode()


def json_changed(data: bytes, chance: random.Random) -> bytes:
    return as_json(value_changed(json.loads(data), chance))


# ---- records: who writes to a shared cache can compute checksums ----


def signed(body: bytes) -> str:
    return f"{record._checksum(KEY, body)}\n{body.decode()}"


def record_changed(text: str, chance: random.Random) -> str:
    return signed(json_changed(text.partition("\n")[2].encode(), chance))


def answer_changed(data: bytes, chance: random.Random) -> bytes:
    """A message with a damaged document, or with a damaged record in a good document."""
    document = json.loads(bazel_result.decode_bazel_result(data))
    if chance.randrange(2):
        document["record"] = record_changed(document["record"], chance)
    else:
        document = value_changed(document, chance)
    return bazel_result.encode_bazel_result([], as_json(document))


def answers(folder: Path) -> list[bytes]:
    return [bazel_result.encode_remote(KEY, remote_record(folder))]


# ---- archives ----


def archives(folder: Path) -> list[bytes]:
    result, files = make_result(folder / "out")
    store = DiskStore(folder / "cache")
    store.publish(KEY, result, files)
    written = []
    for name in ("cache.tar", "cache.tar.gz"):
        export_archive(store, folder / name, None)
        written.append((folder / name).read_bytes())
    store.close()
    return written


def manifest_changed(data: bytes, chance: random.Random) -> bytes:
    """An archive with a damaged manifest under a correct header."""
    if data[:2] == b"\x1f\x8b":
        return bytes_changed(data, chance)
    size = int(data[124:135], 8)
    manifest, rest = json.loads(data[512 : 512 + size]), data[512 + size + -size % 512 :]
    if chance.randrange(2):
        manifest["records"] = {k: record_changed(v, chance) for k, v in manifest["records"].items()}
    else:
        manifest = value_changed(manifest, chance)
    text = as_json(manifest)
    return _header("manifest.json", len(text)) + text + _padding(len(text)) + rest


def read_archive(data: bytes, folder: Path) -> None:
    """Import, and check that nothing but the cache and the file is in the folder."""
    (folder / "a.tar").write_bytes(data)
    store = DiskStore(folder / "cache")
    try:
        imported = import_archive(store, folder / "a.tar", limit_bytes=1 << 20)
        for result in store.records().values():
            for blob in result.blobs:
                if store.has(blob):
                    assert digest_bytes(store.blobs.path(blob.digest).read_bytes()) == blob.digest
    finally:
        store.close()
    assert {path.name for path in folder.iterdir()} == {"a.tar", "cache"}
    if imported.problems:
        raise RecordError("; ".join(imported.problems))


# ---- other files ----


def read_answer(data: bytes, folder: Path) -> None:
    bazel_result.decode_remote(KEY, data)


def read_compressed(data: bytes, folder: Path) -> None:
    content = b"".join(bazel_result.decompress([data], 1 << 20))
    assert len(content) <= (1 << 20) + (1 << 18)


def compressed(folder: Path) -> list[bytes]:
    return [zlib.compress(noise(4000)), zlib.compress(bytes(8 << 20))]


def read_project(data: bytes, folder: Path) -> None:
    (folder / "m.mlir").touch()
    loads(data, folder / "targets.yaml")
    assert {path.name for path in folder.iterdir()} == {"m.mlir"}


def projects(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / "examples").glob("*/targets.yaml"))[:4]] + [
        b"version: 1\ntargets: {sm_90: {}, cpu: {}}\nprograms: {p: {sources: [m.mlir]}}\n"
    ]


def profiles(folder: Path) -> list[bytes]:
    entry = {"module": "k", "kernel": "f", "device": "cpu", "launches": 4, "total_ns": 2, "min_ns": 1,
             "max_ns": 2, "bytes": 6}  # fmt: skip
    return [as_json({"schema": 1, "kernels": [entry, {**entry, "bytes": None}]})]


def read_a_profile(data: bytes, folder: Path) -> None:
    (folder / "p.json").write_bytes(data)
    profile_section("p", read_profile(folder / "p.json")).html.encode()


def containers(folder: Path) -> list[bytes]:
    cubin = samples.cubin("sm_60")
    image: Image = samples.image(
        cubin, ImageKind.CUBIN, TRIPLE, "sm_60", target="t", module="k", kernels="[]"
    )
    object_file = samples.cpu_object()
    archive = b"!<arch>\n" + b"a.o/".ljust(48) + b"%-10d`\n" % len(object_file) + object_file
    return [pack([image]), cubin, samples.hsaco("gfx90a"), object_file, archive,
            samples.embed(pack([image]), symbol="s", section=".llvm.offloading", link=False)]  # fmt: skip


def binaries(folder: Path) -> list[bytes]:
    ptx = base64.b16encode(samples.PTX.format(chip="sm_60").encode()).decode()
    escaped = "".join(f"\\{ptx[i : i + 2]}" for i in range(0, len(ptx), 2))
    return [
        f'gpu.binary @k [#gpu.object<#nvvm.target<chip = "sm_60">, assembly = "{escaped}">]\n'.encode(),
        b'gpu.binary @k <#gpu.select_object<0>> [#gpu.object<#rocdl.target, bin = "\\7FELF">]\n',
    ]


def read_images(data: bytes, folder: Path) -> None:
    (folder / "file").write_bytes(data)
    found = inspect_file(folder / "file")
    json.dumps(to_json(found)).encode()
    render_table(found).encode()


BYTES = (bytes_changed,)
ENTRIES = {
    "targets.yaml": Entry(read=read_project, seeds=projects, damages=BYTES),
    "archive": Entry(read=read_archive, seeds=archives, damages=(bytes_changed, manifest_changed), share=2),
    "remote answer": Entry(read=read_answer, seeds=answers, damages=(bytes_changed, answer_changed)),
    "compressed blob": Entry(read=read_compressed, seeds=compressed, damages=BYTES),
    "images": Entry(read=read_images, seeds=containers, damages=BYTES),
    ".binary.mlir": Entry(read=read_images, seeds=binaries, damages=BYTES, share=10),
    "profile": Entry(read=read_a_profile, seeds=profiles, damages=(bytes_changed, json_changed)),
}


def accepted(entry: Entry, data: bytes) -> bool:
    """Whether the bytes were read without an error; any error but a stated one is raised."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            entry.read(data, Path(folder))
        except RecordError as error:
            str(error).encode()
            return False
        except GpubuildError as error:
            assert error.message
            error.render().encode()
            return False
    return True


def main() -> None:
    """Search for damage that an entry point does not survive."""
    import atheris

    entry = ENTRIES[sys.argv.pop(1)]
    corpus = Path(tempfile.mkdtemp())
    for number, seed in enumerate(entry.seeds(Path(tempfile.mkdtemp()))):
        (corpus / str(number)).write_bytes(seed)
    atheris.instrument_all()
    atheris.Setup([*sys.argv, str(corpus)], lambda data: accepted(entry, data) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
