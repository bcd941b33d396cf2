from __future__ import annotations

import re
from pathlib import Path

import pytest
from unit.inspect import samples

from gpubuild.engine.host import gpu_binary
from gpubuild.engine.ir import contexts
from gpubuild.errors import UsageError
from gpubuild.inspect.reader import inspect_file
from gpubuild.inspect.records import Module

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
        ("gpu.binary @k [#alias]", "undefined symbol alias id 'alias'"),
        ('gpu.binary @k [#gpu.object<#nvvm.target, bin = "\\q">]', "unknown escape"),
        ('gpu.binary @"\\00" [#gpu.object<#nvvm.target, bin = "x">]', "cannot contain NUL"),
        (printed()[: printed().index("gpu.binary") + 300], "error"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        modules_of(tmp_path, text)


def test_deep_nesting_crashes_mlir_alone(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="MLIR crashed while reading it|cannot parse"):
        modules_of(tmp_path, "gpu.binary @k attributes {a = " + "[" * 200_000)
