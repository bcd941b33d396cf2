"""Planner: project and scan results to a complete plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpubuild.errors import ConfigError, Diagnostic, UsageError
from gpubuild.model.project import (
    CXX_SUFFIXES,
    HOST_SUFFIXES,
    MLIR_SUFFIXES,
    Offload,
    Product,
    Program,
    Project,
)
from gpubuild.model.step import (
    BundleParams,
    CompileParams,
    HostParams,
    Input,
    InterfaceParams,
    LibraryParams,
    LinkParams,
    Output,
    RuntimeParams,
    Step,
    StepKind,
)
from gpubuild.plan.layout import Layout
from gpubuild.plan.library_search import places, present
from gpubuild.plan.modules import ModuleTargets, check_targets, settle
from gpubuild.plan.plan import DoubledOutputError, Plan
from gpubuild.plan.sources import (
    FACTS,
    HOST_MATH,
    OURS,
    ScannedSource,
    SourcePlanner,
    find_variants,
    resource_inputs,
)
from gpubuild.support.frozen import frozen, replace
from gpubuild.support.text import suggestion
from gpubuild.targets.registry import vendor
from gpubuild.targets.target import FULL, Target
from gpubuild.targets.vendor import Format


def tools_of(kind: str) -> tuple[str, ...]:
    """Return the tools that compiling for ``kind`` always needs."""
    return (OURS, f"{OURS}/{kind}", "mlir", HOST_MATH, *vendor(kind).tools)


@frozen
class Planner:
    """Plans the programs of a project. ``only_targets`` restricts device code to some targets.

    With ``assembly``, every compile step writes it, even where only an object is needed.
    """

    project: Project
    layout: Layout
    triple: str
    runtime_files: Mapping[str, Path]  # sources by names relative to their folder, or the built ``archive``
    only_targets: frozenset[str] = frozenset()
    link: bool = True
    assembly: bool = False

    def choose_programs(self, names: tuple[str, ...]) -> tuple[Program, ...]:
        """Return the named programs, or all. Raises ``UsageError`` for an unknown name."""
        for name in names:
            if name not in self.project.programs:
                raise UsageError(
                    f"there is no program {name!r} in {self.project.file.name}"
                    f"{suggestion(name, self.project.programs)}",
                    hint="programs: " + ", ".join(self.project.programs),
                )
        for name in sorted(self.only_targets - set(self.project.targets)):
            raise UsageError(
                f"there is no target {name!r} in {self.project.file.name}"
                f"{suggestion(name, self.project.targets)}",
                hint="targets: " + ", ".join(self.project.targets),
            )
        chosen = names or tuple(self.project.programs)
        return tuple(self.project.programs[name] for name in dict.fromkeys(chosen))

    def scan_plan(self, programs: tuple[Program, ...]) -> Plan:
        """Return the first phase: the steps that must run before the modules are known."""
        return Plan(self._sources().scan_steps(programs).values())

    def full_plan(self, programs: tuple[Program, ...], scans: Mapping[str, ScannedSource]) -> Plan:
        """Everything. ``scans`` maps the ids of outline steps to what they found."""
        sources = self._sources()
        steps = sources.scan_steps(programs)
        if self.link:
            steps["runtime"] = self._runtime()
        for program in programs:
            for step in self._program(program, scans, sources):
                if self.link or step.kind is not StepKind.LINK:
                    steps.setdefault(step.id, step)
        try:
            return Plan(steps.values())
        except DoubledOutputError as error:
            raise UsageError(
                f"{error.first} and {error.second.id} would both write "
                f"{self.layout.shown(error.output.path)}",
                hint=f"give another name to program {error.second.program}, or to the source, gpu.module or "
                "target that the file is named after",
            ) from error

    def link_steps(
        self, programs: tuple[Program, ...], scans: Mapping[str, ScannedSource]
    ) -> dict[str, Step]:
        """Return the link step of each program, by its name, whether or not the plan has it."""
        sources = self._sources()
        return {program.name: self._program(program, scans, sources)[-1] for program in programs}

    def advice(self, programs: tuple[Program, ...], scans: Mapping[str, ScannedSource]) -> tuple[str, ...]:
        """Return warnings about whole programs: none has a kernel, GPUs get memory of the host."""
        sources = self._sources()
        found: list[str] = []
        for program in programs:
            listed = [s for s in program.sources if s.suffix in MLIR_SUFFIXES]
            scanned = [scans[sources.outline(program, source).id] for source in listed]
            modules = [module for source in scanned for module in source.modules]
            closed = any(s.suffix not in (*MLIR_SUFFIXES, *HOST_SUFFIXES) for s in program.sources)
            if listed and not modules and not closed and not any(s.binaries for s in scanned):
                found.append(
                    f"program {program.name} has no kernel: all its code runs on the host, since "
                    f"{' and '.join(map(self.layout.shown, listed))} has no gpu.module or gpu.launch"
                )
            host_memory = [warning for source in scanned for warning in source.host_memory]
            if host_memory and any(
                not vendor(target.kind).reads_host_memory
                for module in modules
                for target in settle(self.project, program, module, self.only_targets).targets
            ):
                found += host_memory
        return tuple(dict.fromkeys(found))

    def _sources(self) -> SourcePlanner:
        return SourcePlanner(
            project=self.project,
            layout=self.layout,
            triple=self.triple,
            variants=find_variants(self.project),
        )

    def _runtime(self) -> Step:
        return Step(
            id="runtime",
            kind=StepKind.RUNTIME,
            params=RuntimeParams(),
            inputs=tuple(Input(name=n, path=p) for n, p in sorted(self.runtime_files.items())),
            outputs=(Output(name="archive", path=self.layout.runtime_archive),),
            tools=(OURS,) if "archive" in self.runtime_files else (OURS, "cc", "ar"),
        )

    def _program(
        self, program: Program, scans: Mapping[str, ScannedSource], sources: SourcePlanner
    ) -> list[Step]:
        stems = _stems([s for s in program.sources if s.suffix in MLIR_SUFFIXES])
        steps: list[Step] = []
        linked: list[tuple[Input, Path]] = []  # with the sources that they come from
        kinds: set[str] = set()
        owners: dict[str, Path] = {}
        interfaces: list[Step] = []  # outline steps
        for source in program.sources:
            if source.suffix not in MLIR_SUFFIXES:
                step, item = sources.host_object(program, source)
                if step is not None:
                    steps.append(step)
                linked.append((item, source))
                continue
            outline = sources.outline(program, source)
            if scans[outline.id].interface:
                interfaces.append(outline)
            modules = []
            objects = []  # steps and outputs
            for scanned in scans[outline.id].modules:
                if scanned.name in owners:
                    raise UsageError(
                        f"program {program.name}: gpu.module @{scanned.name} is in both "
                        f"{self.layout.shown(owners[scanned.name])} and {self.layout.shown(source)}",
                        hint="rename one of them: a program loads modules by name",
                    )
                owners[scanned.name] = source
                module = settle(self.project, program, scanned, self.only_targets)
                if program.offload is Offload.CLANG:
                    check_targets(program.name, module)
                kinds.update(target.kind for target in module.targets)
                modules.append(module)
                made = self._module(program, outline, module)
                steps.extend(made)
                if program.offload is Offload.DISPATCH:
                    objects.append((made[-1], "images"))
            resources = resource_inputs(outline, scans[outline.id].resources)
            host = self._host(program, outline, modules, stems[source], resources)
            steps.append(host)
            objects.insert(0, (host, "object"))
            linked += [
                (Input(name=_linked_role(program, s), path=s.output_path(role), producer=s.id), source)
                for s, role in objects
            ]
        self._check_overrides(program, owners)
        if interfaces and _is_library(program):
            interface = self._interface(program, interfaces)
            steps.append(interface)
            item = Input(name="object", path=interface.output_path("object"), producer=interface.id)
            linked.append((item, program.sources[0]))
        steps.append(self._link(program, linked, kinds))
        return steps

    def _interface(self, program: Program, outlines: list[Step]) -> Step:
        files = self.layout.interface_files(program.name)
        python = program.product is Product.SHARED
        if not python:
            del files["module"]
        return Step(
            id=f"{program.name}/interface",
            kind=StepKind.INTERFACE,
            params=InterfaceParams(
                program=program.name,
                triple=self.triple,
                python=python,
                kernels=program.offload is Offload.DISPATCH,
            ),
            inputs=tuple(
                Input(name=f"interface.{n}", path=outline.output_path("interface.json"), producer=outline.id)
                for n, outline in enumerate(outlines)
            ),
            outputs=tuple(
                Output(name=role, path=path, install=_INSTALLED.get(role, "")) for role, path in files.items()
            ),
            tools=(OURS, "mlir"),
            program=program.name,
        )

    def _check_overrides(self, program: Program, found: Mapping[str, Path]) -> None:
        unknown = [
            replace(
                override.written or Diagnostic(message=""),
                message=f"no source of program {program.name} has a gpu.module {name!r}"
                f"{suggestion(name, found)}",
            )
            for name, override in program.modules.items()
            if name not in found
        ]
        if unknown:
            raise ConfigError(unknown, hint="gpu.modules: " + (", ".join(found) or "none"))

    def _module(self, program: Program, outline: Step, settled: ModuleTargets) -> list[Step]:
        module = settled.module
        steps = [self._compile(program, outline, settled, target) for target in settled.targets]
        inputs = []
        for number, (step, target) in enumerate(zip(steps, settled.targets, strict=True)):
            inputs += [
                Input(name=f"{role}.{number}", path=step.output_path(role), producer=step.id)
                for role in ("info", *_bundled(target))
            ]
        dispatch = program.offload is Offload.DISPATCH
        outputs = [Output(name="binary", path=self.layout.binary_file(program.name, module.name))]
        if dispatch:
            outputs.append(Output(name="images", path=self.layout.images_file(program.name, module.name)))
        steps.append(
            Step(
                id=f"{program.name}/bundle/{module.name}",
                kind=StepKind.BUNDLE,
                params=BundleParams(
                    module=module.name,
                    handler=settled.handler,
                    targets=settled.targets,
                    names=tuple(target.name for target in settled.targets),
                    formats=tuple(target.format for target in settled.targets),
                    host_triple=self.triple if dispatch else "",
                    chosen=dispatch and settled.chosen,
                ),
                inputs=tuple(inputs),
                outputs=tuple(outputs),
                tools=(
                    OURS,
                    FACTS,
                    "mlir",
                    *dict.fromkeys(n for t in settled.targets for n in format_tools(t)),
                ),
                program=program.name,
                module=module.name,
            )
        )
        return steps

    def _compile(self, program: Program, outline: Step, settled: ModuleTargets, target: Target) -> Step:
        module = settled.module
        facts = vendor(target.kind)
        relocatable = program.offload is Offload.CLANG
        assembly = self.assembly or not facts.assembly_on_demand or "asm" in _bundled(target)
        libraries = tuple(Input(name=f"lib.{n}", path=path) for n, path in enumerate(target.device_libs))
        return Step(
            id=f"{program.name}/compile/{module.name}/{target.name}",
            kind=StepKind.COMPILE,
            params=CompileParams(
                module=module.name, target=target, relocatable=relocatable, assembly=assembly
            ),
            inputs=(
                *_code_inputs(outline, settled, target),
                *libraries,
                *resource_inputs(outline, module.resources),
            ),
            outputs=tuple(
                Output(name=role, path=path)
                for role, path in self.layout.object_files(
                    program.name,
                    module.name,
                    target.name,
                    target.kind,
                    relocatable=relocatable,
                    assembly=assembly,
                ).items()
            ),
            tools=tools_of(target.kind),
            optional_tools=facts.optional_tools,
            program=program.name,
            module=module.name,
            target=target.name,
        )

    def _host(
        self,
        program: Program,
        outline: Step,
        modules: list[ModuleTargets],
        stem: str,
        resources: tuple[Input, ...],
    ) -> Step:
        embedded = [] if program.offload is Offload.DISPATCH else modules
        binaries = tuple(
            Input(
                name=f"binary.{number}",
                path=self.layout.binary_file(program.name, settled.module.name),
                producer=f"{program.name}/bundle/{settled.module.name}",
            )
            for number, settled in enumerate(embedded)
        )
        if program.offload is Offload.CLANG:
            binaries += self._device_codes(program, modules)
        return Step(
            id=f"{program.name}/host" + (f"/{stem}" if stem else ""),
            kind=StepKind.HOST,
            params=HostParams(
                modules=tuple(m.module.name for m in modules),
                chosen=tuple(m.module.name for m in embedded if m.chosen),
                offload=program.offload,
                passes=program.passes.host,
                opt_level=self.project.opt_level,
                debug=self.project.debug,
                triple=self.triple,
            ),
            inputs=(
                Input(
                    name="host",
                    path=outline.output_path("host_located.mlir" if self.project.debug else "host.mlir"),
                    producer=outline.id,
                ),
                Input(
                    name="located",
                    path=outline.output_path("host_located.mlir"),
                    producer=outline.id,
                    in_key=False,
                ),
                *binaries,
                *resources,
            ),
            outputs=tuple(
                Output(name=role, path=self.layout.host_file(program.name, stem, suffix))
                for role, suffix in (("mlir", "mlir"), ("llvm", "ll"), ("object", "o"))
            ),
            tools=(OURS, FACTS, "mlir", HOST_MATH),
            program=program.name,
        )

    def _device_codes(self, program: Program, modules: list[ModuleTargets]) -> tuple[Input, ...]:
        """Return the outputs of compile steps that clang-linker-wrapper links."""
        return tuple(
            Input(
                name=f"device.{number}.{n}",
                path=self.layout.object_files(
                    program.name, settled.module.name, target.name, target.kind, relocatable=True
                )["device"],
                producer=f"{program.name}/compile/{settled.module.name}/{target.name}",
            )
            for number, settled in enumerate(modules)
            for n, target in enumerate(settled.targets)
        )

    def _link(self, program: Program, linked: list[tuple[Input, Path]], kinds: set[str]) -> Step:
        numbered = [
            Input(name=f"{item.name}.{n}", path=item.path, producer=item.producer, origin=source)
            for n, (item, source) in enumerate(linked)
        ]
        cxx = any(s.suffix in CXX_SUFFIXES for s in program.sources)
        tools = [OURS, "cxx" if cxx else "cc"]
        if program.offload is Offload.CLANG:
            tools += ["clang-linker-wrapper", HOST_MATH]  # it compiles AMD's bitcode
            tools += [tool for kind in sorted(kinds) for tool in vendor(kind).clang_tools]
        path, params = self.layout.product(program), self._link_params(program, cxx=cxx)
        library = program.product is not Product.EXECUTABLE
        if program.product is Product.STATIC:
            tools.append("ar")
        product = Output(
            name="library" if library else "executable",
            path=path,
            executable=program.product in (Product.EXECUTABLE, Product.SHARED),
            install="lib" if library else "bin",
        )
        return Step(
            id=f"{program.name}/link",
            kind=StepKind.LINK,
            params=LibraryParams(product=program.product, file_name=path.name + program.soname, link=params)
            if library
            else params,
            inputs=(
                *numbered,
                Input(name="runtime", path=self.layout.runtime_archive, producer="runtime"),
            ),
            outputs=(product,),
            tools=tuple(tools),
            program=program.name,
        )

    def _link_params(self, program: Program, *, cxx: bool) -> LinkParams:
        # A static library or an object is linked, with these, by the user of it.
        linked = program.product in (Product.EXECUTABLE, Product.SHARED)
        libraries, flags = (program.link_libraries, program.link_flags) if linked else ((), ())
        return LinkParams(
            libraries=libraries,
            flags=flags,
            present=present(places(libraries, flags)),
            cxx=cxx,
            debug=self.project.debug,
            wrapper_triple=self.triple if program.offload is Offload.CLANG else "",
        )


def _linked_role(program: Program, step: Step) -> str:
    """Return the role of an object to link: libraries export other functions of MLIR sources than of C's."""
    return "host" if step.kind is StepKind.HOST and _is_library(program) else "object"


def _is_library(program: Program) -> bool:
    """Return whether other programs call this one's functions."""
    return program.product is not Product.EXECUTABLE


def _stems(sources: Sequence[Path]) -> dict[Path, str]:
    """Return a stem for the host object of each of a program's MLIR sources; empty if there is one source."""
    if len(sources) == 1:
        return {sources[0]: ""}
    count = Counter(source.stem for source in sources)
    stems: dict[Path, str] = {}
    for number, source in enumerate(sources):
        stems.setdefault(source, source.stem if count[source.stem] == 1 else f"{source.stem}-{number}")
    return stems


_INSTALLED = {"header": "include", "module": "lib"}  # folders below a prefix
_BUNDLED = {
    Format.BIN: ("object",),
    Format.ASSEMBLY: ("asm",),
    Format.FATBIN: ("object", "asm"),
    Format.OFFLOAD: ("llvm",),
}


def _bundled(target: Target) -> tuple[str, ...]:
    """Return the outputs of a compile step that the gpu.binary is made of."""
    if target.format:
        return _BUNDLED[Format(target.format)]
    return ("object", "asm") if vendor(target.kind).carries_assembly(target.chip) else ("object",)


def format_tools(target: Target) -> tuple[str, ...]:
    """Return the tools that make an object of the target's format."""
    if target.format == Format.FATBIN:
        return (f"{OURS}/{target.kind}", *vendor(target.kind).fatbin_tools)
    return ()


def _code_inputs(outline: Step, settled: ModuleTargets, target: Target) -> tuple[Input, ...]:
    """Return what ``target`` is compiled from: the module's text, or bitcode and its table of kernels.

    With debug information or checks the locations are part of what is compiled; else they only serve
    messages and stay out of the key.
    """
    if file := settled.bitcode.get(target.name):
        files = {"bitcode": file, "kernels": f"{file}.kernels"}
        return tuple(
            Input(name=role, path=outline.output_path(name), producer=outline.id)
            for role, name in files.items()
        )
    index = settled.module.index
    text = "located" if target.debug or target.sanitize else "module"
    if target.debug == FULL:
        text = "named"
    located = outline.output_path(f"located.{index}.mlir")
    return (
        Input(name="module", path=outline.output_path(f"{text}.{index}.mlir"), producer=outline.id),
        Input(name="located", path=located, producer=outline.id, in_key=False),
    )
