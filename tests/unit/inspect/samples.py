"""Device images made by the real tools, small enough to make again in every run."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from gpubuild.engine.ir import llvm
from gpubuild.model.offload_binary import Image
from gpubuild.settings import Settings
from gpubuild.targets.amd import TRIPLE as ROCDL_TRIPLE
from gpubuild.targets.nvidia import TRIPLE as NVVM_TRIPLE
from gpubuild.targets.vendor import ImageKind, OffloadKind
from gpubuild.toolchain.find import Toolchain
from gpubuild.toolchain.run import run_tool

TOOLS = Toolchain(Settings.from_environ())
RUNTIME = Path(llvm.__file__).parents[2] / "runtime"

PTX = """\
.version 8.7
.target {chip}
.address_size 64
// .entry not_a_kernel(
.shared .align 4 .b8 tile[1024];
.visible .entry store_id(.param .u64 p)
{{
 .reg .b64 %rd<3>; .reg .b32 %r<4>;
 ld.param.u64 %rd1, [p];
 mov.u32 %r1, %tid.x;
 mov.u32 %r2, tile;
 st.shared.u32 [%r2], %r1;
 bar.sync 0;
 ld.shared.u32 %r3, [%r2+4];
 st.global.u32 [%rd1], %r3;
 ret;
}}
.visible .entry nothing()
{{
 ret;
}}
"""

AMD = """\
target triple = "amdgcn-amd-amdhsa"
@tile = internal addrspace(3) global [64 x i32] undef
define amdgpu_kernel void @store_id(ptr addrspace(1) %p) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %a = getelementptr [64 x i32], ptr addrspace(3) @tile, i32 0, i32 %t
  store volatile i32 %t, ptr addrspace(3) %a
  %v = load volatile i32, ptr addrspace(3) %a
  store i32 %v, ptr addrspace(1) %p
  ret void
}
declare i32 @llvm.amdgcn.workitem.id.x()
!llvm.module.flags = !{!0}
!0 = !{i32 1, !"amdhsa_code_object_version", i32 500}
"""

CPU = """\
#include "cpu/cpu_image.h"
static void item(void **params, gb_cpu_item *it) { (void)params; (void)it; }
static void run(const gb_cpu_launch_info *l, uint64_t a, uint64_t b, char *s, char *d, char *o)
{ (void)l; (void)a; (void)b; (void)s; (void)d; (void)o; }
static const uint64_t sizes[] = {8};
static const gb_cpu_kernel kernels[] = {
    {.name = "scale", .run = run, .item = item, .tier = GB_CPU_TIER_LOOP, .shared_bytes = 0,
     .param_count = 1, .param_bytes = sizes},
    {.name = "reduce", .item = item, .tier = GB_CPU_TIER_FIBERS, .shared_bytes = 512},
};
gb_cpu_image gpubuild_cpu_image = {
    .magic = GB_CPU_IMAGE_MAGIC, .abi = GB_CPU_IMAGE_ABI, .module = "kernels_of_cpu",
    .kernels = kernels, .kernel_count = 2,
};
"""


@cache
def cubin(chip: str) -> bytes:
    return _with_tool("ptxas", f"-arch={chip}", "in", "-o", "out", content=PTX.format(chip=chip).encode())


@cache
def amd_object(chip: str, features: str = "") -> bytes:
    module = llvm.parse_assembly(AMD, llvm.new_context("amdgcn-amd-amdhsa"))
    return bytes(llvm.emit_object(module, llvm.target_machine(ROCDL_TRIPLE, chip, features, 3)))


@cache
def hsaco(chip: str, features: str = "") -> bytes:
    return _with_tool("ld.lld", "-shared", "in", "-o", "out", content=amd_object(chip, features))


@cache
def cpu_object() -> bytes:
    flags = ("-x", "c", "-shared", "-fPIC", "-nostdlib", "-O1", f"-I{RUNTIME}", "in", "-o", "out")
    return _with_tool("cc", *flags, content=CPU.encode())


def embed(data: bytes, *, symbol: str, section: str, link: bool) -> bytes:
    """An ELF file with ``data`` under ``symbol`` in ``section``: an object, or a shared object."""
    assembly = f""".section {section},"a",@progbits
.p2align 3
.byte 1,2,3,4,5,6,7,8
.type {symbol},@object
.size {symbol},{len(data)}
{symbol}:
.byte {",".join(map(str, data))}
"""
    flags = ("-shared", "-nostdlib") if link else ("-c",)
    return _with_tool("cc", *flags, "-x", "assembler", "in", "-o", "out", content=assembly.encode())


def image(data: bytes, kind: ImageKind, triple: str, arch: str, **strings: str) -> Image:
    more = {f"gpubuild.{name}": value for name, value in strings.items()}
    offload = {NVVM_TRIPLE: OffloadKind.CUDA, ROCDL_TRIPLE: OffloadKind.HIP}.get(triple, OffloadKind.NONE)
    return Image(
        image_kind=kind, offload_kind=offload, strings={"triple": triple, "arch": arch, **more}, data=data
    )


def _with_tool(name: str, *arguments: str, content: bytes) -> bytes:
    with TemporaryDirectory() as folder:
        (Path(folder) / "in").write_bytes(content)
        run_tool([*TOOLS.require(name).command, *arguments], cwd=Path(folder)).check("making a sample")
        return (Path(folder) / "out").read_bytes()
