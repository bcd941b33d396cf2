"""Compilation of one gpu.module for one AMD chip: MLIR, LLVM IR, object, hsaco.

llvmlite has no assembler for AMD GPUs. A module with inline assembly goes to ld.lld as bitcode. Its
link-time code generation does the same as llvmlite does for other modules.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import msgpack
from llvmlite import binding

from gpubuild.engine.backends import gpu_compile
from gpubuild.engine.backends.amd import ocml, passes, printf, workarounds
from gpubuild.engine.backends.gpu_compile import (
    DeviceBuild,
    KernelInfo,
    Stage,
    check_target,
    optimize_module,
    refuse_undefined,
    run_stages,
    take_bitcode,
    take_lowered,
    user_libraries,
    with_inline_locations,
    write_info,
)
from gpubuild.engine.backends.lowering import lower
from gpubuild.engine.ir import llvm, step_io
from gpubuild.engine.ir.kernel_table import Value
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import StepError
from gpubuild.model.step import CompileParams
from gpubuild.targets.amd import AMD, features_with_flags, rounds_roots
from gpubuild.targets.target import Target
from gpubuild.toolchain.run import run_tool

_OTHER_VERSION = re.compile(r"'i32 ([456])00'")
_ROCM_HINT = "list ROCm's ocml.bc, ockl.bc and the oclc_*.bc files of the chip under `device_libs:`"
_ABI_4 = 400  # lays out implicit arguments in another way than the later versions
# Names of upstream's kernel tables, in which numbers that a code object lacks are _ABSENT.
_NUMBERS = (
    "agpr_count",
    "group_segment_fixed_size",
    "max_flat_workgroup_size",
    "private_segment_fixed_size",
    "sgpr_count",
    "sgpr_spill_count",
    "vgpr_count",
    "vgpr_spill_count",
    "wavefront_size",
)
_SIZES = ("reqd_workgroup_size", "workgroup_size_hint")
_ABSENT = (1 << 32) - 1
_NOTE = struct.Struct("<3I")  # bytes of the owner's name and of the content, type
_OBJECT_FILE, _BITCODE_FILE, _ASSEMBLY_FILE = "module.o", "module.bc", "module.s"
_ASM = re.compile(r'(?:^|\s)asm (?:[a-z]+ )*"', re.MULTILINE)  # quotes inside strings are escaped


@dataclass(slots=True, kw_only=True)
class AmdBuild(DeviceBuild):
    """One compile under way for AMD."""

    formats: tuple[str, ...] = ()  # of the messages that kernels write for the host
    link_arguments: list[str] = field(default_factory=list)  # of ld.lld


def run(params: CompileParams, io: StepIO) -> None:
    """Write ``llvm``, ``object`` (hsaco), ``info`` and, when asked for, ``asm`` and ``device`` (bitcode).

    Raises ``UsageError`` for an unknown chip, ``ToolNotFoundError``, and ``StepError``.
    """
    stages = STAGES
    if params.relocatable:
        stages = gpu_compile.stages_with(STAGES, gpu_compile.emit_bitcode, after="optimize")
    run_stages(AmdBuild(params=params, io=io), stages)


def set_features(build: AmdBuild) -> None:
    """Stage: add the features that flags of the target stand for."""
    build.features = features_with_flags(build.features, build.params.target.flags)


def lower_module(build: AmdBuild) -> None:
    """Stage: lower MLIR to an LLVM module."""
    if build.io.has("bitcode"):
        take_bitcode(build)
        return
    lowered = lower(build.params, build.io, passes.PASSES, passes.start)
    build.formats = lowered.formats
    take_lowered(build, lowered)


def link_libraries(build: AmdBuild) -> None:
    """Stage: link the user's libraries, then gpubuild's for the functions that these do not define."""
    llvm.add_module_flag(build.module, "amdhsa_code_object_version", code_object_version(build.params.target))
    if build.formats:
        llvm.link_text(build.module, printf.metadata(build.formats), "formats of messages")
    if record := printf.assertion_record(llvm.undefined_symbols(build.module)):
        llvm.link_text(build.module, record, "record of assertions")
    given = user_libraries(build.io)
    target = build.params.target
    asks_for_all = (
        target.opt_level == 0 and not given and not workarounds.reads_implicit_arguments(build.module)
    )
    work_items = "ockl_abi4.ll" if code_object_version(target) == _ABI_4 else "ockl.ll"
    libraries = [*given, *map(_own_library, (work_items, printf.LIBRARY))]
    try:
        llvm.link_libraries(build.module, libraries)
    except StepError as error:
        versions = [int(version) for version in _OTHER_VERSION.findall(error.output)]
        if not versions:
            raise
        asked = code_object_version(target)
        other = next((v for v in versions if v != asked // 100), asked // 100)
        raise error.with_(
            hint=f"the library is for code objects of version {other}: compile it with "
            f"-mcode-object-version={asked // 100} or =none, or write `abi: {other}00` for the target"
        ) from error
    mathematics = ocml.library_text(
        llvm.undefined_symbols(build.module),
        approximate=target.fast_math or "unsafe_math" in target.flags,
        exact_roots=rounds_roots(target),
    )
    if mathematics:
        llvm.link_library(build.module, mathematics.encode(), "mathematics")
    build.module = workarounds.move_traps(build.module, target.chip)
    if asks_for_all:
        build.module = workarounds.mark_unused_arguments(build.module)


def emit_code(build: AmdBuild) -> None:
    """Stage: make the linker's input: an object, or bitcode of a module with inline assembly."""
    refuse_undefined(
        build,
        frozenset(),
        (
            *((prefix, _ROCM_HINT) for prefix in ("__ocml_", "__ockl_", "__oclc_")),
            (
                "malloc",
                "kernels of AMD GPUs have no heap: use memref.alloca, or name a library under `device_libs:`",
            ),
            ("__nv_", "that is a function of NVIDIA's libdevice; the module was written for NVVM"),
        ),
    )
    params, io, text = build.params, build.io, str(build.module)
    if not _ASM.search(text):
        if params.assembly:
            # Code generation changes its module, so each output starts from the same one.
            io.write("asm", llvm.emit_assembly(build.module.clone(), build.machine))
        (io.scratch / _OBJECT_FILE).write_bytes(llvm.emit_object(build.module, build.machine))
        build.link_arguments = [_OBJECT_FILE]
        return
    if params.relocatable and step_io.mentions(text.encode()):
        raise StepError(
            f"inline assembly in @{params.module} reads a file, which with `offload: clang` is read only "
            "when the program is linked",
            hint="put the data into a memref.global or a device library, or choose another `offload:`",
        )
    step_io.discover(text.encode(), io)
    (io.scratch / _BITCODE_FILE).write_bytes(build.module.as_bitcode())
    target = params.target
    # The module is optimised already, so that the linker only generates code.
    arguments = [f"-plugin-opt=mcpu={target.chip}", "--lto-O0", f"--lto-CGO{target.opt_level}", _BITCODE_FILE]
    if build.features:
        arguments.insert(1, f"-plugin-opt=-mattr={build.features}")
    for option in llvm.OPTIONS:
        arguments += ["-mllvm", option]
    build.link_arguments = arguments
    if params.assembly:
        io.write("asm", _assembly_of_linker(build))


def _assembly_of_linker(build: AmdBuild) -> str:
    """Return the assembly text of a module with inline assembly. Raises ``StepError``."""
    what, scratch = f"assembling @{build.params.module} for {build.params.target.chip}", build.io.scratch
    options = ["-shared", *build.link_arguments, "--lto-emit-asm", "-o", _ASSEMBLY_FILE]
    run_tool([*build.io.tool("ld.lld"), *options], cwd=scratch).check(what)
    # Versions of the linker differ in what they append to the name.
    written = sorted(scratch.glob(f"{_ASSEMBLY_FILE}*"))
    if not written:
        raise StepError(
            f"{what}: ld.lld wrote no assembly",
            hint="inline assembly for AMD GPUs needs an ld.lld with LLVM's AMDGPU target, such as ziglang's",
        )
    return written[0].read_text(encoding="utf-8")


def link_code_object(build: AmdBuild) -> None:
    """Stage: link the loadable code object with ld.lld, and read its metadata."""
    io = build.io
    # Other steps run at the same time; starting threads takes a fifth of the linker's time.
    command = [*io.tool("ld.lld"), "--threads=1", "-shared", "--no-undefined", *build.link_arguments]
    done = run_tool([*command, "-o", io.tool_out("object")], cwd=io.scratch)
    try:
        done.check(f"linking @{build.params.module} for {build.params.target.chip}")
    except StepError as error:
        raise with_inline_locations(error, io) from error.__cause__
    build.kernels = read_kernels(io.out_path("object").read_bytes(), build.kernel_names)


def read_kernels(code: bytes, names: Sequence[str]) -> list[KernelInfo]:
    """Return the resources of the kernels ``names`` from the metadata note of a code object.

    The format is in LLVM's AMDGPU usage guide, "Code Object V3 Metadata".
    """
    sections = binding.ObjectFileRef.from_data(code).sections()
    note = next(section.data() for section in sections if section.name() == b".note")
    owner, size, _ = _NOTE.unpack_from(note)
    begin = _NOTE.size + -(-owner // 4) * 4  # the owner's name is padded
    document = msgpack.unpackb(note[begin : begin + size])
    entries = {entry[".name"]: entry for entry in document["amdhsa.kernels"]}
    return [_kernel(name, entries.get(name, {})) for name in names]


def _kernel(name: str, entry: dict[str, Any]) -> KernelInfo:
    spills = entry.get(".vgpr_spill_count")
    return KernelInfo(
        name=name,
        registers=entry.get(".vgpr_count"),
        shared_bytes=entry.get(".group_segment_fixed_size"),
        spill_bytes=None if spills is None else 4 * spills,  # a register of a lane has 4 bytes
        metadata=_table_metadata(entry) if entry else {},
    )


def _table_metadata(entry: dict[str, Any]) -> dict[str, Value]:
    """Return the values that upstream lists, with its values for absent ones."""
    return {
        **{name: entry.get(f".{name}", _ABSENT) for name in _NUMBERS},
        **{name: entry.get(f".{name}", [-1, -1, -1]) for name in _SIZES},
    }


def code_object_version(target: Target) -> int:
    """Return the version of the code object as LLVM counts: 500 is version 5."""
    return int(target.abi or AMD.abis[0])


def _own_library(name: str) -> tuple[str, bytes]:
    """Read a library that is part of gpubuild, such as ``ockl.ll``."""
    return name, (resources.files("gpubuild.engine.backends.amd") / name).read_bytes()


STAGES: tuple[Stage[AmdBuild], ...] = (
    ("check", check_target),
    ("features", set_features),
    ("lower", lower_module),
    ("link", link_libraries),
    ("optimize", optimize_module),
    ("emit", emit_code),
    ("lld", link_code_object),
    ("info", write_info),
)
