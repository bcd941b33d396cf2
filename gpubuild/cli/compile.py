"""``gpubuild compile``: compile the kernels of one file for some targets, without a targets.yaml.

The steps are those of a build, planned for a temporary project and run in a temporary folder without a
cache.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpubuild.build.builder import Builder
from gpubuild.build.diagnosis import without_project
from gpubuild.build.opening import open_builder, resolve_native
from gpubuild.cli.console import Console
from gpubuild.errors import ConfigError, UsageError
from gpubuild.model.events import BuildWarning, Event
from gpubuild.model.project import MLIR_SUFFIXES, BuildOptions, ModuleOverride, Project
from gpubuild.model.step import Step, StepKind
from gpubuild.plan.layout import Layout, file_name
from gpubuild.plan.plan import Plan
from gpubuild.plan.planner import Planner
from gpubuild.plan.sources import ScannedModule, ScannedSource, parse_index
from gpubuild.support.files import UserFile
from gpubuild.support.frozen import frozen, replace
from gpubuild.support.text import nearest, shown_path, suggestion
from gpubuild.targets.registry import vendor, vendors
from gpubuild.targets.target import Target, cpu_triple
from gpubuild.targets.vendor import Format

PROGRAM = "kernels"  # the program of the temporary project; in no output
_OUTPUT = {"llvm": "llvm", Format.ASSEMBLY: "asm", Format.BIN: "object"}  # of compile steps
_BUNDLED = (Format.FATBIN, Format.OFFLOAD)  # contents of objects, which bundle steps make


@frozen
class Result:
    """A file that a step made, and the name to write it to."""

    file: Path
    name: str


class _Warnings:
    """A listener that shows each warning once and nothing else."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: set[str] = set()

    def on_event(self, event: Event) -> None:
        if isinstance(event, BuildWarning) and event.message not in self._shown:
            self._shown.add(event.message)
            self._console.warning(event.message)


def execute(options: argparse.Namespace) -> int:
    """Run the command."""
    console: Console = options.console
    if options.output == "-" and options.emit in (Format.BIN, *_BUNDLED) and console.out.isatty():
        raise UsageError(
            "an object is binary and stdout is a terminal", hint="use -o FILE, or redirect stdout"
        )
    if options.format and options.emit != "binary":
        raise UsageError(
            "--format is for --emit binary", hint=f"--emit {options.format} writes the object alone"
        )
    project = temporary_project(options)
    with tempfile.TemporaryDirectory(prefix="gpubuild-compile-") as folder:
        request = BuildOptions(
            build_dir=Path(folder),
            use_cache=False,
            jobs=1,
            dump_ir=options.dump_ir.absolute() if options.dump_ir else None,
        )
        with open_builder(project, options.settings, request, _Warnings(console)) as builder:
            results = compile_kernels(builder, project, Path(folder), options.emit, options.module)
            deliver(results, options.output, console)
    return 0


def temporary_project(options: argparse.Namespace) -> Project:
    """Return the project of a targets.yaml with these options. Raises ``UsageError``."""
    from gpubuild.config.load import loads

    source: Path = options.file.absolute()
    if not source.is_file():
        near = nearest(source.name, (path.name for path in source.parent.glob("*")))
        raise UsageError(
            f"there is no file {options.file}",
            hint=f"did you mean {shown_path(source.parent / near[0])}?" if near else "",
        )
    if source.suffix not in MLIR_SUFFIXES:
        raise UsageError(f"{options.file} is not an .mlir file", hint="compile reads kernels in MLIR")
    for library in options.device_libs:
        if not library.is_file():
            raise UsageError(f"there is no device library {library}")
    names = list(dict.fromkeys(options.targets))
    if options.chip and len(names) > 1:
        raise UsageError("--chip is for one target", hint="run compile once per target")
    given = {
        "kind": options.kind,
        "chip": options.chip,
        "features": options.features,
        "opt_level": options.opt_level,
        "fast_math": options.fast_math or None,
        "flags": options.flags,
        "abi": options.abi,
        **{v.assembler_key: getattr(options, v.assembler_key) for v in vendors() if v.assembler_key},
        "format": options.emit if options.emit in _BUNDLED else options.format,
        "debug": options.debug or None,
        "passes": options.passes,
        "sanitize": options.sanitize.split(",") if options.sanitize else None,
        "device_libs": [str(lib.absolute()) for lib in options.device_libs] or None,
    }
    target = {key: value for key, value in given.items() if value is not None}
    # `dispatch` would refuse formats that the runtime does not load.
    program: dict[str, object] = {"sources": [str(source)], "offload": "select_object"}
    if options.source_passes:
        program["passes"] = {"source": options.source_passes}
    document = {"version": 1, "targets": dict.fromkeys(names, target), "programs": {PROGRAM: program}}
    try:
        project = loads(json.dumps(document), Path.cwd() / "targets.yaml")
    except ConfigError as error:
        # The locations are in a file that does not exist.
        problems = dict.fromkeys(p.message for p in error.problems)
        text = re.sub(
            r"add `kind: (.*?), or name",
            lambda found: f"add --kind {found[1].replace('`', '')}, or name",
            "; ".join(problems),
        )
        raise UsageError(text, hint="see `gpubuild compile --help`") from error
    return resolve_native(project)


def compile_kernels(
    builder: Builder, project: Project, folder: Path, emit: str, module: str | None = None
) -> list[Result]:
    """Run the steps for ``emit``, for one gpu.module or all of them.

    The targets are those of the project, not those in the IR. Raises ``StepError`` for the first step
    that fails and ``UsageError`` for an unknown module.
    """
    layout = Layout(root=project.root, build_dir=folder)
    planner = Planner(
        project=project,
        layout=layout,
        triple=cpu_triple(os.uname().machine),
        runtime_files={},
        assembly=emit == Format.ASSEMBLY,
    )
    (program,) = project.programs.values()
    outline = next(iter(planner.scan_plan((program,)).steps.values()))
    _run(builder, outline)
    scan = parse_index(outline.output_path("index.json").read_text(encoding="utf-8"))
    chosen = _choose([m.name for m in scan.modules], module, program.sources[0])
    modules = tuple(m for m in scan.modules if m.name in chosen)
    if emit == "mlir":
        return [
            Result(file=_module_text(outline, m, folder), name=f"{file_name(m.name)}.mlir") for m in modules
        ]
    program = replace(program, modules={name: ModuleOverride(targets=program.targets) for name in chosen})
    planner = replace(planner, project=replace(project, programs={PROGRAM: program}))
    plan = planner.full_plan((program,), {outline.id: ScannedSource(modules=modules)})
    results = []
    for step in _wanted(plan, StepKind.COMPILE):
        _run(builder, step)
        if emit in _OUTPUT:
            name = _name(step.module, project.targets[step.target], emit)
            results.append(Result(file=step.output_path(_OUTPUT[emit]), name=name))
    for step in _wanted(plan, StepKind.BUNDLE) if emit not in _OUTPUT else ():
        _run(builder, step)
        binary = step.output_path("binary")
        if emit in _BUNDLED:
            results += _objects(binary, project, emit, folder)
        else:
            results.append(Result(file=binary, name=f"{file_name(step.module)}.binary.mlir"))
    return results


def _objects(binary: Path, project: Project, emit: str, folder: Path) -> Iterator[Result]:
    """Write the contents of the objects of a gpu.binary to files."""
    from gpubuild.inspect.reader import inspect_file  # 15 ms

    for module in inspect_file(binary).modules:
        for item in module.objects:
            name = _name(str(module.name), project.targets[str(item.target)], emit)
            (folder / name).write_bytes(item.data)
            yield Result(file=folder / name, name=name)


def _module_text(outline: Step, module: ScannedModule, folder: Path) -> Path:
    """Return the file with the text of ``module`` and the data that it refers to."""
    text = outline.output_path(f"module.{module.index}.mlir")
    if not module.resources:
        return text
    from gpubuild.engine.ir.resources import write_section  # for few modules

    whole = folder / text.name
    shutil.copyfile(text, whole)
    with whole.open("a", encoding="utf-8") as stream:
        files = (outline.output_path(name) for name in module.resources)
        write_section(stream, {f"sha256_{file.suffixes[0][1:]}": file for file in files})
    return whole


def deliver(results: list[Result], output: str | None, console: Console) -> None:
    """Write the results to the path of ``-o``. Raises ``UsageError``."""
    if output is not None and len(results) > 1 and (output == "-" or not Path(output).is_dir()):
        raise UsageError(
            f"-o names one file for {len(results)} results: " + ", ".join(r.name for r in results),
            hint="choose one with --module and -t, or name an existing folder with -o",
        )
    if output == "-":
        console.out.flush()
        console.out.buffer.write(results[0].file.read_bytes())
        console.out.buffer.flush()
        return
    for result in results:
        path = Path(output) if output else Path(result.name)
        if output and path.is_dir():
            path = path / result.name
        try:
            with UserFile(path) as name:
                shutil.copyfile(result.file, name)
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from error
        if not console.quiet and (output is None or path != Path(output)):
            console.note(f"wrote {shown_path(path.absolute())}")


def _run(builder: Builder, step: Step) -> None:
    error = builder.run_step(step).error
    if error is not None:
        raise without_project(error)


def _choose(modules: Sequence[str], wanted: str | None, source: Path) -> list[str]:
    if not modules:
        raise UsageError(
            f"{source.name} has no gpu.module and no gpu.launch: there is nothing to compile",
            hint="a program in another dialect needs --source-passes that map it to the gpu dialect",
        )
    if wanted is None:
        return list(modules)
    wanted = wanted.removeprefix("@")
    if wanted not in modules:
        raise UsageError(
            f"{source.name} has no gpu.module @{wanted}{suggestion(wanted, modules)}",
            hint="gpu.modules: " + ", ".join(modules),
        )
    return [wanted]


def _wanted(plan: Plan, kind: StepKind) -> list[Step]:
    return [plan.steps[i] for i in plan.order() if plan.steps[i].kind is kind]


def _name(module: str, target: Target, emit: str) -> str:
    facts = vendor(target.kind)
    suffixes = {
        "llvm": "ll",
        Format.OFFLOAD: "bc",
        Format.ASSEMBLY: facts.asm_suffix,
        Format.BIN: facts.object_suffix,
        Format.FATBIN: "fatbin",
    }
    return f"{file_name(module)}.{file_name(target.name)}.{suffixes[emit]}"
