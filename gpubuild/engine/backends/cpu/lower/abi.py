"""Contextualize: kernel code in the LLVM and NVVM dialects becomes code that asks its work-item.

Every function with a body gets a last argument, the work-item (``gb_cpu_item *``). Special registers
become loads from it, workgroup variables become addresses behind its pointers, barriers and the
like become calls of the runtime's services.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.alias_versioning import Parameters
from gpubuild.engine.backends.cpu.builder import Builder, replace
from gpubuild.engine.backends.cpu.fission.workgroup_atomics import relax_workgroup_atomics
from gpubuild.engine.backends.cpu.lower.address_spaces import drop_address_spaces
from gpubuild.engine.backends.cpu.lower.barriers import rewrite_waiting
from gpubuild.engine.backends.cpu.lower.calls import rewrite_call
from gpubuild.engine.backends.cpu.lower.special_registers import rewrite_register
from gpubuild.engine.backends.cpu.lower.state import FunctionState, ModuleState, SharedVariable
from gpubuild.engine.backends.cpu.sanitizer import reports
from gpubuild.engine.backends.cpu.streaming import FUNCTION_ATTRIBUTES
from gpubuild.engine.backends.cpu.tiers import FunctionFacts, TierChoice, choose_tiers, reachable
from gpubuild.engine.backends.cpu.workgroup_coalescing import BLOCK_SIZE
from gpubuild.engine.ir.resources import External
from gpubuild.errors import StepError

_SHARED_SPACE = 3
_ATTRIBUTION = "__wg_{}"  # upstream's name for a function's workgroup attributions, before their number
_PROBE_STACK = ("probe-stack", "inline-asm")
_DROPPED = ("nvvm.", "gpu.", BLOCK_SIZE)  # attributes that mean something to GPUs only
_DEVICE_FUNCTIONS = frozenset(
    {"vprintf", "__assertfail", image_layout.PLACE_ITEM, image_layout.DIVERGED, *reports.REWRITES}
)
_SCALAR_BYTES = {
    "i1": 1,
    "i8": 1,
    "i16": 2,
    "i32": 4,
    "i64": 8,
    "f16": 2,
    "bf16": 2,
    "f32": 4,
    "f64": 8,
    "ptr": 8,
}
# What any thread has besides what its own frames take.
_ORDINARY_STACK_BYTES = 16 << 10
# Of a kernel whose private arrays have no size before it runs: that of the pool's threads.
_UNKNOWN_STACK_BYTES = 8 << 20
# For what LLVM puts on the stack besides the arrays, and the services that a kernel calls.
_OTHER_STACK_BYTES = 256 << 10
_MOST_STACK_UNITS = (1 << 31 - image_layout.KERNEL_STACK_SHIFT) - 1
_FAST = "#llvm.fastmath<nsz, arcp, contract, afn, reassoc>"  # NaN and infinity keep their meaning


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFacts:
    """A kernel after rewriting. ``required_block`` is (0, 0, 0) when any workgroup size will do."""

    name: str
    tier: TierChoice
    shared_bytes: int
    slot_bytes: int
    required_block: tuple[int, int, int]
    max_items: int
    workgroup: str | None  # the function that runs a whole workgroup, in the fission tier
    streams: bool = False  # whether memory is all that its time depends on
    stack_units: int = 0  # of layout.STACK_UNIT; 0 where any thread's stack will do


@dataclass(frozen=True, slots=True, kw_only=True)
class Contextualized:
    """What is known about a module after rewriting."""

    kernels: tuple[KernelFacts, ...]
    sites: tuple[str, ...]
    separable: Mapping[str, Parameters] = field(default_factory=dict)  # by kernel, where it is worth asking
    joined: frozenset[str] = frozenset()  # kernels; see engine.backends.cpu.workgroup_coalescing
    externals: tuple[External, ...] = ()  # variables whose data LLVM does not see


def contextualize(
    module: ir.Operation, state: ModuleState, *, fast_math: bool = False, probe_stack: bool = False
) -> Contextualized:
    """Rewrite the gpu.module ``module`` in place. Raises ``StepError`` naming what CPUs cannot do.

    With ``probe_stack`` a large frame touches each of its pages, so that it cannot step over the
    guard below a work-item's stack into a neighbour's.
    """
    body = module.regions[0].blocks[0]
    _place_shared(module, state)
    functions = [op.operation for op in body if op.operation.name == "llvm.func" and _has_body(op.operation)]
    state.defined = {f.attributes["sym_name"].value for f in functions}
    workgroup_functions = {f.function for f in state.fissions.done.values()}
    streaming = set(state.fissions.streaming)
    streaming |= {f.function for name, f in state.fissions.done.items() if name in streaming}
    kernels = []
    for function in functions:
        name = function.attributes["sym_name"].value
        is_kernel = "nvvm.kernel" in function.attributes or "gpu.kernel" in function.attributes
        if is_kernel and name not in workgroup_functions:
            kernels.append((name, _block_sizes(function)))
        _rewrite_function(function, name, state)
        flags = list(FUNCTION_ATTRIBUTES if name in streaming else ())
        if probe_stack:
            flags.append(_PROBE_STACK)
        function.attributes["passthrough"] = ir.ArrayAttr.get([_flag(*flag) for flag in flags])
    fissions = state.fissions
    tiers = choose_tiers(state.facts.values(), fissions.done, fissions.refused)
    _clean_up(module, state)
    _declare_image(body)
    relax_workgroup_atomics(module)
    drop_address_spaces(module)
    if fast_math:
        _make_fast(module)
    return Contextualized(
        kernels=tuple(
            KernelFacts(
                name=name,
                tier=tiers[name],
                shared_bytes=state.shared_bytes,
                slot_bytes=state.slot_bytes.get(name, 0),
                required_block=required,
                max_items=most,
                workgroup=fissions.done[name].function if name in fissions.done else None,
                streams=name in streaming,
                stack_units=_stack_units(
                    fissions.done[name].function if name in fissions.done else name, state.facts
                ),
            )
            for name, (required, most) in kernels
        ),
        sites=tuple(state.sites),
    )


def _flag(name: str, value: str = "") -> ir.Attribute:
    """A function's attribute, as LLVM's ``passthrough`` has them."""
    words = [ir.StringAttr.get(word) for word in (name, value)]
    return ir.ArrayAttr.get(words) if value else words[0]


def _place_shared(module: ir.Operation, state: ModuleState) -> None:
    """Give every workgroup variable a place. All kernels of a module share one plan."""
    sizes: dict[str, int] = {}
    for op in module.regions[0].blocks[0]:
        variable = op.operation
        if variable.name == "llvm.mlir.global" and variable.attributes["addr_space"].value == _SHARED_SPACE:
            name = variable.attributes["sym_name"].value
            sizes[name] = size_in_bytes(str(variable.attributes["global_type"].value))
    for kernel, fission in state.fissions.done.items():
        _place_slots(kernel, [(name, sizes.pop(name)) for name in fission.slots if name in sizes], state)
    twins = _twins(state)
    offset = 0
    for name, size in sizes.items():
        if size == 0:
            state.shared[name] = SharedVariable(offset_bytes=0, base=image_layout.ITEM_DYNAMIC)
        elif _twin(name, twins) not in sizes:
            offset = _aligned(offset)
            state.shared[name] = SharedVariable(offset_bytes=offset)
            offset += size
    for name in sizes.keys() - state.shared.keys():
        state.shared[name] = state.shared[_twin(name, twins)]
    state.shared_bytes = offset


def _aligned(offset: int) -> int:
    return (
        (offset + image_layout.SHARED_ALIGNMENT - 1)
        // image_layout.SHARED_ALIGNMENT
        * image_layout.SHARED_ALIGNMENT
    )


def _place_slots(kernel: str, variables: list[tuple[str, int]], state: ModuleState) -> None:
    """Slots of different kernels may overlap: a thread runs one at a time."""
    offset = 0
    for name, size in variables:
        state.shared[name] = SharedVariable(offset_bytes=offset, base=image_layout.ITEM_SLOTS)
        # Slots that are a multiple of a page apart would fight for the same cache sets.
        offset = _aligned(offset + size + image_layout.SHARED_ALIGNMENT)
    state.slot_bytes[kernel] = offset


def _twins(state: ModuleState) -> dict[str, str]:
    """Prefix of the workgroup variables of a workgroup function → that of its kernel's, which it shares."""
    return {_ATTRIBUTION.format(f.function): _ATTRIBUTION.format(k) for k, f in state.fissions.done.items()}


def _twin(name: str, twins: dict[str, str]) -> str:
    prefix, _, number = name.rpartition("_")
    return f"{twins[prefix]}_{number}" if prefix in twins else ""


def size_in_bytes(text: str) -> int:
    """Size of an LLVM-dialect type of arrays, vectors and scalars. Raises ``StepError`` for others."""
    text = text.removeprefix("!llvm.")
    if match := re.fullmatch(r"array<(\d+) ?x (.*)>", text):
        return int(match[1]) * size_in_bytes(match[2])
    if match := re.fullmatch(r"vec<(\d+) ?x (.*)>", text) or re.fullmatch(r"vector<(\d+)x(.*)>", text):
        # Vectors are aligned to the next power of two, and an array of them keeps each aligned.
        return 1 << (int(match[1]) * size_in_bytes(match[2]) - 1).bit_length()
    if match := re.fullmatch(r"struct<\((.*)\)>", text):
        members = [size_in_bytes(m) for m in match[1].split(", ")]
        largest = max(members, default=1)
        return largest * len(members)  # an upper bound that keeps any member aligned
    size = _SCALAR_BYTES.get(re.sub(r"^ptr<\d+>$", "ptr", text))
    if size is None and (match := re.fullmatch(r"i(\d+)", text)):
        size = 1 << ((int(match[1]) + 7) // 8 - 1).bit_length()
    if size is None:
        raise StepError(f"workgroup memory of type {text} is not supported on CPUs")
    return size


def _has_body(function: ir.Operation) -> bool:
    return len(function.regions[0].blocks) > 0


def _block_sizes(function: ir.Operation) -> tuple[tuple[int, int, int], int]:
    """Workgroup size the kernel was written for, and the bound on its work-items (0: none)."""
    attributes = function.attributes
    names = [n for n in (BLOCK_SIZE, "gpu.known_block_size", "nvvm.reqntid") if n in attributes]
    for name in names[:1]:
        sizes = [*(int(n) for n in attributes[name]), 1, 1]
        return (sizes[0], sizes[1], sizes[2]), 0
    most = 0
    if "nvvm.maxntid" in attributes:
        most = 1
        for extent in attributes["nvvm.maxntid"]:
            most *= int(extent)
    return (0, 0, 0), most


def _rewrite_function(function: ir.Operation, name: str, state: ModuleState) -> None:
    entry = function.regions[0].blocks[0]
    _add_item_parameter(function)
    item = entry.add_argument(ir.Type.parse("!llvm.ptr"), function.location)
    facts = FunctionFacts(name=name)
    state.facts[name] = facts
    current = FunctionState(module=state, facts=facts, item=item)
    allocations = []
    for op in _operations(function):
        if op.name == "llvm.alloca":
            allocations.append(op)
        elif op.name == "llvm.mlir.addressof":
            _rewrite_address(op, current)
        elif not (rewrite_register(op, current) or rewrite_waiting(op, current) or rewrite_call(op, current)):
            _refuse_foreign(op, current)
    facts.stack_bytes = _private_bytes(allocations, entry)
    for attribute in [a for a in function.attributes if a.startswith(_DROPPED)]:
        del function.attributes[attribute]
    function.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<external>")
    function.attributes["visibility_"] = ir.Attribute.parse("0 : i64")


def _private_bytes(allocations: Sequence[ir.Operation], entry: ir.Block) -> int | None:
    """Bytes of a function's private arrays; ``None`` where that is known at run time only."""
    total = 0
    for op in allocations:
        count = op.operands[0].owner
        if op.block != entry or isinstance(count, ir.Block) or count.operation.name != "llvm.mlir.constant":
            return None  # behind the entry it may be in a loop
        try:
            size = size_in_bytes(str(op.attributes["elem_type"].value))
        except StepError:
            return None
        total += ir.IntegerAttr(count.operation.attributes["value"]).value * size
    return total


def _stack_units(name: str, facts: Mapping[str, FunctionFacts]) -> int:
    """The stack that a function and all that it calls need, where that is not what any thread has.

    LLVM may put the arrays of all of them into one frame.
    """
    sizes = [function.stack_bytes for function in reachable(name, facts)]
    known = sum(size for size in sizes if size is not None)
    if None in sizes:
        known += _UNKNOWN_STACK_BYTES
    elif known <= _ORDINARY_STACK_BYTES:
        return 0
    return min(-(-(known + _OTHER_STACK_BYTES) // image_layout.STACK_UNIT), _MOST_STACK_UNITS)


def _add_item_parameter(function: ir.Operation) -> None:
    text = str(function.attributes["function_type"].value)
    if "..." in text:
        raise StepError("a function with a variable number of arguments cannot be compiled for CPUs")
    # Parameters may themselves hold parentheses (structs): look for the list that closes last.
    opened = _matching_parenthesis(text)
    inside = text[opened + 1 : text.rindex(")")]
    parameters = f"{inside}, ptr" if inside else "ptr"
    function.attributes["function_type"] = ir.TypeAttr.get(ir.Type.parse(f"{text[:opened]}({parameters})>"))
    if "arg_attrs" in function.attributes:
        given = ir.ArrayAttr(function.attributes["arg_attrs"])
        kept = [_without_gpu_attributes(a) for a in given]
        function.attributes["arg_attrs"] = ir.ArrayAttr.get([*kept, ir.DictAttr.get({})])


def _without_gpu_attributes(attributes: ir.Attribute) -> ir.Attribute:
    entries = ir.DictAttr(attributes)
    pairs = {entries[i].name: entries[i].attr for i in range(len(entries))}
    return ir.DictAttr.get({k: v for k, v in pairs.items() if not k.startswith(_DROPPED)})


def _matching_parenthesis(text: str) -> int:
    """Where the parenthesis opens that the last one of ``text`` closes."""
    depth = 0
    for index in range(text.rindex(")"), -1, -1):
        depth += {")": 1, "(": -1}.get(text[index], 0)
        if depth == 0:
            return index
    return -1


def _operations(function: ir.Operation) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op != function:
            found.append(op)
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    return found


def _rewrite_address(op: ir.Operation, function: FunctionState) -> None:
    name = ir.FlatSymbolRefAttr(op.attributes["global_name"]).value
    if name in function.module.defined:
        raise function.module.unsupported(op, f"taking the address of function @{name}")
    variable = function.module.shared.get(name)
    if variable is None:
        return
    build = Builder(op)
    base = build.offset(build.load(function.item, variable.base, "!llvm.ptr"), variable.offset_bytes)
    replace(op, build.value("llvm.addrspacecast", op.results[0].type, base))


def _refuse_foreign(op: ir.Operation, function: FunctionState) -> None:
    if op.name.startswith(("nvvm.", "gpu.", "nvgpu.", "rocdl.", "amdgpu.")):
        raise function.module.unsupported(op)
    if op.name == "llvm.inline_asm":
        raise function.module.unsupported(op, "inline assembly is written for one kind of processor")


def _clean_up(module: ir.Operation, state: ModuleState) -> None:
    """Drop what nothing refers to any more, and what only GPUs understand."""
    for op in list(module.regions[0].blocks[0]):
        inner = op.operation
        name = inner.attributes["sym_name"].value if "sym_name" in inner.attributes else ""
        is_shared = inner.name == "llvm.mlir.global" and name in state.shared
        is_device = inner.name == "llvm.func" and name in _DEVICE_FUNCTIONS and not _has_body(inner)
        if is_shared or is_device:
            inner.erase()
    if "targets" in module.attributes:
        del module.attributes["targets"]


def _declare_image(body: ir.Block) -> None:
    """The image is defined later (engine.backends.cpu.image); here only its address is needed."""
    ir.Operation.create(
        "llvm.mlir.global",
        regions=1,
        attributes={
            "sym_name": ir.StringAttr.get(image_layout.IMAGE_SYMBOL),
            "global_type": ir.TypeAttr.get(ir.Type.parse("!llvm.array<64 x i8>")),
            "linkage": ir.Attribute.parse("#llvm.linkage<external>"),
            "addr_space": ir.Attribute.parse("0 : i32"),
            "visibility_": ir.Attribute.parse("0 : i64"),
        },
        loc=ir.Location.unknown(),
        ip=ir.InsertionPoint.at_block_begin(body),
    )


def _make_fast(module: ir.Operation) -> None:
    flags = ir.Attribute.parse(_FAST)

    def visit(op: ir.Operation) -> ir.WalkResult:
        if "fastmathFlags" in op.attributes or op.name in _FLOAT_OPS:
            op.attributes["fastmathFlags"] = flags
        return ir.WalkResult.ADVANCE

    module.walk(visit)


_FLOAT_OPS = frozenset(
    {"llvm.fadd", "llvm.fsub", "llvm.fmul", "llvm.fdiv", "llvm.frem", "llvm.fneg", "llvm.intr.fma"}
)
