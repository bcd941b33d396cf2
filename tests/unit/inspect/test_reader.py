import io
import json
import re
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from unit.inspect import samples

from gpubuild.engine.host import gpu_binary
from gpubuild.engine.ir import contexts
from gpubuild.errors import UsageError
from gpubuild.inspect.disassemble import extract
from gpubuild.inspect.reader import inspect_file
from gpubuild.inspect.records import Inspection, Kernel, Module, Object, select, to_json
from gpubuild.inspect.table import render_table
from gpubuild.model.offload_binary import SECTION, Image, pack
from gpubuild.targets.amd import TRIPLE as ROCDL_TRIPLE
from gpubuild.targets.nvidia import TRIPLE as NVVM_TRIPLE
from gpubuild.targets.vendor import ImageKind

CPU_TRIPLE = "x86_64-unknown-linux-gnu"
KERNEL = {"name": "store_id", "registers": 9, "shared_bytes": 1024, "spill_bytes": 16}
KERNELS = [{**KERNEL, "tier": None, "tier_reason": None}]
PTX = samples.PTX.format(chip="sm_60").encode() + b"\0"


def images() -> list[Image]:
    ours = {"module": "k", "kernels": json.dumps(KERNELS)}
    return [
        samples.image(samples.cubin("sm_60"), ImageKind.CUBIN, NVVM_TRIPLE, "sm_60", target="old", **ours),
        samples.image(PTX, ImageKind.PTX, NVVM_TRIPLE, "sm_60", target="old", **ours),
        samples.image(
            samples.hsaco("gfx90a"), ImageKind.OBJECT, ROCDL_TRIPLE, "gfx90a:xnack-", target="amd", module="k"
        ),
        samples.image(
            samples.cpu_object(), ImageKind.OBJECT, CPU_TRIPLE, "x86-64-v3", target="cpu", module="other"
        ),
    ]


def written(tmp_path: Path, data: bytes | str, name: str = "file") -> Path:
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def check_container(found: Inspection) -> None:
    assert [m.name for m in found.modules] == ["k", "other"]
    old, ptx, amd = found.modules[0].objects
    assert (old.target, old.kind, old.chip, old.format) == ("old", "nvvm", "sm_60", "bin")
    assert old.data == samples.cubin("sm_60")
    # What the build noted goes before what the image tells: it knows spills.
    assert [(k.name, k.registers, k.spill_bytes) for k in old.kernels] == [("store_id", 9, 16)]
    assert (ptx.target, ptx.format, ptx.data) == ("old", "assembly", PTX)
    assert (amd.kind, amd.chip, [k.name for k in amd.kernels]) == ("rocdl", "gfx90a:xnack-", ["store_id"])
    (cpu,) = found.modules[1].objects
    assert (cpu.kind, cpu.triple, cpu.chip) == ("cpu", CPU_TRIPLE, "x86-64-v3")
    assert [k.tier for k in cpu.kernels] == ["loop", "fibers"]


@pytest.mark.parametrize("link", [None, False, True])
def test_container_in_a_section(tmp_path: Path, link: bool | None) -> None:
    """Of an object, of a shared object; and alone."""
    content = pack(images())
    if link is None:
        check_container(inspect_file(written(tmp_path, content)))
        return
    data = samples.embed(content, symbol="k_binary", section=SECTION, link=link)
    # Linkers pad between the sections they join; the sample has 8 bytes of something in front.
    assert data.count(bytes(range(1, 9)) + content) == 1
    data = data.replace(bytes(range(1, 9)) + content, content + bytes(8))
    check_container(inspect_file(written(tmp_path, data)))


@pytest.mark.parametrize("link", [False, True])
def test_image_of_select_object_is_found_by_its_symbol(tmp_path: Path, link: bool) -> None:
    data = samples.embed(samples.cubin("sm_90"), symbol="kernels_binary", section=".rodata", link=link)
    found = inspect_file(written(tmp_path, data))
    (module,) = found.modules
    (item,) = module.objects
    assert (module.name, item.kind, item.chip, item.target) == ("kernels", "nvvm", "sm_90", None)
    assert item.data == samples.cubin("sm_90")


def test_a_symbol_that_holds_no_image_is_not_reported(tmp_path: Path) -> None:
    data = samples.embed(b"just data", symbol="some_binary", section=".rodata", link=False)
    with pytest.raises(UsageError, match="carries no device image"):
        inspect_file(written(tmp_path, data))


def test_container_of_others_has_no_module_name(tmp_path: Path) -> None:
    one = samples.image(samples.cubin("sm_90"), ImageKind.CUBIN, NVVM_TRIPLE, "sm_90")
    found = inspect_file(written(tmp_path, pack([one])))
    assert found.modules[0].name is None
    assert found.modules[0].objects[0].kernels[0].registers is not None


@pytest.mark.parametrize("kernels", ["", "{", "[1]", '[{"name": 5}]', "{}x", "null"])
def test_bad_kernel_notes_are_replaced_by_what_the_image_tells(tmp_path: Path, kernels: str) -> None:
    one = samples.image(samples.cubin("sm_90"), ImageKind.CUBIN, NVVM_TRIPLE, "sm_90", kernels=kernels)
    (module,) = inspect_file(written(tmp_path, pack([one]))).modules
    assert {k.name for k in module.objects[0].kernels} == {"store_id", "nothing"}


def test_a_damaged_image_hides_no_other(tmp_path: Path) -> None:
    bad = samples.image(samples.cubin("sm_90")[:100], ImageKind.CUBIN, NVVM_TRIPLE, "sm_90", module="k")
    (module, _) = inspect_file(written(tmp_path, pack([bad, *images()]))).modules
    assert [o.chip for o in module.objects] == ["sm_90", "sm_60", "sm_60", "gfx90a:xnack-"]
    assert module.objects[0].kernels == ()


def test_json_is_the_documented_one(tmp_path: Path) -> None:
    path = written(tmp_path, pack(images()[:1]))
    document = to_json(inspect_file(path))
    json.dumps(document)
    data = samples.cubin("sm_60")
    kernel = {
        **KERNELS[0], "code_bytes": _text_size(data, ".text.store_id"), "parameters": None,
        "workgroup_size": None, "subgroup_size": None,
        "occupancy": {"workgroup": 256, "percent": 100, "limit": None},
    }  # fmt: skip
    image = {
        "target": "old", "kind": "nvvm", "triple": NVVM_TRIPLE, "chip": "sm_60", "format": "bin",
        "size_bytes": len(data), "kernels": [kernel],
    }  # fmt: skip
    modules = [{"name": "k", "handler": None, "objects": [image]}]
    assert document == {"schema": 1, "file": str(path), "modules": modules}


def _text_size(data: bytes, section: str) -> int:
    return ELFFile(io.BytesIO(data)).get_section_by_name(section)["sh_size"]


def test_code_sizes_come_from_the_image(tmp_path: Path) -> None:
    objects = {
        o.target: o for m in inspect_file(written(tmp_path, pack(images()))).modules for o in m.objects
    }
    (amd,) = objects["amd"].kernels
    assert amd.code_bytes % 4 == 0 and 16 <= amd.code_bytes <= 256
    ptx = inspect_file(written(tmp_path, PTX)).modules[0].objects[0]
    assert {k.code_bytes for k in ptx.kernels} == {None}


def test_select() -> None:
    def item(target: str | None, chip: str) -> Object:
        return Object(target=target, chip=chip, format="bin", data=b"")

    modules = (
        Module(name="a", objects=(item("old", "sm_60"), item(None, "gfx90a"))),
        Module(name="b", objects=(item("cpu", "x"),)),
    )
    whole = Inspection(file="f", modules=modules)
    assert select(whole) == whole
    assert [o.chip for o in select(whole, ["old", "gfx90a"]).modules[0].objects] == ["sm_60", "gfx90a"]
    assert [m.name for m in select(whole, ["cpu"]).modules] == ["b"]
    assert select(whole, ["cpu"], ["a"]).modules == ()


def test_table(tmp_path: Path) -> None:
    small = [
        Image(image_kind=image.image_kind, offload_kind=0, strings=image.strings, data=bytes(size))
        for image, size in zip(images()[:2], (7, 1234), strict=True)
    ]
    path = written(tmp_path, pack(small))
    assert render_table(inspect_file(path)) == "\n".join(
        [
            "module  target  chip   format    size  kernel    code  regs  shared  spills   occ  tier",
            "@k      old     sm_60  bin          7  store_id     -     9    1024      16  100%  -",
            "        old     sm_60  assembly  1234  store_id     -     -    1024       -     -  -",
        ]
    )


def test_the_table_says_why_kernels_are_fibers() -> None:
    """Once, however many targets have the same reason; other tiers need no excuse."""
    why = "gpu.barrier; no fission: nvvm.redux.sync"
    kernels = (
        Kernel(name="slow", tier="fibers", tier_reason=why),
        Kernel(name="cut", tier="fission", tier_reason="gpu.barrier"),
        Kernel(name="plain", tier="loop"),
    )
    items = tuple(Object(target=t, format="bin", kernels=kernels, data=b"") for t in ("a", "b"))
    text = render_table(Inspection(file="f", modules=(Module(name="k", objects=items),)))
    assert [line for line in text.splitlines() if "because" in line] == [f"@k slow: fibers because of {why}"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(content, "file") for content in (b"", b"text", b"\x7fELF", b"\0" * 100, b"\x10\xff\x10\xad")]
    + [("nothing", "No such file"), (".", "directory")],
)
def test_files_without_images_are_refused(tmp_path: Path, content: bytes | str, message: str) -> None:
    """Nor is there one in what is no file."""
    path = written(tmp_path, content) if isinstance(content, bytes) else tmp_path / content
    with pytest.raises(UsageError, match=message):
        inspect_file(path)


# --- extraction ---


def test_extract_writes_every_image_under_a_telling_name(tmp_path: Path) -> None:
    found = inspect_file(written(tmp_path, pack(images())))
    paths = extract(found, tmp_path / "out")
    assert [p.name for p in paths] == ["k.old.cubin", "k.old.ptx", "k.amd.hsaco", "other.cpu.so"]
    assert paths[0].read_bytes() == samples.cubin("sm_60")
    assert paths[1].read_bytes() == PTX.rstrip(b"\0")
    assert {p.stat().st_mode & 0o777 for p in paths} == {0o644}
    assert extract(found, tmp_path / "out") == paths
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted(p.name for p in paths)


def test_extract_never_leaves_its_folder(tmp_path: Path) -> None:
    """Neither by names nor through a link, which it replaces."""
    evil = samples.image(b"data", ImageKind.CUBIN, NVVM_TRIPLE, "sm_60", module="../../a", target="/etc/x\n")
    path = written(tmp_path, pack([evil, evil]))
    victim = written(tmp_path, b"precious", "victim")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "______a._etc_x_.cubin").symlink_to(victim)
    paths = extract(inspect_file(path), tmp_path / "out")
    assert [p.name for p in paths] == ["______a._etc_x_.cubin", "______a._etc_x_.2.cubin"]
    assert {p.parent for p in paths} == {tmp_path / "out"}
    assert (victim.read_bytes(), paths[0].read_bytes()) == (b"precious", b"data")
    with pytest.raises(UsageError, match="cannot extract into"):
        extract(inspect_file(path), path)


# ---- .binary.mlir ----


EVERY_BYTE = bytes(range(256)) * 2


def printed(handler: str = "#gpu.select_object<1>") -> str:
    objects = [
        gpu_binary.ObjectData(
            target='#nvvm.target<chip = "sm_90", features = "+ptx80", flags = {fast}>',
            data=EVERY_BYTE,
            properties={"O": 3, "gpubuild.target": "ninety", "gpubuild.kernels": '[{"name": "a\\"b"}]'},
        ),
        gpu_binary.ObjectData(
            target="#rocdl.target<>", data=b'>]}) "\\ // x, y', properties={"gpubuild.arch": "gfx90a:xnack-"}
        ),
        gpu_binary.ObjectData(
            target='#nvvm.target<triple = "x86_64-unknown-linux-gnu", chip = "x86-64-v3">',
            data=samples.cpu_object(),
            properties={"gpubuild.triple": "x86_64-unknown-linux-gnu"},
            format=4,
        ),
    ]
    with contexts.context():
        module = gpu_binary.make_binary("weird name.x", handler, objects)
        return contexts.canonical_text(module.operation)


def test_reads_what_mlir_prints(tmp_path: Path) -> None:
    path = tmp_path / "k.binary.mlir"
    path.write_text(printed())
    (module,) = inspect_file(path).modules
    assert module.name == "weird name.x"
    assert module.handler == "#gpu.select_object<1 : i64>"  # as MLIR prints it
    nvidia, amd, cpu = module.objects
    assert (nvidia.data, nvidia.kind, nvidia.chip, nvidia.target) == (EVERY_BYTE, "nvvm", "sm_90", "ninety")
    assert [k.name for k in nvidia.kernels] == ['a"b']
    assert (amd.data, amd.kind, amd.chip) == (b'>]}) "\\ // x, y', "rocdl", "gfx90a:xnack-")
    assert (cpu.kind, cpu.chip, cpu.format) == ("cpu", "x86-64-v3", "fatbin")
    assert cpu.data == samples.cpu_object()
    assert [k.name for k in cpu.kernels] == ["scale", "reduce"]


def modules_of(folder: Path, text: str) -> tuple[Module, ...]:
    (folder / "k.mlir").write_text(text)
    return inspect_file(folder / "k.mlir").modules


@pytest.mark.parametrize(
    "handler", ["#gpu.select_object", '#gpu.select_object<#nvvm.target<chip = "sm_90">>']
)
def test_other_handlers(tmp_path: Path, handler: str) -> None:
    (binary,) = modules_of(tmp_path, printed(handler))
    assert binary.handler == handler


def test_attributes_comments_aliases_and_the_generic_form(tmp_path: Path) -> None:
    text = """
    // gpu.binary @commented []
    #amd = #gpu.object<#rocdl.target, "fat">
    llvm.mlir.global constant @s("gpu.binary @quoted [")
    func.func private @f() -> () attributes {a = "gpu.binary"}
    gpu.binary @a {note = "[{"} [
      #gpu.object<#nvvm.target, // upstream's default chip
        bin = "\\00x">]
    "gpu.binary"() {sym_name = "b", objects = [#amd], offloadingHandler = #gpu.select_object<0>} : () -> ()
    """
    a, b = modules_of(tmp_path, text)
    (object_a,), (object_b,) = a.objects, b.objects
    assert (a.name, a.handler) == ("a", "#gpu.select_object")
    assert (object_a.chip, object_a.data, object_a.kind) == ("sm_50", b"\0x", "nvvm")
    assert (b.name, b.handler) == ("b", "#gpu.select_object<0 : i64>")
    assert (object_b.format, object_b.chip, object_b.data) == ("fatbin", "gfx900", b"fat")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\ngpu.binary", "3:11: error: custom op 'gpu.binary' expected valid '@'-identifier"),
        ('gpu.binary @"\\00" [#gpu.object<#nvvm.target, bin = "x">]', "cannot contain NUL"),
        (printed()[: printed().index("gpu.binary") + 300], "error"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        modules_of(tmp_path, text)


def test_deep_nesting_crashes_mlir_alone(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="MLIR crashed while reading it|invalid MLIR"):
        modules_of(tmp_path, "gpu.binary @k attributes {a = " + "[" * 200_000)
