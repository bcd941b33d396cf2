"""The system's C or C++ compiler, if it is complete, and its identity."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeGuard

from gpubuild.errors import GpubuildError
from gpubuild.model.digest import digest_bytes, encode
from gpubuild.settings import closed_environment
from gpubuild.support.frozen import frozen
from gpubuild.toolchain.memo import Memo

NAMES = {"cc": ("cc", "gcc", "clang"), "cxx": ("c++", "g++", "clang++")}

# Wrappers that choose the real compiler in ways that we cannot follow.
_WRAPPERS = ("ccache", "sccache", "distcc", "icecc")
_PROBE = {
    "cc": ("c", b"#include <stdio.h>\n#include <pthread.h>\n"),
    "cxx": ("c++", b"#include <new>\n#include <cstdlib>\n#include <pthread.h>\n"),
}
_PROGRAMS = ("cc1", "cc1plus", "as", "ld", "collect2", "lto1", "liblto_plugin.so")
_LIBRARIES = (
    *("crt1.o", "Scrt1.o", "crti.o", "crtn.o", "crtbegin.o", "crtbeginS.o", "crtbeginT.o"),
    *("crtend.o", "crtendS.o", "libgcc.a", "libgcc_eh.a", "libgcc_s.so", "libgcc_s.so.1"),
    *("libc.so", "libc.so.6", "libc_nonshared.a", "libm.so", "libm.so.6", "libmvec.so.1", "libdl.a"),
    *("libpthread.a", "libstdc++.so", "libstdc++.a", "libc++.so"),
)
_PROBE_TIMEOUT_SECONDS = 60.0


@frozen
class Compiler:
    """A compiler that can compile and link. ``fingerprint`` covers all files that affect its output."""

    path: Path
    version: str
    fingerprint: str


class UnusableCompilerError(Exception):
    """Why a candidate cannot be used, in a few words."""


def find_system_compiler(name: str, search_path: Sequence[Path], memo: Memo) -> tuple[Compiler | None, str]:
    """Return the first complete ``cc`` or ``cxx`` in ``search_path``, and why others were refused."""
    refused: list[str] = []
    for candidate in NAMES[name]:
        for folder in search_path:
            path = folder / candidate
            if not folder.is_absolute() or not os.access(path, os.X_OK) or path.is_dir():
                continue
            try:
                return examine(name, path, memo), "; ".join(refused)
            except UnusableCompilerError as error:
                refused.append(f"{path}: {error}")
    return None, "; ".join(refused)


def examine(name: str, path: Path, memo: Memo) -> Compiler:
    """Return the compiler ``path``. Raises ``UnusableCompilerError`` without headers, crt files or libc."""
    require_program(path)
    known = memo.fact(name, path)
    memo.seen.add(str(path))
    if _still_holds(known):
        fact = known
    else:
        fact = _probe(name, path)
        memo.learn(name, path, fact)
    memo.seen.update((fact["header"], *fact["absent"], *fact["folders"]))
    try:
        parts = tuple((role, memo.digest(Path(file))) for role, file in fact["files"])
    except OSError as error:
        raise UnusableCompilerError(f"cannot read {error.filename}") from error
    return Compiler(
        path=path,
        version=fact["version"],
        fingerprint=digest_bytes(encode((name, fact["version"], parts))),
    )


def require_program(path: Path, what: str = "compiler") -> None:
    """Refuse scripts (a pyenv-like shim may run another program tomorrow) and compiler wrappers."""
    try:
        real = path.resolve(strict=True)
        with real.open("rb") as stream:
            magic = stream.read(4)
    except OSError as error:
        raise UnusableCompilerError(f"cannot be read: {error.strerror}") from error
    if magic != b"\x7fELF":
        raise UnusableCompilerError(f"is a script, not a {what}")
    if real.name.startswith(_WRAPPERS):
        raise UnusableCompilerError(f"is {real.name}, which looks for a compiler elsewhere")


def _still_holds(fact: Any) -> TypeGuard[dict[str, Any]]:  # noqa: ANN401 - whatever the memo has
    try:
        return (
            isinstance(fact["version"], str)
            and bool(fact["files"])
            and Path(fact["header"]).is_file()
            and all(isinstance(role, str) and Path(file).is_file() for role, file in fact["files"])
            and not any(map(os.path.exists, fact["absent"]))
            and all(_names(folder) == names for folder, names in fact["folders"].items())
        )
    except (TypeError, KeyError, ValueError, AttributeError):  # of another version, or damaged
        return False


def _probe(name: str, path: Path) -> dict[str, Any]:
    version = _ask(path, "--version").splitlines()[:1]
    folders = _search_dirs(_ask(path, "-print-search-dirs"))
    system = [Path(p) for p in closed_environment()["PATH"].split(os.pathsep)]
    # By name, not by the target of a link: `ld` may be another program tomorrow.
    absent: list[str] = []  # where another one would be found first
    files = [("driver", path.resolve())]
    programs = _existing([*folders.get("programs", []), *system])
    for program in _PROGRAMS:
        files += _first(program, programs, absent)
    libraries = _existing(folders["libraries"])
    found = dict(pair for library in _LIBRARIES for pair in _first(library, libraries, absent))
    for role in ("crt1.o", "crti.o"):
        if role not in found:
            raise UnusableCompilerError(f"has no {role}: the C library's development files are missing")
    if not {"libc.so", "libc.a", "libc_nonshared.a"} & found.keys():
        raise UnusableCompilerError("has no libc to link with: its development files are missing")
    if name == "cxx" and not {"libstdc++.so", "libstdc++.a", "libc++.so"} & found.keys():
        raise UnusableCompilerError("has no C++ standard library to link with")
    files += found.items()
    # A clang driver is a small program that uses these.
    beside = path.resolve().parent.parent / "lib"
    for pattern in ("libclang-cpp.so*", "libLLVM*.so*"):
        files += [
            (file.name, file) for file in sorted(beside.glob(pattern)) if "clang" in path.resolve().name
        ]
    # clang uses the files of the newest gcc: a new folder beside theirs may be that.
    versions = {str(found[role].parents[1]) for role in ("crtbegin.o", "crtbeginS.o") if role in found}
    return {
        "version": version[0] if version else "",
        "files": [[role, str(file)] for role, file in files],
        "header": _header(name, path),
        "absent": absent,
        "folders": {folder: _names(folder) for folder in sorted(versions)},
    }


def _header(name: str, path: Path) -> str:
    """Return a header of the C library that the compiler finds: it can preprocess, too."""
    language, source = _PROBE[name]
    text = _ask(path, "-x", language, "-E", "-H", "-o", "/dev/null", "-", stdin=source)
    for line in text.splitlines():
        file = line.lstrip(". ")
        if line.startswith(".") and file.endswith(("/stdio.h", "/pthread.h")):
            return str(Path(file).resolve())
    raise UnusableCompilerError("finds no header of the C library")


def _ask(path: Path, *arguments: str, stdin: bytes = b"") -> str:
    from gpubuild.toolchain.run import run_tool  # see find

    try:
        run = run_tool((path, *arguments), cwd=Path("/"), stdin=stdin, timeout_seconds=_PROBE_TIMEOUT_SECONDS)
    except GpubuildError as error:
        raise UnusableCompilerError(f"does not run: {error.message}") from error
    if run.returncode != 0:
        detail = run.output.strip().splitlines()[:1]
        raise UnusableCompilerError(
            f"fails on `{' '.join(arguments)}`: {detail[0] if detail else f'exit {run.returncode}'}"
        )
    return (run.stdout + run.stderr).decode(errors="replace")


def _search_dirs(text: str) -> dict[str, list[Path]]:
    folders: dict[str, list[Path]] = {"libraries": []}
    for line in text.splitlines():
        label, separator, paths = line.partition(": =")
        if separator:
            folders[label] = [Path(p) for p in paths.split(":") if p]
    return folders


def _existing(folders: Sequence[Path]) -> list[Path]:
    """Return existing folders without repetitions: compilers name some in several ways."""
    return list(dict.fromkeys(folder.resolve() for folder in folders if folder.is_dir()))


def _first(file: str, folders: Sequence[Path], absent: list[str]) -> list[tuple[str, Path]]:
    for folder in folders:
        if (folder / file).is_file():
            return [(file, folder / file)]
        absent.append(str(folder / file))
    return []


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return []
