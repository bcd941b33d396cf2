"""LLVM: parse, link, optimise and emit through llvmlite. RuntimeErrors become StepErrors.

Intrinsics: which names of functions LLVM knows as its own.

MLIR's translation ends the process over a name it does not know; a call of a function of such a name
gets as far as the assembler, which has no idea what is meant.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from llvmlite import binding

from gpubuild.errors import Diagnostic, Location, StepError
from gpubuild.support import text as columns

_BITCODE_MAGICS = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")  # raw, and in Apple's wrapper
_PARSE_ERROR = re.compile(r"<string>:(\d+):(\d+): error: ([^\n]*)")
# Definitions of these linkages are made lazy, so that linking takes only what is referenced.
_LINKABLE = frozenset({"external", "weak_any", "weak_odr", "linkonce_any", "linkonce_odr"})

# Debug information, inline assembly, and quotes outside strings, which names have and data has not.
_NOT_ONLY_TEXT = re.compile(
    r'^\s*\.(?:file\s+\d|loc\s)|#APP|^(?!\s*\.(?:ascii|asciz|section|ident|file)\s).*"', re.MULTILINE
)
_ESCAPED = str.maketrans({"\\": "\\5C", '"': "\\22", "\t": "\\09"})


def new_context() -> binding.ContextRef:
    """A context of its own for each module: types and metadata of two steps never mix."""
    return binding.create_context()


def parse_assembly(text: str, context: binding.ContextRef, *, name: str = "LLVM IR") -> binding.ModuleRef:
    """Parse LLVM IR text. ``name`` says what it is in messages. Raises ``StepError``."""
    try:
        return _owned_by_context(binding.parse_assembly(text, context))
    except RuntimeError as error:
        raise StepError(
            f"cannot parse {name}", diagnostics=_parse_diagnostics(str(error), text, name)
        ) from error


def parse_bitcode(data: bytes, context: binding.ContextRef, *, name: str = "bitcode") -> binding.ModuleRef:
    """Parse LLVM bitcode of this or an earlier LLVM version. Raises ``StepError``."""
    with _reported(f"cannot read {name}"):
        return _owned_by_context(binding.parse_bitcode(data, context))


def parse(data: bytes, context: binding.ContextRef, *, name: str) -> binding.ModuleRef:
    """Parse bitcode or LLVM IR text, whichever ``data`` is. Raises ``StepError``."""
    if data.startswith(_BITCODE_MAGICS):
        return parse_bitcode(data, context, name=name)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise StepError(f"{name} is neither LLVM bitcode nor LLVM IR text") from error
    return parse_assembly(text, context, name=name)


def target_machine(triple: str, chip: str, features: str = "", opt_level: int = 3) -> binding.TargetMachine:
    """A code generator for position-independent code. ``chip`` and ``features`` are not checked:
    LLVM only warns about unknown ones, so use ``chips.check_chip`` first."""
    initialize()
    with _reported(f"no code generator for {triple}"):
        return binding.Target.from_triple(triple).create_target_machine(
            cpu=chip, features=features, opt=opt_level, reloc="pic", codemodel="default"
        )


def has_fused_multiply_add(machine: binding.TargetMachine) -> bool:
    """Whether ``machine`` has instructions for it; others call a slow function of the C library."""
    text = (
        "declare float @llvm.fma.f32(float, float, float)\n"
        "define float @f(float %a, float %b, float %c) {\n"
        "  %r = call float @llvm.fma.f32(float %a, float %b, float %c)\n  ret float %r\n}\n"
    )
    module = parse_assembly(text, new_context())
    set_target(module, machine)
    return re.search(r"\bfmaf\b", emit_assembly(module, machine)) is None


def set_target(module: binding.ModuleRef, machine: binding.TargetMachine) -> None:
    """Give ``module`` the triple and data layout of ``machine``."""
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)


def link_library(module: binding.ModuleRef, data: bytes, name: str) -> None:
    """Link the definitions of a library (.bc or .ll content) that ``module`` refers to.

    They become internal. Raises ``StepError`` when the library cannot be read or does not fit.
    """
    link_libraries(module, [(name, data)])


def link_libraries(module: binding.ModuleRef, libraries: Sequence[tuple[str, bytes]]) -> None:
    """Like :func:`link_library` for several, which may refer to each other in any order.

    The first library that defines a name wins, and the module's own definitions win over all.
    """
    # llvmlite has no public way from a module to its context, which linking must share.
    context = module._context
    before = {v.name for v in _values(module) if not v.is_declaration}
    pending = list(libraries)
    progress = True
    while pending and progress:
        progress = False
        for name, data in tuple(pending):
            missing = undefined_symbols(module, globals_too=True)
            if not missing:
                break
            library = parse(data, context, name=name)
            machine = library.triple.partition("-")[0]
            if machine and machine != module.triple.partition("-")[0]:
                raise StepError(
                    f"cannot link {name}: it is compiled for {library.triple}",
                    hint=f"compile it for {module.triple}, or list it for targets of its kind only",
                )
            library.triple, library.data_layout = module.triple, module.data_layout
            offered = {v.name for v in _values(library) if not v.is_declaration}
            if not offered & set(missing):
                continue
            for value in _values(library):
                if not value.is_declaration and value.linkage.name in _LINKABLE:
                    value.linkage = "linkonce_odr"
            with _reported(f"cannot link {name}"):
                module.link_in(library)
            progress = True
    for value in _values(module):
        if value.is_declaration or value.name in before or value.name.startswith("llvm."):
            continue
        if value.linkage.name == "linkonce_odr":
            value.linkage = "internal"


def link_text(module: binding.ModuleRef, text: str, name: str) -> None:
    """Link all of a small piece of LLVM IR text (module flags, constants) into ``module``."""
    piece = parse_assembly(text, module._context, name=name)
    piece.triple, piece.data_layout = module.triple, module.data_layout
    with _reported(f"cannot link {name}"):
        module.link_in(piece)


def add_module_flag(module: binding.ModuleRef, name: str, value: int, *, behavior: int = 1) -> None:
    """Add an i32 module flag. ``behavior`` as in LLVM's reference: 1 error, 4 override, 7 max."""
    flag = f'!llvm.module.flags = !{{!0}}\n!0 = !{{i32 {behavior}, !"{name}", i32 {value}}}\n'
    link_text(module, flag, f"module flag {name}")


def undefined_symbols(module: binding.ModuleRef, *, globals_too: bool = False) -> list[str]:
    """Names that are used and not defined in ``module``, intrinsics aside, in order."""
    values = _values(module) if globals_too else module.functions
    return [v.name for v in values if v.is_declaration and not v.name.startswith("llvm.")]


def verify(module: binding.ModuleRef) -> None:
    """Raises ``StepError`` when ``module`` is not valid LLVM IR, or calls unknown intrinsics."""
    for function in module.functions:
        name = function.name
        if function.is_declaration and name.startswith(PREFIX) and not is_known(name):
            raise StepError(unknown(name), hint="functions whose names start with `llvm.` are LLVM's own")
    with _reported("the LLVM IR is not valid"):
        module.verify()


def optimize(module: binding.ModuleRef, machine: binding.TargetMachine, opt_level: int) -> None:
    """Verify, then run LLVM's default pipeline of that level (0 to 3) for ``machine``.

    Level 0 runs too: target lowering such as NVPTX's reflect pass is part of every pipeline.
    """
    verify(module)
    options = binding.create_pipeline_tuning_options(opt_level)
    if opt_level >= 2:
        options.loop_vectorization = True
        options.slp_vectorization = True
    builder = binding.create_pass_builder(machine, options)
    with _reported("LLVM could not optimise the module"):
        builder.getModulePassManager().run(module, builder)


def emit_object(module: binding.ModuleRef, machine: binding.TargetMachine) -> bytes:
    """Machine code as a relocatable object. Raises ``StepError``; LLVM may abort instead."""
    with _reported("LLVM could not emit an object"):
        return bytes(machine.emit_object(module))


def emit_bitcode(module: binding.ModuleRef) -> bytes:
    """The module as LLVM bitcode."""
    return bytes(module.as_bitcode())


def emit_assembly(module: binding.ModuleRef, machine: binding.TargetMachine) -> str:
    """Assembly or PTX text. Raises ``StepError``; LLVM may abort instead."""
    with _reported("LLVM could not emit assembly"):
        return str(machine.emit_assembly(module))


def emit_both(module: binding.ModuleRef, machine: binding.TargetMachine) -> tuple[str, bytes]:
    """Assembly text and the relocatable object of the same code.

    Generating code is dear, and assembling what was generated takes a twentieth of it. What is not
    sure to survive being text is generated twice: debug information, inline assembly, whose
    mistakes are reported by their places, and names that need quotes. llvmlite knows this machine's
    assembler only. Raises ``StepError``; LLVM may abort instead.
    """
    assembly = emit_assembly(module, machine)
    native = machine.triple.partition("-")[0] == binding.get_process_triple().partition("-")[0]
    if not native or _NOT_ONLY_TEXT.search(assembly):
        return assembly, emit_object(module, machine)
    lines = "".join(
        f'module asm "{line}"\n' for line in assembly.translate(_ESCAPED).split("\n") if line.strip()
    )
    text = parse_assembly(lines, new_context(), name="assembly")
    set_target(text, machine)
    return assembly, emit_object(text, machine)


def host_cpu() -> tuple[str, str]:
    """This machine's CPU as LLVM names it, and its features as ``+a,-b`` in a stable order."""
    try:
        features = binding.get_host_cpu_features().flatten()
    except RuntimeError:  # LLVM cannot tell on this operating system
        features = ""
    return binding.get_host_cpu_name(), features


def _owned_by_context(module: binding.ModuleRef) -> binding.ModuleRef:
    """Leave the end of a module to its context, which outlives it.

    An exception's traceback keeps both alive in a cycle; the collector then frees them in any
    order, and freeing a module after its context ends the process, steps later.
    """
    module._owned = True  # llvmlite: somebody else disposes of it
    return module


@cache
def initialize() -> None:
    """Register LLVM's code generators, once in a process."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    binding.initialize_native_asmparser()  # inline assembly in host code


def _values(module: binding.ModuleRef) -> Iterator[binding.ValueRef]:
    yield from module.functions
    yield from module.global_variables


def _parse_diagnostics(message: str, text: str, name: str) -> list[Diagnostic]:
    lines = text.split("\n")
    found = []
    for match in _PARSE_ERROR.finditer(message):
        number = int(match[1])
        line = lines[number - 1] if 0 < number <= len(lines) else ""
        location = Location(file=name, line=number, column=columns.of_byte(line, int(match[2]) + 1))
        found.append(Diagnostic(message=match[3], location=location, source_line=line))
    return found or [Diagnostic(message=" ".join(message.split()))]


@contextmanager
def _reported(what: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise StepError(what, output=str(error)) from error


PREFIX = "llvm."
_LIBRARY = "libMLIRPythonCAPI.so"  # names are looked up in the LLVM library that it is linked with, too


def is_known(name: str) -> bool:
    """Whether LLVM has an intrinsic ``name``, the types that may be at its end aside.

    Names of earlier releases, which LLVM renames when it reads IR, are not known.
    """
    data = name.encode()
    return name.startswith(PREFIX) and bool(_lookup()(data, len(data)))


def unknown(name: str) -> str:
    """What to say of a ``name`` that is not known."""
    return f"LLVM has no intrinsic '{name}'"


@cache
def _lookup() -> Any:  # noqa: ANN401 - a foreign function has no better type
    import mlir._mlir_libs  # not before bindings have settled how mlir is loaded

    folder = Path(next(iter(mlir._mlir_libs.__path__)))
    function = ctypes.CDLL(str(folder / _LIBRARY)).LLVMLookupIntrinsicID
    function.argtypes, function.restype = [ctypes.c_char_p, ctypes.c_size_t], ctypes.c_uint
    return function
