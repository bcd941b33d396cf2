"""``gpubuild install``: copy products, and what C, pkg-config and CMake need to use them, below a prefix."""

from __future__ import annotations

import argparse
import filecmp
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gpubuild import environment
from gpubuild.cli.build import build, exit_code
from gpubuild.cli.console import Console
from gpubuild.errors import UsageError
from gpubuild.model.project import CXX_SUFFIXES, Product, Program
from gpubuild.model.step import Output
from gpubuild.support.files import Replacement, write_atomically
from gpubuild.support.text import shown_path
from gpubuild.toolchain import runtime_library

# A request is met by an equal major version that is not older.
_CMAKE_VERSION = """\
set(PACKAGE_VERSION "@VERSION@")
string(REGEX MATCH "^[0-9]+" _gpubuild_major "@VERSION@")
if(PACKAGE_VERSION VERSION_GREATER_EQUAL PACKAGE_FIND_VERSION
   AND PACKAGE_FIND_VERSION_MAJOR STREQUAL _gpubuild_major)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
if(PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
unset(_gpubuild_major)
"""


def execute(options: argparse.Namespace) -> int:
    """Run the command: build, then copy if everything could be built."""
    outcome = build(options, to_err=True)
    if code := exit_code(outcome.report):
        return code
    console: Console = options.console
    for name in outcome.programs:
        outputs = outcome.report.installs.get(name, ())
        program = outcome.project.programs[name]
        folders = {"bin": "bin", "lib": program.install.lib, "include": program.install.include}
        folder = options.into if options.into is not None else _staged(options.prefix.absolute())
        files: list[tuple[str, Callable[[Path], object]]] = []
        for output in outputs:
            below = f"{folders[output.install]}/" if options.into is None else ""
            files += [(below + file, write) for file, write in _named(program, output)]
        if options.into is None:
            files += _package(program, outputs)
        for relative, write in files:
            path = folder / relative
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                write(path)
            except OSError as error:
                raise UsageError(f"cannot write {path}: {error.strerror}") from error
            if not console.quiet:
                console.print(shown_path(path.absolute()))
    return 0


def _staged(prefix: Path) -> Path:
    """Return the folder that stands for ``prefix`` while a package is made, as DESTDIR says."""
    staging = environment.whole().get("DESTDIR", "")
    return Path(staging, *prefix.parts[1:]).absolute() if staging else prefix


def _named(program: Program, output: Output) -> Iterator[tuple[str, Callable[[Path], object]]]:
    """Yield the file of an output. A library with a version has it in its name, and two links to it."""
    name, version = output.path.name, program.install.version
    if output.name != "library" or not program.soname:
        yield name, _copier(output)
        return
    full = f"{name}.{version}"
    yield full, _copier(output)
    for link in sorted({name, name + program.soname} - {full}):
        yield link, _linker(full)


def _linker(target: str) -> Callable[[Path], object]:
    """Return a function that makes a symbolic link to a file of the same folder."""

    def write(path: Path) -> None:
        if not (path.is_symlink() and str(path.readlink()) == target):
            path.unlink(missing_ok=True)
            path.symlink_to(target)

    return write


def _copier(output: Output) -> Callable[[Path], object]:
    """Return a function that copies an output. An equal file keeps its time, so nothing is linked again."""

    def copy(path: Path) -> None:
        if not (path.is_file() and filecmp.cmp(output.path, path, shallow=False)):
            with Replacement(path) as temporary:  # a running program keeps the old file
                shutil.copyfile(output.path, temporary)
                Path(temporary).chmod(0o755 if output.executable else 0o644)

    return copy


def _writer(text: str) -> Callable[[Path], object]:
    """Return a function that writes a file of ``text``, unless it exists."""

    def write(path: Path) -> None:
        if not (path.is_file() and path.read_bytes() == text.encode()):
            write_atomically(path, text)

    return write


def _package(program: Program, outputs: Sequence[Output]) -> Iterator[tuple[str, Callable[[Path], object]]]:
    """Yield the files that describe a library to pkg-config and CMake."""
    product = next((output.path.name for output in outputs if output.name == "library"), "")
    if not product:
        return
    headers = any(output.install == "include" for output in outputs)
    name, lib = program.name, program.install.lib
    package = f"{lib}/cmake/{name}/{name}Config"
    yield f"{lib}/pkgconfig/{name}.pc", _writer(pkg_config(program, product, headers=headers))
    yield f"{package}.cmake", _writer(cmake_package(program, product, headers=headers))
    if program.install.version:
        yield f"{package}Version.cmake", _writer(_CMAKE_VERSION.replace("@VERSION@", program.install.version))


def _dependencies(program: Program) -> list[str]:
    """Return the flags with which a program links a static library or an object."""
    if program.product is Product.SHARED:
        return []  # the library names what it needs
    libraries = [*program.link_libraries, *runtime_library.LIBRARIES]
    return [*program.link_flags, *(f"-l{name}" for name in libraries)]


def _is_cxx(program: Program) -> bool:
    return program.product is not Product.SHARED and any(s.suffix in CXX_SUFFIXES for s in program.sources)


def pkg_config(program: Program, product: str, *, headers: bool) -> str:
    """Return the pkg-config file of a library."""
    own = [f"${{libdir}}/{product}"]
    if program.product is not Product.OBJECT:
        own = ["-L${libdir}", f"-l{program.name}"]
    flags = [*own, *map(_escaped, _dependencies(program)), *["-lstdc++"] * _is_cxx(program)]
    at, up = program.install, _up(f"{program.install.lib}/pkgconfig")
    return (
        f"prefix=${{pcfiledir}}/{up}\nlibdir=${{prefix}}/{at.lib}\nincludedir=${{prefix}}/{at.include}\n\n"
        f"Name: {program.name}\nDescription: GPU program {program.name}\nVersion: {at.version or 0}\n"
        f"Libs: {' '.join(flags)}\n" + "Cflags: -I${includedir}\n" * headers
    )


def _up(folder: str) -> str:
    """Return the way from ``folder`` up to the prefix."""
    return "/".join([".."] * (folder.count("/") + 1))


def _escaped(flag: str) -> str:
    return re.sub(r"""([\s"'\\#])""", r"\\\1", flag).replace("$", "$$")


def cmake_package(program: Program, product: str, *, headers: bool) -> str:
    """Return the CMake package of a library, with the imported target ``NAME::NAME``."""
    target = f"{program.name}::{program.name}"
    at, up = program.install, _up(f"{program.install.lib}/cmake/{program.name}")
    location = "IMPORTED_OBJECTS" if program.product is Product.OBJECT else "IMPORTED_LOCATION"
    properties = [f'{location} "${{_gpubuild_prefix}}/{at.lib}/{product}"']
    if headers:
        properties.append(f'INTERFACE_INCLUDE_DIRECTORIES "${{_gpubuild_prefix}}/{at.include}"')
    needed = _dependencies(program)
    if _is_cxx(program) and program.product is Product.OBJECT:
        needed.append("-lstdc++")  # an imported object has no languages in CMake
    elif _is_cxx(program):
        properties.append("IMPORTED_LINK_INTERFACE_LANGUAGES CXX")
    if needed:
        properties.append(f"INTERFACE_LINK_LIBRARIES [==[{';'.join(needed)}]==]")
    lines = "".join(f"\n    {line}" for line in properties)
    return (
        f"if(NOT TARGET {target})\n"
        f'  get_filename_component(_gpubuild_prefix "${{CMAKE_CURRENT_LIST_DIR}}/{up}" ABSOLUTE)\n'
        f"  add_library({target} {program.product.upper()} IMPORTED)\n"
        f"  set_target_properties({target} PROPERTIES{lines})\n"
        "  unset(_gpubuild_prefix)\nendif()\n"
    )
