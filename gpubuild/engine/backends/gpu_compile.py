"""Device compile: the state that NVIDIA's and AMD's stages share, and linking of libraries.

Relocatable: device code that clang-linker-wrapper links, one more output of a compile step.

What it takes differs: NVIDIA's nvlink relocatable cubins, AMD's lld bitcode (of several objects it
would keep the metadata of the first only), the CPU's linker objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from llvmlite import binding

from gpubuild.engine.backends import workarounds
from gpubuild.engine.backends.kernel_info import KernelInfo
from gpubuild.engine.backends.lowering import GpuLowering
from gpubuild.engine.ir import llvm
from gpubuild.engine.ir.dump import dump
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import StepError
from gpubuild.model.step import CompileParams

_LIBRARY_ROLE = "lib."
_WORKGROUP_MEMORY = "addrspace(3)"  # both GPU back ends; its size is settled at launch


@dataclass(slots=True, kw_only=True)
class DeviceBuild:
    """One compile under way: every stage reads what earlier ones left here."""

    params: CompileParams
    io: StepIO
    features: str = ""
    lowered: GpuLowering | None = None
    module: binding.ModuleRef = None  # set by the stage `lower`
    machine: binding.TargetMachine = None
    assembly: str = ""
    kernels: list[KernelInfo] = field(default_factory=list)
    parameters: dict[str, int] = field(default_factory=dict)  # how many each kernel has

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """Names of the module's kernels, in order."""
        return self.lowered.kernels if self.lowered else ()


class Build(Protocol):
    """What the driver of stages knows of a compile under way, of any back end."""

    io: StepIO
    module: binding.ModuleRef  # None until there is LLVM IR


B = TypeVar("B", bound=Build)
Stage = tuple[str, Callable[[B], None]]


def run_stages(build: B, stages: Sequence[Stage[B]]) -> None:
    """Run ``stages`` in order, each under its name."""
    for name, stage in stages:
        with build.io.stage(name):
            stage(build)
            if build.module is not None:
                dump("ll", lambda: str(build.module))


def stages_with(
    stages: Sequence[Stage[B]], stage: Callable[[B], None], *, after: str
) -> tuple[Stage[B], ...]:
    """Return ``stages``, and behind the one called ``after`` the one that makes relocatable code."""
    at = [name for name, _ in stages].index(after) + 1
    return (*stages[:at], ("relocatable", stage), *stages[at:])


def take_lowered(build: DeviceBuild, lowered: GpuLowering) -> None:
    """Parse what the passes in MLIR came to, for the target's code generator."""
    build.lowered = lowered
    build.module = llvm.parse_assembly(lowered.llvm, llvm.new_context(), name="translated LLVM IR")
    workarounds.keep_calls_together(build.module, lowered.kernels)
    params = build.params
    build.machine = llvm.target_machine(params.triple, params.chip, build.features, params.opt_level)
    llvm.set_target(build.module, build.machine)
    kernels = (f for f in build.module.functions if f.name in build.kernel_names)
    build.parameters = {kernel.name: len(list(kernel.arguments)) for kernel in kernels}


def optimize_module(build: DeviceBuild) -> None:
    """Stage: LLVM's pipeline; writes output ``llvm``.

    Only kernels can be called from outside, so that helpers and the C wrappers that MLIR makes of
    them need not stay. Globals do: a host may look them up. Not so where modules are linked with each
    other later, in which a name may occur twice.
    """
    if build.params.relocatable:
        for variable in build.module.global_variables:
            if not variable.is_declaration and not variable.name.startswith("llvm."):
                variable.linkage = "internal"
                variable.visibility = "default"
    for function in build.module.functions:
        external = not function.is_declaration and function.linkage.name == "external"
        if external and function.name not in build.kernel_names:
            function.linkage = "internal"
    llvm.optimize(build.module, build.machine, build.params.opt_level)
    build.io.write("llvm", str(build.module))


def user_libraries(io: StepIO) -> list[tuple[str, bytes]]:
    """The device libraries the user named, as (path for messages, content)."""
    roles = [r for r in io.input_names if r.startswith(_LIBRARY_ROLE)]
    roles.sort(key=lambda role: int(role.removeprefix(_LIBRARY_ROLE)))
    return [(str(io.path(role)), io.read(role)) for role in roles]


def refuse_undefined(build: DeviceBuild, provided: frozenset[str], hints: Sequence[tuple[str, str]]) -> None:
    """Raise ``StepError`` for symbols that nothing defines and the device does not provide.

    ``hints`` are (name prefix, what to do) pairs; the first that fits a missing name is shown.
    """
    missing = [n for n in llvm.undefined_symbols(build.module) if n not in provided]
    missing += [
        v.name
        for v in build.module.global_variables
        if v.is_declaration and not v.name.startswith("llvm.") and _WORKGROUP_MEMORY not in str(v.type)
    ]
    missing = _used(missing, build.module)
    if not missing:
        return
    hint = next((text for prefix, text in hints if any(n.startswith(prefix) for n in missing)), "")
    raise StepError(
        f"undefined in @{build.params.module}: {', '.join(missing)}",
        hint=hint or "define it in the gpu.module, or name a library that does under `device_libs:`",
    )


def _used(names: Sequence[str], module: binding.ModuleRef) -> list[str]:
    """Those of ``names`` that are more than declared: without optimisation, unused ones stay."""
    text = str(module) if names else ""

    def count(name: str) -> int:
        return len(re.findall(rf'@(?:{re.escape(name)}|"{re.escape(name)}")(?![\w.$-])', text))

    return [name for name in names if count(name) > 1]


def emit_bitcode(build: DeviceBuild) -> None:
    """Stage: the optimised module as bitcode, which clang compiles when it links (-flto)."""
    build.io.write("device", llvm.emit_bitcode(build.module))
