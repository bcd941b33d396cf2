"""LLVM's clang-linker-wrapper and the programs that it starts (``offload: clang``)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from gpubuild.model.digest import digest_bytes, encode
from gpubuild.settings import Settings
from gpubuild.toolchain.fingerprint import Tool
from gpubuild.toolchain.memo import Memo

WRAPPER = "clang-linker-wrapper"
CUDA = "cuda-linker"
# Its LLVM must read the bitcode of ours; runtime/core/clang_registration.c answers its generated code.
_MAJOR = 22
NAMES = (f"{WRAPPER}-{_MAJOR}",)
# These are beside it. nvlink is found through CUDA's path.
_STARTED = ("clang", "lld", "clang-offload-bundler", "clang-nvlink-wrapper")
_LIBRARIES = ("lib/libLLVM*.so*", "lib/libclang-cpp.so*")
_DEBIAN_LIBRARIES = tuple(f"*-linux-gnu/{name}.so.{_MAJOR}*" for name in ("libLLVM", "libclang-cpp"))
_CUDA_PROGRAMS = ("bin/fatbinary", "bin/nvlink")
_CUDA_PATH = Path("/usr/local/cuda")

_Version = Callable[[Path, tuple[str, ...]], str]
Finder = Callable[[Settings, Memo, _Version], tuple[Tool | None, str]]


def wrapper_tool(settings: Settings, memo: Memo, version: _Version) -> tuple[Tool | None, str]:
    """Return the wrapper, or ``None`` and the reason."""
    path, problem = find_wrapper(settings.clang_linker_wrapper, settings.search_path)
    if path is None:
        return None, problem
    tool = Tool(
        name=WRAPPER,
        command=(str(path),),
        version=version(path, ("--version",)),
        fingerprint=_fingerprint(files_of(path), memo),
        source="GPUBUILD_CLANG_LINKER_WRAPPER" if settings.clang_linker_wrapper else "system",
    )
    return tool, ""


def cuda_tool(settings: Settings, memo: Memo, version: _Version) -> tuple[Tool | None, str]:
    """Return the folder of CUDA with nvlink and fatbinary for the wrapper, or ``None`` and the reason."""
    files = sorted(cuda_files(settings.cuda_path))
    if problem := cuda_problem(settings.cuda_path):
        return None, problem
    tool = Tool(
        name=CUDA,
        command=(str(files[0].parents[1]),),
        version=version(files[1], ("--version",)),
        fingerprint=_fingerprint(files, memo),
        source="CUDA_PATH" if settings.cuda_path else "system",
    )
    return tool, ""


def _fingerprint(files: Sequence[Path], memo: Memo) -> str:
    return digest_bytes(encode(tuple((file.name, memo.digest(file)) for file in files)))


def find_wrapper(override: Path | None, search_path: Sequence[Path]) -> tuple[Path | None, str]:
    """Return the wrapper, or ``None`` and the reason: it or a program that it starts is missing."""
    if override is not None:
        if not override.is_file() or not os.access(override, os.X_OK):
            return None, f"GPUBUILD_CLANG_LINKER_WRAPPER names {override}, which is not an executable file"
        candidates = [override]
    else:
        candidates = [folder / name for folder in search_path if folder.is_absolute() for name in NAMES]
    problem = f"there is no {NAMES[0]} in PATH"
    for path in candidates:
        if not os.access(path, os.X_OK) or path.is_dir():
            continue
        missing = [name for name in _STARTED if not (path.resolve().parent / name).exists()]
        if not missing:
            return path, ""
        problem = f"beside {path.resolve()} there is no {', no '.join(missing)}"
    return None, problem


def files_of(wrapper: Path) -> list[Path]:
    """Return every file that affects the wrapper's output, resolved."""
    real = wrapper.resolve()
    files = {real, *((real.parent / name).resolve() for name in _STARTED)}
    root = real.parents[1]
    found = [file for pattern in _LIBRARIES for file in root.glob(pattern)]
    found += [file for pattern in _DEBIAN_LIBRARIES for file in root.parent.glob(pattern)]
    return sorted(files | {file.resolve() for file in found})


def searched_paths(wrapper: Path | None) -> set[Path]:
    """Return paths outside PATH whose creation or deletion can change :func:`find_wrapper`'s answer.

    These are the unresolved names of the programs: a link may lead elsewhere tomorrow.
    """
    return {wrapper.resolve().parent / name for name in _STARTED} if wrapper is not None else set()


def cuda_files(cuda_path: Path | None) -> set[Path]:
    """Return the paths of the two programs of CUDA that the wrapper starts for NVIDIA targets."""
    return {(cuda_path or _CUDA_PATH) / name for name in _CUDA_PROGRAMS}


def cuda_problem(cuda_path: Path | None) -> str:
    """Return which of them is missing, or an empty string."""
    files = sorted(cuda_files(cuda_path))
    missing = [file for file in files if not file.is_file() or not os.access(file, os.X_OK)]
    if not missing:
        return ""
    if cuda_path:
        names = [str(file.relative_to(cuda_path)) for file in missing]
        return f"CUDA_PATH is {cuda_path}, which has no {' and no '.join(names)}"
    return f"there is no {' and no '.join(map(str, missing))}"


def wrapper_options(triple: str) -> tuple[str, ...]:
    """Return options for host code of ``triple``: CPU images need ``-lm`` and are linked by lld."""
    return (
        f"--host-triple={triple}",
        f"--device-linker={triple}=-lm",
        f"--device-compiler={triple}=-fuse-ld=lld",
    )


def hidden(argument: str) -> str:
    """Return a library argument in the form that the wrapper passes on: it searches for ``-lm`` itself."""
    return f"-Wl,{argument}" if argument.startswith("-l") else argument
