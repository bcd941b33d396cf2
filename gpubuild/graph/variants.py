"""Variants: sources that programs of a project have compiled in different ways."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpubuild.graph.suffixes import C_SUFFIXES, CXX_SUFFIXES
from gpubuild.model.host_options import NO_OPTIONS, CompilerOptions
from gpubuild.model.project import Project


def find_variants(project: Project) -> Mapping[tuple[str, Path], str]:
    """For a program and a source, what tells this way from that of the first program with the source.

    It is the name of the first program with these options, and nothing where there is one way only. All
    programs count, also those that are not built now: a step has the same name in every build.
    """
    if all(p.host == NO_OPTIONS and not p.source_hosts for p in project.programs.values()):
        return {}
    ways: dict[Path, dict[CompilerOptions, str]] = {}
    found: dict[tuple[str, Path], str] = {}
    for program in project.programs.values():
        for source in program.sources:
            if source.suffix not in C_SUFFIXES | CXX_SUFFIXES:
                continue
            known = ways.setdefault(source, {})
            options = program.host_of(source, cxx=source.suffix in CXX_SUFFIXES)
            if name := known.setdefault(options, program.name if known else ""):
                found[program.name, source] = name
    return found
