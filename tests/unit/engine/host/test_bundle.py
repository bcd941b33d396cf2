"""gpu.binary: blobs byte for byte, upstream's mlir-opt agrees."""

import io
import json
import subprocess
from pathlib import Path

import mlir as mlir_package
import pytest
from elftools.elf.elffile import ELFFile
from unit.engine.steps import Ran, failing_step, run_step

from gpubuild.engine.host import gpu_binary
from gpubuild.engine.ir import contexts
from gpubuild.errors import StepError, ToolNotFoundError
from gpubuild.model.offload_binary import unpack
from gpubuild.model.step import BundleParams, StepKind
from gpubuild.settings import Settings
from gpubuild.support.frozen import replace
from gpubuild.targets.target import Target
from gpubuild.targets.vendor import ImageKind, OffloadKind
from gpubuild.toolchain.find import Toolchain

MLIR_OPT = Path(next(iter(mlir_package.__path__))) / "bin" / "mlir-opt"
SM_60 = Target(name="sm_60", kind="nvvm", triple="nvptx64-nvidia-cuda", chip="sm_60")
SM_90A = Target(
    name="hopper", kind="nvvm", triple="nvptx64-nvidia-cuda", chip="sm_90a", features="+ptx80", opt_level=2
)
GFX90A = Target(
    name="gfx90a", kind="rocdl", triple="amdgcn-amd-amdhsa", chip="gfx90a", features="+sramecc,-xnack"
)
CPU = Target(
    name="cpu", kind="cpu", triple="x86_64-unknown-linux-gnu", chip="x86-64-v3", features="+avx512f",
    fast_math=True, flags=("ftz",),
)  # fmt: skip
OBJECTS = (SM_60, SM_90A, GFX90A, CPU)
BLOBS = (bytes(range(256)), b'"\\22"\0', b"\x7fELF\n\r\t", b"")
PTX = '.version 7.8\n.target sm_60\n// "quoted" \\ ünïcode\n'
KERNELS = [{"name": "saxpy", "registers": 12, "shared_bytes": 0, "spill_bytes": None}]
SIGNATURE = '"a\\22,<b", !llvm.func<void (ptr<1>, f32)>, arg_attrs = [{llvm.noalias}, {}]'
METADATA = ', metadata = {note = "x, }>", registers = 12 : i64}'
TABLE = '#gpu.kernel_table<[#gpu.kernel_metadata<{}>, #gpu.kernel_metadata<"saxpy", () -> ()>]>'
INFO = json.dumps({"schema": 1, "kernels": KERNELS, "table": TABLE.format(SIGNATURE + METADATA)})


def params(handler: str = "#gpu.select_object<0>", targets: tuple[Target, ...] = OBJECTS) -> BundleParams:
    return BundleParams(
        module="saxpy_kernels",
        handler=handler,
        targets=targets,
        names=tuple(t.name for t in targets),
        formats=tuple(t.format for t in targets),
    )


def inputs(blobs: tuple[bytes, ...] = BLOBS) -> dict[str, bytes | str | Path]:
    found: dict[str, bytes | str | Path] = {}
    for number, blob in enumerate(blobs):
        found |= {f"object.{number}": blob, f"info.{number}": INFO, f"asm.{number}": PTX}
    return found


def bundle(tmp_path: Path, given: BundleParams | None = None) -> Ran:
    return run_step(tmp_path, StepKind.BUNDLE, given or params(), inputs(), ("binary",))


def read(text: str) -> list[gpu_binary.ObjectData]:
    with contexts.context():
        return gpu_binary.read_objects(gpu_binary.binaries(contexts.parse(text))["saxpy_kernels"])


def upstream(text: str) -> str:
    made = subprocess.run([MLIR_OPT], input=text, capture_output=True, text=True, check=True)
    return made.stdout


def test_blobs_and_properties_survive_upstreams_mlir_opt(tmp_path: Path) -> None:
    text = bundle(tmp_path).text("binary")
    objects = read(upstream(text))
    assert objects == read(text)
    assert tuple(o.data for o in objects) == BLOBS
    assert [o.target for o in objects] == [
        '#nvvm.target<O = 3, chip = "sm_60">',
        '#nvvm.target<chip = "sm_90a", features = "+ptx80">',
        '#rocdl.target<O = 3, chip = "gfx90a", features = "+sramecc,-xnack">',
        '#nvvm.target<O = 3, triple = "x86_64-unknown-linux-gnu", chip = "x86-64-v3", '
        'features = "+avx512f", flags = {fast, ftz}>',
    ]
    for name, values in {
        "O": [3, 2, 3, 3],
        "gpubuild.target": ["sm_60", "hopper", "gfx90a", "cpu"],
        # What the runtime compares with a device.
        "gpubuild.arch": ["sm_60", "sm_90a", "gfx90a:sramecc+:xnack-", "x86-64-v3"],
        "gpubuild.features": [None, None, None, "+avx512f"],
        "gpubuild.ptx": [PTX, None, None, None],  # where later devices can run it
    }.items():
        assert [o.properties.get(name) for o in objects] == values
    assert all(json.loads(str(o.properties["gpubuild.kernels"])) == KERNELS for o in objects)


def test_text_is_canonical(tmp_path: Path) -> None:
    text = bundle(tmp_path).text("binary")
    with contexts.context():
        assert contexts.canonical_text(contexts.parse(text)) == text
    assert text.count("gpu.binary @saxpy_kernels <#gpu.select_object<0 : i64>>") == 1


def test_code_that_no_fat_binary_can_have_is_an_error(tmp_path: Path) -> None:
    fat = params(targets=(replace(SM_60, format="fatbin"),))
    library = Toolchain(Settings()).require("nvfatbin").command
    for tools, message in (({}, "nvfatbin was not found"), ({"nvfatbin": library}, "fatbinary elf")):
        with pytest.raises((StepError, ToolNotFoundError), match=message):
            run_step(tmp_path, StepKind.BUNDLE, fat, inputs(), ("binary",), tools)


@pytest.mark.parametrize(
    "handler",
    [
        "#gpu.select_object<3>",
        "#gpu.select_object",
        '#gpu.select_object<#nvvm.target<chip = "sm_90a", features = "+ptx80">>',
        '#gpu.select_object<#rocdl.target<features = "+sramecc,-xnack", chip = "gfx90a", O = 3>>',
    ],
)
def test_handlers_that_select_an_object(tmp_path: Path, handler: str) -> None:
    assert "gpu.binary" in upstream(bundle(tmp_path, params(handler)).text("binary"))


@pytest.mark.parametrize(
    "handler", ["#gpu.select_object<4>", '#gpu.select_object<#nvvm.target<chip = "sm_90">>']
)
def test_handlers_that_select_nothing_list_what_there_is(tmp_path: Path, handler: str) -> None:
    error = failing_step(tmp_path, StepKind.BUNDLE, params(handler), inputs(), ("binary",))
    assert "@saxpy_kernels selects none of its objects" in error.message
    assert '3: #nvvm.target<O = 3, triple = "x86_64-unknown-linux-gnu"' in error.output


def test_a_handler_that_does_not_parse_is_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    error = failing_step(tmp_path, StepKind.BUNDLE, params("#gpu.nonsense<"), inputs(), ("binary",))
    assert error.message.startswith("not an offloading handler: #gpu.nonsense<")
    assert error.diagnostics
    assert error.stage == "bundle"
    assert capfd.readouterr().err == ""  # reported once, not also printed


@pytest.mark.parametrize("given", ["", "bin", "assembly"])
def test_only_machine_code_has_metadata_of_kernels(tmp_path: Path, given: str) -> None:
    found = read(upstream(bundle(tmp_path, params(targets=(replace(GFX90A, format=given),))).text("binary")))
    metadata = "" if given == "assembly" else METADATA
    assert [item.kernels for item in found] == [TABLE.format(SIGNATURE + metadata)]


@pytest.mark.parametrize(("handler", "kept"), [("#gpu.select_object<2>", 2), ("#gpu.select_object<0>", None)])
def test_images_are_in_an_object_of_their_own(tmp_path: Path, handler: str, kept: int | None) -> None:
    given = replace(params(handler), host_triple=CPU.triple, chosen=kept is not None)
    ran = run_step(tmp_path, StepKind.BUNDLE, given, inputs(), ("binary", "images"))
    elf = ELFFile(io.BytesIO(ran.outputs["images"]))
    images = unpack(elf.get_section_by_name(".llvm.offloading").data())
    if kept is not None:
        assert [i.data for i in images] == [BLOBS[kept]]
        return
    assert [(i.image_kind, i.offload_kind, i.strings["arch"]) for i in images] == [
        (ImageKind.CUBIN, OffloadKind.CUDA, "sm_60"),
        (ImageKind.PTX, OffloadKind.CUDA, "sm_60"),
        (ImageKind.CUBIN, OffloadKind.CUDA, "sm_90a"),
        (ImageKind.OBJECT, OffloadKind.HIP, "gfx90a:sramecc+:xnack-"),
        (ImageKind.OBJECT, OffloadKind.NONE, "x86-64-v3"),
    ]
    assert tuple(i.data for i in images if i.image_kind != ImageKind.PTX) == BLOBS
    assert images[1].data == PTX.encode() + b"\0"
    assert {i.strings["gpubuild.module"] for i in images} == {"saxpy_kernels"}
    assert [i.strings["gpubuild.target"] for i in images] == ["sm_60", "sm_60", "hopper", "gfx90a", "cpu"]
    assert all('"name":"saxpy"' in i.strings["gpubuild.kernels"] for i in images)
    assert [i.strings.get("gpubuild.features") for i in images] == [None] * 4 + ["+avx512f"]
    assert images[3].strings["triple"] == "amdgcn-amd-amdhsa"
    symbols = {s.name: s for s in elf.get_section_by_name(".symtab").iter_symbols()}
    assert symbols["gpubuild.images.saxpy_kernels"]["st_other"]["visibility"] == "STV_HIDDEN"
    assert "gpubuild.images.saxpy_kernels.size" in symbols
