"""Run a program from its objects, in this process, without linking an executable.

LLVM's JIT linker (ORC's LLJIT) loads the objects that the linker would get; the runtime is a shared
library. It runs no constructors, and finds addresses of global symbols only, so each ``.init_array``
and ``.fini_array`` section of an object gets a global symbol first. This runs in a process of its own,
which a program may end.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import re
import signal
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import llvmlite.binding as llvm

from gpubuild.errors import GpubuildError, StepError
from gpubuild.model.step import JitProgram
from gpubuild.support import elf

_RELOCATABLE = 1
_THREAD_LOCAL_FLAG, _THREAD_LOCAL_TYPE = 0x400, 6
_LOCAL, _GLOBAL, _WEAK = 0, 1, 2  # bindings
_POINTER_BYTES = 8
_DEFAULT_PRIORITY = 65535
_ARRAY = re.compile(r"\.(init|fini)_array(?:\.(\d+)|\..*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionArray:
    """A section with pointers to functions that run before ``main``, or at exit."""

    symbol: str
    count: int
    priority: int  # lower ones run earlier before main, later at exit
    is_destructor: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JitObject:
    """An object with symbols for its arrays, and the names that it defines and needs."""

    data: bytes
    arrays: tuple[FunctionArray, ...]
    defined: frozenset[str]
    undefined: frozenset[str]  # without weak ones
    has_thread_data: bool


def prepare(data: bytes, name: str, prefix: str, renamed: Mapping[str, str]) -> JitObject:
    """Read a little-endian 64-bit object. Raises ``StepError`` for anything else.

    Symbols of arrays begin with ``prefix``; undefined symbols are ``renamed``.
    """
    try:
        return _prepare(data, prefix, renamed)
    except (struct.error, ValueError, IndexError) as error:
        raise StepError(f"{name} is not a 64-bit ELF object that can be loaded: {error}") from error


def _prepare(data: bytes, prefix: str, renamed: Mapping[str, str]) -> JitObject:
    if data[:6] != b"\x7fELF\2\1" or elf.HEADER.unpack_from(data)[1] != _RELOCATABLE:
        raise ValueError("its header differs")
    offsets, sections, names = elf.sections(data)
    table = next((n for n, section in enumerate(sections) if section[elf.KIND] == elf.SYMBOL_TABLE), None)
    if table is None:
        raise ValueError("it has no symbols")
    strings = sections[table][elf.LINK]
    symbols = _Symbols(data, sections[table], sections[strings], renamed)
    arrays = []
    for section, name in enumerate(names):
        if match := _ARRAY.fullmatch(name):
            symbol, size = f"{prefix}.{section}", sections[section][elf.SIZE]
            symbols.add(symbol, section, size)
            # Without its dot: in each object with such sections, LLVM defines a symbol of the same name.
            sections[section][elf.NAME] += 1
            arrays.append(
                FunctionArray(
                    symbol=symbol,
                    count=size // _POINTER_BYTES,
                    priority=int(match[2] or _DEFAULT_PRIORITY),
                    is_destructor=match[1] == "fini",
                )
            )
    # The new tables are appended, so that nothing moves.
    result = bytearray(data) + bytes(-len(data) % elf.SYMBOL.size)
    for section, content in ((table, symbols.table), (strings, symbols.strings)):
        sections[section][elf.OFFSET], sections[section][elf.SIZE] = len(result), len(content)
        result += content
    for offset, fields in zip(offsets, sections, strict=True):
        elf.SECTION.pack_into(result, offset, *fields)
    return JitObject(
        data=bytes(result),
        arrays=tuple(arrays),
        defined=frozenset(symbols.defined),
        undefined=frozenset(symbols.undefined),
        has_thread_data=symbols.has_thread_data or any(s[elf.FLAGS] & _THREAD_LOCAL_FLAG for s in sections),
    )


class _Symbols:
    """A symbol table and its strings, with names changed and symbols added."""

    def __init__(self, data: bytes, table: list[int], strings: list[int], renamed: Mapping[str, str]) -> None:
        self.table = bytearray(data[table[elf.OFFSET] : table[elf.OFFSET] + table[elf.SIZE]])
        self.strings = bytearray(data[strings[elf.OFFSET] : strings[elf.OFFSET] + strings[elf.SIZE]])
        self.defined: set[str] = set()
        self.undefined: set[str] = set()
        self.has_thread_data = False
        if len(self.table) < table[elf.SIZE] or len(self.strings) < strings[elf.SIZE]:
            raise ValueError("it is cut off")
        for at in range(0, len(self.table), elf.SYMBOL.size):
            text, info, other, section, value, size = elf.SYMBOL.unpack_from(self.table, at)
            name, binding = elf.text(self.strings, text), info >> 4
            self.has_thread_data = self.has_thread_data or info & 15 == _THREAD_LOCAL_TYPE
            if section:
                self.defined |= {name} if binding != _LOCAL else set()
            elif name:
                if name in renamed:
                    name = renamed[name]
                    elf.SYMBOL.pack_into(
                        self.table, at, self._string(name), info, other, section, value, size
                    )
                self.undefined |= {name} if binding != _WEAK else set()

    def add(self, name: str, section: int, size: int) -> None:
        """Add a global symbol for all of a section."""
        if section >= elf.RESERVED:
            raise ValueError("it has too many sections")
        self.table += elf.SYMBOL.pack(self._string(name), _GLOBAL << 4 | elf.DATA_SYMBOL, 0, section, 0, size)

    def _string(self, text: str) -> int:
        at = len(self.strings)
        self.strings += text.encode() + b"\0"
        return at


_HINT = "run it without --jit"
_CXX_LIBRARY = "stdc++"
_MADE_BY_LINKERS = frozenset({"_GLOBAL_OFFSET_TABLE_", "__dso_handle"})
# `atexit` is static in C libraries. ORC's own runs functions when the library is unloaded, which does
# not happen in a program that calls exit().
_ATEXIT = "gpubuild.atexit"
_RENAMED = {"atexit": _ATEXIT}
_SUPPORT = f"""
declare i32 @__cxa_atexit(ptr, ptr, ptr)
define i32 @{_ATEXIT}(ptr %function) {{
  %result = call i32 @__cxa_atexit(ptr %function, ptr null, ptr null)
  ret i32 %result
}}
"""
_kept: list[object] = []  # these objects own the code


def main() -> NoReturn:
    """Run the program that ``sys.argv[1]`` describes, with the other arguments."""
    try:
        program = JitProgram.from_json(sys.argv[1])
        name = ctypes.create_string_buffer(os.fsencode(Path(program.name).name))
        _kept.append(name)
        # Messages of the runtime, in constructors as well, contain the C library's name of the program.
        short_name = ctypes.c_void_p.in_dll(ctypes.CDLL(None), "program_invocation_short_name")
        short_name.value = ctypes.addressof(name)
        entry = _load(program)
    except GpubuildError as error:
        print(error.render(), file=sys.stderr)
        sys.exit(error.exit_code)
    _call_main(entry, [program.name, *sys.argv[2:]])


def _call_main(address: int, arguments: list[str]) -> NoReturn:
    sys.stdout.flush()
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # as in an executable
    texts = [os.fsencode(argument) for argument in arguments]
    argv = (ctypes.c_char_p * (len(texts) + 1))(*texts, None)
    process = ctypes.CDLL(None)
    environ = ctypes.c_void_p.in_dll(process, "environ")
    entry = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(address)
    code = entry(len(texts), ctypes.cast(argv, ctypes.c_void_p), environ)
    process.exit(code)
    raise AssertionError


def _load(program: JitProgram) -> int:
    """Load everything and run constructors; return the address of ``main``. Raises ``StepError``."""
    objects = [
        prepare(Path(path).read_bytes(), path, f"gpubuild.{number}", _RENAMED)
        for number, path in enumerate(program.objects)
    ]
    for path, item in zip(program.objects, objects, strict=True):
        if item.has_thread_data:
            raise StepError(
                f"{path} has thread-local variables, which cannot be loaded at run time", hint=_HINT
            )
    _load_libraries(program)
    _check_undefined(program, objects)
    arrays = [array for item in objects for array in item.arrays]
    arrays.sort(key=lambda array: array.priority)  # stable: equal ones keep the order of linking
    library = _link(program, objects, ["main", *(array.symbol for array in arrays)])
    process = ctypes.CDLL(None)
    for is_destructor in (True, False):
        for array in arrays:
            if array.is_destructor == is_destructor:
                for function in (ctypes.c_size_t * array.count).from_address(library[array.symbol]):
                    if is_destructor:
                        process["__cxa_atexit"](ctypes.c_void_p(function), None, None)
                    else:
                        ctypes.CFUNCTYPE(None)(function)()
    return int(library["main"])


def _link(program: JitProgram, objects: list[JitObject], wanted: list[str]) -> llvm.ResourceTracker:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic", jit=True)
    engine = llvm.create_lljit_compiler(machine, use_jit_link=True)
    builder = llvm.JITLibraryBuilder().add_current_process().add_ir(_SUPPORT)
    at_exit = ctypes.cast(ctypes.CDLL(None)["__cxa_atexit"], ctypes.c_void_p).value
    builder.import_symbol("__cxa_atexit", at_exit or 0)  # the C library's, not ORC's
    for item in objects:
        builder.add_object_img(item.data)
    for name in wanted:
        builder.export_symbol(name)
    try:
        library = builder.link(engine, "program")
    except RuntimeError as error:
        reason = str(error).removeprefix("In , ")  # an object without a name
        raise StepError(f"cannot load {program.name}: {reason}", hint=_HINT) from error
    _kept.extend((machine, engine, library))
    return library


def _load_libraries(program: JitProgram) -> None:
    names = [*program.libraries, *([_CXX_LIBRARY] if program.cxx else [])]
    paths = [program.runtime]
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
        except OSError as error:
            raise StepError(f"cannot load {path}: {error}", hint=_HINT) from error
    # Messages of the runtime get locations in sources from the build folder of the program.
    ctypes.CDLL(program.runtime)["gpubuildProgram"](os.fsencode(program.name))


def _check_undefined(program: JitProgram, objects: list[JitObject]) -> None:
    """Raise ``StepError`` for missing symbols: ORC's error would name everything that depends on them."""
    defined = {name for item in objects for name in item.defined} | _MADE_BY_LINKERS | {_ATEXIT}
    wanted = {name for item in objects for name in item.undefined}
    process = ctypes.CDLL(None)
    missing = sorted(name for name in wanted - defined if not hasattr(process, name))
    if missing:
        raise StepError(
            f"cannot load {program.name}: nothing defines {', '.join(missing)}",
            hint="add a source or library to sources: or link: libraries: in targets.yaml, or " + _HINT,
        )
    if "main" not in defined:
        raise StepError(f"cannot run {program.name}: nothing defines main")
