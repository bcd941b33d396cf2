"""Taking apart what programs hand to mgpuModuleLoad; damaged containers never crash."""

import struct

from unit.runtime.programs import Runtime, container, cubin, elf, hsaco, ptx

GOOD = container(("sm_60", cubin()), ("gfx90a", hsaco()), ("sm_60", ptx("sm_60")))
REGISTER = "load(0)"


BARE = [
    (cubin(90), "sm_90", "cubin"),
    (cubin(), "unknown chip", "cubin"),
    (hsaco("gfx90a:xnack-"), "gfx90a:xnack-", "hsaco"),
    (hsaco(), "unknown chip", "hsaco"),
    (ptx("sm_60"), "sm_60", "ptx"),
    (ptx("sm_90a") + b"\0", "sm_90a", "ptx"),
    (b"\x50\xed\x55\xba" + bytes(12), "unknown chip", "fatbin"),
    (b"__CLANG_OFFLOAD_BUNDLE__" + bytes(8), "unknown chip", "fatbin"),
    (elf(62), "unknown chip", "shared object"),
    (elf(183), "unknown chip", "shared object"),
]


def test_bare_images(runtime: Runtime) -> None:
    rows = [(f"mgpuModuleGetFunction(load({number}), b'k')", {}) for number in range(len(BARE))]
    ended = runtime.each(rows, *(image for image, *_ in BARE), device="cuda")  # which has no driver
    for done, (image, chip, name) in zip(ended, BARE, strict=True):
        assert done.code == 1
        assert f"images of module (unnamed): {chip} ({name}, {len(image)} bytes)\n" in done.err


def test_a_name_that_would_steer_the_terminal(runtime: Runtime) -> None:
    data = container(("sm_60", cubin()), module="m\x1b[2J\x9b\x7f\tµ")
    done = runtime.run(REGISTER, data, GPUBUILD_TRACE="1").ok()
    assert "register module m\\x1b[2J\\u009b\\x7f\tµ, 1 image," in done.err
    script = "mgpuModuleGetFunction(load(0), b'k\\x1b]0;t\\x07')"
    done = runtime.run(script, data, device="cuda", cuda="6.1", FAKE_FAIL="cuModuleGetFunction=500")
    assert "\x1b" not in done.err
    assert "kernel: k\\x1b]0;t\\x07\n" in done.err


def test_containers_and_padding_between_them(runtime: Runtime) -> None:
    two = container(("sm_60", cubin())) + bytes(16) + container(("gfx90a", hsaco())) + bytes(8)
    for data, images in ((GOOD, 3), (two, 2)):
        done = runtime.run(REGISTER, data, GPUBUILD_TRACE="1").ok()
        assert f"register module m, {images} images, {len(data)} bytes" in done.err


def test_version_2_holds_several_entries(runtime: Runtime) -> None:
    strings = b"arch\0sm_60\0sm_90\0"
    first, second = cubin(), cubin()
    table = 32 + 2 * 40
    names = table + 2 * 24
    images = (names + len(strings) + 7) // 8 * 8
    size = images + len(first) + len(second)
    data = struct.pack("<4sIQQQ", b"\x10\xff\x10\xad", 2, size, 32, 2)
    data += struct.pack("<HHIQQQQ", 3, 2, 0, table, 1, images, len(first))
    data += struct.pack("<HHIQQQQ", 3, 2, 0, table + 24, 1, images + len(first), len(second))
    data += struct.pack("<QQQ", names, names + 5, 5) + struct.pack("<QQQ", names, names + 11, 5)
    data += strings
    data += bytes(images - len(data)) + first + second
    done = runtime.run(
        "mgpuModuleGetFunction(load(0), b'k')", data, device="cuda", cuda="6.1", GPUBUILD_TRACE="1"
    ).ok()
    assert "2 images" in done.err
    assert "image sm_60 (cubin" in done.err


MALFORMED = [
    (b"", "the image is empty"),
    (b"hello", "the image is of no known format (5 bytes, the first are 68 65 6c 6c)"),
    (b"\x7fELF", "the image is of no known format"),
    (elf(8), "the image is of no known format"),
    (GOOD[:20], "malformed OffloadBinary at byte 0 of 20: a container's header is cut off"),
    (GOOD[:100], "malformed OffloadBinary at byte 0 of 100: a container is cut off"),
    (GOOD + b"tail", "something that is not a container follows one"),
    (GOOD[:4] + b"\x09" + GOOD[5:], "a container's version is neither 1 nor 2"),
]


def test_malformed(runtime: Runtime) -> None:
    rows = [(f"load({number})", {}) for number in range(len(MALFORMED))]
    ended = runtime.each(rows, *(image for image, _ in MALFORMED))
    for done, (_, message) in zip(ended, MALFORMED, strict=True):
        assert done.code == 1
        assert "gpubuild: cannot load a module: " in done.err
        assert message in done.err
        assert "  call: mgpuModuleLoad\n" in done.err


def test_damage_anywhere_is_an_error_or_harmless(runtime: Runtime) -> None:
    """Every truncation and many damaged copies: each child exits, none crashes."""
    script = """
        import random
        damage = random.Random(1)
        data = blobs[0]
        cases = [data[:n] for n in range(len(data))]
        for _ in range(400):
            copy = bytearray(data)
            for _ in range(damage.randint(1, 4)):
                at = damage.randrange(min(len(copy), 160))
                copy[at] = damage.choice([0, 1, 7, 0x7f, 0x80, 0xff, damage.randrange(256)])
            cases.append(bytes(copy))
        os.close(2)
        for number, case in enumerate(cases):
            exact = create_string_buffer(case, len(case)) if case else None
            pid = os.fork()
            if pid == 0:
                mgpuModuleLoad(addressof(exact) if exact else None, len(case))
                os._exit(0)
            status = os.waitpid(pid, 0)[1]
            assert os.WIFEXITED(status) and os.WEXITSTATUS(status) in (0, 1), (number, status)
        print('checked', len(cases), flush=True)
    """
    whole = container(("sm_60", cubin()))
    runtime.run(REGISTER, whole).ok()
    assert runtime.run(script, whole).ok().out.startswith(b"checked")
