"""The first phase of a plan: one or two steps for each source file, and what they found.

Outline steps list the contents of a source in ``index.json``; preprocess steps list headers. Programs
of a project may compile one source in several ways.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from gpubuild.errors import StepError
from gpubuild.model.project import (
    ARCHIVE_SUFFIX,
    CXX_SUFFIXES,
    HOST_SUFFIXES,
    LLVM_SUFFIXES,
    MLIR_SUFFIXES,
    NO_OPTIONS,
    OBJECT_SUFFIX,
    CompilerOptions,
    Program,
    Project,
    about_warnings,
)
from gpubuild.model.step import (
    CcParams,
    GenerateParams,
    Input,
    LlvmParams,
    OutlineParams,
    Output,
    PreprocessParams,
    Step,
    StepKind,
)
from gpubuild.plan.layout import Layout
from gpubuild.support.frozen import field, fields, frozen, replace
from gpubuild.support.plain_data import typed
from gpubuild.targets.target import FULL, Target


@frozen
class ScannedModule:
    """One gpu.module. ``dialect`` is ``gpu``, or what the module was already lowered to.

    ``targets`` are those written in the IR, with libraries as they are written. ``resources`` are
    outputs of the outline step with data that its text refers to. ``bitcode``: instead of a text, the
    module is LLVM bitcode for each of ``targets``, in these outputs of the outline step.
    """

    name: str
    index: int
    dialect: str = "gpu"
    handler: str = ""
    targets: tuple[Target, ...] = ()
    resources: tuple[str, ...] = ()
    bitcode: tuple[str, ...] = ()


@frozen
class ScannedSource:
    """All gpu.modules of one source, in order. ``resources`` are those of the host part.

    ``binaries`` are gpu.binary operations that are linked unchanged. ``host_memory`` are warnings about
    memory that GPUs cannot access.
    With ``interface`` the outline step has an output that lists functions for callers.
    """

    modules: tuple[ScannedModule, ...]
    resources: tuple[str, ...] = ()
    binaries: tuple[str, ...] = ()
    host_memory: tuple[str, ...] = ()
    interface: bool = False


def parse_index(text: str) -> ScannedSource:
    """Read ``index.json``. Raises ``StepError`` when it is not what the engine writes."""
    try:
        document = json.loads(text)
        if document["schema"] != 2:
            raise ValueError(f"schema {document['schema']}")
        modules = [_fields_of(ScannedModule, module) for module in document["modules"]]
        for target in (target for module in modules for target in module["targets"]):
            target |= {"name": target["chip"], "device_libs": target.pop("link")}
        return cast(
            ScannedSource, typed(ScannedSource, _fields_of(ScannedSource, document) | {"modules": modules})
        )
    except (ValueError, KeyError, TypeError) as error:
        raise StepError(f"a scan result is malformed: {error!r}", hint="run `gpubuild clean`") from error


def _fields_of(kind: type[ScannedModule | ScannedSource], entry: dict[str, Any]) -> dict[str, Any]:
    return {f.name: entry[f.name] for f in fields(kind) if f.name in entry}


HEADER_SUFFIXES = (".h", ".hh", ".hpp", ".hxx", ".inc", ".def")


def find_variants(project: Project) -> Mapping[tuple[str, Path], str]:
    """Return, for a program and a source, a name of the options if the first program with it has others.

    It is the name of the first program with these options, and nothing where there is one way only. All
    programs count, also those that are not built now: a step has the same name in every build.
    """
    if all(p.host == NO_OPTIONS and not p.source_hosts for p in project.programs.values()):
        return {}
    ways: dict[Path, dict[CompilerOptions, str]] = {}
    found: dict[tuple[str, Path], str] = {}
    for program in project.programs.values():
        for source in program.sources:
            if source.suffix not in HOST_SUFFIXES:
                continue
            known = ways.setdefault(source, {})
            options = program.host_of(source)
            if name := known.setdefault(options, program.name if known else ""):
                found[program.name, source] = name
    return found


OURS = "gpubuild"  # our own code is a tool like any other: changing it changes keys
FACTS = f"{OURS}/targets"  # what it knows of all vendors; `gpubuild/KIND` is what belongs to one alone
HOST_MATH = "host-math"  # of every step in which MLIR or LLVM may fold a constant


@frozen
class SourcePlanner:
    """Plans what is done to each source before programs come into it.

    A source used by several programs in the same way gives one step.
    """

    project: Project
    layout: Layout
    triple: str  # of the host
    variants: Mapping[tuple[str, Path], str] = field(default_factory=dict)  # plan.sources

    def scan_steps(self, programs: tuple[Program, ...]) -> dict[str, Step]:
        """Return the steps that read sources, by id: ``outline`` for MLIR, ``preprocess`` for C and C++."""
        steps: dict[str, Step] = {}
        users: dict[str, list[str]] = {}
        generated = {step.id: step for step in self._generate_steps()}
        for program in programs:
            for source in program.sources:
                inputs: tuple[Input, ...] = (self._input("source", source),)
                if source.suffix in MLIR_SUFFIXES:
                    found = [self.outline(program, source)]
                elif source.suffix in HOST_SUFFIXES:
                    found = [self.preprocess(program, source)]
                    inputs = found[0].inputs
                else:
                    found = []
                found += (generated[item.producer] for item in inputs if item.producer)
                for step in found:  # which grows: a command may read what others make
                    steps.setdefault(step.id, step)
                    users.setdefault(step.id, []).append(program.name)
                    if step.kind is StepKind.GENERATE:
                        found += (generated[item.producer] for item in step.inputs if item.producer)
        return {i: replace(step, users=tuple(dict.fromkeys(users[i]))) for i, step in steps.items()}

    def _generate_steps(self) -> Iterator[Step]:
        """Run the commands that make sources."""
        for entry in self.project.generate:
            inputs = (self._input(f"input.{n}", path) for n, path in enumerate(entry.inputs.values()))
            yield Step(
                id=f"generate/{entry.name}",
                kind=StepKind.GENERATE,
                params=GenerateParams(
                    command=entry.command, inputs=tuple(entry.inputs), outputs=entry.outputs
                ),
                inputs=(Input(name="tool", path=entry.tool), *inputs),
                outputs=tuple(Output(name=name, path=self.layout.generated / name) for name in entry.outputs),
                tools=(OURS,),
            )

    def _input(self, name: str, source: Path, *, in_key: bool = True) -> Input:
        """Return a source as an input, with the step that makes it, if any."""
        made = self.project.generate and source.parent == self.layout.generated
        producer = next((e.name for e in self.project.generate if made and source.name in e.outputs), "")
        return Input(
            name=name, path=source, producer=f"generate/{producer}" if producer else "", in_key=in_key
        )

    def _headers(self) -> tuple[Input, ...]:
        """Return generated headers: any C or C++ source may include them."""
        folder = self.layout.generated
        return tuple(
            self._input(f"header.{name}", folder / name, in_key=False)
            for name in _generated_headers(self.project)
        )

    def _include(self, options: CompilerOptions, source: Path) -> tuple[str, ...]:
        """Return the folders that includes of a C or C++ source are searched in.

        They are absolute for a source outside the project: its compiler runs in its own folder.
        """
        folders = include_folders(self.project, self.layout, options)
        if Path(self.layout.shown(source)).is_absolute():
            return tuple(str(self.layout.root / name) for name in folders)
        return folders

    def outline(self, program: Program, source: Path) -> Step:
        """Split one MLIR source."""
        shown = self.layout.shown(source)
        outlining = program.outlining
        directory = self.layout.source_dir(source, outlining)
        # Programs with the same passes and constants share the step, which has the name of the first.
        programs = self.project.programs.values()
        first = next((p for p in programs if p.outlining == outlining and source in p.sources), program)
        prefix = f"{first.name}/" if outlining else ""
        return Step(
            id=f"{prefix}outline/{shown}",
            kind=StepKind.OUTLINE,
            params=OutlineParams(
                passes=program.passes.source,
                constants=program.constants,
                source_name=shown,
                names=_describes_variables(self.project),
            ),
            inputs=(self._input("source", source),),
            dynamic_dir=directory,
            tools=(OURS, FACTS, "mlir", HOST_MATH),
        )

    def preprocess(self, program: Program, source: Path) -> Step:
        """Run the C preprocessor, whose output is what the compile step's key covers."""
        shown = self.layout.shown(source)
        cxx = source.suffix in CXX_SUFFIXES
        options = program.host_of(source)
        variant = self.variants.get((program.name, source), "")
        directory = self.layout.source_dir(source, variant)
        headers = self._headers()
        return Step(
            id=_step_id("preprocess", shown, variant),
            kind=StepKind.PREPROCESS,
            params=PreprocessParams(
                language="c++" if cxx else "c",
                suffix=".ii" if cxx else ".i",
                opt_level=min(self.project.opt_level, 3),
                debug=self.project.debug,
                std=options.std,
                include=self._include(options, source),
                define=options.define,
                flags=options.flags,
                source_name=shown,
            ),
            inputs=(self._input("source", source), *headers),
            outputs=(
                Output(name="text", path=directory / ("text.ii" if cxx else "text.i")),
                Output(name="deps", path=directory / "deps.json"),
            ),
            tools=(OURS, "cxx" if cxx else "cc"),
        )

    def host_object(self, program: Program, source: Path) -> tuple[Step | None, Input]:
        """Return the step that compiles a source that is not MLIR (none for .o and .a), and what to link."""
        shown = self.layout.shown(source)
        if source.suffix == OBJECT_SUFFIX:
            return None, self._input("object", source)
        if source.suffix == ARCHIVE_SUFFIX:
            return None, self._input("archive", source)
        variant = self.variants.get((program.name, source), "")
        path = self.layout.source_dir(source, variant) / "object.o"
        if source.suffix in LLVM_SUFFIXES:
            step = Step(
                id=f"llvm/{shown}",
                kind=StepKind.LLVM,
                params=LlvmParams(
                    triple=self.triple,
                    opt_level=self.project.opt_level,
                    bitcode=source.suffix == ".bc",
                    source_name=shown,
                ),
                inputs=(self._input("source", source),),
                outputs=(Output(name="object", path=path),),
                tools=(OURS, "mlir", HOST_MATH),
            )
        else:
            pre = self.preprocess(program, source)
            cxx = source.suffix in CXX_SUFFIXES
            options = program.host_of(source)
            # Comments, and where macros come from, have a part in warnings, which may be errors.
            warns = about_warnings(options.flags)
            deps = Input(name="deps", path=pre.output_path("deps"), producer=pre.id)
            step = Step(
                id=_step_id("cc", shown, variant),
                kind=StepKind.CC,
                params=CcParams(
                    language="c++" if cxx else "c",
                    opt_level=min(self.project.opt_level, 3),
                    debug=self.project.debug,
                    std=options.std,
                    flags=options.flags,
                    source_name=shown,
                    include=self._include(options, source),
                    define=options.define,
                ),
                inputs=(
                    Input(name="text", path=pre.output_path("text"), producer=pre.id),
                    self._input("source", source, in_key=warns),
                    *((deps,) if warns else ()),
                ),
                outputs=(Output(name="object", path=path),),
                tools=(OURS, "cxx" if cxx else "cc"),
            )
        return step, Input(name="object", path=path, producer=step.id)


def resource_inputs(outline: Step, names: Iterable[str]) -> tuple[Input, ...]:
    """Return the data that a text made by ``outline`` refers to."""
    return tuple(
        Input(name=f"resource.{number}", path=outline.output_path(name), producer=outline.id)
        for number, name in enumerate(names)
    )


def _describes_variables(project: Project) -> bool:
    modules = (module for program in project.programs.values() for module in program.modules.values())
    levels = [*(target.debug for target in project.targets.values()), *(module.debug for module in modules)]
    return FULL in levels


def include_folders(project: Project, layout: Layout, options: CompilerOptions) -> tuple[str, ...]:
    """Return the folders of ``options``, and that of generated headers, relative to the project's."""
    generated = (layout.shown(layout.generated),) if _generated_headers(project) else ()
    return (*options.include, *generated)


def _generated_headers(project: Project) -> list[str]:
    return [name for entry in project.generate for name in entry.outputs if name.endswith(HEADER_SUFFIXES)]


def with_generated(project: Project, layout: Layout) -> Project:
    """Return the project with generated sources where the build puts them."""
    moved = {
        project.root / name: layout.generated / name for entry in project.generate for name in entry.outputs
    }
    if not moved:
        return project
    programs = {
        name: replace(
            program,
            sources=tuple(moved.get(path, path) for path in program.sources),
            source_hosts={moved.get(path, path): host for path, host in program.source_hosts.items()},
        )
        for name, program in project.programs.items()
    }
    generate = (
        replace(entry, inputs={name: moved.get(path, path) for name, path in entry.inputs.items()})
        for entry in project.generate
    )
    return replace(project, programs=programs, generate=tuple(generate))


def _step_id(kind: str, shown: str, variant: str) -> str:
    return f"{kind}/{shown}" + (f"#{variant}" if variant else "")
