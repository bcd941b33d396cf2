"""Address spaces: from those of the LLVM dialect after ``convert-gpu-to-nvvm`` to SPIR-V's storage classes.

There a plain pointer is generic; here it is private (Function), and a generic one has number 4. Private
memory is allocated as such and cast. Variables are in global memory (CrossWorkgroup), since constant memory
has no generic pointers. Parameters of kernels must be pointers to global memory, and are cast as well.
Workgroup memory whose size is chosen at launch is the last parameter of a kernel, which the runtime adds.
bf16 becomes i16: passes before this one leave no arithmetic on it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

from mlir import ir

from gpubuild.engine.backends.lowering import GpuLowering
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter, LlvmBuilder
from gpubuild.engine.ir.diagnostics import SourceText, about
from gpubuild.engine.ir.passes import Pass
from gpubuild.engine.ir.query import enclosing, following, operations, symbol_name
from gpubuild.errors import StepError

_GLOBAL, WORKGROUP, GENERIC = 1, 3, 4
CONSTANT = 2  # texts of printf only
_PLAIN = re.compile(r"\bptr(?:<(\d+)>)?")
_BF16 = re.compile(r"bf16\b")
_NUMBER = re.compile(r"0x[0-9A-F]+|-?\d+\.\d+(?:[eE][-+]?\d+)?")
_SPACES = {None: GENERIC, "0": GENERIC, "4": _GLOBAL, "5": 0}  # by the number before; others stay
FLAG = "gpubuild.assertion"  # a variable that becomes a parameter
ADDED = "gpubuild.added"  # on a kernel: the number of parameters that the runtime adds
_STACK = frozenset({"llvm.alloca"})


def _use_generic_pointers(module: ir.Module, _: GpuLowering) -> None:
    (kernels,) = contexts.gpu_modules(module)
    private = _pointer(0)
    for op in operations(kernels, _STACK):
        _allocate_one(op)
        op.results[0].set_type(_pointer(5))  # becomes 0 below
    kernels.walk(_retype)
    for op in operations(kernels, _STACK):
        _cast_result(op, private)
    _pass_variables(kernels)
    _place_variables(kernels)
    for op in kernels.regions[0].blocks[0].operations:
        if op.operation.name == "llvm.func" and "gpu.kernel" in op.operation.attributes:
            _take_parameters(op.operation)


def _allocate_one(op: ir.Operation) -> None:
    """Allocate one array instead of several elements, of bytes instead of i1, as SPIR-V requires."""
    count, element = op.operands[0].owner, op.attributes["elem_type"].value
    if str(element) == "i1":
        element = ir.IntegerType.get_signless(8)
    if isinstance(count, ir.Operation | ir.OpView) and count.operation.name == "llvm.mlir.constant":
        number = ir.IntegerAttr(count.operation.attributes["value"]).value
        if number != 1:
            element = ir.Type.parse(f"!llvm.array<{number} x {element}>")
            build = LlvmBuilder(op)
            op.operands[0] = build.constant(1, str(op.operands[0].type))
    op.attributes["elem_type"] = ir.TypeAttr.get(element)


def _retype(op: ir.Operation) -> ir.WalkResult:
    values = [*op.results, *(value for region in op.regions for block in region for value in block.arguments)]
    for value in values:
        if _changes(value.type):
            value.set_type(_mapped(value.type))
    for name in op.attributes:
        attribute = op.attributes[name]
        if isinstance(attribute, ir.TypeAttr) and _changes(attribute.value):
            op.attributes[name] = ir.TypeAttr.get(_mapped(attribute.value))
        elif op.name == "llvm.mlir.constant" and name == "value" and _BF16.search(str(attribute)):
            op.attributes[name] = _bits(attribute)
    return ir.WalkResult.ADVANCE


def _bits(values: ir.Attribute) -> ir.Attribute:
    """Return constants of bf16 as those of i16; the bindings cannot read these."""

    def word(match: re.Match[str]) -> str:
        if match[0].startswith("0x"):
            return str(int(match[0], 16))
        return str(struct.unpack("<I", struct.pack("<f", float(match[0])))[0] >> 16)

    numbers, _, kind = str(values).rpartition(" : ")
    return ir.Attribute.parse(f"{_NUMBER.sub(word, numbers)} : {_BF16.sub('i16', kind)}")


def _mapped(kind: ir.Type) -> ir.Type:
    def replaced(match: re.Match[str]) -> str:
        space = _SPACES.get(match[1], match[1])
        return f"ptr<{space}>" if space else "ptr"

    return ir.Type.parse(_BF16.sub("i16", _PLAIN.sub(replaced, str(kind))))


def _changes(kind: ir.Type) -> bool:
    text = str(kind)
    return "ptr" in text or "bf16" in text


def _cast_result(op: ir.Operation, kind: ir.Type) -> None:
    """Give the result of ``op`` the pointer type ``kind``, and cast it to a generic pointer for its users."""
    result = op.results[0]
    result.set_type(kind)
    users = list(result.uses)
    emit = Emitter(following(op))
    cast = emit.value("llvm.addrspacecast", [result], _pointer(GENERIC))
    for use in users:
        use.owner.operation.operands[use.operand_number] = cast


def _place_variables(kernels: ir.Operation) -> None:
    moved = set()
    for op in operations(kernels, {"llvm.mlir.global"}):
        space = op.attributes["addr_space"].value if "addr_space" in op.attributes else 0
        if space in (0, GENERIC):
            moved.add(op.attributes["sym_name"].value)
            op.attributes["addr_space"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), _GLOBAL)
    for op in operations(kernels, {"llvm.mlir.addressof"}):
        if ir.FlatSymbolRefAttr(op.attributes["global_name"]).value in moved:
            _cast_result(op, _pointer(_GLOBAL))


def parameter_variables(kernels: ir.Operation) -> dict[str, ir.Operation]:
    """Return the variables that become parameters, by name: the flag, workgroup memory of unknown size."""
    return {
        name: op
        for op in operations(kernels, {"llvm.mlir.global"})
        if (name := symbol_name(op)) == FLAG or "array<0 x" in str(op.attributes["global_type"])
    }


def _pass_variables(kernels: ir.Operation) -> None:
    """Replace variables by a parameter of each kernel that uses some, the flag before workgroup memory."""
    found = parameter_variables(kernels)
    flag = {name: op for name, op in found.items() if name == FLAG}
    dynamic = {name: op for name, op in found.items() if name != FLAG}
    _pass(kernels, flag, _pointer(_GLOBAL), "cf.assert")
    _pass(kernels, dynamic, _pointer(WORKGROUP), "gpu.dynamic_shared_memory")


def _pass(kernels: ir.Operation, names: dict[str, ir.Operation], kind: ir.Type, what: str) -> None:
    """Replace addresses of the variables ``names`` by one new parameter of ``kind`` of each kernel."""
    arguments: dict[ir.Operation, ir.Value] = {}
    for op in operations(kernels, {"llvm.mlir.addressof"}):
        if ir.FlatSymbolRefAttr(op.attributes["global_name"]).value not in names:
            continue
        function = enclosing(op, ("llvm.func",))
        if function is None or "gpu.kernel" not in function.attributes:
            raise StepError(
                f"functions other than kernels cannot use {what} on OpenCL devices",
                diagnostics=[about(op, "it needs a parameter of the kernel", SourceText())],
                hint="use it in the kernel itself",
            )
        if function not in arguments:
            arguments[function] = add_parameters(function, [kind])[0]
        op.results[0].replace_all_uses_with(_as(op, arguments[function]))
        op.erase()
    for op in names.values():
        op.erase()


def _as(op: ir.Operation, pointer: ir.Value) -> ir.Value:
    if pointer.type == op.results[0].type:
        return pointer
    return Emitter(op).value("llvm.addrspacecast", [pointer], op.results[0].type)


def add_parameters(kernel: ir.Operation, kinds: Sequence[ir.Type]) -> list[ir.Value]:
    """Add parameters to the end of a kernel, which launches do not pass and the runtime does."""
    block = kernel.regions[0].blocks[0]
    added = [block.add_argument(kind, kernel.location) for kind in kinds]
    _set_type(kernel)
    if "arg_attrs" in kernel.attributes:
        empty = [ir.DictAttr.get({}) for _ in kinds]
        kernel.attributes["arg_attrs"] = ir.ArrayAttr.get([*kernel.attributes["arg_attrs"], *empty])
    count = kernel.attributes[ADDED].value if ADDED in kernel.attributes else 0
    kernel.attributes[ADDED] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), count + len(kinds))
    return added


def _set_type(kernel: ir.Operation) -> None:
    kinds = ", ".join(str(argument.type) for argument in kernel.regions[0].blocks[0].arguments)
    kernel.attributes["function_type"] = ir.TypeAttr.get(ir.Type.parse(f"!llvm.func<void ({kinds})>"))


def _take_parameters(kernel: ir.Operation) -> None:
    """Take generic pointers as global ones, an i1 as a byte, and a struct by a pointer to a copy.

    Kernels cannot have other parameters. (Intel's compiler crashes for structs, as complex numbers are.)
    """
    if not kernel.regions[0].blocks:
        return
    block = kernel.regions[0].blocks[0]
    attributes = [ir.DictAttr.get({}) for _ in block.arguments]
    if "arg_attrs" in kernel.attributes:
        attributes = [ir.DictAttr(each) for each in ir.ArrayAttr(kernel.attributes["arg_attrs"])]
    i1 = ir.IntegerType.get_signless(1)
    changes = {
        _pointer(GENERIC): (_pointer(_GLOBAL), "llvm.addrspacecast"),
        i1: (ir.IntegerType.get_signless(8), "llvm.trunc"),
    }
    for number, argument in enumerate(block.arguments):
        users, kind = list(argument.uses), argument.type
        if str(kind).startswith("!llvm.struct"):
            taken, cast = _pointer(0), "llvm.load"
            before = {named.name: named.attr for named in attributes[number]}
            attributes[number] = ir.DictAttr.get({**before, "llvm.byval": ir.TypeAttr.get(kind)})
        elif kind in changes:
            taken, cast = changes[kind]
        else:
            continue
        argument.set_type(taken)
        value = Emitter(block.operations[0].operation).value(cast, [argument], kind)
        for use in users:
            use.owner.operation.operands[use.operand_number] = value
    _set_type(kernel)
    kernel.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)


def _pointer(space: int) -> ir.Type:
    return ir.Type.parse(f"!llvm.ptr<{space}>" if space else "!llvm.ptr")


USE_GENERIC_POINTERS: Pass[GpuLowering] = Pass(name="use-generic-pointers", run=_use_generic_pointers)
