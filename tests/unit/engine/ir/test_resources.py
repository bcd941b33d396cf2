"""`dense_resource` in outlining and in later steps."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from unit.engine.device_steps import in_child, tools
from unit.engine.steps import Ran, run_step
from unit.projects import TARGETS

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.resources import file_name, separate, take_out
from gpubuild.errors import Diagnostic, StepError
from gpubuild.model.digest import digest_bytes
from gpubuild.model.project import Offload
from gpubuild.model.step import CompileParams, HostParams, OutlineParams, StepKind
from gpubuild.support.frozen import replace

N = 2000  # floats: too many for the text
LARGE = bytes(range(250)) * (4 * N // 250)
OTHER = LARGE[::-1]
SMALL = bytes.fromhex("0000803F000000400000404000008040")


def section(alignment: int = 4, **data: bytes) -> str:
    entries = ", ".join(
        f'{name}: "0x{alignment.to_bytes(4, "little").hex()}{value.hex()}"' for name, value in data.items()
    )
    return f"{{-# dialect_resources: {{ builtin: {{ {entries} }} }} #-}}\n"


PROGRAM = f"""module attributes {{gpu.container_module}} {{
  memref.global "private" constant @w : memref<{N}xf32> = dense_resource<w>
  gpu.module @k {{
    memref.global "private" constant @c : memref<{N}xf32> = dense_resource<c>
    gpu.func @f(%out: memref<{N}xf32>) kernel {{
      %i = gpu.global_id x
      %c = memref.get_global @c : memref<{N}xf32>
      %v = memref.load %c[%i] : memref<{N}xf32>
      memref.store %v, %out[%i] : memref<{N}xf32>
      gpu.return
    }}
  }}
  func.func @get(%i: index) -> f32 {{
    %w = memref.get_global @w : memref<{N}xf32>
    %v = memref.load %w[%i] : memref<{N}xf32>
    return %v : f32
  }}
}}
"""


def outlined(text: str, *, passes: str = "", name: str = "k.mlir") -> dict[str, bytes]:
    return in_child(_outlined, text, passes, name)


def _outlined(text: str, passes: str, name: str, folder: Path | None = None) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as made:
        given = OutlineParams(passes=passes, source_name=name)
        ran = run_step(folder or Path(made), StepKind.OUTLINE, given, {"source": text}, ())
        out = (folder or Path(made)) / "job" / "out"
        return {blob.name: (out / blob.name).read_bytes() for blob in ran.result.result.blobs}


def refused(text: str) -> Diagnostic:
    with pytest.raises(StepError) as caught:
        outlined(text)
    return caught.value.diagnostics[0]


def without_places(outputs: Mapping[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in outputs.items() if name != "places.txt"}


def named(data: bytes) -> str:
    return f"dense_resource<sha256_{digest_bytes(data)}>"


def test_large_resources_are_files_named_after_their_content() -> None:
    outputs = outlined(PROGRAM + section(w=LARGE, c=OTHER, unused=LARGE[:5000]))
    files = {name: outputs[name] for name in outputs if name.startswith("resource.")}
    assert files == {file_name(digest_bytes(data)): data for data in (LARGE, OTHER)}
    index = json.loads(outputs["index.json"])
    assert index["resources"] == [file_name(digest_bytes(LARGE))]
    assert index["modules"][0]["resources"] == [file_name(digest_bytes(OTHER))]
    for name, data in (("host", LARGE), ("host_located", LARGE), ("module.0", OTHER), ("located.0", OTHER)):
        text = outputs[f"{name}.mlir"].decode()
        assert text.count("dense_resource<") == 1
        assert f"= {named(data)}" in text


def test_texts_depend_on_the_content_only() -> None:
    plain = outlined(PROGRAM + section(w=LARGE, c=OTHER))
    renamed = PROGRAM.replace("<w>", '<"my w">').replace("<c>", "<w>")
    again = outlined(renamed + section(64, **{'"my w"': LARGE, "w": OTHER, "unused": SMALL}))
    located = {"located.0.mlir", "host_located.mlir"}
    assert {n: d for n, d in without_places(again).items() if n not in located} == {
        n: d for n, d in without_places(plain).items() if n not in located
    }
    changed = outlined(PROGRAM + section(w=OTHER, c=OTHER))
    assert changed["host.mlir"] != plain["host.mlir"]
    assert changed["module.0.mlir"] == plain["module.0.mlir"]


def test_text_is_a_fixpoint() -> None:
    text = outlined(PROGRAM + section(w=LARGE, c=OTHER))["module.0.mlir"].decode()
    with contexts.context():
        once = contexts.parse(text)
        twice = contexts.parse(text)  # MLIR renames its resources
        assert contexts.canonical_text(once) == contexts.canonical_text(twice) == text


def test_small_resources_are_given_back_to_the_text() -> None:
    source = """
      memref.global @f : memref<4xf32> = dense_resource<f>
      memref.global @b : memref<8xbf16> = dense_resource<f>
      memref.global @i : memref<2x8xi8> = dense_resource<f>
      memref.global @n : memref<2xindex> = dense_resource<f>
      memref.global @s : memref<f32> = dense_resource<s>
      memref.global @z : memref<0xf32> = dense_resource<z>
      memref.global @o : memref<10xi1> = dense_resource<o>
      func.func @g() attributes {a.b = [1, {c = dense_resource<s> : tensor<1xf32>}]} {
        %v = arith.constant dense_resource<f> : vector<4xf32>
        return
      }
    """
    outputs = outlined(source + section(f=SMALL, s=SMALL[:4], z=b"", o=bytes([1, 0, 0, 1, 1, 0, 0, 0, 0, 1])))
    assert not any(name.startswith("resource.") for name in outputs)
    host = outputs["host.mlir"].decode()
    assert "dense_resource" not in host
    for line in (
        "@f : memref<4xf32> = dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]>",
        "@n : memref<2xindex> = dense<[4611686019492741120, 4647714816524288000]>",
        "@s : memref<f32> = dense<1.000000e+00>",
        "@z : memref<0xf32> = dense<>",
        "@o : memref<10xi1> = dense<[true, false, false, true, true, false, false, false, false, true]>",
        "{c = dense<1.000000e+00> : tensor<1xf32>}",
    ):
        assert line in host


def test_complex_numbers(tmp_path: Path) -> None:
    source = """
      memref.global @plain : memref<1xcomplex<f32>> = dense<(3.0, 4.0)>
      memref.global @c : memref<2xcomplex<f32>> = dense_resource<f>
    """
    assert SMALL in host_step(tmp_path, source + section(f=SMALL)).outputs["object"]
    one = "memref.global @c : memref<complex<f32>> = dense_resource<f>\n" + section(f=SMALL[:8])
    assert refused(one).message.endswith("is one complex number: write it as `dense`")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (section(), "nothing in this file defines dense_resource<w>"),
        ("", "nothing in this file defines dense_resource<w>"),
        (section(w=LARGE[:-1]), "dense_resource<w> has 7999 bytes, tensor<2000xf32> needs 8000"),
        (section(w=LARGE).replace("20", "2g"), "dense_resource<w>: Non-hexadecimal digit found"),
    ],
)
def test_wrong_data_have_a_place(data: str, message: str) -> None:
    found = refused(PROGRAM.replace("<c>", "<w>") + data)
    assert found.message == message
    assert (found.location.file, found.location.line) == ("k.mlir", 2)
    assert "dense_resource<w>" in found.source_line


BUFFERIZE = "builtin.module(one-shot-bufferize{bufferize-function-boundaries})"


def test_passes_see_the_data() -> None:
    source = f"""func.func @get(%i: index) -> f32 {{
      %w = arith.constant dense_resource<w> : tensor<{N}xf32>
      %v = tensor.extract %w[%i] : tensor<{N}xf32>
      return %v : f32
    }}
    """
    outputs = outlined(source + section(w=LARGE), passes=BUFFERIZE)
    assert outputs[file_name(digest_bytes(LARGE))] == LARGE
    assert f"memref<{N}xf32> = {named(LARGE)}" in outputs["host.mlir"].decode()


def test_a_module_text_is_a_source(tmp_path: Path) -> None:
    first = outlined(PROGRAM + section(w=LARGE, c=OTHER))
    text = first["module.0.mlir"].decode()
    with pytest.raises(StepError, match="data"):
        outlined(text)
    resource = file_name(digest_bytes(OTHER))
    (tmp_path / resource).write_bytes(OTHER[1:])
    with pytest.raises(StepError, match="data"):
        in_child(_outlined, text, "", "k.mlir", tmp_path)
    (tmp_path / resource).write_bytes(OTHER)
    again = in_child(_outlined, text, "", "k.mlir", tmp_path)
    assert again["module.0.mlir"] == first["module.0.mlir"]
    assert again[resource] == OTHER


def host_step(folder: Path, source: str, **options: object) -> Ran:
    outputs = _outlined(source, "", "k.mlir", folder / "outline")
    resources = {
        f"resource.{number}": outputs[name]
        for number, name in enumerate(json.loads(outputs["index.json"])["resources"])
    }
    given = HostParams(modules=(), offload=Offload.DISPATCH, **options)
    inputs = {"host": outputs["host.mlir"], **resources}
    return run_step(folder / "host", StepKind.HOST, given, inputs, ("mlir", "llvm", "object"))


HOST = f"""
  memref.global "private" constant @used : memref<{N}xf32> = dense_resource<a> {{alignment = 256 : i64}}
  memref.global "private" constant @unused : memref<{N}xf32> = dense_resource<a>
  memref.global constant @public : memref<{N}xf32> = dense_resource<b>
  memref.global @mutable : memref<{N}xf32> = dense_resource<b>
  func.func @get(%i: index) -> f32 {{
    %w = memref.get_global @used : memref<{N}xf32>
    %v = memref.load %w[%i] : memref<{N}xf32>
    return %v : f32
  }}
"""


@pytest.mark.parametrize("opt_level", [0, 3])
def test_host_objects_have_the_data_and_llvm_ir_has_not(tmp_path: Path, opt_level: int) -> None:
    ran = host_step(tmp_path, HOST + section(a=LARGE, b=OTHER), opt_level=opt_level)
    assert f"@used = external constant [{N} x float], align 256" in ran.text("llvm")
    assert len(ran.text("llvm")) < N
    with (tmp_path / "host" / "job" / "out" / "object").open("rb") as stream:
        elf = ELFFile(stream)
        variables = {}
        for symbol in elf.get_section_by_name(".symtab").iter_symbols():
            if symbol["st_info"]["type"] == "STT_OBJECT":
                part = elf.get_section(symbol["st_shndx"])
                data = part.data()[symbol["st_value"] :][: symbol["st_size"]]
                variables[symbol.name] = (symbol["st_info"]["bind"], part["sh_flags"], data)
        contents = {s.name: (s["sh_addralign"], s.data()) for s in elf.iter_sections()}
    assert variables["public"] == ("STB_GLOBAL", 2, OTHER)
    assert variables["mutable"] == ("STB_GLOBAL", 3, OTHER)
    # Private variables have no symbols; unused ones are removed.
    mine = {name: given for name, given in contents.items() if "gpubuild.resource" in name}
    assert mine[".rodata.gpubuild.resource.0"] == (256, LARGE)
    assert ".rodata.gpubuild.resource.1" not in mine or opt_level == 0


def test_variables_of_the_llvm_dialect(tmp_path: Path) -> None:
    kind = f"!llvm.array<{N} x f32>"
    source = f"""
      llvm.mlir.global weak constant @weak(dense_resource<a> : tensor<{N}xf32>) : {kind}
      llvm.mlir.global external hidden @hidden(dense_resource<a> : tensor<{N}xf32>) : {kind}
      llvm.mlir.global external @named(dense_resource<b> : tensor<{N}xf32>) {{section = ".mine"}} : {kind}
      llvm.mlir.global internal thread_local @thread(dense_resource<b> : tensor<{N}xf32>) : {kind}
      llvm.func @get() -> !llvm.ptr {{
        %0 = llvm.mlir.addressof @thread : !llvm.ptr
        llvm.return %0 : !llvm.ptr
      }}
    """
    host_step(tmp_path, source + section(a=LARGE, b=OTHER))
    with (tmp_path / "host" / "job" / "out" / "object").open("rb") as stream:
        elf = ELFFile(stream)
        found = {}
        for symbol in elf.get_section_by_name(".symtab").iter_symbols():
            if symbol["st_size"] == 4 * N:
                part = elf.get_section(symbol["st_shndx"])
                seen = (symbol["st_info"]["bind"], symbol["st_other"]["visibility"])
                found[symbol.name] = (*seen, part.name, part.data())
    assert found == {
        "weak": ("STB_WEAK", "STV_DEFAULT", ".rodata.gpubuild.resource.0", LARGE),
        "hidden": ("STB_GLOBAL", "STV_HIDDEN", ".data.gpubuild.resource.1", LARGE),
        "named": ("STB_GLOBAL", "STV_DEFAULT", ".mine", OTHER),
        "thread": ("STB_LOCAL", "STV_DEFAULT", ".tdata", OTHER),
    }


def test_host_passes_of_ones_own(tmp_path: Path) -> None:
    passes = "builtin.module(convert-to-llvm,reconcile-unrealized-casts)"
    ran = host_step(tmp_path, HOST + section(a=LARGE, b=OTHER), passes=passes)
    assert LARGE in ran.outputs["object"]
    assert OTHER in ran.outputs["object"]


CPU = CompileParams(module="k", target=TARGETS["cpu"])


def test_code_for_another_linker_has_the_data(tmp_path: Path) -> None:
    outputs = outlined(PROGRAM + section(w=LARGE, c=OTHER))
    inputs = {"module": outputs["module.0.mlir"], "resource.0": OTHER}
    given = replace(CPU, relocatable=True)
    wanted = ("llvm", "asm", "object", "info", "device")
    ran = in_child(run_step, tmp_path, StepKind.COMPILE, given, inputs, wanted, tools())
    assert OTHER in ran.outputs["device"]
    assert OTHER in ran.outputs["object"]


# ---- the text of a section ----


SECTION_PROGRAM = rb"""memref.global @w : memref<4xi8> = dense_resource<w> // {-# "
func.func @f() attributes {a.b = "{-# dialect_resources: { builtin: { w: \"0x04000000FF\" } } #-}"} { return }
"""


def test_data_are_taken_out_of_the_section_only() -> None:
    section = rb"""{-#
      dialect_resources: {
        builtin: { w: "0x0400000001020aFF", none: "0x04000000", "a\22 b\\": "0x0100000042" }
      }
    #-}"""
    text, found = separate(SECTION_PROGRAM + section + b"func.func @g() { return }")
    assert {name: bytes.fromhex(digits.decode()) for name, digits in found.items()} == {
        "w": bytes.fromhex("01020aff"),
        'a" b\\': b"\x42",
    }
    bare = section.replace(b"01020aFF", b"").replace(b'"0x0100000042"', b'"0x01000000"')
    assert text == SECTION_PROGRAM + bare + b"func.func @g() { return }"


@pytest.mark.parametrize(
    "text",
    [
        SECTION_PROGRAM,
        b"module {}",
        b'{-# dialect_resources: { builtin: { w: "0x0400000001" }',
        b'{-# dialect_resources: { builtin: { w: "0x0400000001',
        b'{-# dialect_resources: { builtin: { w "0x0400000001" } } #-}',
        b'{-# dialect_resources: { builtin: { w: "0x0400000001" } } } #-}',
        b'{-# dialect_resources: { builtin: { w: "0x0400000001" } #-}',
        b"{-# dialect_resources: { builtin: { w: } } #-}",
        b'{-# dialect_resources: { { w: "0x0400000001" } } #-}',
        b'{-# dialect_resources: { builtin: { w: "0x0400000001" } } , ; #-}',
        b'{-# dialect_resources: { builtin: { "\\ff": "0x0400000001" } } #-}',
        b'{-# dialect_resources: { builtin: { w: "0x040000001" } } #-}',
        b'{-# dialect_resources: { builtin: { w: "04000000FFFF" } } #-}',
        b'{-# dialect_resources: { other: { w: "0x04000000FFFF" } } #-}',
        b'{-# dialect_resources: { builtin: { w: "0x0400000001" }, other: {} } #-}',
        b'// {-# dialect_resources: { builtin: { w: "0x0400000001" } } #-}',
    ],
)
def test_what_is_no_section_of_data_stays(text: bytes) -> None:
    assert separate(text) == (text, {})


MEBIBYTE = 1 << 20
MANY = bytes(range(256)) * (MEBIBYTE // 256)


@pytest.mark.parametrize(
    ("kind", "value", "data"),
    [
        ("262144xf32", f'dense<"0x{MANY.hex()}">', MANY),
        ("131072xi64", f'dense<"0x{MANY.hex()}">', MANY),
        ("1048576xi4", f'dense<"0x{MANY.hex()}">', MANY),
        ("131072xcomplex<f32>", f'dense<"0x{MANY.hex()}">', MANY),
        ("1048576xi8", f"dense<{[byte - 256 * (byte > 127) for byte in MANY]}>", MANY),
        ("1048576xi8", "dense<1>", b"\1" * MEBIBYTE),
        ("524288xf16", "dense<-2.0>", b"\0\xc0" * (MEBIBYTE // 2)),
        ("524287xf16", "dense<-2.0>", None),
        ("524288xbf16", "dense<-2.0>", None),
        ("524288xf16", "dense<0.0>", None),
        ("1048575xi8", f'dense<"0x{MANY[1:].hex()}">', None),
        ("8388608xi1", f'dense<"0x{MANY.hex()}">', None),
    ],
)
def test_large_dense_constants_become_resources(kind: str, value: str, data: bytes | None) -> None:
    text = f'memref.global "private" constant @w : memref<{kind}> = VALUE\nfunc.func @f() {{ return }}\n'
    outputs = outlined(text.replace("VALUE", value))
    host = outputs["host.mlir"].decode()
    assert (named(data) in host) if data is not None else "dense_resource" not in host
    assert outputs.get(file_name(digest_bytes(data or b""))) == data
    if data is None and '"' in value:
        assert value[9:-2].upper() in host


def test_large_dense_constants_of_another_size_are_errors() -> None:
    text = f'memref.global constant @w : memref<5000xf32> = dense<"0x{MANY.hex()}">\n'
    diagnostic = refused(text)
    assert diagnostic.message == 'dense<"0x…"> has 1048576 bytes, tensor<5000xf32> needs 20000'
    assert diagnostic.location.line == 1


# ---- long runs of digits ----

LONG = bytes(range(256)) * 8192  # 2 MiB
SHORTER = LONG[: 1 << 20]
MIDDLE = SHORTER[1:]  # stays where it is


def in_pieces(text: bytes, size: int, folder: Path) -> tuple[bytes, dict[bytes, str]] | None:
    folder.mkdir()
    return take_out((text[at : at + size] for at in range(0, len(text), size)), folder)


@pytest.mark.parametrize("size", [1 << 20, (1 << 20) - 1, 999_983])
def test_long_runs_become_files(tmp_path: Path, size: int) -> None:
    constant = 'dense<"0x' + SHORTER.hex() + '"> : tensor<1048576xi8>, "0x12", '
    text = (constant + section(w=LONG, small=SMALL, m=MIDDLE, c=SHORTER)).encode()
    taken = in_pieces(text, size, tmp_path / "out")
    assert taken is not None
    kept, found = taken
    assert MIDDLE.hex() in kept.decode()
    assert len(kept) - 2 * len(MIDDLE) < 1000
    assert sorted(found.values()) == sorted({digest_bytes(LONG), digest_bytes(SHORTER)})
    for mark, digest in found.items():
        content = (tmp_path / "out" / file_name(digest)).read_bytes()
        assert digest_bytes(content) == digest
        kept = kept.replace(mark, content.hex().encode())
    assert kept == text


@pytest.mark.parametrize("text", ['"0x0{}"', '"0x010000000g{}"', '"0x{}g0"', '"0x{}'])
def test_texts_with_other_runs_stay(tmp_path: Path, text: str) -> None:
    assert in_pieces(text.format(LONG.hex()).encode(), 1 << 20, tmp_path / "out") is None


def test_a_long_run_in_a_comment(tmp_path: Path) -> None:
    source = PROGRAM + f'// "0x{LONG.hex()}"\n'
    assert without_places(outlined(source + section(w=LARGE, c=OTHER))) == without_places(
        outlined(PROGRAM + section(w=LARGE, c=OTHER))
    )


def test_a_resource_of_another_size_than_its_name(tmp_path: Path) -> None:
    name = f"sha256_{digest_bytes(LONG)}"
    found = refused(PROGRAM.replace("<w>", f"<{name}>") + section(**{name: LONG, "c": OTHER}))
    assert "has 2097152 bytes, tensor<2000xf32> needs 8000" in found.message
