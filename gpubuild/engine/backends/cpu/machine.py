"""LLVM's code generator for a CPU target, and what the CPU has instructions for."""

from __future__ import annotations

from gpubuild.engine.ir import llvm
from gpubuild.targets.cpu import NATIVE
from gpubuild.targets.target import Target

# By MLIR's names: LLVM's, and the function that LLVM calls where the CPU has no instruction.
_CONVERSIONS = {"f16": ("half", "__truncsfhf2"), "bf16": ("bfloat", "__truncsfbf2")}


def machine_for(target: Target) -> llvm.Machine:
    """Return the code generator for ``target``; its chip ``native`` is this machine's CPU.

    Raises ``StepError``.
    """
    chip, features = target.chip, target.features
    if chip == NATIVE:
        chip, own = llvm.host_cpu()
        features = f"{own},{features}" if features else own
    return llvm.target_machine(target.triple, chip, features, target.opt_level)


def converted_by_calls(target: Target, text: str) -> frozenset[str]:
    """Return the 16-bit floats in the module ``text`` which the CPU cannot convert: ``f16``, ``bf16``."""
    used = {name: conversion for name, conversion in _CONVERSIONS.items() if name in text}
    if not used:
        return frozenset()
    functions = "".join(
        f"define {kind} @{kind}(float %x) {{\n  %r = fptrunc float %x to {kind}\n  ret {kind} %r\n}}\n"
        for kind, _ in used.values()
    )
    machine = machine_for(target)
    module = llvm.parse_assembly(functions, llvm.new_context(machine.triple))
    llvm.set_target(module, machine)
    assembly = llvm.emit_assembly(module, machine)
    return frozenset(name for name, (_, function) in used.items() if function in assembly)
