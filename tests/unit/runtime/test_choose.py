"""Which image of a module a device takes."""

from __future__ import annotations

import platform
import struct

import pytest
from unit.runtime.programs import Runtime, container, cubin, elf, hsaco, ptx

FIND = "mgpuModuleGetFunction(load(0), b'k')"


def chosen(
    runtime: Runtime, images: list[tuple[str, bytes]], *, cuda: str | None = None, hip: str | None = None
) -> str:
    """The target whose image was loaded, as "chip format"; or why none was."""
    device = "cuda" if cuda else "hip"
    done = runtime.run(FIND, container(*images), device=device, cuda=cuda, hip=hip, GPUBUILD_TRACE="1")
    for line in done.err.splitlines():
        if "trace: load module" in line:
            return line.split("image ")[1].split(" of target")[0] + " " + line.split("(")[1].split(",")[0]
    assert done.code == 1
    return done.err


def fatbin(*kinds: int) -> bytes:
    """A fat binary with an entry of each kind: 1 is PTX, 2 a cubin."""
    entries = b"".join(struct.pack("<HHIQ48x8x", kind, 0x101, 64, 8) for kind in kinds)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


def binaries(*chips: str) -> list[tuple[str, bytes]]:
    return [(chip, cubin()) for chip in chips]


@pytest.mark.parametrize(
    ("device", "images", "expected"),
    [
        ("9.0", binaries("sm_60", "sm_90"), "sm_90 cubin"),
        ("9.0", binaries("sm_90", "sm_90a"), "sm_90a cubin"),
        ("8.9", binaries("sm_80", "sm_86", "sm_70"), "sm_86 cubin"),
        ("8.6", binaries("sm_80", "sm_89"), "sm_80 cubin"),
        ("10.3", binaries("sm_100", "sm_100f"), "sm_100f cubin"),
        ("10.3", binaries("sm_100a", "sm_100"), "sm_100 cubin"),
        ("10.3", binaries("sm_103", "sm_100f"), "sm_103 cubin"),
        ("12.0", binaries("sm_120"), "sm_120 cubin"),
        ("9.0", [("sm_80", cubin()), ("sm_60", ptx("sm_60"))], "sm_60 ptx"),
        ("9.0", [("sm_60", ptx("sm_60")), ("sm_75", ptx("sm_75"))], "sm_75 ptx"),
        ("9.0", [("sm_90a", ptx("sm_90a")), ("sm_80", ptx("sm_80"))], "sm_90a ptx"),
        ("10.0", [("sm_90a", ptx("sm_90a")), ("sm_80", ptx("sm_80"))], "sm_80 ptx"),
        ("8.6", [("sm_86", ptx("sm_86")), ("sm_80", cubin())], "sm_80 cubin"),
        ("9.0", [("", b"\x50\xed\x55\xba" + bytes(60))], "of unknown chip fatbin"),
        ("8.6", [("sm_80", fatbin(2, 1)), ("sm_75", ptx("sm_75"))], "sm_80 fatbin"),
        ("9.0", [("sm_80", fatbin(2, 1)), ("sm_75", ptx("sm_75"))], "sm_80 fatbin"),
        ("9.0", [("sm_80", fatbin(2)), ("sm_75", ptx("sm_75"))], "sm_75 ptx"),
        # The chip of an entry that does not name it is read from the image.
        ("9.0", [("", cubin(60)), ("", cubin(90))], "sm_90 cubin"),
        ("9.0", [("", elf(190, abi=7, flags=0x85A)), ("", cubin(90))], "sm_90a cubin"),
        ("10.0", [("", elf(190, abi=8, flags=0x6006402)), ("", cubin(90))], "sm_100 cubin"),
        ("12.0", [("", elf(190, abi=8, flags=0x600780A)), ("", ptx("sm_80"))], "sm_120a cubin"),
    ],
)
def test_nvidia(runtime: Runtime, device: str, images: list[tuple[str, bytes]], expected: str) -> None:
    assert chosen(runtime, images, cuda=device) == expected
    assert chosen(runtime, images[::-1], cuda=device) == expected


@pytest.mark.parametrize(
    ("device", "images", "reason"),
    [
        ("9.0", binaries("sm_80"), "machine code of another major version"),
        ("8.0", binaries("sm_86"), "machine code for a newer chip"),
        ("10.0", binaries("sm_90a"), "code for a chip with suffix 'a' runs on exactly that chip"),
        ("10.3", binaries("sm_100a"), "code for a chip with suffix 'a' runs on exactly that chip"),
        ("10.0", [("sm_90a", ptx("sm_90a"))], "code for a chip with suffix 'a' runs on exactly that chip"),
        ("12.0", binaries("sm_100f"), "code for a chip with suffix 'f' runs on its family only"),
        ("8.0", [("sm_90", ptx("sm_90"))], "PTX for a newer chip"),
        ("8.0", [("sm_86", ptx("sm_86"))], "PTX for a newer chip"),
        ("9.0", [("sm_80", fatbin(2, 2))], "machine code of another major version"),
        ("9.0", [("sm_80", fatbin(2)[:60] + fatbin(1))], "machine code of another major version"),
        ("7.5", [("sm_80", fatbin(2, 1))], "PTX for a newer chip"),
        ("10.0", [("sm_90a", fatbin(2, 1))], "code for a chip with suffix 'a' runs on exactly that chip"),
        ("9.0", binaries("sm_90b"), "its chip is not an NVIDIA chip"),
        ("9.0", [("gfx90a", hsaco())], "not an NVIDIA image"),
        ("9.0", [("x86-64", elf(62))], "not an NVIDIA image"),
    ],
)
def test_nvidia_refuses(runtime: Runtime, device: str, images: list[tuple[str, bytes]], reason: str) -> None:
    error = chosen(runtime, images, cuda=device)
    assert "this program cannot run on the device that GPUBUILD_DEVICE asks for (cuda)" in error
    assert (
        f"no image of module m runs on cuda:0 (Fake GPU 0, sm_{device.replace('.', '')}): {images[0][0]}"
        in error
    )
    assert f" bytes): {reason}\n" in error


def code(*chips: str) -> list[tuple[str, bytes]]:
    return [(chip, hsaco()) for chip in chips]


@pytest.mark.parametrize(
    ("device", "images", "expected"),
    [
        ("gfx90a:sramecc+:xnack-", code("gfx90a", "gfx942"), "gfx90a hsaco"),
        ("gfx90a:sramecc+:xnack-", code("gfx90a", "gfx90a:xnack-"), "gfx90a:xnack- hsaco"),
        ("gfx90a:sramecc+:xnack-", code("gfx90a:xnack+", "gfx90a"), "gfx90a hsaco"),
        (
            "gfx90a:sramecc+:xnack-",
            code("gfx90a:sramecc+:xnack-", "gfx90a:xnack-"),
            "gfx90a:sramecc+:xnack- hsaco",
        ),
        ("gfx942:sramecc+:xnack-", code("gfx9-4-generic", "gfx90a"), "gfx9-4-generic hsaco"),
        ("gfx942:sramecc+:xnack-", code("gfx9-4-generic", "gfx942"), "gfx942 hsaco"),
        ("gfx942:sramecc+:xnack-", code("gfx9-4-generic:xnack+", "gfx9-4-generic"), "gfx9-4-generic hsaco"),
        ("gfx1100", code("gfx11-generic", "gfx1030"), "gfx11-generic hsaco"),
        ("gfx1036", code("gfx10-3-generic", "gfx10-1-generic"), "gfx10-3-generic hsaco"),
        (
            "gfx90a:sramecc+:xnack-",
            [("", hsaco("gfx90a:xnack-")), ("", hsaco("gfx942"))],
            "gfx90a:xnack- hsaco",
        ),
    ],
)
def test_amd(runtime: Runtime, device: str, images: list[tuple[str, bytes]], expected: str) -> None:
    assert chosen(runtime, images, hip=device) == expected
    assert chosen(runtime, images[::-1], hip=device) == expected


@pytest.mark.parametrize(
    ("device", "chip", "reason"),
    [
        ("gfx90a:sramecc+:xnack-", "gfx90a:xnack+", "needs another setting of xnack"),
        ("gfx90a:sramecc+:xnack-", "gfx90a:sramecc-", "needs another setting of sramecc"),
        ("gfx1100", "gfx1100:xnack+", "needs another setting of xnack"),
        ("gfx90a:sramecc+:xnack-", "gfx90", "code for another chip"),
        ("gfx90a:sramecc+:xnack-", "gfx90ab", "code for another chip"),
        ("gfx90a:sramecc+:xnack-", "gfx9-generic", "code for another chip"),
        ("gfx10", "gfx10-1-generic", "code for another chip"),
    ],
)
def test_amd_refuses(runtime: Runtime, device: str, chip: str, reason: str) -> None:
    assert f"{chip} (hsaco, 64 bytes): {reason}\n" in chosen(runtime, code(chip), hip=device)


def test_foreign_processor(runtime: Runtime) -> None:
    other = 183 if "x86" in platform.machine() else 62
    done = runtime.run(FIND, container(("generic", elf(other))), device="cpu")
    assert "code for another processor architecture" in done.err


def test_processor_without_the_instructions(runtime: Runtime) -> None:
    this = 62 if "x86" in platform.machine() else 183
    done = runtime.run(FIND, container(("no-such-processor", elf(this))), device="cpu")
    assert (
        "no-such-processor (shared object, 64 bytes): needs instructions that this processor lacks"
        in done.err
    )
