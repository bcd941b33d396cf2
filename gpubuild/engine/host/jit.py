"""JIT: run a program from its objects, in this process, without linking an executable.

The objects are those that the linker would get. LLVM's JIT linker (ORC's LLJIT) loads them; the runtime
is a shared library. What it cannot load is refused by name. This runs in a process of its own, which a
program may end in any way it likes.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

import llvmlite.binding as llvm

from gpubuild.engine.host import jit_object
from gpubuild.engine.host.jit_object import JitObject
from gpubuild.errors import GpubuildError, StepError
from gpubuild.model.jit_program import JitProgram

_HINT = "run it without --jit"
_CXX_LIBRARY = "stdc++"
_MADE_BY_LINKERS = frozenset({"_GLOBAL_OFFSET_TABLE_", "__dso_handle"})
# In C libraries `atexit` is a static function; ORC's own waits for the library to be unloaded, which
# does not happen in a program that calls exit().
_ATEXIT = "gpubuild.atexit"
_RENAMED = {"atexit": _ATEXIT}
_SUPPORT = f"""
declare i32 @__cxa_atexit(ptr, ptr, ptr)
define i32 @{_ATEXIT}(ptr %function) {{
  %result = call i32 @__cxa_atexit(ptr %function, ptr null, ptr null)
  ret i32 %result
}}
"""
_kept: list[object] = []  # code lives as long as the objects that own it


def main() -> NoReturn:
    """Run what ``sys.argv[1]`` describes, with the other arguments."""
    try:
        program = JitProgram.from_json(sys.argv[1])
        name = ctypes.create_string_buffer(os.fsencode(Path(program.name).name))
        _kept.append(name)
        # What the C library calls the program is what messages of the runtime name, constructors' as well.
        ctypes.c_void_p.in_dll(ctypes.CDLL(None), "program_invocation_short_name").value = ctypes.addressof(
            name
        )
        entry = _load(program)
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


def _load(program: JitProgram) -> int:
    """Load everything and run constructors; returns the address of ``main``. Raises ``StepError``."""
    objects = [
        jit_object.prepare(Path(path).read_bytes(), path, f"gpubuild.{number}", _RENAMED)
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
    arrays.sort(key=lambda array: array.priority)  # stable: equal ones in the order of linking
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
        reason = str(error).removeprefix("In , ")  # the place is an object without a name
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
    # Messages of the runtime look for places of the source in the build folder of the program.
    ctypes.CDLL(program.runtime)["gpubuildProgram"](os.fsencode(program.name))


def _check_undefined(program: JitProgram, objects: list[JitObject]) -> None:
    """Name what is missing: ORC's error would name everything that depends on it."""
    defined = {name for item in objects for name in item.defined} | _MADE_BY_LINKERS | {_ATEXIT}
    wanted = {name for item in objects for name in item.undefined}
    process = ctypes.CDLL(None)
    missing = sorted(name for name in wanted - defined if not hasattr(process, name))
    if missing:
        raise StepError(
            f"cannot load {program.name}: nothing defines {', '.join(missing)}",
            hint="name what defines it under sources: or link: libraries: in targets.yaml, or " + _HINT,
        )
    if "main" not in defined:
        raise StepError(f"cannot run {program.name}: nothing defines main")
