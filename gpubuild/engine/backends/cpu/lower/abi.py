"""Calling convention of functions on CPUs, and the facts about kernels that the image records.

Every function with a body gets a last argument, the work-item (``gb_cpu_item *``), from which later passes
read ids, sizes and memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.kernel_facts import (
    FunctionFacts,
    KernelFacts,
    Parameters,
    choose_tiers,
    reachable,
)
from gpubuild.engine.backends.cpu.lower.calls import function_around, functions
from gpubuild.engine.backends.cpu.lower.memory import size_in_bytes
from gpubuild.engine.backends.cpu.nontemporal import FUNCTION_ATTRIBUTES
from gpubuild.engine.backends.cpu.state import (
    ALIAS_VERSIONS,
    BLOCK_SIZE,
    CLUSTER_BARRIER,
    COALESCED,
    NO_FISSION,
    STREAMING,
    WAITS,
    WORKGROUP_OF,
    CpuLowering,
    kernel_module,
)
from gpubuild.engine.ir.kernel_table import entry_of
from gpubuild.engine.ir.passes import rewrite_each
from gpubuild.engine.ir.query import callee, defining_op, matching, symbol_name
from gpubuild.errors import StepError

_FOREIGN = ("nvvm.", "gpu.", "nvgpu.", "rocdl.", "amdgpu.")
_ASSEMBLY = "llvm.inline_asm"
_DROPPED = ("nvvm.", "gpu.", "gpubuild.")  # attributes that mean nothing to LLVM
_PROBE_STACK = ("probe-stack", "inline-asm")
_ORDINARY_STACK_BYTES = 16 << 10  # of private arrays that fit on the stack of any thread
_UNKNOWN_STACK_BYTES = 8 << 20  # for arrays whose size is not known: the stack of the pool's threads
_OTHER_STACK_BYTES = 256 << 10  # for spilled registers and the services that a kernel calls
_MOST_STACK_UNITS = (1 << 31 - image_layout.KERNEL_STACK_SHIFT) - 1
_FAST = "#llvm.fastmath<nsz, arcp, contract, afn, reassoc>"  # NaN and infinity keep their meaning
_FLOAT_OPS = frozenset(
    {"llvm.fadd", "llvm.fsub", "llvm.fmul", "llvm.fdiv", "llvm.frem", "llvm.fneg", "llvm.intr.fma"}
)
# With 4,000 operations in a block, LLVM vectorises for 1 to 4 s, with 8,000 for 5 to 20.
LARGEST_VECTORISED_BLOCK = 4000
_NO_VECTORS = "noimplicitfloat"
_NOT_VECTORISED = "#llvm.loop_annotation<vectorize = <disable = true>>"


def pass_work_items(module: ir.Module, _: CpuLowering) -> None:
    """Give each function with a body its work-item as last argument, and declare the image."""
    kernels = kernel_module(module)
    for function in functions(kernels):
        _add_parameter(function)
        function.regions[0].blocks[0].add_argument(ir.Type.parse("!llvm.ptr"), function.location)
    image = f"llvm.mlir.global external @{image_layout.IMAGE_SYMBOL}() : !llvm.array<64 x i8>"
    ir.InsertionPoint.at_block_begin(kernels.regions[0].blocks[0]).insert(ir.Operation.parse(image))


def refuse_unsupported(module: ir.Module, lowering: CpuLowering) -> None:
    """Raise ``StepError`` for an operation of a GPU that no pass has replaced, and for inline assembly."""
    for function in functions(kernel_module(module)):
        for op in matching(function, lambda op: op.name == _ASSEMBLY or op.name.startswith(_FOREIGN)):
            why = "inline assembly is written for one kind of processor" if op.name == _ASSEMBLY else ""
            raise lowering.unsupported(op, why)


def finish_functions(module: ir.Module, lowering: CpuLowering) -> None:
    """Leave the facts about each kernel in ``lowering``, and set the attributes of functions for LLVM."""
    found = functions(kernel_module(module))
    facts = _facts(module, found)
    workgroups = {
        f.attributes[WORKGROUP_OF].value: symbol_name(f) for f in found if WORKGROUP_OF in f.attributes
    }
    refused = {symbol_name(f): f.attributes[NO_FISSION].value for f in found if NO_FISSION in f.attributes}
    tiers = choose_tiers(facts.values(), workgroups, refused)
    kernels, entries = [], []
    for function in found:
        name, attributes = symbol_name(function), function.attributes
        is_kernel = "nvvm.kernel" in attributes or "gpu.kernel" in attributes
        if is_kernel and WORKGROUP_OF not in attributes:
            required, most = _block_sizes(function)
            versions = attributes.get(ALIAS_VERSIONS)
            entries.append(entry_of(function, hidden=1))  # the work-item
            kernels.append(
                KernelFacts(
                    name=name,
                    tier=tiers[name],
                    shared_bytes=lowering.workgroup_bytes,
                    context_bytes=lowering.context_bytes.get(name, 0),
                    required_block=required,
                    max_items=most,
                    workgroup=workgroups.get(name),
                    streams=STREAMING in attributes,
                    stack_units=_stack_units(workgroups.get(name, name), facts),
                    alias_versions=Parameters.of_attribute(versions) if versions is not None else None,
                    coalesced=COALESCED in attributes,
                )
            )
    lowering.kernels, lowering.entries = tuple(kernels), tuple(entries)
    for function in found:
        _set_attributes(function, lowering)
    _limit_large_blocks(found, lowering)


def _limit_large_blocks(found: Sequence[ir.Operation], lowering: CpuLowering) -> None:
    """Forbid LLVM to vectorise functions with a block of very many operations, and report them.

    LLVM does not vectorise functions that use no implicit floats. It analyses their loops first, unless each
    loop forbids it. Versions for arguments that do not overlap are of use to vectorised code only.
    """
    kernels = {facts.workgroup: facts.name for facts in lowering.kernels}
    large: dict[str, int] = {}
    for function in found:
        size = max((len(block.operations) for block in function.regions[0].blocks), default=0)
        if size <= LARGEST_VECTORISED_BLOCK:
            continue
        name = kernels.get(symbol_name(function), symbol_name(function))
        large[name] = max(size, large.get(name, 0))
        existing = function.attributes["passthrough"]
        function.attributes["passthrough"] = ir.ArrayAttr.get([*existing, ir.StringAttr.get(_NO_VECTORS)])
        for block in function.regions[0].blocks:
            last = block.operations[len(block.operations) - 1]
            if last.operation.name in ("llvm.br", "llvm.cond_br"):
                last.attributes["loop_annotation"] = ir.Attribute.parse(_NOT_VECTORISED)
    lowering.kernels = tuple(
        replace(facts, large=True, alias_versions=None) if facts.name in large else facts
        for facts in lowering.kernels
    )
    lowering.warnings += [
        f"@{name} has {size:,} operations without a branch and is not vectorised: above "
        f"{LARGEST_VECTORISED_BLOCK:,}, LLVM's time would grow with the square of their number"
        for name, size in large.items()
    ]


def _facts(module: ir.Module, found: Sequence[ir.Operation]) -> dict[str, FunctionFacts]:
    """Return the facts about each function by name."""
    facts = {
        symbol_name(function): FunctionFacts(
            name=symbol_name(function),
            waits=function.attributes[WAITS].value if WAITS in function.attributes else "",
            cluster_barrier=CLUSTER_BARRIER in function.attributes,
        )
        for function in found
    }

    def call(op: ir.Operation) -> None:
        own = facts[symbol_name(function_around(op))]
        if callee(op) in facts and callee(op) not in own.calls:
            own.calls.append(callee(op))

    def allocation(op: ir.Operation) -> None:
        own, size = facts[symbol_name(function_around(op))], _allocated_bytes(op)
        own.stack_bytes = None if own.stack_bytes is None or size is None else own.stack_bytes + size

    rewrite_each(kernel_module(module), {"llvm.call": call, "llvm.alloca": allocation})
    return facts


def _allocated_bytes(op: ir.Operation) -> int | None:
    """Return the bytes of a private array; ``None`` where they are known at run time only."""
    count = defining_op(op.operands[0])
    in_entry = op.block == function_around(op).regions[0].blocks[0]
    if count is None or count.name != "llvm.mlir.constant" or not in_entry:
        return None  # behind the entry it may be in a loop
    try:
        size = size_in_bytes(str(op.attributes["elem_type"].value))
    except StepError:
        return None
    return int(ir.IntegerAttr(count.attributes["value"]).value) * size


def _set_attributes(function: ir.Operation, lowering: CpuLowering) -> None:
    flags = FUNCTION_ATTRIBUTES if STREAMING in function.attributes else ()
    if lowering.probe_stack:
        flags = (*flags, _PROBE_STACK)
    texts = (f'["{name}", "{value}"]' if value else f'"{name}"' for name, value in flags)
    for attribute in [a for a in function.attributes if a.startswith(_DROPPED)]:
        del function.attributes[attribute]
    function.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<external>")
    function.attributes["visibility_"] = ir.Attribute.parse("0 : i64")
    function.attributes["passthrough"] = ir.Attribute.parse(f"[{', '.join(texts)}]")


def _block_sizes(function: ir.Operation) -> tuple[tuple[int, int, int], int]:
    """Return the workgroup size that a kernel requires, and its largest number of work-items; 0: any."""
    attributes = function.attributes
    for name in (BLOCK_SIZE, "gpu.known_block_size", "nvvm.reqntid"):
        if name in attributes:
            sizes = [*(int(n) for n in attributes[name]), 1, 1]
            return (sizes[0], sizes[1], sizes[2]), 0
    most = prod(int(n) for n in attributes["nvvm.maxntid"]) if "nvvm.maxntid" in attributes else 0
    return (0, 0, 0), most


def _stack_units(name: str, facts: Mapping[str, FunctionFacts]) -> int:
    """Return the stack that a function and all its callees need; 0 where any thread's stack suffices.

    LLVM may put the arrays of all of them into one frame.
    """
    sizes = [function.stack_bytes for function in reachable(name, facts)]
    known = sum(size for size in sizes if size is not None)
    if None in sizes:
        known += _UNKNOWN_STACK_BYTES
    elif known <= _ORDINARY_STACK_BYTES:
        return 0
    return min(-(-(known + _OTHER_STACK_BYTES) // image_layout.STACK_UNIT), _MOST_STACK_UNITS)


def _add_parameter(function: ir.Operation) -> None:
    text = str(function.attributes["function_type"].value)
    if "..." in text:
        raise StepError("a function with a variable number of arguments cannot be compiled for CPUs")
    separator = "" if text.endswith("()>") else ", "
    kind = ir.Type.parse(f"{text.removesuffix(')>')}{separator}ptr)>")
    function.attributes["function_type"] = ir.TypeAttr.get(kind)
    if "arg_attrs" in function.attributes:
        given = ir.ArrayAttr(function.attributes["arg_attrs"])
        kept = [_without_gpu_attributes(a) for a in given]
        function.attributes["arg_attrs"] = ir.ArrayAttr.get([*kept, ir.DictAttr.get({})])


def _without_gpu_attributes(attributes: ir.Attribute) -> ir.Attribute:
    entries = ir.DictAttr(attributes)
    pairs = {entries[i].name: entries[i].attr for i in range(len(entries))}
    return ir.DictAttr.get({k: v for k, v in pairs.items() if not k.startswith(_DROPPED)})


def make_fast(module: ir.Module, _: CpuLowering) -> None:
    """Allow all fast-math flags but those about NaN and infinity."""
    flags = ir.Attribute.parse(_FAST)
    kernels = kernel_module(module)
    for op in matching(kernels, lambda op: "fastmathFlags" in op.attributes or op.name in _FLOAT_OPS):
        op.attributes["fastmathFlags"] = flags
