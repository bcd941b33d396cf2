"""Write entry functions of kernels and the table that a CPU object exports, as LLVM IR text."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gpubuild.engine.backends.cpu import alias_versioning, image_layout, workgroup_coalescing
from gpubuild.engine.backends.cpu.kernel_facts import KernelFacts, Parameters, Tier
from gpubuild.engine.backends.cpu.nontemporal import FUNCTION_ATTRIBUTES
from gpubuild.support.frozen import frozen
from gpubuild.targets.target import FULL

_AXES = "xyz"
# Bytes; LLVM computes the sizes of other types.
_SIZES = {"i1": 1, "i8": 1, "i16": 2, "half": 2, "bfloat": 2, "i32": 4, "float": 4, "i64": 8, "double": 8,
          "ptr": 8}  # fmt: skip
_NOT_VECTORISED = '!6 = distinct !{!6, !7}\n!7 = !{!"llvm.loop.vectorize.enable", i1 false}'
_SIZE_IN_MEMORY = "ptrtoint (ptr getelementptr ({kind}, ptr null, i64 1) to i64)"


@frozen
class Kernel:
    """A kernel and the LLVM types of its parameters, without the work-item."""

    facts: KernelFacts
    parameters: tuple[str, ...]


def image_text(
    module: str,
    kernels: Sequence[Kernel],
    sites: Sequence[str],
    *,
    debug: bool | str = False,
    flags: int = 0,
    fence: str = "",
) -> str:
    """Return LLVM IR that declares the kernels and defines their entries and the image.

    ``flags`` are set for each kernel besides its own. ``fence`` is the intrinsic that must follow
    non-temporal stores, or empty.
    """
    text = _Text(debug=debug)
    for number, kernel in enumerate(kernels):
        parameters = ", ".join([*kernel.parameters, "ptr"])
        text.add(f"declare void @{quoted(kernel.facts.name)}({parameters})")
        text.add(_item_entry(number, kernel, text))
        if kernel.facts.workgroup:
            text.add(f"declare void @{quoted(kernel.facts.workgroup)}({parameters})")
        if kernel.facts.tier.tier is not Tier.FIBERS:
            name = f"@gpubuild.run.{number}"
            text.add(_run_entry(f"{name}.any", kernel, text))
            versions = kernel.facts.alias_versions
            if versions is not None:
                text.add(_run_entry(f"{name}.apart", kernel, text, apart=versions))
                if versions.filled:
                    text.add(_run_entry(f"{name}.large", kernel, text, apart=versions, fence=fence))
            text.add(_choice(name, kernel, versions or Parameters(count=0, memrefs=()), text))
    records = ", ".join(_record(number, kernel, text, flags) for number, kernel in enumerate(kernels))
    if fence:
        text.add(f"declare void @{fence}()")
    text.add(f"@gpubuild.kernels = internal constant [{len(kernels)} x {_RECORD}] [{records}]")
    names = ", ".join(f"ptr {text.string(site)}" for site in sites)
    text.add(f"@gpubuild.sites = internal constant [{len(sites)} x ptr] [{names}]")
    text.add(
        f"@{image_layout.IMAGE_SYMBOL} = global {{ i32, i32, ptr, ptr, ptr, i64, ptr, i64 }} "
        f"{{ i32 {image_layout.IMAGE_MAGIC}, i32 {image_layout.IMAGE_ABI}, "
        f"ptr null, ptr {text.string(module)}, "
        f"ptr @gpubuild.kernels, i64 {len(kernels)}, ptr @gpubuild.sites, i64 {len(sites)} }}, align 8"
    )
    return text.finish()


def large_entries(kernels: Sequence[Kernel]) -> dict[str, frozenset[str]]:
    """Return the entries for results larger than caches, each with the pointers to the memory it fills."""
    return {
        f"gpubuild.run.{number}.large": frozenset(f"arg{memref.first + 1}" for memref in versions.filled)
        for number, kernel in enumerate(kernels)
        if (versions := kernel.facts.alias_versions) is not None
        and versions.filled
        and kernel.facts.tier.tier is not Tier.FIBERS
    }


def chip_mark(chip: str) -> str:
    """Return LLVM IR of a string from which the runtime reads the chip of an image that others linked."""
    text = f"{image_layout.CHIP_MARK}{chip}"
    return (
        f'@gpubuild.chip = internal constant [{len(text) + 1} x i8] c"{escaped(text)}\\00"\n'
        '@llvm.used = appending global [1 x ptr] [ptr @gpubuild.chip], section "llvm.metadata"\n'
    )


_RECORD = "{ ptr, ptr, ptr, i32, i32, i64, i64, ptr, [3 x i32], i32, i64 }"


def quoted(name: str) -> str:
    """Return ``name`` as it follows ``@`` in LLVM IR text."""
    return '"' + escaped(name) + '"'


def escaped(text: str) -> str:
    """Return the content of an LLVM IR string: special characters as ``\\xx``."""
    return "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in text.encode())


class _Text:
    """Collects definitions, and numbers strings and debug scopes."""

    def __init__(self, *, debug: bool | str) -> None:
        self._parts: list[str] = []
        self._strings = 0
        self._scopes: list[str] = []
        self._debug = debug

    def add(self, part: str) -> None:
        self._parts.append(part)

    def string(self, value: str) -> str:
        name = f"@gpubuild.string.{self._strings}"
        self._strings += 1
        size = len(value.encode()) + 1
        self.add(f'{name} = internal constant [{size} x i8] c"{escaped(value)}\\00"')
        return name

    def scope(self, name: str) -> tuple[str, str]:
        """Return suffixes of a function and of a call in it, without which inlining would drop lines."""
        if not self._debug:
            return "", ""
        number = 10 + 2 * len(self._scopes)
        self._scopes.append(
            f'!{number} = distinct !DISubprogram(name: "{escaped(name)}", scope: !2, file: !2, type: !3, '
            f"unit: !1, spFlags: DISPFlagDefinition)\n"
            f"!{number + 1} = !DILocation(line: 0, scope: !{number})"
        )
        return f" !dbg !{number}", f", !dbg !{number + 1}"

    def finish(self) -> str:
        tail = ["!0 = !{i32 1, i32 1025}", _NOT_VECTORISED]
        if self._debug:
            kind = "FullDebug" if self._debug == FULL else "LineTablesOnly"
            tail += [
                "!llvm.dbg.cu = !{!1}",
                "!llvm.module.flags = !{!5}",
                '!1 = distinct !DICompileUnit(language: DW_LANG_C, file: !2, producer: "gpubuild", '
                f"isOptimized: true, runtimeVersion: 0, emissionKind: {kind})",
                '!2 = !DIFile(filename: "gpubuild", directory: "")',
                "!3 = !DISubroutineType(types: !4)",
                "!4 = !{}",
                '!5 = !{i32 2, !"Debug Info Version", i32 3}',
                *self._scopes,
            ]
        return "\n".join([*self._parts, *tail]) + "\n"


def _parameters(kernel: Kernel, params: str) -> tuple[str, str]:
    """Return code that loads the parameters from ``void **params``, and the list of arguments."""
    loads = "".join(
        f"  %slot{i} = getelementptr ptr, ptr {params}, i64 {i}\n"
        f"  %at{i} = load ptr, ptr %slot{i}\n"
        f"  %arg{i} = load {kind}, ptr %at{i}\n"
        for i, kind in enumerate(kernel.parameters)
    )
    return loads, ", ".join([*_own_parameters(kernel), "ptr %item"])


def _item_entry(number: int, kernel: Kernel, text: _Text) -> str:
    loads, arguments = _parameters(kernel, "%params")
    scope, location = text.scope(f"gpubuild item {kernel.facts.name}")
    return (
        f"define internal void @gpubuild.item.{number}(ptr %params, ptr %item){scope} {{\n{loads}"
        f"  call void @{quoted(kernel.facts.name)}({arguments}){location}\n  ret void\n}}"
    )


def _store(kind: str, value: str, offset: int, name: str) -> str:
    return f"  %p.{name} = getelementptr i8, ptr %item, i64 {offset}\n  store {kind} {value}, ptr %p.{name}\n"


def _load(kind: str, offset: int, name: str, *, bounded: bool = False) -> str:
    extra = ", !range !0" if bounded else ""
    return (
        f"  %l.{name} = getelementptr i8, ptr %launch, i64 {offset}\n"
        f"  %{name} = load {kind}, ptr %l.{name}{extra}\n"
    )


_STREAMS = "".join(f' "{name}"="{value}"' if value else f' "{name}"' for name, value in FUNCTION_ATTRIBUTES)
_RUN_PARAMETERS = "ptr %launch, i64 %first, i64 %last, ptr %shared, ptr %dynamic, ptr %slots"
_OWN = f"ptr noalias align {image_layout.SHARED_ALIGNMENT}"  # as cpu_launch.c lays it out
_RUN_FACTS = f"ptr noalias %launch, i64 %first, i64 %last, {_OWN} %shared, {_OWN} %dynamic, {_OWN} %slots"


def _own_parameters(kernel: Kernel, separate: Collection[int] = ()) -> list[str]:
    """Return the parameters of a kernel, with types; those in ``separate`` are ``noalias``."""
    return [
        f"{kind}{' noalias' if i in separate else ''} %arg{i}" for i, kind in enumerate(kernel.parameters)
    ]


def _choice(name: str, kernel: Kernel, memrefs: Parameters, text: _Text) -> str:
    """Return a function that calls the entry for arguments that do not overlap, or else the one for any.

    The first one gets the arguments as parameters, whose attributes hold in all its loops. The other one does
    for streaming kernels, so that LLVM keeps memory of the workgroup in registers: an argument cannot point
    there. (Matrix products with rows of a multiple of 4 KiB became slower by more loads of one cache set.)
    """
    scope, location = text.scope(f"gpubuild choice {kernel.facts.name}")
    loads, _ = _parameters(kernel, "%params")
    params = _load("ptr", image_layout.LAUNCH_PARAMS, "params")
    for i, axis in enumerate(_AXES if memrefs.block else _AXES[:1] if memrefs.filled else ""):
        params += _load("i32", image_layout.LAUNCH_BLOCK_DIM + 4 * i, f"n{axis}")
    versions = ["apart", "any"]
    if not memrefs.memrefs:
        test, versions = "  br label %any\n", ["any"]
    elif memrefs.filled:
        params += _load("i64", image_layout.LAUNCH_CACHE_BYTES, "cache")
        versions.append("large")
        test = alias_versioning.test_of(memrefs, yes="size", no="any") + "size:\n"
        test += alias_versioning.test_of_size(memrefs, yes="large", no="apart")
    else:
        test = alias_versioning.test_of(memrefs, yes="apart", no="any")
    known = ", ".join([_RUN_PARAMETERS, *_own_parameters(kernel)])
    arguments = {} if kernel.facts.streams else {"any": _RUN_PARAMETERS}
    calls = "".join(
        f"{one}:\n  call void {name}.{one}({arguments.get(one, known)}){location}\n  ret void\n"
        for one in versions
    )
    return f"define internal void {name}({_RUN_PARAMETERS}){scope} {{\n{params}{loads}{test}{calls}}}"


def _run_entry(
    name: str, kernel: Kernel, text: _Text, *, apart: Parameters | None = None, fence: str | None = None
) -> str:
    """Return a function that loops over workgroups. The work-item is a variable that LLVM removes.

    Memrefs in ``apart`` do not overlap any that is written. With a ``fence``, even an empty one, filled
    memrefs, their rows and those of a workgroup start at a multiple of the size of a non-temporal store.
    """
    scope, location = text.scope(f"gpubuild run {kernel.facts.name}")
    loads, arguments = _parameters(kernel, "%params")
    parameters = [_RUN_FACTS]
    if apart or kernel.facts.streams:
        loads = ""
        separate = {memref.first + 1 for memref in apart.memrefs} if apart else set()
        parameters += _own_parameters(kernel, separate)
    head = f"  %item = alloca [{image_layout.ITEM_BYTES} x i8], align 16\n"
    extents = {}
    narrow = ""
    for i, axis in enumerate(_AXES):
        required = apart.block[i] if apart and apart.block else kernel.facts.required_block[i]
        if required and not (kernel.facts.coalesced and axis == "x"):
            # The runtime refuses other sizes, and constants let LLVM unroll and strength-reduce.
            extents[axis] = str(required)
        else:
            head += _load("i32", image_layout.LAUNCH_BLOCK_DIM + 4 * i, f"n{axis}", bounded=True)
            extents[axis] = f"%n{axis}"
        head += _load("i32", image_layout.LAUNCH_GRID_DIM + 4 * i, f"g{axis}")
        head += _load("i32", image_layout.LAUNCH_CLUSTER_DIM + 4 * i, f"c{axis}")
        if kernel.facts.coalesced and axis == "x":
            narrow, extents[axis] = extents[axis], "%wide"
        else:
            head += _store("i32", extents[axis], image_layout.ITEM_BLOCK_DIM + 4 * i, f"n{axis}")
        head += _store("i32", f"%g{axis}", image_layout.ITEM_GRID_DIM + 4 * i, f"g{axis}")
        head += _store("i32", f"%c{axis}", image_layout.ITEM_CLUSTER_DIM + 4 * i, f"c{axis}")
    head += _load("i32", image_layout.LAUNCH_DYNAMIC_BYTES, "bytes")
    head += _load("ptr", image_layout.LAUNCH_PARAMS, "params")
    head += _load("ptr", image_layout.LAUNCH_KERNEL, "kernel")
    head += _store("i32", "%bytes", image_layout.ITEM_DYNAMIC_BYTES, "bytes")
    head += _store("ptr", "%kernel", image_layout.ITEM_KERNEL, "kernel")
    head += _store("ptr", "%shared", image_layout.ITEM_SHARED, "shared")
    head += _store("ptr", "%dynamic", image_layout.ITEM_DYNAMIC, "dynamic")
    head += _store("ptr", "%slots", image_layout.ITEM_CONTEXTS, "slots")
    facts = ""
    if apart and fence is not None:
        facts = alias_versioning.facts_of_large(apart, narrow or extents["x"])
    joined = "  %bx = trunc i64 %bx64 to i32\n"
    if narrow:
        joined = workgroup_coalescing.groups_text(narrow)
        joined += _store("i32", "%wide", image_layout.ITEM_BLOCK_DIM, "nx")
    blocks = "".join(
        _store("i32", f"%b{a}", image_layout.ITEM_BLOCK_ID + 4 * i, f"b{a}") for i, a in enumerate(_AXES)
    )
    callee = kernel.facts.workgroup or kernel.facts.name
    call = f"call void @{quoted(callee)}({arguments}) alwaysinline{location}"
    attributes = _STREAMS if kernel.facts.streams else ""
    work = f"  {call}\n" if kernel.facts.workgroup else _item_nest(call, extents, kernel.facts)
    return f"""define internal void {name}({", ".join(parameters)}) noinline{attributes}{scope} {{
entry:
{head}{loads}{facts}  %gx64 = zext i32 %gx to i64
  %gy64 = zext i32 %gy to i64
  %any = icmp ult i64 %first, %last
  br i1 %any, label %block, label %exit
block:
  %b = phi i64 [ %first, %entry ], [ %b.next, %block.end ]
  %bx64 = urem i64 %b, %gx64
  %rest = udiv i64 %b, %gx64
  %by64 = urem i64 %rest, %gy64
  %bz64 = udiv i64 %rest, %gy64
  %by = trunc i64 %by64 to i32
  %bz = trunc i64 %bz64 to i32
{joined}{blocks}  br label %work
work:
{work}  br label %block.end
block.end:
  %b.next = add nuw i64 %b, {"%groups" if narrow else "1"}
  %more = icmp ult i64 %b.next, %last
  br i1 %more, label %block, label %exit
exit:
{f"  call void @{fence}(){location}" if fence else ""}
  ret void
}}"""


def _item_nest(call: str, extents: Mapping[str, str], facts: KernelFacts) -> str:
    """Return loops over the work-items of a workgroup around ``call``, which runs one of them."""
    loop = ", !llvm.loop !6" if facts.large else ""
    ids = {
        a: _store("i32", f"%t{a}", image_layout.ITEM_THREAD_ID + 4 * i, f"t{a}") for i, a in enumerate(_AXES)
    }
    linear = _store("i32", "%linear", image_layout.ITEM_LINEAR_ID, "linear")
    return f"""  br label %z
z:
  %tz = phi i32 [ 0, %work ], [ %tz.next, %z.end ]
{ids["z"]}  br label %y
y:
  %ty = phi i32 [ 0, %z ], [ %ty.next, %y.end ]
{ids["y"]}  %row.z = mul nuw nsw i32 %tz, {extents["y"]}
  %row = add nuw nsw i32 %row.z, %ty
  %start = mul nuw nsw i32 %row, {extents["x"]}
  br label %x
x:
  %tx = phi i32 [ 0, %y ], [ %tx.next, %x ]
{ids["x"]}  %linear = add nuw nsw i32 %start, %tx
{linear}  {call}
  %tx.next = add nuw nsw i32 %tx, 1
  %x.more = icmp ult i32 %tx.next, {extents["x"]}
  br i1 %x.more, label %x, label %y.end{loop}
y.end:
  %ty.next = add nuw nsw i32 %ty, 1
  %y.more = icmp ult i32 %ty.next, {extents["y"]}
  br i1 %y.more, label %y, label %z.end
z.end:
  %tz.next = add nuw nsw i32 %tz, 1
  %z.more = icmp ult i32 %tz.next, {extents["z"]}
  br i1 %z.more, label %z, label %z.done
z.done:
"""


def _record(number: int, kernel: Kernel, text: _Text, flags: int) -> str:
    facts = kernel.facts
    run = f"@gpubuild.run.{number}" if facts.tier.tier is not Tier.FIBERS else "null"
    flags |= image_layout.KERNEL_CLUSTER_BARRIER if facts.tier.cluster_barrier else 0
    flags |= facts.stack_units << image_layout.KERNEL_STACK_SHIFT
    sizes = ", ".join(f"i64 {_SIZES.get(k) or _SIZE_IN_MEMORY.format(kind=k)}" for k in kernel.parameters)
    name = f"@gpubuild.sizes.{number}"
    text.add(f"{name} = internal constant [{len(kernel.parameters)} x i64] [{sizes}]")
    block = ", ".join(f"i32 {extent}" for extent in facts.required_block)
    return (
        f"{_RECORD} {{ ptr {text.string(facts.name)}, ptr {run}, ptr @gpubuild.item.{number}, "
        f"i32 {facts.tier.tier.value}, i32 {flags}, i64 {facts.shared_bytes}, "
        f"i64 {len(kernel.parameters)}, ptr {name}, [3 x i32] [{block}], i32 {facts.max_items}, "
        f"i64 {facts.context_bytes} }}"
    )
