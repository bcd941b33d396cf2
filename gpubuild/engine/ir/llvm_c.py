"""Call the C API of the LLVM library that MLIR's bindings have loaded.

The classes have the names and attributes of llvmlite's that gpubuild uses, so that callers of
``engine/ir/llvm.py`` work with either. Errors are ``RuntimeError``, as llvmlite's are.

A context frees its modules when it is collected. Modules keep their context, and free nothing themselves:
the collector frees a cycle in any order, and freeing a module after its context ends the process.
"""

# ruff: noqa: D102 - llvmlite documents these names

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

_LIBRARY = "libMLIRPythonCAPI.so"  # names are looked up in the LLVM library that it is linked with, too
# Of code generation. LLVM's scheduler compares each pair of so many accesses to memory, three times for
# AMD. With its own limit of 1,000, that took two thirds of the time of 4,000 accesses without a branch.
# Division of integers of more than 64 bits, and conversions between them and floats, become code instead of
# calls of compiler-rt, as on GPUs.
OPTIONS = ("-dag-maps-huge-region=200", "-expand-div-rem-bits=64", "-expand-fp-convert-bits=64")
_PIC, _DEFAULT_CODE_MODEL = 2, 0
_ASSEMBLY, _OBJECT = 0, 1
_RETURN_STATUS = 2
_FUNCTION_INDEX = 0xFFFFFFFF  # of the attributes of a function itself
_ERROR, _WARNING = 0, 1
# In the order of LLVM-C's enumerations; empty for retired numbers.
_LINKAGES = (
    "external", "available_externally", "linkonce_any", "linkonce_odr", "", "weak_any", "weak_odr",
    "appending", "internal", "private", "", "", "external_weak", "", "common", "", "",
)  # fmt: skip
_VISIBILITIES = ("default", "hidden", "protected")
_BACK_ENDS = ("AArch64", "AMDGPU", "NVPTX", "X86")
_PARTS = ("TargetInfo", "Target", "TargetMC", "AsmPrinter", "AsmParser")
_HANDLER = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)

# The types of results and parameters: p pointer, s C string, m message to free, i int, u unsigned, z size,
# q 64 bits, o output pointer, v nothing.
_SIGNATURES = {
    "LLVMAddAttributeAtIndex": "vpup",
    "LLVMCloneModule": "pp",
    "LLVMContextCreate": "p",
    "LLVMContextDispose": "vp",
    "LLVMContextSetDiagnosticHandler": "vppp",
    "LLVMCopyStringRepOfTargetData": "mp",
    "LLVMCountParams": "up",
    "LLVMCreateEnumAttribute": "ppuq",
    "LLVMCreateMemoryBufferWithMemoryRangeCopy": "pszs",
    "LLVMCreatePassBuilderOptions": "p",
    "LLVMCreateTargetDataLayout": "pp",
    "LLVMCreateTargetMachine": "ppsssiii",
    "LLVMDisposeMemoryBuffer": "vp",
    "LLVMDisposeMessage": "vp",
    "LLVMDisposePassBuilderOptions": "vp",
    "LLVMDisposeTargetData": "vp",
    "LLVMDisposeTargetMachine": "vp",
    "LLVMGetBufferSize": "zp",
    "LLVMGetBufferStart": "pp",
    "LLVMGetDataLayoutStr": "sp",
    "LLVMGetDiagInfoDescription": "mp",
    "LLVMGetDiagInfoSeverity": "ip",
    "LLVMGetEnumAttributeKindForName": "usz",
    "LLVMGetErrorMessage": "pp",
    "LLVMDisposeErrorMessage": "vp",
    "LLVMGetFirstFunction": "pp",
    "LLVMGetFirstGlobal": "pp",
    "LLVMGetHostCPUFeatures": "m",
    "LLVMGetHostCPUName": "m",
    "LLVMGetLinkage": "ip",
    "LLVMGetNamedFunction": "pps",
    "LLVMGetNamedGlobal": "pps",
    "LLVMGetNextFunction": "pp",
    "LLVMGetNextGlobal": "pp",
    "LLVMGetParam": "ppu",
    "LLVMGetTarget": "sp",
    "LLVMGetTargetFromTriple": "isoo",
    "LLVMGetTargetMachineTriple": "mp",
    "LLVMGetValueName2": "ppo",
    "LLVMGetVersion": "vooo",
    "LLVMGlobalGetValueType": "pp",
    "LLVMIsDeclaration": "ip",
    "LLVMLinkModules2": "ipp",
    "LLVMLookupIntrinsicID": "usz",
    "LLVMPassBuilderOptionsSetLoopVectorization": "vpi",
    "LLVMPassBuilderOptionsSetSLPVectorization": "vpi",
    "LLVMPrintModuleToString": "mp",
    "LLVMPrintTypeToString": "mp",
    "LLVMParseBitcodeInContext2": "ippo",
    "LLVMParseCommandLineOptions": "vips",
    "LLVMParseIRInContext": "ippoo",
    "LLVMRunPasses": "ppspp",
    "LLVMSetDataLayout": "vps",
    "LLVMSetLinkage": "vpi",
    "LLVMSetTarget": "vps",
    "LLVMSetValueName2": "vpsz",
    "LLVMSetVisibility": "vpi",
    "LLVMTargetMachineEmitToMemoryBuffer": "ippioo",
    "LLVMTypeOf": "pp",
    "LLVMVerifyModule": "ipio",
    "LLVMWriteBitcodeToMemoryBuffer": "pp",
}
_TYPES: dict[str, Any] = {
    "p": c_void_p, "s": c_char_p, "m": c_void_p, "i": c_int, "u": c_uint, "z": c_size_t, "q": c_uint64,
    "o": c_void_p, "v": None,
}  # fmt: skip


class _Library:
    """Functions of the library, each with its types from the first use on."""

    def __init__(self) -> None:
        import mlir._mlir_libs  # here: `bindings` must be imported first

        self._loaded = ctypes.CDLL(str(Path(next(iter(mlir._mlir_libs.__path__))) / _LIBRARY))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        result, *parameters = list(_SIGNATURES[name])
        function = self._loaded[name]
        function.restype = _TYPES[result]
        function.argtypes = [_TYPES[parameter] for parameter in parameters]
        taken: Callable[..., Any] = function
        if result == "m":

            def taken(*arguments: object) -> str:
                return _take_message(function(*arguments))

        setattr(self, name, taken)
        return taken

    def register(self, back_end: str) -> None:
        """Register a back end, if the library has it."""
        for part in _PARTS:
            function = getattr(self._loaded, f"LLVMInitialize{back_end}{part}", None)
            if function is not None:
                function.restype, function.argtypes = None, []
                function()


@cache
def _lib() -> _Library:
    return _Library()


def _take_message(address: int | None) -> str:
    """Return a string that LLVM allocated, and free it."""
    if not address:
        return ""
    text = ctypes.string_at(address).decode(errors="surrogateescape")
    _lib().LLVMDisposeMessage(address)
    return text


def _take_buffer(buffer: c_void_p | int) -> bytes:
    lib = _lib()
    data = ctypes.string_at(lib.LLVMGetBufferStart(buffer), lib.LLVMGetBufferSize(buffer))
    lib.LLVMDisposeMemoryBuffer(buffer)
    return data


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


@cache
def initialize() -> None:
    """Register the code generators, once in a process."""
    words = (c_char_p * (1 + len(OPTIONS)))(b"gpubuild", *(option.encode() for option in OPTIONS))
    _lib().LLVMParseCommandLineOptions(len(words), words, None)
    for name in _BACK_ENDS:
        _lib().register(name)


@cache
def version() -> str:
    """Return the version of LLVM, such as 22.1.8."""
    numbers = [c_uint(), c_uint(), c_uint()]
    _lib().LLVMGetVersion(*map(byref, numbers))
    return ".".join(str(number.value) for number in numbers)


def intrinsic_id(name: bytes) -> int:
    """Return LLVM's number of an intrinsic; 0 for an unknown one."""
    return int(_lib().LLVMLookupIntrinsicID(name, len(name)))


def is_native(triple: str) -> bool:
    """Return whether code for ``triple`` is for this machine's architecture."""
    return triple.partition("-")[0] == platform.machine()


@cache
def has_target(architecture: str) -> bool:
    """Return whether the library has a code generator for an architecture, the first word of triples."""
    initialize()
    return _target(f"{architecture}-unknown-unknown")[0] is not None


def _target(triple: str) -> tuple[c_void_p | None, str]:
    target, error = c_void_p(), c_void_p()
    failed = _lib().LLVMGetTargetFromTriple(_encoded(triple), byref(target), byref(error))
    return (None, _take_message(error.value)) if failed else (target, "")


class Context:
    """A context of modules, with the errors that LLVM reported in it."""

    def __init__(self) -> None:
        lib = _lib()
        self.address = lib.LLVMContextCreate()
        self._dispose = lib.LLVMContextDispose
        errors: list[str] = []

        def report(diagnostic: int, _: int | None) -> None:
            severity = lib.LLVMGetDiagInfoSeverity(diagnostic)
            text = lib.LLVMGetDiagInfoDescription(diagnostic)
            if severity == _ERROR:
                errors.append(text)
            elif severity == _WARNING:
                print(f"warning: {text}", file=sys.stderr, flush=True)

        self._errors = errors
        self._handler = _HANDLER(report)  # LLVM calls it as long as the context lives
        lib.LLVMContextSetDiagnosticHandler(self.address, self._handler, None)

    def check(self, failed: bool = False, message: str = "") -> None:
        """Raise ``RuntimeError`` for a call that failed, or for errors that LLVM reported."""
        reported = "\n".join(dict.fromkeys([*self._errors, *([message] if message else [])]))
        failed = failed or bool(self._errors)
        self._errors.clear()
        if failed:
            raise RuntimeError(reported)

    def __del__(self) -> None:
        self._dispose(self.address)


class _Named:
    """An enumerator, with its name as llvmlite's have it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class Type:
    """A type, whose ``str`` is LLVM's text."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __str__(self) -> str:
        return str(_lib().LLVMPrintTypeToString(self._address))


class Value:
    """A function, a global variable or an argument of a module."""

    __slots__ = ("_address", "_module")

    def __init__(self, address: int, module: Module) -> None:
        self._address, self._module = address, module

    @property
    def name(self) -> str:
        size = c_size_t()
        start = _lib().LLVMGetValueName2(self._address, byref(size))
        return ctypes.string_at(start, size.value).decode(errors="surrogateescape")

    @name.setter
    def name(self, name: str) -> None:
        data = _encoded(name)
        _lib().LLVMSetValueName2(self._address, data, len(data))

    @property
    def is_declaration(self) -> bool:
        return bool(_lib().LLVMIsDeclaration(self._address))

    @property
    def linkage(self) -> _Named:
        return _Named(_LINKAGES[_lib().LLVMGetLinkage(self._address)])

    @linkage.setter
    def linkage(self, name: str) -> None:
        _lib().LLVMSetLinkage(self._address, _LINKAGES.index(name))

    def _set_visibility(self, name: str) -> None:
        _lib().LLVMSetVisibility(self._address, _VISIBILITIES.index(name))

    visibility = property(None, _set_visibility)

    @property
    def type(self) -> Type:
        return Type(_lib().LLVMTypeOf(self._address))

    @property
    def global_value_type(self) -> Type:
        return Type(_lib().LLVMGlobalGetValueType(self._address))

    @property
    def arguments(self) -> list[Value]:
        lib = _lib()
        count = lib.LLVMCountParams(self._address)
        return [Value(lib.LLVMGetParam(self._address, n), self._module) for n in range(count)]

    def add_function_attribute(self, name: str) -> None:
        lib, data = _lib(), name.encode()
        kind = lib.LLVMGetEnumAttributeKindForName(data, len(data))
        attribute = lib.LLVMCreateEnumAttribute(self._module._context.address, kind, 0)
        lib.LLVMAddAttributeAtIndex(self._address, _FUNCTION_INDEX, attribute)


class Module:
    """A module of LLVM IR, whose ``str`` is LLVM's text."""

    def __init__(self, address: int, context: Context) -> None:
        self._address, self._context = address, context

    def __str__(self) -> str:
        return str(_lib().LLVMPrintModuleToString(self._address))

    @property
    def triple(self) -> str:
        return str(_lib().LLVMGetTarget(self._address).decode())

    @triple.setter
    def triple(self, triple: str) -> None:
        _lib().LLVMSetTarget(self._address, triple.encode())

    @property
    def data_layout(self) -> str:
        return str(_lib().LLVMGetDataLayoutStr(self._address).decode())

    @data_layout.setter
    def data_layout(self, layout: str) -> None:
        _lib().LLVMSetDataLayout(self._address, layout.encode())

    @property
    def functions(self) -> Sequence[Value]:
        return list(self._listed(_lib().LLVMGetFirstFunction, _lib().LLVMGetNextFunction))

    @property
    def global_variables(self) -> Sequence[Value]:
        return list(self._listed(_lib().LLVMGetFirstGlobal, _lib().LLVMGetNextGlobal))

    def _listed(self, first: Callable[..., int], following: Callable[..., int]) -> Iterator[Value]:
        address = first(self._address)
        while address:
            yield Value(address, self)
            address = following(address)

    def get_function(self, name: str) -> Value:
        """Return a function; raises ``NameError`` without it."""
        return self._found(_lib().LLVMGetNamedFunction, name)

    def get_global_variable(self, name: str) -> Value:
        """Return a global variable; raises ``NameError`` without it."""
        return self._found(_lib().LLVMGetNamedGlobal, name)

    def _found(self, lookup: Callable[..., int], name: str) -> Value:
        address = lookup(self._address, _encoded(name))
        if not address:
            raise NameError(name)
        return Value(address, self)

    def clone(self) -> Module:
        return Module(_lib().LLVMCloneModule(self._address), self._context)

    def link_in(self, other: Module) -> None:
        """Link ``other`` into this module; it cannot be used afterwards."""
        failed = _lib().LLVMLinkModules2(self._address, other._address)
        other._address = 0
        self._context.check(bool(failed))

    def as_bitcode(self) -> bytes:
        return _take_buffer(_lib().LLVMWriteBitcodeToMemoryBuffer(self._address))

    def verify(self) -> None:
        message = c_void_p()
        failed = _lib().LLVMVerifyModule(self._address, _RETURN_STATUS, byref(message))
        text = _take_message(message.value)
        self._context.check(bool(failed), text if failed else "")


class Machine:
    """A code generator for one chip."""

    def __init__(self, triple: str, chip: str, features: str, opt_level: int) -> None:
        initialize()
        lib = _lib()
        target, error = _target(triple)
        if target is None:
            raise RuntimeError(error)
        texts = map(_encoded, (triple, chip, features))
        self._dispose = lib.LLVMDisposeTargetMachine
        self._address = lib.LLVMCreateTargetMachine(target, *texts, opt_level, _PIC, _DEFAULT_CODE_MODEL)
        if not self._address:
            raise RuntimeError(f"LLVM has no code generator for {triple}")

    def __del__(self) -> None:
        if getattr(self, "_address", None):
            self._dispose(self._address)

    @property
    def triple(self) -> str:
        return str(_lib().LLVMGetTargetMachineTriple(self._address))

    @property
    def target_data(self) -> str:
        """The data layout."""
        lib = _lib()
        layout = lib.LLVMCreateTargetDataLayout(self._address)
        text = str(lib.LLVMCopyStringRepOfTargetData(layout))
        lib.LLVMDisposeTargetData(layout)
        return text

    def emit_object(self, module: Module) -> bytes:
        return self._emit(module, _OBJECT)

    def emit_assembly(self, module: Module) -> str:
        return self._emit(module, _ASSEMBLY).decode()

    def _emit(self, module: Module, kind: int) -> bytes:
        error, buffer = c_void_p(), c_void_p()
        failed = _lib().LLVMTargetMachineEmitToMemoryBuffer(
            self._address, module._address, kind, byref(error), byref(buffer)
        )
        data = b"" if failed else _take_buffer(buffer)
        module._context.check(bool(failed), _take_message(error.value) if failed else "")
        return data

    def optimize(self, module: Module, opt_level: int) -> None:
        """Run LLVM's default pipeline of a level, with the vectorisers from level 2."""
        run_passes(module, f"default<O{opt_level}>", self._address, vectorize=opt_level >= 2)


def run_passes(module: Module, pipeline: str, machine: int | None = None, *, vectorize: bool = False) -> None:
    """Run passes in the syntax of ``opt -passes=``. Raises ``RuntimeError``."""
    lib = _lib()
    options = lib.LLVMCreatePassBuilderOptions()
    if vectorize:
        lib.LLVMPassBuilderOptionsSetLoopVectorization(options, 1)
        lib.LLVMPassBuilderOptionsSetSLPVectorization(options, 1)
    error = lib.LLVMRunPasses(module._address, pipeline.encode(), machine, options)
    lib.LLVMDisposePassBuilderOptions(options)
    message = ""
    if error:
        text = lib.LLVMGetErrorMessage(error)
        message = ctypes.string_at(text).decode()
        lib.LLVMDisposeErrorMessage(text)
    module._context.check(bool(error), message)


def parse_assembly(text: str, context: Context) -> Module:
    """Parse LLVM IR text. Errors are located in ``<string>``."""
    data = _encoded(text)
    lib, module, error = _lib(), c_void_p(), c_void_p()
    buffer = lib.LLVMCreateMemoryBufferWithMemoryRangeCopy(data, len(data), b"<string>")
    # The call frees the buffer.
    failed = lib.LLVMParseIRInContext(context.address, buffer, byref(module), byref(error))
    context.check(bool(failed), f"LLVM IR parsing error\n{_take_message(error.value)}" if failed else "")
    return Module(module.value or 0, context)


def parse_bitcode(data: bytes, context: Context) -> Module:
    """Parse bitcode."""
    lib, module = _lib(), c_void_p()
    buffer = lib.LLVMCreateMemoryBufferWithMemoryRangeCopy(data, len(data), b"")
    failed = lib.LLVMParseBitcodeInContext2(context.address, buffer, byref(module))
    lib.LLVMDisposeMemoryBuffer(buffer)
    context.check(bool(failed))
    return Module(module.value or 0, context)


def host_cpu() -> tuple[str, str]:
    """Return the name of this machine's CPU, and its features as ``+a,-b``, ordered by name."""
    lib = _lib()
    features = [feature for feature in lib.LLVMGetHostCPUFeatures().split(",") if feature]
    return lib.LLVMGetHostCPUName(), ",".join(sorted(features, key=lambda feature: feature[1:]))
