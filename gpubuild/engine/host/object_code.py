"""Compile host LLVM IR, lowered from MLIR or a source itself, to an optimised object file.

LLVM's C API emits ``@llvm.global_ctors`` into ``.ctors`` sections, which lld drops silently, so modules
would never be loaded. Like other compilers, this module writes pointers into sections ``.init_array``
and ``.fini_array``, with the priority in their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mlir import ir

from gpubuild.engine.ir import llvm, resource_objects, step_io
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.dump import dump
from gpubuild.engine.ir.llvm import new_context, parse_assembly, parse_bitcode
from gpubuild.engine.ir.query import first, operations, readable
from gpubuild.engine.ir.resources import External, StepResources
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import StepError
from gpubuild.model.step import LlvmParams

DEFAULT_PRIORITY = 65535
_SECTIONS = {"ctors": ".init_array", "dtors": ".fini_array"}
_NAME = r'@(?:"[^"]*"|[-\w$.]+)'
_TYPE = r'(?:\{ i32, ptr, ptr \}|%(?:"[^"]*"|[-\w$.]+))'
# LLVM prints one global variable per line, and quotes inside strings and names as \22.
_ARRAY = re.compile(
    r"^@llvm\.global_(?P<which>ctors|dtors) = appending (?:\w+ )*global \[\d+ x [^\]]*\] (?P<value>.*)\n?",
    re.MULTILINE,
)
_ENTRY = re.compile(
    rf"{_TYPE} \{{ i32 (?P<priority>-?\d+), "
    rf"ptr (?P<function>{_NAME}|null), ptr (?:{_NAME}|null) \}}(?:, )?"
)
_USED = re.compile(
    r"^@llvm\.used = appending (?:\w+ )*global \[\d+ x ptr\] \[(?P<items>.*)\](?P<rest>, section .*)$",
    re.MULTILINE,
)


def rewrite(text: str) -> str:
    """Replace the two arrays in LLVM IR text as LLVM prints it.

    The order within a priority stays. Raises ``ValueError`` for an entry that is not a function, such
    as a constant expression, which LLVM 22 does not print.
    """
    pointers: list[str] = []
    kept: list[str] = []

    def replace(match: re.Match[str]) -> str:
        for number, (priority, function) in enumerate(_entries(match["value"])):
            section = _SECTIONS[match["which"]]
            if priority != DEFAULT_PRIORITY:
                section += f".{priority:05d}"  # padded as by gcc: some linkers sort by name
            name = f"@gpubuild.{match['which']}.{number}"
            kept.append(name)
            pointers.append(f'{name} = internal global ptr {function}, section "{section}", align 8\n')
        return ""

    text = _ARRAY.sub(replace, text)
    if not pointers:
        return text
    return _with_used(text, kept) + "\n" + "".join(pointers)


def _entries(value: str) -> Iterator[tuple[int, str]]:
    if value.startswith(("zeroinitializer", "undef", "poison")):
        return
    end = 1  # after the bracket
    while match := _ENTRY.match(value, end):
        end = match.end()
        if match["function"] != "null":  # a null entry ends the list; LLVM skips it
            # Printed as a signed number, but unsigned.
            yield int(match["priority"]) % 2**32, match["function"]
    if value[end:] != "]":
        raise ValueError(f"unexpected entry in a list of constructors: {value[:200]}")


def _with_used(text: str, names: list[str]) -> str:
    """Add to ``@llvm.used``, so that no optimisation and no linker drops the pointers."""
    items = [f"ptr {name}" for name in names]
    match = _USED.search(text)
    if match is None:
        rest = ', section "llvm.metadata"'
        return f"{text}\n@llvm.used = appending global [{len(items)} x ptr] [{', '.join(items)}]{rest}\n"
    items = re.findall(rf"ptr {_NAME}", match["items"]) + items
    line = f"@llvm.used = appending global [{len(items)} x ptr] [{', '.join(items)}]{match['rest']}"
    return text[: match.start()] + line + text[match.end() :]


def return_exit_code(module: ir.Module) -> None:
    """Let ``func.func @main()`` return 0 as i32, in place, if nothing in the module refers to it.

    Otherwise the exit code of the program is undefined.
    """
    for function in module.body.operations:
        op = function.operation
        if op.name != "func.func" or op.attributes["sym_name"].value != "main":
            continue
        kind = op.attributes["function_type"].value
        has_body = len(op.regions[0].blocks) > 0
        if kind.inputs or kind.results or not has_body or _is_referred_to(module, "main"):
            return
        number = ir.IntegerType.get_signless(32)
        op.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([], [number]))
        for end in operations(op, ("func.return",)):
            emit = Emitter(end)
            emit.op("func.return", [emit.constant(0, number)], [])
            end.erase()


def _is_referred_to(module: ir.Module, name: str) -> bool:
    wanted = ir.FlatSymbolRefAttr.get(name)

    def refers(op: ir.Operation) -> bool:
        values = (readable(op.attributes, attribute) for attribute in op.attributes)
        return any(value == wanted for value in values if value is not None)

    return first(module.operation, refers) is not None


# A program must start on any machine of its architecture.
_GENERIC_CHIP = {"x86_64": "x86-64", "aarch64": "generic"}
_SOURCE_FILENAME = re.compile(r'^source_filename = "[^"]*"$', re.MULTILINE)


def write_object(
    text: str, *, triple: str, opt_level: int, io: StepIO, externals: Sequence[External] = ()
) -> None:
    """Write the ELF file ``object`` from LLVM IR text. Raises ``StepError``.

    ``externals`` are defined with data from the step's inputs. ``opt_level`` is 0 to 3.
    """
    step_io.discover(text.encode(), io)
    # The name is in the object, and may be a path on the machine that wrote the text.
    text = _SOURCE_FILENAME.sub('source_filename = "host.ll"', text, count=1)
    with io.stage("optimise"):
        machine = llvm.target_machine(
            triple, _GENERIC_CHIP.get(triple.partition("-")[0], "generic"), "", opt_level
        )
        module = llvm.parse_assembly(rewrite(text), llvm.new_context(), name="host LLVM IR")
        llvm.set_target(module, machine)
        resource_objects.declare(module, externals)
        dump("ll", lambda: str(module))
        llvm.optimize(module, machine, opt_level)
        dump("ll", lambda: str(module))
    with io.stage("emit object"):
        sections = resource_objects.define(module, externals)
        code = llvm.emit_object(module, machine)
        resource_objects.write_object(io.out_path("object"), code, sections, StepResources.of(io))


def run(params: LlvmParams, io: StepIO) -> None:
    """Compile input ``source`` to output ``object``.

    Raises ``StepError`` for a triple of another architecture than the host's, and for invalid LLVM IR.
    """
    name = params.source_name or io.path("source").name
    with io.stage("parse"):
        context = new_context()
        if params.bitcode:
            module = parse_bitcode(io.read("source"), context, name=name)
        else:
            module = parse_assembly(io.text("source"), context, name=name)
        triple = module.triple
        if triple and triple.partition("-")[0] != params.triple.partition("-")[0]:
            raise StepError(
                f"{name} is for {triple}; host code is compiled for {params.triple}",
                hint="device libraries belong under device_libs:, not under sources:",
            )
    write_object(str(module), triple=params.triple, opt_level=params.opt_level, io=io)
