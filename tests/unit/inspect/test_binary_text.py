from __future__ import annotations

from pathlib import Path

import pytest
from unit.inspect import samples

from gpubuild.engine.host import gpu_binary
from gpubuild.engine.ir import contexts
from gpubuild.inspect import inspect_file
from gpubuild.inspect.binary_text import parse, unescape
from gpubuild.inspect.elf import DamagedError

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


@pytest.mark.parametrize(
    "handler", ["#gpu.select_object", '#gpu.select_object<#nvvm.target<chip = "sm_90">>']
)
def test_other_handlers(handler: str) -> None:
    (binary,) = parse(printed(handler))
    assert binary.handler == handler


def test_attributes_comments_and_layout() -> None:
    text = """
    // gpu.binary @commented []
    llvm.mlir.global constant @s("gpu.binary @quoted [")
    func.func private @f() -> () attributes {a = "gpu.binary"}
    gpu.binary @a attributes {note = "[{"} [
      #gpu.object<#nvvm.target, // upstream's default chip ]>
        bin = "\\00x">]
    gpu.binary @b <#foo.bar<(i32) -> i32>> {x = [1, 2]} [#gpu.object<#rocdl.target, "fat">]
    """
    a, b = parse(text)
    assert (a.name, a.handler, a.objects[0].chip, a.objects[0].data) == (
        "a",
        "#gpu.select_object",
        "sm_50",
        b"\0x",
    )
    assert (b.handler, b.objects[0].format, b.objects[0].chip) == (
        "#foo.bar<(i32) -> i32>",
        "fatbin",
        "gfx900",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\ngpu.binary", "line 3: .* expected @ and a name"),
        ("gpu.binary @k", "expected \\[ and a list"),
        ("gpu.binary @k [", "ends before a closing \\]"),
        ("gpu.binary @k [)", "another bracket"),
        ('gpu.binary @k [#gpu.object<#nvvm.target, bin = "a]', "does not end"),
        ("gpu.binary @k [#alias]", "aliases are not followed"),
        ("gpu.binary @k [#gpu.object<#nvvm.target, bin = 5>]", "expected a target and a string"),
        ('gpu.binary @k [#gpu.object<#nvvm.target, bin = "\\q">]', "unknown escape"),
        ('"gpu.binary"() {}', "generic form"),
        ("gpu.binary @k attributes", "expected"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(DamagedError, match=message):
        parse(text)


def test_every_truncation_is_refused() -> None:
    text = printed()
    start = text.index("gpu.binary") + len("gpu.binary")
    end = text.rindex("]")
    for size in {*range(start, start + 400), *range(start, end, 97), end}:
        with pytest.raises(DamagedError):
            parse(text[:size])


def test_deep_nesting_is_no_crash() -> None:
    with pytest.raises(DamagedError):
        parse("gpu.binary @k " + "[" * 200_000)


def test_unescape() -> None:
    assert unescape('a\\22\\5C\\5c\\n\\t\\"\\\\\\aBé') == b'a"\\\\\n\t"\\\xab' + "é".encode()
