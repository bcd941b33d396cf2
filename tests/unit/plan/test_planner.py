"""From a project and scan results to steps."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.projects import TARGETS, make_program, make_project

from gpubuild.errors import ConfigError, UsageError
from gpubuild.model.project import NO_OPTIONS, HostOptions, ModuleOverride, Offload, Passes, Program
from gpubuild.model.step import CompileParams, StepKind
from gpubuild.plan.layout import Layout
from gpubuild.plan.plan import Plan
from gpubuild.plan.planner import Planner
from gpubuild.plan.sources import ScannedModule, ScannedSource
from gpubuild.targets.nvidia import TRIPLE as NVVM_TRIPLE
from gpubuild.targets.target import FULL, Target

ROOT = Path("/project")


def scan(*modules: ScannedModule) -> ScannedSource:
    return ScannedSource(modules=modules)


def module(**more: Any) -> dict[str, ScannedSource]:
    """What is found in app.mlir."""
    return {"outline/app.mlir": scan(ScannedModule(**{"name": "k", "index": 0, **more}))}


def planner_of(*programs: Program, targets: dict[str, Target] | None = None, **options: Any) -> Planner:
    return Planner(
        project=make_project(ROOT, *programs, targets=targets),
        layout=Layout(root=ROOT, build_dir=ROOT / "build"),
        triple="x86_64-unknown-linux-gnu",
        runtime_files={"cpu/a.c": Path("/rt/cpu/a.c")},
        **options,
    )


def plan_of(*programs: Program, scans: dict[str, ScannedSource] | None = None, **options: Any) -> Plan:
    planner = planner_of(*programs, **options)
    sources = [s.id for s in planner.scan_plan(programs).steps.values() if s.kind is StepKind.OUTLINE]
    one = scan(ScannedModule(name="k", index=0))
    return planner.full_plan(programs, scans or dict.fromkeys(sources, one))


def compiled(plan: Plan) -> list[str]:
    """The targets."""
    return [step.target for step in plan.steps.values() if step.kind is StepKind.COMPILE]


def compile_params(plan: Plan, step_id: str) -> CompileParams:
    return plan.steps[step_id].params


def test_one_compile_step_per_module_and_target() -> None:
    plan = plan_of(make_program(ROOT, "app", "app.mlir"))
    assert plan.needs("app/bundle/k") == {f"app/compile/k/{t}" for t in TARGETS}
    assert compiled(plan) == list(TARGETS)
    assert plan.needs("app/host") == {"outline/app.mlir"}
    assert plan.needs("app/link") == {"app/host", "app/bundle/k", "runtime"}


def test_artefacts_lie_where_the_contract_says() -> None:
    plan = plan_of(make_program(ROOT, "app", "app.mlir"))
    paths = {o.path.relative_to(ROOT).as_posix() for s in plan.steps.values() for o in s.outputs}
    assert {
        "build/app/app", "build/app/k.sm_60.ll", "build/app/k.sm_60.ptx", "build/app/k.sm_60.cubin",
        "build/app/k.gfx90a.hsaco", "build/app/k.cpu.s", "build/app/k.cpu.so",
        "build/app/k.binary.mlir", "build/app/k.images.o",
        "build/app/host.mlir", "build/app/host.ll", "build/app/host.o",
    } <= paths  # fmt: skip


@pytest.mark.parametrize(
    ("form", "wanted", "made"),
    [("", False, False), ("offload", False, False), ("assembly", False, True), ("", True, True)],
)
def test_amd_assembly_is_made_on_demand(form: str, wanted: bool, made: bool) -> None:
    targets = {**TARGETS, "gfx90a": replace(TARGETS["gfx90a"], format=form)}
    program = make_program(ROOT, "app", "app.mlir", offload=Offload.SELECT_OBJECT)
    plan = plan_of(program, targets=targets, assembly=wanted)
    step = plan.steps["app/compile/k/gfx90a"]
    assert compile_params(plan, step.id).assembly == made
    assert ("asm" in {output.name for output in step.outputs}) == made


def test_programs_share_sources_and_runtime() -> None:
    plan = plan_of(make_program(ROOT, "a", "k.mlir", "m.c"), make_program(ROOT, "b", "k.mlir", "m.c"))
    kinds = [s.kind for s in plan.steps.values()]
    assert kinds.count(StepKind.OUTLINE) == kinds.count(StepKind.CC) == kinds.count(StepKind.RUNTIME) == 1
    assert kinds.count(StepKind.LINK) == 2


def test_different_source_passes_do_not_share() -> None:
    passes = Passes(source="builtin.module(canonicalize)")
    plan = plan_of(make_program(ROOT, "a", "k.mlir"), make_program(ROOT, "b", "k.mlir", passes=passes))
    one, other = (s for s in plan.steps.values() if s.kind is StepKind.OUTLINE)
    assert one.dynamic_dir != other.dynamic_dir


def test_overrides_of_one_module() -> None:
    program = make_program(
        ROOT,
        "app",
        "app.mlir",
        modules={"k": ModuleOverride(targets=("sm_90", "cpu"), opt_level=1, device_libs=(ROOT / "my.bc",))},
        device_libs={"nvvm": (ROOT / "nv.bc",)},
        passes=Passes(kinds={"nvvm": "builtin.module(cse)"}),
    )
    plan = plan_of(program)
    assert compiled(plan) == ["sm_90", "cpu"]
    params = compile_params(plan, "app/compile/k/sm_90")
    assert (params.target.opt_level, params.target.passes) == (1, "builtin.module(cse)")
    libraries = [i.path.name for i in plan.steps["app/compile/k/sm_90"].inputs if i.name.startswith("lib.")]
    assert libraries == ["nv.bc", "my.bc"]
    assert compile_params(plan, "app/compile/k/cpu").target.passes == ""


def test_targets_and_handler_written_in_the_ir_are_kept() -> None:
    targets = (
        Target(name="sm_75", kind="nvvm", chip="sm_75", triple=NVVM_TRIPLE, opt_level=1),
        Target(name="sm_90", kind="nvvm", chip="sm_90", triple=NVVM_TRIPLE),
    )
    scans = module(handler="#gpu.select_object<1 : i64>", targets=targets)
    plan = plan_of(make_program(ROOT, "app", "app.mlir"), scans=scans)
    assert compiled(plan) == ["sm_75", "sm_90"]
    assert compile_params(plan, "app/compile/k/sm_75").target.opt_level == 1
    assert plan.steps["app/bundle/k"].params.handler == "#gpu.select_object<1 : i64>"
    overridden = make_program(ROOT, "app", "app.mlir", modules={"k": ModuleOverride(targets=("cpu",))})
    assert compiled(plan_of(overridden, scans=scans)) == ["cpu"]


def test_a_chip_in_the_ir_is_checked_where_it_is_compiled_for() -> None:
    written = Target(name="sm_91", kind="nvvm", chip="sm_91", triple=NVVM_TRIPLE)
    scans = module(targets=(written,))
    message = "program app: .* gpu.module @k: unknown NVIDIA chip 'sm_91'"
    with pytest.raises(UsageError, match=message) as caught:
        plan_of(make_program(ROOT, "app", "app.mlir"), scans=scans)
    assert "did you mean sm_90" in caught.value.hint
    overridden = make_program(ROOT, "app", "app.mlir", modules={"k": ModuleOverride(targets=("cpu",))})
    assert "app/compile/k/cpu" in plan_of(overridden, scans=scans).steps


def test_two_targets_in_the_ir_for_one_chip() -> None:
    written = [
        Target(name="sm_75", kind="nvvm", chip="sm_75", triple=NVVM_TRIPLE, opt_level=n) for n in (3, 0, 1)
    ]
    plan = plan_of(make_program(ROOT, "app", "app.mlir"), scans=module(targets=(*written,)))
    names = compiled(plan)
    assert names == ["sm_75", "sm_75-2", "sm_75-3"]
    assert [compile_params(plan, f"app/compile/k/{name}").target.opt_level for name in names] == [3, 0, 1]


@pytest.mark.parametrize(("select", "index"), [("gfx90a", 2), (1, 1)])
def test_select(select: str | int, index: int) -> None:
    program = make_program(ROOT, "app", "app.mlir", offload=Offload.SELECT_OBJECT, select=select)
    bundle = plan_of(program).steps["app/bundle/k"].params
    assert bundle.handler == f"#gpu.select_object<{index}>"


def test_selecting_what_a_module_lacks() -> None:
    only_cpu = {"k": ModuleOverride(targets=("cpu",))}
    options = {"offload": Offload.SELECT_OBJECT, "select": "gfx90a", "modules": only_cpu}
    program = make_program(ROOT, "app", "app.mlir", **options)
    with pytest.raises(UsageError, match="gfx90a is none of the targets of gpu.module @k"):
        plan_of(program)


def test_lowered_modules_compile_for_their_own_kind() -> None:
    scans = module(dialect="rocdl")
    with pytest.raises(UsageError, match=r"already in the rocdl dialect.*sm_60"):
        plan_of(make_program(ROOT, "app", "app.mlir"), scans=scans)
    plan_of(make_program(ROOT, "app", "app.mlir", targets=("gfx90a",)), scans=scans)


def test_two_modules_of_one_name() -> None:
    with pytest.raises(UsageError, match=r"@k is in both a\.mlir and b\.mlir"):
        plan_of(make_program(ROOT, "app", "a.mlir", "b.mlir"))


@pytest.mark.parametrize(
    ("program", "name", "file"),
    [
        (make_program(ROOT, "app", "app.mlir", "cpu.mlir", targets=("cpu",)), "host", "app/host.cpu.ll"),
        (make_program(ROOT, "k.cpu.so", "app.mlir", targets=("cpu",)), "k", "k.cpu.so/k.cpu.so"),
    ],
)
def test_names_that_make_up_the_name_of_one_file(program: Program, name: str, file: str) -> None:
    scans = module(name=name, dialect="gpu") | {"outline/cpu.mlir": scan()}
    with pytest.raises(UsageError, match=f"would both write build/{file}") as caught:
        plan_of(program, scans=scans)
    assert f"another name to program {program.name}" in caught.value.hint


def test_override_of_an_unknown_module() -> None:
    program = make_program(ROOT, "app", "app.mlir", modules={"kk": ModuleOverride()})
    with pytest.raises(ConfigError, match=r"a gpu.module 'kk'.*did you mean 'k'"):
        plan_of(program)


def test_restricting_targets() -> None:
    plan = plan_of(make_program(ROOT, "app", "app.mlir"), only_targets=frozenset({"cpu"}))
    assert compiled(plan) == ["cpu"]
    with pytest.raises(UsageError, match="not compiled for gfx90a"):
        plan_of(make_program(ROOT, "app", "app.mlir", targets=("cpu",)), only_targets=frozenset({"gfx90a"}))


def test_several_sources_have_several_host_parts() -> None:
    scans = {
        "outline/a.mlir": scan(ScannedModule(name="ka", index=0)),
        "outline/b.mlir": scan(ScannedModule(name="kb", index=0)),
    }
    plan = plan_of(make_program(ROOT, "app", "a.mlir", "b.mlir", "x.o", "y.a"), scans=scans)
    host = plan.steps["app/host/a"]
    assert host.output_path("object") == ROOT / "build/app/host.a.o"
    assert host.params.modules == ("ka",)
    names = [i.name for i in plan.steps["app/link"].inputs]
    assert names == [*(f"object.{n}" for n in range(5)), "archive.5", "runtime"]


@pytest.mark.parametrize(("level", "text"), [(True, "located.0.mlir"), (FULL, "named.0.mlir")])
def test_debug_compiles_the_located_text(level: bool | str, text: str) -> None:
    targets = {"cpu": replace(TARGETS["cpu"], debug=level)}
    program = make_program(ROOT, "app", "app.mlir", targets=("cpu",))
    plan = planner_of(program, targets=targets).full_plan((program,), module())
    inputs = {i.name: i for i in plan.steps["app/compile/k/cpu"].inputs}
    assert inputs["module"].path.name == text
    assert plan.steps["outline/app.mlir"].params.names == (level == FULL)
    assert inputs["module"].in_key
    assert not inputs["located"].in_key


def test_unknown_programs_and_targets_have_suggestions() -> None:
    planner = planner_of(make_program(ROOT, "saxpy", "a.mlir"), only_targets=frozenset({"sm_09"}))
    with pytest.raises(UsageError, match="no program 'saxpi'.*did you mean 'saxpy'"):
        planner.choose_programs(("saxpi",))
    with pytest.raises(UsageError, match="no target 'sm_09'.*did you mean 'sm_"):
        planner.choose_programs(())


def test_planning_is_linear_enough() -> None:
    """10,000 steps plan without quadratic work: counted in look-ups, not in seconds."""
    modules = tuple(ScannedModule(name=f"k{n}", index=n) for n in range(2000))
    plan = plan_of(make_program(ROOT, "app", "app.mlir"), scans={"outline/app.mlir": scan(*modules)})
    assert len(plan.steps) == 2000 * 5 + 4
    assert plan.graph.number_of_edges() < 8 * len(plan.steps)


def test_a_plan_without_links() -> None:
    program = make_program(ROOT, "app", "app.mlir", "main.c")
    objects = plan_of(program, link=False)
    whole = plan_of(program)
    assert set(whole.steps) - set(objects.steps) == {"app/link", "runtime"}


# ---- sources that programs have compiled in several ways ----


N1 = HostOptions(define=(("N", "1"),), cxx_std="c++17")
N2 = HostOptions(define=(("N", "2"),))


def program(name: str, host: HostOptions, *sources: str) -> Program:
    return replace(make_program(ROOT, name, *sources), host=host)


def linked(plan: Plan, name: str) -> list[str]:
    return [item.producer for item in plan.executable(name).inputs if item.name.startswith("object")]


def test_each_way_is_a_step_and_equal_ones_are_one() -> None:
    plan = plan_of(
        program("a", NO_OPTIONS, "x.c", "y.c"),
        program("b", N1, "x.c"),
        program("c", N2, "x.c", "z.c"),
        program("d", replace(N1, cxx_std="c++20"), "x.c"),  # a standard of C++ is nothing to C
    )
    assert linked(plan, "a") == ["cc/x.c", "cc/y.c"]
    assert linked(plan, "b") == linked(plan, "d") == ["cc/x.c#b"]
    assert linked(plan, "c") == ["cc/x.c#c", "cc/z.c"]
    assert plan.needs("cc/x.c#b") == {"preprocess/x.c#b"}


def test_changed_options_leave_a_steps_name_and_files() -> None:
    one, two = (plan_of(program("a", host, "x.c", "x.cpp")) for host in (N1, N2))
    assert list(one.steps) == list(two.steps)
    assert [s.outputs for s in one.steps.values()] == [s.outputs for s in two.steps.values()]


def test_options_reach_the_steps() -> None:
    host = replace(N1, include=("inc",), c_std="c11", c_flags=("-O1",), cxx_flags=("-fno-rtti",))
    plan = plan_of(program("a", host, "x.c", "x.cpp"))
    for name, std, flags in (("x.c", "c11", ("-O1",)), ("x.cpp", "c++17", ("-fno-rtti",))):
        for kind in ("preprocess", "cc"):
            found = plan.steps[f"{kind}/{name}"].params
            assert (found.std, found.flags, found.include, found.define) == (std, flags, ("inc",), ("N=1",))


def test_comments_count_where_there_are_flags_about_warnings() -> None:
    def key_inputs(*flags: str) -> list[str]:
        plan = plan_of(program("a", HostOptions(c_flags=flags), "x.c"))
        return [item.name for item in plan.steps["cc/x.c"].inputs if item.in_key]

    assert key_inputs("-O1") == ["text"]
    assert key_inputs("-O1", "-Wall") == key_inputs("-pedantic") == ["text", "source", "deps"]


def test_a_source_with_options_of_its_own() -> None:
    own = HostOptions(c_flags=("-O0",))
    a = replace(program("a", NO_OPTIONS, "x.c", "y.c"), source_hosts={ROOT / "x.c": own})
    plan = plan_of(a, program("b", NO_OPTIONS, "x.c", "y.c"))
    assert linked(plan, "a") == ["cc/x.c", "cc/y.c"]
    assert linked(plan, "b") == ["cc/x.c#b", "cc/y.c"]
    names = ("cc/x.c", "cc/y.c", "preprocess/x.c", "cc/x.c#b")
    flags = {name: plan.steps[name].params.flags for name in names}
    assert flags == {"cc/x.c": ("-O0",), "cc/y.c": (), "preprocess/x.c": ("-O0",), "cc/x.c#b": ()}
