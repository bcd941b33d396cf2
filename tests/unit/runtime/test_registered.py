"""Programs whose constructors register device images, as clang-linker-wrapper generates them."""

# ruff: noqa: E501  (programs inside strings are not broken for width)

import struct
from pathlib import Path

import pytest
from unit.runtime.programs import FLAGS, Runtime, compile_c, cubin, elf, extra_flags, hsaco

from gpubuild.model.offload_binary import Image, pack
from gpubuild.targets.vendor import ImageKind, OffloadKind

PROGRAM = r"""
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern void *mgpuModuleLoad(void *, size_t), *mgpuModuleGetFunction(void *, const char *);
extern void mgpuModuleUnload(void *);
extern void mgpuLaunchKernel(void *, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, int32_t, void *, void **,
                             void **, size_t);
struct fat { uint32_t magic, version; const void *data, *unused; };
struct entry { uint64_t reserved; uint16_t version, kind; uint32_t flags; void *address; char *name; uint64_t size, data; void *more; };
struct image { const void *start, *end; struct entry *first, *last; };
struct list { int32_t count; struct image *images; struct entry *first, *last; };
void **__hipRegisterFatBinary(struct fat *), **__cudaRegisterFatBinary(struct fat *);
int __hipRegisterFunction(void **, const void *, char *, const char *, int, void *, void *, void *, void *, int *);
int __cudaRegisterFunction(void **, const void *, char *, const char *, int, void *, void *, void *, void *, int *);
void __hipUnregisterFatBinary(void **), __cudaUnregisterFatBinary(void **), __cudaRegisterFatBinaryEnd(void **);
void __hipRegisterVar(void **, void *, char *, const char *, int, size_t, int, int);
void __tgt_register_lib(struct list *), __tgt_unregister_lib(struct list *);

static unsigned char record[] __attribute__((aligned(8))) = {RECORD};
static unsigned char other[sizeof record];
static unsigned char bundle[] __attribute__((aligned(8))) = {BUNDLE};
static unsigned char fatbin[] __attribute__((aligned(8))) = {FATBIN};
static unsigned char cpu[] __attribute__((aligned(8))) = {CPU};
static struct fat hip = {0x48495046, 1, bundle, NULL}, cuda = {0x466243b1, 1, fatbin, NULL};
static struct entry entry;
static struct image image = {cpu, cpu + sizeof cpu, NULL, NULL};
static struct list list = {1, &image, &entry, &entry + 1};
static void **handles[2], *module;
static char name[] = "k";

static const char *what(void) { return getenv("WHAT") != NULL ? getenv("WHAT") : "all"; }
static void leave(void) {
    if (handles[0] != NULL) __hipUnregisterFatBinary(handles[0]);
    if (handles[1] != NULL) __cudaUnregisterFatBinary(handles[1]);
    __tgt_unregister_lib(&list);
}
__attribute__((constructor(101))) static void enter(void) {
    if (strcmp(what(), "nothing") == 0) return;
    void *mine = strcmp(what(), "other") == 0 ? other : record;
    if (strcmp(what(), "version") == 0) hip.version = 2;
    handles[0] = __hipRegisterFatBinary(&hip);
    __hipRegisterFunction(handles[0], (char *)mine + 1, name, name, -1, NULL, NULL, NULL, NULL, NULL);
    if (strcmp(what(), "variable") == 0) __hipRegisterVar(handles[0], record, name, "v", 0, 4, 0, 0);
    handles[1] = __cudaRegisterFatBinary(&cuda);
    __cudaRegisterFunction(handles[1], (char *)mine, name, name, -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(handles[1]);
    entry.address = mine;
    __tgt_register_lib(&list);
    atexit(leave);
}
__attribute__((constructor(123))) static void load(void) { module = mgpuModuleLoad(record, sizeof record); }
__attribute__((destructor(123))) static void unload(void) { mgpuModuleUnload(module); }

/* Looks through all that is registered, again and again, in vain. */
static void *look(void *unused) {
    static struct list missing;
    for (;;) __tgt_unregister_lib(&missing);
    return unused;
}
static int fork_while_another_looks(void) {
    pthread_t thread;
    for (int i = 0; i < 10000; i++) (void)__hipRegisterFatBinary(&hip);
    if (pthread_create(&thread, NULL, look, NULL) != 0) return 1;
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(5);
            __hipUnregisterFatBinary(__hipRegisterFatBinary(&hip));
            _exit(0);
        }
        int status = 1;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) _exit(1);
    }
    _exit(7);
}

int main(void) {
    if (strcmp(what(), "fork") == 0) return fork_while_another_looks();
    mgpuLaunchKernel(mgpuModuleGetFunction(module, "k"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL, 0);
    return 5;
}
"""
KINDS = {
    "sm_90": ("nvptx64-nvidia-cuda", OffloadKind.CUDA),
    "gfx942": ("amdgcn-amd-amdhsa", OffloadKind.HIP),
    "gfx90a:xnack+": ("amdgcn-amd-amdhsa", OffloadKind.HIP),
    "x86-64-v2": ("x86_64-unknown-linux-gnu", OffloadKind.OPENMP),
}


def bundle(*objects: tuple[str, bytes]) -> bytes:
    """What clang-offload-bundler writes: a table of contents, and the objects at multiples of 4096 bytes."""
    entries, data = b"", b""
    for number, (name, content) in enumerate(objects):
        entries += struct.pack("<QQQ", 4096 * (number + 1), len(content), len(name)) + name.encode()
        data += content.ljust(4096, b"\0")
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(objects)) + entries
    return head.ljust(4096, b"\0") + data


RECORD = pack(
    [
        Image(
            image_kind=ImageKind.OBJECT,
            offload_kind=kind,
            strings={"triple": triple, "arch": chip, "gpubuild.module": "m", "gpubuild.target": f"t_{chip}"},
            data=b"",
        )
        for chip, (triple, kind) in KINDS.items()
    ]
)
BUNDLE = bundle(
    ("host-x86_64-unknown-linux-gnu-", b""),
    ("hip-amdgcn-amd-amdhsa--gfx90a:xnack+", hsaco("gfx90a:xnack+")),
    ("hip-amdgcn-amd-amdhsa--gfx942", hsaco("gfx942") + bytes(64)),
)
FATBIN = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(cubin(90))) + cubin(90)
CPU = elf(62, tail=b"\0gpubuild.chip=x86-64-v2\0")


def compiled(folder: Path, archive: Path, bundle: bytes = BUNDLE, cpu: bytes = CPU) -> Path:
    text = PROGRAM
    for name, data in (("RECORD", RECORD), ("BUNDLE", bundle), ("FATBIN", FATBIN), ("CPU", cpu)):
        text = text.replace(f"{{{name}}}", "{" + ",".join(map(str, data)) + "}")
    (folder / "main.c").write_text(text)
    sources = (folder / "main.c", archive, "-ldl", "-lm")
    return compile_c(folder / "program", *sources, flags=(*FLAGS, "-Wno-error", *extra_flags()))


@pytest.fixture(scope="module")
def program(built_runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("registered"), built_runtime.archive)


@pytest.mark.parametrize(
    ("device", "chip", "size"),
    [
        ("gfx90a:sramecc+:xnack+", "gfx90a:xnack+", len(hsaco("gfx90a:xnack+"))),
        ("gfx942", "gfx942", len(hsaco("gfx942")) + 64),
    ],
)
def test_the_code_object_of_a_hip_bundle(
    program: Path, runtime: Runtime, device: str, chip: str, size: int
) -> None:
    done = runtime.start(program, driver=runtime.hip, FAKE_DEVICES=device, GPUBUILD_TRACE="1")
    assert done.code == 5, done.err
    assert f"load module m, image {chip} of target t_{chip} (hsaco, {size} bytes) on hip:0" in done.err
    load, *calls = done.called("hipModule")
    assert load == "hipModuleLoadData dev=0 7f454c46 machine=224"
    names = [call.split()[0] for call in calls]
    assert names == ["hipModuleGetFunction", "hipModuleLaunchKernel", "hipModuleUnload"]


def test_a_cuda_fat_binary_is_the_drivers_to_open(program: Path, runtime: Runtime) -> None:
    """What it holds is known: for a device whose driver would refuse it, it is no image."""
    done = runtime.start(program, driver=runtime.cuda, FAKE_DEVICES="9.0", GPUBUILD_TRACE="1")
    assert done.code == 5, done.err
    assert f"image sm_90 of target t_sm_90 (fatbin, {len(FATBIN)} bytes) on cuda:0" in done.err
    assert done.called("cuModuleLoadData ctx=0 50ed55ba"), done.calls
    done = runtime.start(program, driver=runtime.cuda, FAKE_DEVICES="8.0", GPUBUILD_DEVICE="cuda")
    assert done.code == 1
    assert "sm_90 of target t_sm_90 (fatbin" in done.err
    assert "machine code of another major version" in done.err
    assert not done.called("cuModuleLoadData")


def test_the_cpus_image_is_found_by_its_mark(program: Path, runtime: Runtime) -> None:
    """It is an ELF header only, so that loading it fails, by its name."""
    done = runtime.start(program, GPUBUILD_DEVICE="cpu", GPUBUILD_TRACE="1")
    assert done.code == 1
    assert f"image x86-64-v2 of target t_x86-64-v2 (shared object, {len(CPU)} bytes) on cpu" in done.err


def test_images_of_other_chips_are_not_taken(runtime: Runtime, tmp_path: Path) -> None:
    """`gfx90a` alone is another id, and a mark that only begins like the chip's is another chip."""
    other = bundle(("hip-amdgcn-amd-amdhsa--gfx90a", hsaco("gfx90a")))
    cpu = elf(62, tail=b"\0gpubuild.chip=x86-64-v21\0")
    program = compiled(tmp_path, runtime.archive, bundle=other, cpu=cpu)
    done = runtime.start(program, driver=runtime.hip, FAKE_DEVICES="gfx90a:xnack+")
    assert done.code == 1
    assert "images of module m: sm_90 of target t_sm_90 (fatbin" in done.err
    assert "gfx" not in done.err.split("images of module m:")[1]


def test_a_compressed_bundle_is_named(runtime: Runtime, tmp_path: Path) -> None:
    program = compiled(tmp_path, runtime.archive, bundle=b"CCOB" + bytes(60), cpu=elf(62))
    done = runtime.start(program, driver=runtime.cuda, FAKE_DEVICES="9.0", GPUBUILD_TRACE="1")
    assert done.code == 5, done.err  # what others registered is there
    assert "register module m, 1 image," in done.err


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("nothing", "nothing is registered for it: an object made with `offload: clang` must be linked by clang-linker-wrapper"),
        ("other", "nothing is registered for it"),
        ("version", "a fat binary is registered in a form that this runtime does not know"),
        ("variable", "registers the variable v of device code that gpubuild did not make"),
    ],
)  # fmt: skip
def test_what_cannot_be_ends_the_program(program: Path, runtime: Runtime, what: str, message: str) -> None:
    done = runtime.start(program, driver=runtime.hip, FAKE_DEVICES="gfx942", WHAT=what)
    assert (done.code, message in done.err) == (1, True), done.err


def test_a_child_of_fork_can_register(program: Path, runtime: Runtime) -> None:
    """Another thread, which the child has not, was busy with what is registered."""
    assert runtime.start(program, WHAT="fork").code == 7
