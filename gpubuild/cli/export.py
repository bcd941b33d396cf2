"""``gpubuild export``: write objects, the runtime's sources and a script that links them elsewhere."""

from __future__ import annotations

import argparse
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import cast

from gpubuild.cli.build import Outcome, build, exit_code
from gpubuild.cli.console import Console
from gpubuild.cli.run import choose_program
from gpubuild.errors import EXIT_STEP_FAILED, UsageError
from gpubuild.model.project import MLIR_SUFFIXES
from gpubuild.model.step import LinkParams, Step
from gpubuild.plan.layout import Layout
from gpubuild.support.text import shown_path
from gpubuild.toolchain import runtime_library
from gpubuild.toolchain.clang_linker_wrapper import CUDA, WRAPPER, hidden, wrapper_options
from gpubuild.toolchain.clang_linker_wrapper import NAMES as WRAPPER_NAMES

RECIPE = "link.sh"
_RUNTIME = "runtime"
_FLAGS = f"-O2 -std=c11 -pthread -fPIC -I{_RUNTIME}"


def execute(options: argparse.Namespace) -> int:
    """Run the command."""
    name = choose_program(options, "export")
    folder: Path = options.output or Path(f"{name}-objects")
    if folder.exists() and (
        not folder.is_dir() or (any(folder.iterdir()) and not (folder / RECIPE).is_file())
    ):
        raise UsageError(f"{folder} exists and is not an earlier export", hint="name another folder with -o")
    options.programs = [name]
    outcome = build(options, to_err=True, link=False)
    step = outcome.report.links.get(name)
    if step is None or not outcome.report.ok:
        return exit_code(outcome.report) or EXIT_STEP_FAILED
    try:
        recipe = _write(name, step, folder, _locations(name, outcome))
    except OSError as error:
        raise UsageError(
            f"cannot write {error.filename2 or error.filename or folder}: {error.strerror}"
        ) from error
    console: Console = options.console
    if not console.quiet:
        command = f"sh {shlex.quote(shown_path(recipe.absolute()))}"
        console.print(f"wrote {shown_path(folder.absolute())}; on the target machine run: {command}")
    return 0


def _locations(name: str, outcome: Outcome) -> str:
    """Return the locations of the sources' operations, which messages of the program look up."""
    program = outcome.project.programs[name]
    layout = Layout(root=outcome.project.root, build_dir=outcome.build_dir)
    sources = [source for source in program.sources if source.suffix in MLIR_SUFFIXES]
    files = [layout.places_file(source, program.outlining) for source in sources]
    return "".join(file.read_text(encoding="utf-8") for file in files if file.is_file())


def _write(name: str, step: Step, folder: Path, locations: str) -> Path:
    """Write the export to a temporary folder, then replace the files in ``folder`` one by one.

    A build tool that requests an export may compile the files of the last one at the same time.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as fresh:
        _fill(name, step, Path(fresh))
        (Path(fresh) / f"{step.output_path('executable').name}.places.txt").write_text(
            locations, encoding="utf-8"
        )
        _replace_files(Path(fresh), folder)
    return folder / RECIPE


def _replace_files(fresh: Path, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if not (fresh / path.name).exists() or path.is_dir() != (fresh / path.name).is_dir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for path in fresh.iterdir():
        if path.is_dir():
            _replace_files(path, folder / path.name)
        else:
            path.replace(folder / path.name)


def _fill(name: str, step: Step, folder: Path) -> None:
    for relative, path in runtime_library.sources().items():
        copy = folder / _RUNTIME / relative
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)  # keeps its time, which make compares
    objects: list[str] = []
    archives: list[str] = []
    for item in step.inputs:
        role = item.name.partition(".")[0]
        if role == "runtime":
            continue
        file = folder / _free_name(item.path, folder)
        shutil.copy2(item.path, file)
        (objects if role == "object" else archives).append(file.name)
        text = item.path.with_suffix(".ll")
        if item.producer and text.is_file():
            shutil.copyfile(text, file.with_suffix(".ll"))
    recipe = folder / RECIPE
    recipe.write_text(_recipe(name, step, objects, archives), encoding="utf-8", errors="surrogateescape")
    recipe.chmod(0o755)


def _free_name(path: Path, folder: Path) -> str:
    """Return a name for an object after its source: all C objects are called ``object.o`` in a build."""
    stem = Path(path.parent.name).stem if path.name == "object.o" else path.stem
    stem = stem.rpartition("%2F")[2]
    name, number = stem + path.suffix, 1
    while (folder / name).exists():
        number += 1
        name = f"{stem}-{number}{path.suffix}"
    return name


def _recipe(name: str, step: Step, objects: list[str], archives: list[str]) -> str:
    params = cast(LinkParams, step.params)
    objects, archives = (
        [f"./{n}" if n.startswith("-") else n for n in names] for names in (objects, archives)
    )
    libraries = [f"-l{library}" for library in (*params.libraries, *runtime_library.LIBRARIES)]
    driver = "${CXX:-c++}" if params.cxx else "${CC:-cc}"
    compilers = "compilers of C and C++" if params.cxx else "a C compiler"
    needs = f"{compilers} and nothing else: neither gpubuild nor LLVM, CUDA or ROCm"
    linker, flags = driver, [*params.flags]
    if params.wrapper_triple:
        needs = f"a C compiler and {WRAPPER} with lld of LLVM 22 (Debian: clang-tools-22, lld-22)"
        linker = f'"${{CLANG_LINKER_WRAPPER:-{WRAPPER_NAMES[0]}}}"'
        linker = " ".join([linker, *wrapper_options(params.wrapper_triple)])
        if CUDA in step.tools:
            needs += ",\n# and CUDA's nvlink and fatbinary"
            linker += ' --cuda-path="${CUDA_PATH:-/usr/local/cuda}"'
        linker += f' --linker-path="$(command -v "{driver}")"'
        flags, libraries = ([hidden(word) for word in words] for words in (flags, libraries))
    given = [shlex.quote(word) for word in (*objects, *flags)]
    grouped = ["-Wl,--start-group", *map(shlex.quote, archives), f"{_RUNTIME}/*/*.o", "-Wl,--end-group"]
    output = shlex.quote(f"./{Path(step.output_path('executable')).name}")
    return f"""\
#!/bin/sh
# Links {name} from objects that gpubuild compiled, and its runtime from source.
# Needs {needs}.
set -e
cd "$(dirname "$0")"
for source in {_RUNTIME}/*/*.c {_RUNTIME}/*/*.S; do
  ${{CC:-cc}} -c {_FLAGS} -o "$source.o" "$source"
done
{linker} -o {output} {" ".join([*given, *grouped, *map(shlex.quote, libraries)])}
"""
