"""The settings in environment variables, with types."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpubuild import environment
from gpubuild.errors import UsageError
from gpubuild.support.frozen import field, frozen

NO_USER_CACHE = Path("/nonexistent")


@frozen
class Settings:
    """Settings from environment variables. Paths are absolute; ``None`` means not set.

    Tool overrides name a file to use instead of the one found (see ``gpubuild doctor``), or a program
    in PATH. ``cuda_path`` is a CUDA installation with nvlink and fatbinary in ``bin``.
    """

    cache_dir: Path | None = None  # GPUBUILD_CACHE_DIR
    cache_mode: str = ""  # GPUBUILD_CACHE: read-write, read-only, write-only or off
    cache_shared: bool = False  # GPUBUILD_CACHE_SHARED: others may write to the cache folder
    jobs: int | None = None  # GPUBUILD_JOBS
    executor: str = ""  # GPUBUILD_EXECUTOR: local or dask:ADDRESS
    execute_jobs: int | None = None  # GPUBUILD_EXECUTE_JOBS
    execute_only: bool | None = None  # GPUBUILD_EXECUTE_ONLY
    execute_fallback: bool | None = None  # GPUBUILD_EXECUTE_FALLBACK
    execute_verify: float | None = None  # GPUBUILD_EXECUTE_VERIFY: a part, from 0 to 1
    cc: Path | None = None  # GPUBUILD_CC
    cxx: Path | None = None  # GPUBUILD_CXX
    ptxas: Path | None = None  # GPUBUILD_PTXAS
    libdevice: Path | None = None  # GPUBUILD_LIBDEVICE
    lld: Path | None = None  # GPUBUILD_LLD
    clang_linker_wrapper: Path | None = None  # GPUBUILD_CLANG_LINKER_WRAPPER
    cuda_path: Path | None = None  # CUDA_PATH
    remote_url: str = ""  # GPUBUILD_REMOTE: an HTTP cache, instead of the project file's
    remote_mode: str = ""  # GPUBUILD_REMOTE_MODE: read-write, read-only, write-only or off
    remote_token: str = field(default="", repr=False)  # GPUBUILD_REMOTE_TOKEN
    remote_user: str = ""  # GPUBUILD_REMOTE_USER
    remote_password: str = field(default="", repr=False)  # GPUBUILD_REMOTE_PASSWORD
    netrc: Path | None = None  # NETRC, else ~/.netrc
    netrc_is_named: bool = False  # by NETRC: a missing file is then worth a warning
    search_path: tuple[Path, ...] = ()  # PATH, for the system C compiler only
    user_cache: Path = NO_USER_CACHE  # XDG_CACHE_HOME/gpubuild: results, digests of tools, zig's cache
    color: bool | None = None  # NO_COLOR / FORCE_COLOR; None: as the terminal says
    debug: bool = False  # GPUBUILD_DEBUG: tracebacks of internal errors

    @staticmethod
    def from_environ(environ: Mapping[str, str] | None = None) -> Settings:
        """Read ``environ`` (default: the process's). Raises ``UsageError`` for malformed values."""
        env = environment.whole() if environ is None else environ
        if bad := environment.malformed(env):
            name, value, allowed = bad[0]
            raise UsageError(f"{name} is {value!r}", hint=f"it can be {allowed}; or unset it")

        def path(name: str) -> Path | None:
            return Path(env[name]).absolute() if env.get(name) else None

        def program(name: str) -> Path | None:
            value = env.get(name, "")  # a bare name is looked up in PATH, as in a shell
            bare = bool(value) and "/" not in value
            return (find_in_path(value, search_path) if bare else None) or path(name)

        def flag(name: str) -> bool | None:
            return env[name] == "1" if env.get(name) else None

        search_path = tuple(Path(p) for p in env.get("PATH", "").split(os.pathsep) if p)
        # Relative paths are to be ignored, according to the XDG Base Directory Specification.
        home = env.get("HOME", "")
        cache_homes = (env.get("XDG_CACHE_HOME", ""), home and f"{home}/.cache")
        cache_home = next((folder for folder in cache_homes if folder.startswith("/")), "")
        jobs, slots = env.get("GPUBUILD_JOBS", ""), env.get("GPUBUILD_EXECUTE_JOBS", "")
        verify = env.get("GPUBUILD_EXECUTE_VERIFY", "")
        return Settings(
            cache_dir=path("GPUBUILD_CACHE_DIR"),
            cache_mode=env.get("GPUBUILD_CACHE", ""),
            cache_shared=env.get("GPUBUILD_CACHE_SHARED", "") == "1",
            jobs=int(jobs) if jobs else None,
            executor=env.get("GPUBUILD_EXECUTOR", ""),
            execute_jobs=int(slots) if slots else None,
            execute_only=flag("GPUBUILD_EXECUTE_ONLY"),
            execute_fallback=flag("GPUBUILD_EXECUTE_FALLBACK"),
            execute_verify=float(verify) if verify else None,
            cc=program("GPUBUILD_CC"),
            cxx=program("GPUBUILD_CXX"),
            ptxas=program("GPUBUILD_PTXAS"),
            libdevice=path("GPUBUILD_LIBDEVICE"),
            lld=program("GPUBUILD_LLD"),
            clang_linker_wrapper=program("GPUBUILD_CLANG_LINKER_WRAPPER"),
            cuda_path=path("CUDA_PATH"),
            remote_url=env.get("GPUBUILD_REMOTE", ""),
            remote_mode=env.get("GPUBUILD_REMOTE_MODE", ""),
            remote_token=env.get("GPUBUILD_REMOTE_TOKEN", ""),
            remote_user=env.get("GPUBUILD_REMOTE_USER", ""),
            remote_password=env.get("GPUBUILD_REMOTE_PASSWORD", ""),
            netrc=path("NETRC") or (Path(env["HOME"]) / ".netrc" if env.get("HOME") else None),
            netrc_is_named=bool(env.get("NETRC")),
            search_path=search_path,
            user_cache=Path(cache_home) / "gpubuild" if cache_home else NO_USER_CACHE,
            color=environment.color(env),
            debug=env.get("GPUBUILD_DEBUG", "0") not in ("", "0"),
        )


def find_in_path(name: str, search_path: Iterable[Path]) -> Path | None:
    """Return the first program called ``name`` in one of the folders; skip relative folders."""
    for folder in search_path:
        path = folder / name
        if name and folder.is_absolute() and path.is_file() and os.access(path, os.X_OK):
            return path
    return None


def closed_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of tools, which has nothing of the user's.

    So locale, time zone, include paths and the like cannot affect a step's output (invariant 5).
    """
    base = {"LC_ALL": "C", "TZ": "UTC", "PATH": "/usr/bin:/bin", "ZERO_AR_DATE": "1"}
    base.update(extra or {})
    return base


def python_command() -> tuple[str, ...]:
    """Return the command that starts gpubuild with this Python."""
    return (sys.executable, "-m", "gpubuild")
