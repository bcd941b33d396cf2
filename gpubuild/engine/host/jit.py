"""JIT: run a program from its objects, in this process, without linking an executable.

The objects are those that the linker would get. LLVM's run-time linker loads them; the runtime is
a shared library. What it cannot load, or would load with other results, is refused by name. This
is what a process of its own does: a program may end it in any way it likes.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

import llvmlite.binding as llvm

from gpubuild.engine.host import object_file
from gpubuild.engine.host.object_file import ObjectFile, Start, Symbol
from gpubuild.errors import GpubuildError, StepError
from gpubuild.model.jit_program import JitProgram

# What C libraries keep in their static part; LLVM's loader has substitutes for these.
_SUBSTITUTED = frozenset({"atexit", "stat", "fstat", "lstat", "stat64", "fstat64", "lstat64", "mknod"})
# Nothing is loaded for these: every linker makes them itself.
_LINKER_MADE = frozenset({"_GLOBAL_OFFSET_TABLE_", "__dso_handle", ""})
_HINT = "run it without --jit"
_CXX_LIBRARY = "stdc++"


def main() -> NoReturn:
    """Run what ``sys.argv[1]`` describes, with the other arguments."""
    try:
        program = JitProgram.from_json(sys.argv[1])
        name = ctypes.create_string_buffer(
            os.fsencode(Path(program.name).name)
        )  # lives as long as the process
        # What the C library calls the program is what messages of the runtime name, constructors' as well.
        ctypes.c_void_p.in_dll(ctypes.CDLL(None), "program_invocation_short_name").value = ctypes.addressof(
            name
        )
        entry = _Loader(program).load()
    except GpubuildError as error:
        print(error.render(), file=sys.stderr)
        sys.exit(error.exit_code)
    _call_main(entry, [program.name, *sys.argv[2:]])


def _call_main(address: int, arguments: list[str]) -> NoReturn:
    sys.stdout.flush()
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # the program's own business, as if it had been executed
    texts = [os.fsencode(argument) for argument in arguments]
    argv = (ctypes.c_char_p * (len(texts) + 1))(*texts, None)
    process = ctypes.CDLL(None)
    environ = ctypes.c_void_p.in_dll(process, "environ")
    entry = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(address)
    code = entry(len(texts), ctypes.cast(argv, ctypes.c_void_p), environ)
    process.exit(code)
    raise AssertionError


def _as_text(path: str) -> str:
    """A name for a file that is text, as LLVM's bindings want: names of files need not be."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return f"/proc/self/fd/{os.open(path, os.O_RDONLY | os.O_CLOEXEC)}"  # open for good
    return path


class _Loader:
    """Loads one program."""

    def __init__(self, program: JitProgram) -> None:
        self._program = program
        self._files: dict[str, ObjectFile] = {
            path: object_file.read(Path(path).read_bytes(), path) for path in program.objects
        }

    def load(self) -> int:
        """Load everything, run constructors; returns the address of ``main``. Raises ``StepError``."""
        _check(self._files)
        self._load_libraries()
        self._check_undefined()
        # Kept for good: the engine owns the memory that the code lies in.
        engine = self._engine()
        sys.modules[__name__].__dict__["_kept"] = engine
        for path in self._files:
            engine.add_object_file(_as_text(path))
        engine.finalize_object()
        exit_function = ctypes.CDLL(None)["__cxa_atexit"]
        for address in self._addresses(engine, "destructors"):
            exit_function(ctypes.c_void_p(address), None, None)
        for address in self._addresses(engine, "constructors"):
            ctypes.CFUNCTYPE(None)(address)()
        return int(engine.get_function_address("main"))

    def _engine(self) -> llvm.ExecutionEngine:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic", jit=True)
        return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)

    def _load_libraries(self) -> None:
        names = [*self._program.libraries, *([_CXX_LIBRARY] if self._program.cxx else [])]
        paths = [self._program.runtime]
        for name in names:
            path = name if "/" in name else ctypes.util.find_library(name)
            if path is None:
                raise StepError(
                    f"cannot find the shared library of link library {name!r}", hint=f"install it, or {_HINT}"
                )
            paths.append(path)
        for path in paths:
            try:
                ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
                llvm.load_library_permanently(_as_text(path))
            except (OSError, RuntimeError) as error:
                raise StepError(f"cannot load {path}: {error}", hint=_HINT) from error
        # Messages of the runtime look for places of the source in the build folder of the program.
        ctypes.CDLL(self._program.runtime)["gpubuildProgram"](os.fsencode(self._program.name))
        handle = ctypes.c_void_p()
        sys.modules[__name__].__dict__["_handle"] = handle
        llvm.add_symbol("__dso_handle", ctypes.addressof(handle))

    def _check_undefined(self) -> None:
        """LLVM's loader would end the process over the first one."""
        defined = {s.name for file in self._files.values() for s in _globals(file)}
        wanted = {
            s.name
            for file in self._files.values()
            for s in file.symbols
            if not s.section and not s.is_weak and s.name not in _LINKER_MADE | _SUBSTITUTED
        }
        missing = sorted(n for n in wanted - defined if not llvm.address_of_symbol(n))
        if missing:
            raise StepError(
                f"cannot load {self._program.name}: nothing defines {', '.join(missing)}",
                hint="name what defines it under sources: or link: libraries: in targets.yaml, or " + _HINT,
            )
        if "main" not in defined:
            raise StepError(f"cannot run {self._program.name}: nothing defines main")

    def _addresses(self, engine: llvm.ExecutionEngine, what: str) -> list[int]:
        starts = [(start, file) for file in self._files.values() for start in getattr(file, what)]
        starts.sort(key=lambda entry: entry[0].priority)  # stable: equal ones in the order of linking
        return [self._address(engine, start, file) for start, file in starts]

    def _address(self, engine: llvm.ExecutionEngine, start: Start, file: ObjectFile) -> int:
        """Sections have no addresses that could be asked for, but some symbol in them has."""
        if start.symbol:
            return int(engine.get_function_address(start.symbol))
        uses = Counter(s.name for other in self._files.values() for s in other.symbols if s.section)
        for symbol in file.symbols:
            if symbol.section == start.section and symbol.name and symbol.is_code_or_data:
                address = int(engine.get_global_value_address(symbol.name)) if uses[symbol.name] == 1 else 0
                if address:
                    return address - symbol.value + start.offset
        raise StepError("a constructor of an object cannot be found once it is loaded", hint=_HINT)


def _globals(file: ObjectFile) -> Iterable[Symbol]:
    return (s for s in file.symbols if s.section and not s.is_local)


def _check(files: Mapping[str, ObjectFile]) -> None:
    """Raise ``StepError`` for what LLVM's loader does not do, or does wrongly."""
    owners: dict[str, str] = {}
    for path, file in files.items():
        if file.has_thread_data:
            raise StepError(
                f"{path} has thread-local variables, which cannot be loaded at run time", hint=_HINT
            )
        for symbol in _globals(file):
            if symbol.is_weak:
                continue
            if symbol.name in owners:
                raise StepError(f"{symbol.name} is defined in both {owners[symbol.name]} and {path}")
            owners[symbol.name] = path
    for path, file in files.items():
        wanted = owners.keys() | {
            s.name for f in files.values() if f is not file for s in f.symbols if not s.section
        }
        for symbol in file.symbols:
            # The loader has one table of names: a local one would be taken for the other.
            if symbol.name in wanted and symbol.is_local and symbol.is_code_or_data and symbol.section:
                raise StepError(
                    f"{path} has a static {symbol.name!r}, and other objects use a global one", hint=_HINT
                )
