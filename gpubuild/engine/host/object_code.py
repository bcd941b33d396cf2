"""Host LLVM IR, lowered from MLIR or given as a source, to an optimised object file.

llvmlite emits ``@llvm.global_ctors`` into ``.ctors`` sections, which lld drops silently, so modules
would never be loaded. As other compilers do, we write pointers into ``.init_array`` and
``.fini_array`` sections, whose names carry the priority. A ``main`` without a result gets one, because
the system reads an exit code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mlir import ir

from gpubuild.engine.ir import llvm, resource_objects, step_io
from gpubuild.engine.ir.dump import dump
from gpubuild.engine.ir.llvm import new_context, parse_assembly, parse_bitcode
from gpubuild.engine.ir.resources import External, StepResources
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import StepError
from gpubuild.model.step import LlvmParams

DEFAULT_PRIORITY = 65535
_SECTIONS = {"ctors": ".init_array", "dtors": ".fini_array"}
_NAME = r'@(?:"[^"]*"|[-\w$.]+)'
_TYPE = r'(?:\{ i32, ptr, ptr \}|%(?:"[^"]*"|[-\w$.]+))'
# LLVM prints one global variable per line; quotes inside strings and names are written as \22.
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
    """LLVM IR text as LLVM prints it, with its two arrays replaced.

    Order within a priority is kept. Raises ``ValueError`` for an entry in a form LLVM 22 does not
    print (a constant expression instead of a function).
    """
    pointers: list[str] = []
    kept: list[str] = []

    def replace(match: re.Match[str]) -> str:
        for number, (priority, function) in enumerate(_entries(match["value"])):
            section = _SECTIONS[match["which"]]
            if priority != DEFAULT_PRIORITY:
                section += f".{priority:05d}"  # as gcc pads it: linkers sort by number or by name
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
    end = 1  # behind the bracket
    while match := _ENTRY.match(value, end):
        end = match.end()
        if match["function"] != "null":  # a null entry ends the list; LLVM skips it
            # The priority is printed as a signed number and means an unsigned one.
            yield int(match["priority"]) % 2**32, match["function"]
    if value[end:] != "]":
        raise ValueError(f"an entry of a constructor list that LLVM does not print: {value[:200]}")


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


def give_main_an_exit_code(module: ir.Module) -> None:
    """Make ``func.func @main()`` return 0 as i32, in place, when nothing in the module calls it.

    Upstream's runner ignores what ``main`` leaves behind; a program's exit code would be whatever
    a register holds.
    """
    for function in module.body.operations:
        op = function.operation
        if op.name != "func.func" or op.attributes["sym_name"].value != "main":
            continue
        kind = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
        has_body = len(op.regions[0].blocks) > 0
        if kind.inputs or kind.results or not has_body or _is_referred_to(module, "main"):
            return
        number = ir.IntegerType.get_signless(32)
        op.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([], [number]))
        for end in _returns(op):
            with ir.InsertionPoint(end), end.location:
                zero = ir.Operation.create(
                    "arith.constant", results=[number], attributes={"value": ir.IntegerAttr.get(number, 0)}
                )
                ir.Operation.create("func.return", operands=[zero.results[0]])
            end.erase()


def _returns(function: ir.Operation) -> list[ir.Operation]:
    blocks = function.regions[0].blocks
    last = [list(block.operations)[-1].operation for block in blocks]
    return [op for op in last if op.name == "func.return"]


def _is_referred_to(module: ir.Module, name: str) -> bool:
    wanted = ir.FlatSymbolRefAttr.get(name)
    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found = found or any(attribute == wanted for _, attribute in op.attributes.items())
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


# A program must start on any machine of its architecture, whatever it was built on.
_GENERIC_CHIP = {"x86_64": "x86-64", "aarch64": "generic"}
_SOURCE_FILENAME = re.compile(r'^source_filename = "[^"]*"$', re.MULTILINE)


def write_object(
    text: str, *, triple: str, opt_level: int, io: StepIO, externals: Sequence[External] = ()
) -> None:
    """Write ``object``, ELF, from LLVM IR text; constructors run whichever linker links it.

    ``externals`` are defined with the data among the step's inputs. ``opt_level`` is 0 to 3.
    Raises ``StepError``.
    """
    step_io.discover(text.encode(), io)
    # The name ends up in the object: it must not be a path on the machine that made the text.
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

    A module without a triple takes the host's; one for another machine is a ``StepError``, as is
    text that does not parse (with its line and column) and IR that does not verify.
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
