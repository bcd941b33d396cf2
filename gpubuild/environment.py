"""The environment variables that gpubuild reads. No other module reads the process's environment.

``settings`` converts them to types; the null build compares their texts.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping  # takes longer to load than all of this

# These decide which tools are found. A change of one of them makes receipts invalid.
OF_TOOLS = (
    "GPUBUILD_CC",
    "GPUBUILD_CXX",
    "GPUBUILD_PTXAS",
    "GPUBUILD_LIBDEVICE",
    "GPUBUILD_LLD",
    "GPUBUILD_CLANG_LINKER_WRAPPER",
    "CUDA_PATH",
    "PATH",
)
# These select the variants of the C library's mathematics in this process (toolchain.host_math).
OF_HOST_MATH = ("GLIBC_TUNABLES", "LD_LIBRARY_PATH", "LD_PRELOAD")


MODES = ("read-write", "read-only", "write-only", "off")
MOST_JOBS = 4096
MOST_SLOTS = 100_000  # of a cluster
# Every variable of ours, including those of the programs that we build.
OURS = frozenset(
    {
        *(name for name in OF_TOOLS if name.startswith("GPUBUILD_")),
        *("GPUBUILD_CACHE", "GPUBUILD_CACHE_DIR", "GPUBUILD_CACHE_SHARED", "GPUBUILD_DEBUG", "GPUBUILD_JOBS"),
        *("GPUBUILD_EXECUTOR", "GPUBUILD_EXECUTE_FALLBACK", "GPUBUILD_EXECUTE_JOBS"),
        *("GPUBUILD_EXECUTE_ONLY", "GPUBUILD_EXECUTE_VERIFY"),
        *("GPUBUILD_REMOTE", "GPUBUILD_REMOTE_MODE", "GPUBUILD_REMOTE_PASSWORD"),
        *("GPUBUILD_REMOTE_TOKEN", "GPUBUILD_REMOTE_USER"),
        *("GPUBUILD_CHECK", "GPUBUILD_CHECK_SUPPRESSIONS", "GPUBUILD_CPU_CACHE_BYTES"),
        *("GPUBUILD_CPU_THREADS", "GPUBUILD_DEVICE", "GPUBUILD_PROFILE", "GPUBUILD_TRACE"),
    }
)


def malformed(environ: Mapping[str, str] | None = None) -> list[tuple[str, str, str]]:
    """Return variables with malformed values: name, value, what it can be."""
    env = os.environ if environ is None else environ
    found = []
    for name, most in (("GPUBUILD_JOBS", MOST_JOBS), ("GPUBUILD_EXECUTE_JOBS", MOST_SLOTS)):
        jobs = env.get(name, "")
        if jobs and not (jobs.isascii() and jobs.isdigit() and 1 <= int(jobs) <= most):
            found.append((name, jobs, f"a whole number from 1 to {most}"))
    for name in ("GPUBUILD_CACHE", "GPUBUILD_REMOTE_MODE"):
        if (mode := env.get(name, "")) and mode not in MODES:
            found.append((name, mode, f"{', '.join(MODES[:-1])} or {MODES[-1]}"))
    for name in ("GPUBUILD_CACHE_SHARED", "GPUBUILD_EXECUTE_FALLBACK", "GPUBUILD_EXECUTE_ONLY"):
        if (flag := env.get(name, "")) not in ("", "0", "1"):
            found.append((name, flag, "0 or 1"))
    part = env.get("GPUBUILD_EXECUTE_VERIFY", "")
    if part and not is_part(part):
        found.append(("GPUBUILD_EXECUTE_VERIFY", part, "a number from 0 to 1"))
    remote = env.get("GPUBUILD_REMOTE", "")
    if remote and not remote.startswith(("http://", "https://")):
        shown = "…" if "@" in remote else remote  # it may contain a password
        found.append(("GPUBUILD_REMOTE", shown, "an address such as https://cache.example:8080/gpubuild"))
    return found


def is_part(text: str) -> bool:
    """Return whether ``text`` is a decimal number from 0 to 1."""
    try:
        return not text.strip("0123456789.") and 0 <= float(text) <= 1
    except ValueError:
        return False


def misspelt() -> list[str]:
    """Return warnings about unknown variables with names close to ours."""
    found = []
    for name in os.environ:
        if name.startswith("GPUBUILD_") and name not in OURS:
            from gpubuild.support.text import nearest

            if near := nearest(name, OURS, cutoff=0.85):
                found.append(f"there is no variable {name}; did you mean {near[0]}?")
    return found


def of_make() -> list[str]:
    """Return the variables of make for C compilers that are set and that gpubuild does not read."""
    return [
        name for name in ("CC", "CXX", "CPPFLAGS", "CFLAGS", "CXXFLAGS", "LDFLAGS") if os.environ.get(name)
    ]


def github_workspace() -> str:
    """Return the folder of the checkout in a job of GitHub Actions; empty elsewhere."""
    return os.environ.get("GITHUB_WORKSPACE", "")


def home() -> str:
    """Return the user's home folder; "/" if it is not set."""
    return os.environ.get("HOME") or "/"


def completes() -> bool:
    """Return whether a shell asks for completions (``cli.completion``)."""
    return "_ARGCOMPLETE" in os.environ


def whole() -> dict[str, str]:
    """Return every variable."""
    return dict(os.environ)


def tool_variables() -> dict[str, str]:
    """Return the variables that decide which tools are found, without those not set."""
    return {name: os.environ[name] for name in (*OF_TOOLS, *OF_HOST_MATH) if os.environ.get(name)}


def host_math_variables() -> dict[str, str]:
    """Return the variables that decide how this process rounds."""
    return {name: os.environ[name] for name in OF_HOST_MATH if os.environ.get(name)}


def color(environ: Mapping[str, str] | None = None) -> bool | None:
    """Return what NO_COLOR and FORCE_COLOR request; ``None``: decided by the terminal."""
    env = os.environ if environ is None else environ
    if env.get("NO_COLOR"):
        return False
    return True if env.get("FORCE_COLOR") else None


def boot() -> str:
    """Return an id of this boot of this machine; equal ids mean the same CPU. Empty if unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def remove(names: Iterable[str]) -> None:
    """Remove variables from the environment of this process, for libraries that would read them."""
    for name in names:
        os.environ.pop(name, None)
