"""Write the C and C++ header of a library from the records of its functions."""

from __future__ import annotations

from collections.abc import Sequence

from gpubuild.engine.host.interface import (
    Function,
    Kind,
    abi_name,
    free_name,
    free_names,
    identifier,
    returns_by_pointer,
)

_SCALARS = {
    "i1": "bool", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t", "index": "int64_t",
    "f16": "gpubuild_f16", "bf16": "gpubuild_bf16", "f32": "float", "f64": "double",
    "complex<f32>": "gpubuild_complex_f32", "complex<f64>": "gpubuild_complex_f64",
}  # fmt: skip
# Types that functions of different compilers pass in different ways are passed as these.
_PASSED = {"i1": "uint8_t", "f16": "uint16_t", "bf16": "uint16_t"}
_PARTS = {"complex<f32>": "float", "complex<f64>": "double"}
_KEYWORDS = (
    " alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t"
    " char32_t class compl concept const const_cast consteval constexpr constinit continue co_await"
    " co_return co_yield decltype default delete do double dynamic_cast else enum explicit export extern"
    " false float for friend goto if inline int long main mutable namespace new noexcept not not_eq"
    " nullptr operator or or_eq private protected public register reinterpret_cast requires restrict"
    " return short signed sizeof static static_assert static_cast struct switch template this"
    " thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using"
    " virtual void volatile wchar_t while xor xor_eq"
    " "
)
_TYPES = """\
#ifndef GPUBUILD_TYPES
#define GPUBUILD_TYPES
/* 16-bit floats are the compiler's where it has them. Programs of clang that use its __bf16 need a
   function of compiler-rt for many processors, which zig and libgcc 12 lack. */
#ifdef __FLT16_MANT_DIG__
__extension__ typedef _Float16 gpubuild_f16;
#else
typedef struct { uint16_t bits; } gpubuild_f16;
#endif
#if defined(__BFLT16_MANT_DIG__) && !defined(__clang__)
__extension__ typedef __bf16 gpubuild_bf16;
#else
typedef struct { uint16_t bits; } gpubuild_bf16;
#endif
typedef struct { float re, im; } gpubuild_complex_f32;
typedef struct { double re, im; } gpubuild_complex_f64;
static inline uint16_t gpubuild_f16_bits(gpubuild_f16 x) { uint16_t b; memcpy(&b, &x, 2); return b; }
static inline gpubuild_f16 gpubuild_f16_of(uint16_t b) { gpubuild_f16 x; memcpy(&x, &b, 2); return x; }
static inline uint16_t gpubuild_bf16_bits(gpubuild_bf16 x) { uint16_t b; memcpy(&b, &x, 2); return b; }
static inline gpubuild_bf16 gpubuild_bf16_of(uint16_t b) { gpubuild_bf16 x; memcpy(&x, &b, 2); return x; }
#endif
"""
_OWNERS = {
    "caller": "free(result.allocated) when it is not used any more",
    "argument": "it is memory of an argument",
    "library": "it belongs to the library",
}


def write(program: str, functions: Sequence[Function]) -> str:
    """Return the text of ``PROGRAM.h``."""
    guard = f"GPUBUILD_INTERFACE_{identifier(program).upper()}_H"
    shapes: dict[str, str] = {}
    for function in functions:
        for item in (*function["arguments"], *function["results"]):
            if not function["reason"] and item["type"]["sizes"] is not None:
                shapes[_type(item["type"])] = _memref(item["type"])
    structs = [f"{identifier(item['name'])}_results" for item in functions if len(item["results"]) > 1]
    names = free_names([item["name"] for item in functions], [*_KEYWORDS.split(), *structs])
    return "\n".join(
        [
            f"/* Functions of {program}, for C and C++. Written by gpubuild; see docs/how-to/embedding.md.",
            " *",
            " * Wrappers check static sizes of memrefs with assert(). Linking with a library of another ABI",
            " * than this header's fails. With GPUBUILD_NO_WRAPPERS there are no wrappers. */",
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            "#include <assert.h>",
            "#include <stdbool.h>",
            "#include <stdint.h>",
            "#include <string.h>",
            "",
            _TYPES,
            *shapes.values(),
            *(_function(function, names) for function in functions),
            f"#endif /* {guard} */",
            "",
        ]
    )


def _type(kind: Kind) -> str:
    """Return the C type of a value."""
    sizes = kind["sizes"]
    if sizes is None:
        return _SCALARS[kind["element"]]
    return f"gpubuild_memref_{_word(kind['element'])}_{len(sizes)}"


def _word(element: str) -> str:
    return element.replace("<", "_").replace(">", "")


def _memref(kind: Kind) -> str:
    """Return the struct of a memref's element type and rank, and the function that makes one of an array."""
    name, word = _type(kind), _word(kind["element"])
    rank = len(kind["sizes"] or ())
    element = _SCALARS.get(kind["element"], "uint8_t")
    sizes = "".join(f", int64_t size{axis}" for axis in range(rank))
    members = f"  int64_t sizes[{rank}];\n  int64_t strides[{rank}];\n" if rank else ""
    strides = []
    for axis in range(rank):
        factors = " * ".join(f"size{inner}" for inner in range(axis + 1, rank))
        strides.append(f"  memref.sizes[{axis}] = size{axis};\n  memref.strides[{axis}] = {factors or 1};\n")
    guard = name.upper()
    return (
        f"#ifndef {guard}\n#define {guard}\n"
        f"typedef struct {{\n  {element} *allocated; /* what free() takes */\n"
        f"  {element} *aligned; /* element 0 is aligned[offset] */\n"
        f"  int64_t offset; /* in elements, as strides */\n"
        f"{members}}} {name};\n"
        f"/* A contiguous array in row-major order. */\n"
        f"static inline {name} gpubuild_make_{word}_{rank}({element} *data{sizes}) {{\n"
        f"  {name} memref;\n  memref.allocated = memref.aligned = data;\n  memref.offset = 0;\n"
        f"{''.join(strides)}  return memref;\n}}\n#endif\n"
    )


def _function(function: Function, names: dict[str, str]) -> str:
    name = function["name"]
    if function["reason"]:
        return _comment([f"{name}: {function['text']}", f"not available: it {function['reason']}"])
    lines = [f"{name}: {function['text']}"]
    for argument in function["arguments"]:
        kind = argument["type"]
        if kind["sizes"] is not None:
            note = "" if argument["written"] else ", read only"
            lines.append(f"  {argument['name']}: {kind['text']}{_layout(kind)}{note}")
    for result in function["results"]:
        if result["type"]["sizes"] is not None:
            lines.append(
                f"  returns {result['type']['text']}; {_OWNERS.get(result['owner'], 'owner unknown')}"
            )
    return f"{_comment(lines)}{_declarations(function, names[name])}"


def _layout(kind: Kind) -> str:
    if kind["contiguous"]:
        return ", contiguous" if kind["sizes"] else ""
    return ""


def _comment(lines: Sequence[str]) -> str:
    body = "\n".join(f" * {line}" for line in lines).replace("*/", "* /")
    return f"/*{body[2:]} */\n"


def _declarations(function: Function, name: str) -> str:
    symbol, taken = abi_name(function), {"result", *_KEYWORDS.split()}
    passed: list[str] = []  # parameters of the symbol
    given: list[str] = []  # parameters of the wrapper
    values: list[str] = []  # what the wrapper passes
    checks: list[str] = []
    results = [_type(result["type"]) for result in function["results"]]
    by_pointer = returns_by_pointer(function)
    returned = f"{name}_results" if len(results) > 1 else results[0] if results else "void"
    if by_pointer:
        passed.append(f"{returned} *result")
        values.append("&result")
    for argument in function["arguments"]:
        own = free_name(argument["name"], taken)
        element = argument["type"]["element"]
        if argument["type"]["sizes"] is not None:
            passed.append(f"{_type(argument['type'])} *{own}")
            given.append(passed[-1])
            values.append(own)
            checks += [
                f"  assert({own}->sizes[{axis}] == {size});\n"
                for axis, size in enumerate(argument["type"]["sizes"])
                if size is not None
            ]
            continue
        given.append(f"{_SCALARS[element]} {own}")
        if element in _PARTS:
            parts = [free_name(f"{own}_{part}", taken) for part in ("re", "im")]
            passed += [f"{_PARTS[element]} {part}" for part in parts]
            values += [f"{own}.re", f"{own}.im"]
        else:
            passed.append(f"{_PASSED.get(element, _SCALARS[element])} {own}")
            values.append(f"gpubuild_{element}_bits({own})" if element in ("f16", "bf16") else own)
    kind = function["results"][0]["type"]["element"] if results else ""
    passed_result = "void" if by_pointer else _PASSED.get(kind, returned)
    call = f"{symbol}({', '.join(values)})"
    if by_pointer:
        body = f"  {returned} result;\n  {call};\n  return result;\n"
    elif kind in ("f16", "bf16"):
        body = f"  return gpubuild_{kind}_of({call});\n"
    else:
        body = f"  {'return ' if results else ''}{call}{' != 0' if kind == 'i1' else ''};\n"
    fields = "".join(f" {type_} result{number};" for number, type_ in enumerate(results))
    struct = f"typedef struct {{{fields} }} {returned};\n" if len(results) > 1 else ""
    prototype = f"({', '.join(passed) or 'void'});\n"
    plain = all(
        item["type"]["sizes"] is not None or item["type"]["element"] not in (*_PASSED, *_PARTS)
        for item in function["arguments"]
    ) and passed_result == ("void" if by_pointer else returned)
    direct = f"{passed_result} _mlir_ciface_{function['name']}{prototype}"
    direct = direct if plain and identifier(function["name"]) == function["name"] else ""
    return (
        f'{struct}#ifdef __cplusplus\nextern "C" {{\n#endif\n'
        f"{direct}{passed_result} {symbol}{prototype}#ifdef __cplusplus\n}}\n#endif\n"
        f"#ifndef GPUBUILD_NO_WRAPPERS\n"
        f"static inline {returned} {name}({', '.join(given) or 'void'}) {{\n"
        f"{''.join(checks)}{body}}}\n#endif\n"
    )
