"""Which targets a gpu.module is compiled for, with every override applied.

With ``offload: clang``, only targets that clang-linker-wrapper can tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from gpubuild.errors import UsageError
from gpubuild.model.project import ModuleOverride, Offload, Program, Project
from gpubuild.plan.sources import ScannedModule
from gpubuild.support.frozen import field, frozen, replace
from gpubuild.targets.registry import vendor
from gpubuild.targets.target import Target

_FOR_ALL = frozenset({"gpu", "llvm"})  # dialects of modules that are compiled for every kind of target


@frozen
class ModuleTargets:
    """A module of one program, its targets in order, and its offloading handler's text.

    ``chosen``: the source selects an object, so that executables contain that one only.
    """

    module: ScannedModule
    targets: tuple[Target, ...]
    handler: str
    chosen: bool = False
    bitcode: Mapping[str, str] = field(default_factory=dict)  # by target: the outline's output


def settle(
    project: Project, program: Program, module: ScannedModule, only: frozenset[str] = frozenset()
) -> ModuleTargets:
    """Apply, in rising order: the program's targets, the IR's own targets, ``modules:`` overrides.

    ``only`` restricts the result to some target names (``build -t``). Raises ``UsageError`` when
    nothing is left, when the module's dialect cannot be compiled for a target, or when ``select``
    names a target the module is not compiled for.
    """
    override = program.modules.get(module.name, ModuleOverride())
    if module.bitcode and override != ModuleOverride():
        raise UsageError(
            f"program {program.name}: modules: {module.name}: this is a gpu.binary with bitcode for its own "
            "targets",
            hint="leave it out of modules:, or keep the gpu.module in the source",
        )
    if override.targets is not None:
        targets = [project.targets[name] for name in override.targets]
    elif module.targets:
        targets = _each_named([_from_ir(project, target) for target in module.targets])
        for target in targets:
            _check_written(program, module, target)
    else:
        targets = [project.targets[name] for name in program.targets]
    bitcode = dict(zip((target.name for target in targets), module.bitcode, strict=False))
    if only:
        targets = [t for t in targets if t.name in only]
        if not targets:
            raise UsageError(
                f"program {program.name}: gpu.module @{module.name} is not compiled for "
                + " or ".join(sorted(only)),
                hint="name one of its targets with -t, or add it under modules: in targets.yaml",
            )
    for target in targets:
        if module.dialect not in _FOR_ALL | vendor(target.kind).dialects:
            raise UsageError(
                f"program {program.name}: gpu.module @{module.name} is already in the {module.dialect} "
                f"dialect and cannot be compiled for {target.name} ({target.kind})",
                hint=f"list its targets under programs: {program.name}: modules: {module.name}: targets:",
            )
    settled = tuple(_with_override(program, override, target) for target in targets)
    for target in settled:
        _check_format(program, module, target)
        if module.bitcode and target.passes:
            raise UsageError(
                f"program {program.name}: gpu.binary @{module.name} is LLVM bitcode, which the pass pipeline "
                f"for {target.name} cannot run on",
                hint=f"leave `passes: {target.kind}:` out, or keep the gpu.module in the source",
            )
    chosen = bool(module.handler) and override.targets is None and not only and program.select is None
    handler = module.handler if chosen else _handler(program, module, settled)
    return ModuleTargets(module=module, targets=settled, handler=handler, chosen=chosen, bitcode=bitcode)


def _with_override(program: Program, override: ModuleOverride, target: Target) -> Target:
    libraries = (*target.device_libs, *program.device_libs.get(target.kind, ()), *override.device_libs)
    fast_math = target.fast_math if override.fast_math is None else override.fast_math
    flags = set(target.flags)
    if fast_math and not target.fast_math:
        flags.update(vendor(target.kind).fast_flags)
    elif target.fast_math and not fast_math:
        flags.difference_update(vendor(target.kind).fast_flags)
    return replace(
        target,
        opt_level=target.opt_level if override.opt_level is None else override.opt_level,
        fast_math=fast_math,
        flags=tuple(sorted(flags)),
        debug=target.debug if override.debug is None else override.debug,
        device_libs=tuple(dict.fromkeys(libraries)),
        passes=target.passes or program.passes.kinds.get(target.kind, ""),
    )


def _check_format(program: Program, module: ScannedModule, target: Target) -> None:
    """Raise ``UsageError`` for objects that programs of this kind of `offload:` could not load."""
    loaded = vendor(target.kind).loaded_formats
    if not target.format or program.offload is Offload.SELECT_OBJECT:
        return
    if program.offload is Offload.CLANG:
        raise UsageError(
            f"program {program.name}: target {target.name} has `format: {target.format}`, and "
            "clang-linker-wrapper takes relocatable code only",
            hint="leave `format:` out, or choose another `offload:`",
        )
    if target.format not in loaded:
        raise UsageError(
            f"program {program.name}: gpu.module @{module.name}: the runtime loads no objects of format "
            f"{target.format} for target {target.name}",
            hint=f"use `format: {loaded[0]}`, or `offload: select_object` for a loader of your own",
        )


def _from_ir(project: Project, written: Target) -> Target:
    """Return a target from the IR; it has the name of a declared one of the same kind and chip, if any."""
    name = next(
        (t.name for t in project.targets.values() if (t.kind, t.chip) == (written.kind, written.chip)),
        written.chip,
    )
    libraries = tuple((project.root / library).absolute() for library in written.device_libs)
    return replace(written, name=name, device_libs=libraries)


def _check_written(program: Program, module: ScannedModule, target: Target) -> None:
    """Raise ``UsageError`` for a chip or feature in the IR that the compiler does not know."""
    try:
        vendor(target.kind).check(target.chip, target.features, target.triple)
    except UsageError as error:
        raise UsageError(
            f"program {program.name}: a target of gpu.module @{module.name}: {error.message}", hint=error.hint
        ) from error


def _each_named(targets: Sequence[Target]) -> list[Target]:
    """Return ``targets`` with unique names: a module may have two for one chip, with other options."""
    taken = {target.name for target in targets}
    seen: set[str] = set()
    named = []
    for target in targets:
        name, number = target.name, 1
        while name in seen or (number > 1 and name in taken):
            number += 1
            name = f"{target.name}-{number}"
        seen.add(name)
        named.append(replace(target, name=name))
    return named


def _handler(program: Program, module: ScannedModule, targets: tuple[Target, ...]) -> str:
    names = [t.name for t in targets]
    if program.select is None:
        return "#gpu.select_object<0>"
    if isinstance(program.select, int):
        index = program.select
    elif program.select in names:
        index = names.index(program.select)
    else:
        index = -1
    if not 0 <= index < len(names):
        raise UsageError(
            f"program {program.name}: select: {program.select} is none of the targets of "
            f"gpu.module @{module.name} ({', '.join(names)})",
            hint="select a target that every module of the program is compiled for",
        )
    return f"#gpu.select_object<{index}>"


def check_targets(program: str, settled: ModuleTargets) -> None:
    """Raise ``UsageError`` for targets that would be linked into one image, or cannot be linked."""
    where = f"program {program}: gpu.module @{settled.module.name}"
    for target in settled.targets:
        if flaw := vendor(target.kind).clang_flaw(target.chip, target.triple):
            raise UsageError(
                f"{where}: {flaw}",
                hint=f"leave {target.name} out of this program, or use offload: dispatch",
            )
    for one, other in combinations(settled.targets, 2):
        if _linked_together(one, other):
            raise UsageError(
                f"{where}: targets {one.name} and {other.name} are both for {_shared(one, other)}, and "
                "clang-linker-wrapper links what is for one chip into one image",
                hint="leave one of them out of this program, or use offload: dispatch",
            )


def _linked_together(one: Target, other: Target) -> bool:
    if (one.kind, one.triple) != (other.kind, other.triple):
        return False
    return vendor(one.kind).linked_together((one.chip, one.features), (other.chip, other.features))


def _shared(one: Target, other: Target) -> str:
    return " or ".join(sorted({vendor(t.kind).arch(t.chip, t.features) for t in (one, other)}))
