"""Parse, link, optimise and emit LLVM IR; errors of LLVM become StepErrors.

The LLVM library that MLIR's bindings have loaded does all this through its C API (``llvm_c.py``), nearly
twice as fast as llvmlite's. llvmlite does it for targets that this library lacks, which is AMDGPU, and is
not loaded without one. A module and the machine that compiles it come from the same library: the context
decides, which is created for a triple.

And look up intrinsics: MLIR's translation ends the process over an unknown one, and a call of one in
LLVM IR fails only in the assembler.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from gpubuild.engine.ir import llvm_c
from gpubuild.errors import Diagnostic, Location, StepError
from gpubuild.support import text as columns

_BITCODE_MAGICS = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")  # raw, and in Apple's wrapper
_PARSE_ERROR = re.compile(r"<string>:(\d+):(\d+): error: ([^\n]*)")
# Definitions of these linkages become lazy, so that only referenced ones are linked.
_LINKABLE = frozenset({"external", "weak_any", "weak_odr", "linkonce_any", "linkonce_odr"})

# Debug information, inline assembly, and names in quotes.
_NOT_ONLY_TEXT = re.compile(
    r'^\s*\.(?:file\s+\d|loc\s)|#APP|^(?!\s*\.(?:ascii|asciz|section|ident|file)\s).*"', re.MULTILINE
)
OPTIONS = llvm_c.OPTIONS
_ESCAPED = str.maketrans({"\\": "\\5C", '"': "\\22", "\t": "\\09"})


# llvmlite's classes have the same attributes; its package has no types.
Context = llvm_c.Context
Module = llvm_c.Module
Machine = llvm_c.Machine
Value = llvm_c.Value


def new_context(triple: str = "") -> Context:
    """Create a context for a module, so that types and metadata of two never mix.

    ``triple`` is that of the machine which the module will be compiled with, unless the host.
    """
    return llvm_c.Context() if _is_loaded(triple) else _llvmlite().create_context()


def _is_loaded(triple: str) -> bool:
    """Return whether the LLVM library of MLIR's bindings compiles for ``triple``."""
    return not triple or llvm_c.has_target(triple.partition("-")[0])


def _is_c(thing: object) -> bool:
    return isinstance(thing, llvm_c.Context | llvm_c.Machine)


@cache
def _llvmlite() -> Any:  # noqa: ANN401 - llvmlite has no types
    from llvmlite import binding

    return binding


def parse_assembly(text: str, context: Context, *, name: str = "LLVM IR") -> Module:
    """Parse LLVM IR text, which messages call ``name``. Raises ``StepError``."""
    try:
        if _is_c(context):
            return llvm_c.parse_assembly(text, context)
        return _owned_by_context(_llvmlite().parse_assembly(text, context))
    except RuntimeError as error:
        raise StepError(
            f"cannot parse {name}", diagnostics=_parse_diagnostics(str(error), text, name)
        ) from error


def parse_bitcode(data: bytes, context: Context, *, name: str = "bitcode") -> Module:
    """Parse LLVM bitcode of this or an earlier LLVM version. Raises ``StepError``."""
    with _reported(f"cannot read {name}"):
        if _is_c(context):
            return llvm_c.parse_bitcode(data, context)
        return _owned_by_context(_llvmlite().parse_bitcode(data, context))


def parse(data: bytes, context: Context, *, name: str) -> Module:
    """Parse bitcode or LLVM IR text, whichever ``data`` is. Raises ``StepError``."""
    if data.startswith(_BITCODE_MAGICS):
        return parse_bitcode(data, context, name=name)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise StepError(f"{name} is neither LLVM bitcode nor LLVM IR text") from error
    return parse_assembly(text, context, name=name)


def target_machine(triple: str, chip: str, features: str = "", opt_level: int = 3) -> Machine:
    """Create a code generator for position-independent code.

    ``chip`` and ``features`` are not checked: LLVM only warns about unknown ones.
    """
    with _reported(f"no code generator for {triple}"):
        if _is_loaded(triple):
            return Machine(triple, chip, features, opt_level)
        _initialize_llvmlite()
        made: Machine = (
            _llvmlite()
            .Target.from_triple(triple)
            .create_target_machine(
                cpu=chip, features=features, opt=opt_level, reloc="pic", codemodel="default"
            )
        )
        return made


def has_fused_multiply_add(machine: Machine) -> bool:
    """Return whether ``machine`` has instructions for it; others call a slow function of the C library."""
    text = (
        "declare float @llvm.fma.f32(float, float, float)\n"
        "define float @f(float %a, float %b, float %c) {\n"
        "  %r = call float @llvm.fma.f32(float %a, float %b, float %c)\n  ret float %r\n}\n"
    )
    module = parse_assembly(text, new_context(machine.triple))
    set_target(module, machine)
    return re.search(r"\bfmaf\b", emit_assembly(module, machine)) is None


def set_target(module: Module, machine: Machine) -> None:
    """Set the triple and data layout of ``module`` to those of ``machine``."""
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)


def link_library(module: Module, data: bytes, name: str) -> None:
    """Link the definitions of a library (.bc or .ll content) that ``module`` refers to, as internal ones.

    Raises ``StepError`` when the library cannot be read or linked.
    """
    link_libraries(module, [(name, data)])


def link_libraries(module: Module, libraries: Sequence[tuple[str, bytes]]) -> None:
    """Link several libraries, which may refer to each other in any order.

    The first library that defines a name wins, and the module's own definitions win over all.
    """
    context = module._context  # private: linking must use the module's context
    before = {v.name for v in _values(module) if not v.is_declaration}
    known: dict[int, set[str]] = {}  # the names that a library defines, by its number
    progress = True
    while progress:
        progress = False
        for number, (name, data) in enumerate(libraries):
            missing = undefined_symbols(module, globals_too=True)
            if not missing:
                break
            if number in known and not known[number] & set(missing):
                continue
            library = parse(data, context, name=name)
            machine = library.triple.partition("-")[0]
            if machine and machine != module.triple.partition("-")[0]:
                raise StepError(
                    f"cannot link {name}: it is compiled for {library.triple}",
                    hint=f"compile it for {module.triple}, or list it for targets of its kind only",
                )
            library.triple, library.data_layout = module.triple, module.data_layout
            offered = {v.name for v in _values(library) if not v.is_declaration}
            known[number] = offered
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


def link_text(module: Module, text: str, name: str) -> None:
    """Link all of a small piece of LLVM IR text (module flags, constants) into ``module``."""
    piece = parse_assembly(text, module._context, name=name)
    piece.triple, piece.data_layout = module.triple, module.data_layout
    with _reported(f"cannot link {name}"):
        module.link_in(piece)


def add_module_flag(module: Module, name: str, value: int, *, behavior: int = 1) -> None:
    """Add an i32 module flag. ``behavior`` as in LLVM's reference: 1 error, 4 override, 7 max."""
    flag = f'!llvm.module.flags = !{{!0}}\n!0 = !{{i32 {behavior}, !"{name}", i32 {value}}}\n'
    link_text(module, flag, f"module flag {name}")


def undefined_symbols(module: Module, *, globals_too: bool = False) -> list[str]:
    """Return names that are used and not defined in ``module``, without intrinsics, in order."""
    values = _values(module) if globals_too else module.functions
    return [v.name for v in values if v.is_declaration and not v.name.startswith("llvm.")]


def verify(module: Module) -> None:
    """Raise ``StepError`` when ``module`` is not valid LLVM IR, or calls unknown intrinsics."""
    for function in module.functions:
        name = function.name
        if function.is_declaration and name.startswith(PREFIX) and not is_known(name):
            hint = "names of functions that start with `llvm.` are reserved for LLVM"
            raise StepError(unknown(name), hint=hint)
    with _reported("the LLVM IR is not valid"):
        module.verify()


def optimize(module: Module, machine: Machine, opt_level: int) -> None:
    """Verify, then run LLVM's default pipeline of a level for ``machine``.

    Levels are 0 to 3. Level 0 also has target lowering such as NVPTX's reflect pass.
    """
    verify(module)
    if _is_c(machine):
        with _reported("LLVM could not optimise the module"):
            machine.optimize(module, opt_level)
        return
    binding = _llvmlite()
    options = binding.create_pipeline_tuning_options(opt_level)
    if opt_level >= 2:
        options.loop_vectorization = True
        options.slp_vectorization = True
    builder = binding.create_pass_builder(machine, options)
    with _reported("LLVM could not optimise the module"):
        builder.getModulePassManager().run(module, builder)


def run_passes(module: Module, pipeline: str) -> Module:
    """Return a copy of ``module`` after passes that depend on no target, in the syntax of ``opt -passes=``.

    Raises ``StepError``.
    """
    copy = parse_assembly(str(module), llvm_c.Context())
    with _reported("LLVM could not transform the module"):
        llvm_c.run_passes(copy, pipeline)
    return parse_assembly(str(copy), new_context(module.triple))


def emit_object(module: Module, machine: Machine) -> bytes:
    """Emit a relocatable object. Raises ``StepError``; LLVM may abort instead."""
    with _reported("LLVM could not emit an object"):
        return bytes(machine.emit_object(module))


def emit_bitcode(module: Module) -> bytes:
    """Emit LLVM bitcode."""
    return bytes(module.as_bitcode())


def emit_assembly(module: Module, machine: Machine) -> str:
    """Emit assembly or PTX text. Raises ``StepError``; LLVM may abort instead."""
    with _reported("LLVM could not emit assembly"):
        return str(machine.emit_assembly(module))


def emit_both(module: Module, machine: Machine) -> tuple[str, bytes]:
    """Emit assembly text and the relocatable object of the same code.

    Assembling the text takes a twentieth of the time that generating code does. Code is generated twice
    for other architectures, whose assembler may be missing, and where the text may lose something:
    debug information, locations of errors in inline assembly, names in quotes.
    Raises ``StepError``; LLVM may abort instead.
    """
    assembly = emit_assembly(module, machine)
    if not llvm_c.is_native(machine.triple) or _NOT_ONLY_TEXT.search(assembly):
        return assembly, emit_object(module, machine)
    lines = "".join(
        f'module asm "{line}"\n' for line in assembly.translate(_ESCAPED).split("\n") if line.strip()
    )
    text = parse_assembly(lines, new_context(machine.triple), name="assembly")
    set_target(text, machine)
    return assembly, emit_object(text, machine)


def host_cpu() -> tuple[str, str]:
    """Return LLVM's name of this machine's CPU, and its features as ``+a,-b`` in a stable order."""
    return llvm_c.host_cpu()


def _owned_by_context(module: Any) -> Module:  # noqa: ANN401 - llvmlite has no types
    """Let the context free a module.

    A traceback can keep both alive in a cycle, which the collector frees in any order; freeing a module
    after its context ends the process.
    """
    module._owned = True  # llvmlite then does not free it
    taken: Module = module
    return taken


def initialize() -> None:
    """Register LLVM's code generators, and llvmlite's if a back end has loaded it."""
    llvm_c.initialize()
    if "llvmlite" in sys.modules:
        _initialize_llvmlite()


@cache
def _initialize_llvmlite() -> None:
    for option in OPTIONS:
        _llvmlite().set_option("gpubuild", option)
    _llvmlite().initialize_all_targets()
    _llvmlite().initialize_all_asmprinters()


def set_option(option: str) -> None:
    """Set an option of llvmlite's code generators for the rest of this process."""
    _llvmlite().set_option("gpubuild", option)


def version() -> str:
    """Return the version of LLVM, such as 22.1.8."""
    return llvm_c.version()


def _values(module: Module) -> Iterator[Value]:
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


def is_known(name: str) -> bool:
    """Return whether LLVM has an intrinsic ``name``, whatever types its name ends with.

    Names of earlier releases, which LLVM renames when it reads IR, are unknown.
    """
    return name.startswith(PREFIX) and bool(llvm_c.intrinsic_id(name.encode()))


def unknown(name: str) -> str:
    """Return the message for an unknown intrinsic."""
    return f"LLVM has no intrinsic '{name}'"
