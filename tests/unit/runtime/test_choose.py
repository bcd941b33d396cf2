"""Which image of a module a device takes."""

import platform
import re
import struct

from unit.runtime.programs import Runtime, container, cubin, elf, hsaco, ptx

FIND = "mgpuModuleGetFunction(load({}), b'k')"
Images = list[tuple[str, bytes]]


def chosen(runtime: Runtime, vendor: str, rows: list[tuple[str, Images]]) -> list[str]:
    """For each device and its images: the one that is loaded, as "chip format"; or why none is."""
    scripts = [(FIND.format(number), {"FAKE_DEVICES": device}) for number, (device, _) in enumerate(rows)]
    images = [container(*images) for _, images in rows]
    found = []
    for done in runtime.each(scripts, *images, device=vendor, GPUBUILD_TRACE="1", **{vendor: "each its own"}):
        loads = [line for line in done.err.splitlines() if "trace: load module" in line]
        assert loads or done.code == 1
        names = [re.search(r"image (.*) of target.*?\((.*?),", line) for line in loads]
        found.append(" ".join(names[0].groups()) if names and names[0] else done.err)
    return found


def choose(runtime: Runtime, vendor: str, table: list[tuple[str, Images, str]]) -> None:
    """Check the choices of a table, which the order of the images does not change."""
    for order in (1, -1):
        found = chosen(runtime, vendor, [(device, images[::order]) for device, images, _ in table])
        assert found == [expected for *_, expected in table]


def fatbin(*kinds: int) -> bytes:
    """A fat binary with an entry of each kind: 1 is PTX, 2 a cubin."""
    entries = b"".join(struct.pack("<HHIQ48x8x", kind, 0x101, 64, 8) for kind in kinds)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


def binaries(*chips: str) -> list[tuple[str, bytes]]:
    return [(chip, cubin()) for chip in chips]


NVIDIA: list[tuple[str, Images, str]] = [
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
]
NVIDIA_REFUSES: list[tuple[str, Images, str]] = [
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
]


def test_nvidia(runtime: Runtime) -> None:
    choose(runtime, "cuda", NVIDIA)


def test_nvidia_refuses(runtime: Runtime) -> None:
    errors = chosen(runtime, "cuda", [(device, images) for device, images, _ in NVIDIA_REFUSES])
    for error, (device, images, reason) in zip(errors, NVIDIA_REFUSES, strict=True):
        assert "this program cannot run on the device that GPUBUILD_DEVICE asks for (cuda)" in error
        shown = f"cuda:0 (Fake GPU 0, sm_{device.replace('.', '')}): {images[0][0]}"
        assert f"no image of module m runs on {shown}" in error
        assert f" bytes): {reason}\n" in error


def code(*chips: str) -> list[tuple[str, bytes]]:
    return [(chip, hsaco()) for chip in chips]


AMD: list[tuple[str, Images, str]] = [
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
    ("gfx90a:sramecc+:xnack-", [("", hsaco("gfx90a:xnack-")), ("", hsaco("gfx942"))], "gfx90a:xnack- hsaco"),
]
AMD_REFUSES = [
    ("gfx90a:sramecc+:xnack-", "gfx90a:xnack+", "needs another setting of xnack"),
    ("gfx90a:sramecc+:xnack-", "gfx90a:sramecc-", "needs another setting of sramecc"),
    ("gfx1100", "gfx1100:xnack+", "needs another setting of xnack"),
    ("gfx90a:sramecc+:xnack-", "gfx90", "code for another chip"),
    ("gfx90a:sramecc+:xnack-", "gfx90ab", "code for another chip"),
    ("gfx90a:sramecc+:xnack-", "gfx9-generic", "code for another chip"),
    ("gfx10", "gfx10-1-generic", "code for another chip"),
]


def test_amd(runtime: Runtime) -> None:
    choose(runtime, "hip", AMD)


def test_amd_refuses(runtime: Runtime) -> None:
    errors = chosen(runtime, "hip", [(device, code(chip)) for device, chip, _ in AMD_REFUSES])
    for error, (_, chip, reason) in zip(errors, AMD_REFUSES, strict=True):
        assert f"{chip} (hsaco, 64 bytes): {reason}\n" in error


def test_other_processors(runtime: Runtime) -> None:
    this, other = (62, 183) if "x86" in platform.machine() else (183, 62)
    for chip, machine, reason in (
        ("generic", other, "code for another processor architecture"),
        ("no-such-processor", this, "needs instructions that this processor lacks"),
    ):
        done = runtime.run(FIND.format(0), container((chip, elf(machine))), device="cpu")
        assert f"{chip} (shared object, 64 bytes): {reason}" in done.err
