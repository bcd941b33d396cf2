"""Source steps: the first phase of a plan, one or two steps per source file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpubuild.frozen import field, frozen, replace
from gpubuild.graph.layout import Layout
from gpubuild.graph.suffixes import (
    ARCHIVE_SUFFIXES,
    C_SUFFIXES,
    CXX_SUFFIXES,
    LLVM_SUFFIXES,
    MLIR_SUFFIXES,
    OBJECT_SUFFIXES,
)
from gpubuild.model.host_options import about_warnings
from gpubuild.model.params import CcParams, LlvmParams, OutlineParams, PreprocessParams
from gpubuild.model.project import Program, Project
from gpubuild.model.step import Input, Output, Step, StepKind

OURS = "gpubuild"  # our own code is a tool like any other: changing it changes keys


@frozen
class SourcePlanner:
    """Plans what is done to each source before programs come into it.

    A source used by several programs in the same way gives one step.
    """

    project: Project
    layout: Layout
    triple: str  # of the host
    variants: Mapping[tuple[str, Path], str] = field(default_factory=dict)  # graph.variants

    def scan_steps(self, programs: tuple[Program, ...]) -> dict[str, Step]:
        """``outline`` for every MLIR source, ``preprocess`` for every C and C++ source, by id."""
        steps: dict[str, Step] = {}
        users: dict[str, list[str]] = {}
        for program in programs:
            for source in program.sources:
                if source.suffix in MLIR_SUFFIXES:
                    step = self.outline(program, source)
                elif source.suffix in C_SUFFIXES | CXX_SUFFIXES:
                    step = self.preprocess(program, source)
                else:
                    continue
                steps.setdefault(step.id, step)
                users.setdefault(step.id, []).append(program.name)
        return {i: replace(step, users=tuple(dict.fromkeys(users[i]))) for i, step in steps.items()}

    def outline(self, program: Program, source: Path) -> Step:
        """Split one MLIR source."""
        shown = self.layout.shown(source)
        passes = program.passes.source
        directory = self.layout.source_dir(source, passes)
        return Step(
            id=f"outline/{shown}" + (f"#{directory.name[-12:]}" if passes else ""),
            kind=StepKind.OUTLINE,
            params=OutlineParams(passes=passes, source_name=shown),
            inputs=(Input(name="source", path=source),),
            dynamic_dir=directory,
            tools=(OURS, "mlir"),
        )

    def preprocess(self, program: Program, source: Path) -> Step:
        """Run the C preprocessor, whose output is what the compile step's key covers."""
        shown = self.layout.shown(source)
        cxx = source.suffix in CXX_SUFFIXES
        options = program.host_of(source, cxx=cxx)
        variant = self.variants.get((program.name, source), "")
        directory = self.layout.source_dir(source, variant)
        return Step(
            id=_step_id("preprocess", shown, variant),
            kind=StepKind.PREPROCESS,
            params=PreprocessParams(
                language="c++" if cxx else "c",
                suffix=".ii" if cxx else ".i",
                opt_level=min(self.project.opt_level, 3),
                debug=self.project.debug,
                std=options.std,
                include=options.include,
                define=options.define,
                flags=options.flags,
                source_name=shown,
            ),
            inputs=(Input(name="source", path=source),),
            outputs=(
                Output(name="text", path=directory / ("text.ii" if cxx else "text.i")),
                Output(name="deps", path=directory / "deps.json"),
            ),
            tools=(OURS, "cxx" if cxx else "cc"),
        )

    def host_object(self, program: Program, source: Path) -> tuple[Step | None, Input]:
        """The step that makes a non-MLIR source linkable (none for .o and .a), and what to link."""
        shown = self.layout.shown(source)
        if source.suffix in OBJECT_SUFFIXES:
            return None, Input(name="object", path=source)
        if source.suffix in ARCHIVE_SUFFIXES:
            return None, Input(name="archive", path=source)
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
                inputs=(Input(name="source", path=source),),
                outputs=(Output(name="object", path=path),),
                tools=(OURS, "llvmlite"),
            )
        else:
            pre = self.preprocess(program, source)
            cxx = source.suffix in CXX_SUFFIXES
            options = program.host_of(source, cxx=cxx)
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
                    include=options.include,
                    define=options.define,
                ),
                inputs=(
                    Input(name="text", path=pre.output_path("text"), producer=pre.id),
                    Input(name="source", path=source, in_key=warns),
                    *((deps,) if warns else ()),
                ),
                outputs=(Output(name="object", path=path),),
                tools=(OURS, "cxx" if cxx else "cc"),
            )
        return step, Input(name="object", path=path, producer=step.id)


def _step_id(kind: str, shown: str, variant: str) -> str:
    return f"{kind}/{shown}" + (f"#{variant}" if variant else "")
