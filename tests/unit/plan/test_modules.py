"""`offload: clang` in plans: relocatable code on its way to the wrapper, and what that cannot keep apart."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from unit.projects import make_program, make_project

from gpubuild.errors import UsageError
from gpubuild.model.project import Offload, Passes
from gpubuild.model.step import CompileParams, LinkParams
from gpubuild.plan.layout import Layout
from gpubuild.plan.modules import ModuleTargets, check_targets, settle
from gpubuild.plan.plan import Plan
from gpubuild.plan.planner import Planner
from gpubuild.plan.sources import ScannedModule, ScannedSource
from gpubuild.targets.amd import TRIPLE as ROCDL_TRIPLE
from gpubuild.targets.nvidia import TRIPLE as NVVM_TRIPLE
from gpubuild.targets.target import Target

ROOT = Path("/project")
TRIPLE = "x86_64-unknown-linux-gnu"
MODULE = ScannedModule(name="k", index=0)
AMD = Target(name="a", kind="rocdl", chip="gfx90a", triple=ROCDL_TRIPLE)
CPU = Target(name="c", kind="cpu", chip="x86-64-v3", triple=TRIPLE)
NVIDIA = Target(name="n", kind="nvvm", chip="sm_90", triple=NVVM_TRIPLE)


def plan_of(offload: Offload, *targets: str) -> Plan:
    program = make_program(ROOT, "app", "app.mlir", offload=offload, targets=targets)
    planner = Planner(
        project=make_project(ROOT, program),
        layout=Layout(root=ROOT, build_dir=ROOT / "build"),
        triple=TRIPLE,
        runtime_files={},
    )
    return planner.full_plan((program,), {"outline/app.mlir": ScannedSource(modules=(MODULE,))})


def test_relocatable_code_goes_from_compile_to_host() -> None:
    plan = plan_of(Offload.CLANG, "gfx90a", "cpu")
    assert {
        i.name: (i.path.name, i.producer) for i in plan.steps["app/host"].inputs if "device" in i.name
    } == {
        "device.0.0": ("k.gfx90a.bc", "app/compile/k/gfx90a"),
        "device.0.1": ("k.cpu.o", "app/compile/k/cpu"),
    }
    assert cast(CompileParams, plan.steps["app/compile/k/cpu"].params).relocatable
    link = plan.steps["app/link"]
    assert cast(LinkParams, link.params).wrapper_triple == TRIPLE
    assert link.tools == ("gpubuild", "cc", "clang-linker-wrapper", "host-math")


def test_cudas_linker_is_needed_for_nvidia_only() -> None:
    assert "cuda-linker" in plan_of(Offload.CLANG, "sm_90").steps["app/link"].tools


def test_other_programs_have_none_of_it() -> None:
    plan = plan_of(Offload.DISPATCH, "sm_90", "gfx90a", "cpu")
    names = {o.name for s in plan.steps.values() for o in s.outputs}
    assert "device" not in names
    assert plan.steps["app/link"].tools == ("gpubuild", "cc")
    assert not cast(LinkParams, plan.steps["app/link"].params).wrapper_triple
    assert not cast(CompileParams, plan.steps["app/compile/k/cpu"].params).relocatable


def check(*targets: Target) -> None:
    check_targets("p", ModuleTargets(module=MODULE, targets=targets, handler=""))


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (CPU, replace(CPU, name="d", features="+avx512f"), "x86-64-v3"),
        (NVIDIA, replace(NVIDIA, name="d", fast_math=True), "sm_90"),
        (AMD, replace(AMD, name="d", features="+wavefrontsize64"), "gfx90a"),
        (AMD, replace(AMD, name="d", features="+xnack"), "gfx90a or gfx90a:xnack+"),
        (
            replace(AMD, features="+xnack"),
            replace(AMD, name="d", features="+sramecc,+xnack"),
            "gfx90a:sramecc+:xnack+ or gfx90a:xnack+",
        ),
    ],
)
def test_what_would_be_linked_together_is_refused(one: Target, other: Target, shared: str) -> None:
    with pytest.raises(UsageError) as caught:
        check(one, other)
    assert f"targets {one.name} and d are both for {shared}, " in caught.value.message
    assert "offload: dispatch" in caught.value.hint


def test_different_chips_and_contrary_settings_are_kept_apart() -> None:
    check(
        CPU, replace(CPU, chip="x86-64-v2"), NVIDIA, replace(NVIDIA, chip="sm_80"),
        replace(AMD, chip="gfx942"), replace(AMD, features="+xnack"), replace(AMD, features="-xnack"),
    )  # fmt: skip


def test_cpus_whose_names_march_does_not_know() -> None:
    with pytest.raises(UsageError, match="no CPU images for aarch64-unknown-linux-gnu.* -march=generic"):
        check(replace(CPU, triple="aarch64-unknown-linux-gnu", chip="generic"))


def test_a_pipeline_for_bitcode_is_refused() -> None:
    """Nothing would run it: the module is past MLIR."""
    module = replace(MODULE, dialect="llvm", targets=(NVIDIA,), bitcode=("bitcode.0.0.bc",))
    program = make_program(ROOT, "app", "app.mlir", passes=Passes(kinds={"nvvm": "any"}))
    with pytest.raises(UsageError, match=r"gpu.binary @k is LLVM bitcode"):
        settle(make_project(ROOT, program), program, module)
    plain = make_program(ROOT, "app", "app.mlir")
    settled = settle(make_project(ROOT, plain), plain, module)
    assert settled.bitcode == {settled.targets[0].name: "bitcode.0.0.bc"}
