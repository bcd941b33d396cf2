"""Programs of the arith dialect."""

from __future__ import annotations

import numpy as np
from kernels.program import COUNT, Programs, floats, from_bf16, integers, to_bf16

PROGRAMS = Programs()


def _wrap(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return values.astype(dtype)


_UNSIGNED = {np.int8: np.uint8, np.int16: np.uint16, np.int32: np.uint32, np.int64: np.uint64}


def _u(a: np.ndarray) -> np.ndarray:
    return a.view(_UNSIGNED[a.dtype.type])


def _trunc_div(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))).astype(x.dtype)


_BINARY = {
    "addi": lambda x, y: x + y,
    "subi": lambda x, y: x - y,
    "muli": lambda x, y: x * y,
    "andi": lambda x, y: x & y,
    "ori": lambda x, y: x | y,
    "xori": lambda x, y: x ^ y,
    "divsi": _trunc_div,
    "remsi": lambda x, y: (x - _trunc_div(x, y) * y).astype(x.dtype),
    "divui": lambda x, y: (_u(x) // _u(y)).view(x.dtype),
    "remui": lambda x, y: (_u(x) % _u(y)).view(x.dtype),
    "floordivsi": lambda x, y: x // y,
    "ceildivsi": lambda x, y: (-((-x.astype(np.int64)) // y)).astype(x.dtype),
    "ceildivui": lambda x, y: (_u(x) // _u(y) + (_u(x) % _u(y) != 0)).astype(_u(x).dtype).view(x.dtype),
    "maxsi": np.maximum,
    "minsi": np.minimum,
    "maxui": lambda x, y: np.maximum(_u(x), _u(y)).view(x.dtype),
    "minui": lambda x, y: np.minimum(_u(x), _u(y)).view(x.dtype),
}
_SHIFTS = {
    "shli": lambda x, y: x << y,
    "shrsi": lambda x, y: x >> y,
    "shrui": lambda x, y: (_u(x) >> _u(y)).view(x.dtype),
}
_INTEGER_TYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}


def _integers() -> None:
    for kind, dtype in _INTEGER_TYPES.items():
        x = integers(dtype, -120, 120)
        y = integers(dtype, 1, 11) * np.where(integers(dtype) > 0, 1, -1).astype(dtype)
        shift = integers(dtype, 0, 7)
        for op, function in (_BINARY | _SHIFTS).items():
            other = shift if op in _SHIFTS else y
            with np.errstate(over="ignore"):
                want = _wrap(function(x, other), dtype)
            breaks = ("arith." + op, "arith.subi" if op == "addi" else "arith.addi")
            PROGRAMS.each(
                f"arith_{op}_{kind}",
                f"arith.{op} {kind}",
                f"%r = arith.{op} %x, %y : {kind}",
                [x, other],
                want,
                breaks=breaks,
            )
    for kind in ("i32", "i64"):
        dtype = _INTEGER_TYPES[kind]
        x, y = integers(dtype, -(2**31), 2**31 - 1), integers(dtype, -(2**31), 2**31 - 1)
        bits = 8 * np.dtype(dtype).itemsize
        for name, cast in (
            ("mulsi_extended", int),
            ("mului_extended", lambda v, bits=bits: int(v) % 2**bits),
        ):
            high = [(cast(a) * cast(b)) >> bits for a, b in zip(x, y, strict=True)]
            want = np.array([v % 2**bits for v in high], np.uint64).astype(_UNSIGNED[dtype]).view(dtype)
            PROGRAMS.each(
                f"arith_{name}_{kind}",
                f"arith.{name} {kind}",
                f"%low, %r = arith.{name} %x, %y : {kind}",
                [x, y],
                want,
                breaks=("%low, %r", "%r, %low"),
            )
    x, y = integers(np.int32, -(2**31), 2**31 - 1), integers(np.int32, -(2**31), 2**31 - 1)
    carry = (x.view(np.uint32).astype(np.uint64) + y.view(np.uint32)) >> 32 != 0
    PROGRAMS.each(
        "arith_addui_extended",
        "arith.addui_extended",
        "%s, %r = arith.addui_extended %x, %y : i32, i1",
        [x, y],
        carry,
        breaks=("%x, %y", "%x, %x"),
    )
    a, b = integers(np.uint64, 0, 1000), integers(np.uint64, 1, 9)
    for op, function in {"addi": np.add, "divui": np.floor_divide, "remui": np.remainder}.items():
        line = f"%r = arith.{op} %x, %y : index"
        PROGRAMS.each(
            f"arith_{op}_index", f"arith.{op} index", line, [a, b], function(a, b).astype(np.uint64)
        )
    predicates = {
        "eq": np.equal, "ne": np.not_equal, "slt": np.less, "sle": np.less_equal, "sgt": np.greater,
        "sge": np.greater_equal, "ult": lambda x, y: _u(x) < _u(y), "ule": lambda x, y: _u(x) <= _u(y),
        "ugt": lambda x, y: _u(x) > _u(y), "uge": lambda x, y: _u(x) >= _u(y),
    }  # fmt: skip
    x, y = integers(np.int32, -4, 4), integers(np.int32, -4, 4)
    for predicate, function in predicates.items():
        PROGRAMS.each(
            f"arith_cmpi_{predicate}",
            f"arith.cmpi {predicate}",
            f"%r = arith.cmpi {predicate}, %x, %y : i32",
            [x, y],
            function(x, y),
            breaks=(f"cmpi {predicate}", "cmpi ne" if predicate == "eq" else "cmpi eq"),
        )


def _signed_zeros(kind: str, dtype: type) -> None:
    """To both operations -0.0 is less than 0.0: the reciprocals of their results differ."""
    numbers = np.array([0.0, -0.0, 1.0, -2.0, np.nan, -np.inf, np.inf], dtype)
    x, y = numbers[np.arange(COUNT) % 7], numbers[np.arange(COUNT) // 7 % 7]
    negative = np.signbit(x), np.signbit(y)
    for op, function, sign in (
        ("maximumf", np.maximum, np.logical_and(*negative)),
        ("minimumf", np.minimum, np.logical_or(*negative)),
    ):
        found = function(x, y)
        found[found == 0] = np.where(sign, -0.0, 0.0)[found == 0]
        with np.errstate(divide="ignore"):
            PROGRAMS.each(
                f"arith_{op}_zeros_{kind}",
                f"arith.{op} {kind}, zeros of both signs",
                f"%one = arith.constant 1.0 : {kind}\n    %m = arith.{op} %x, %y : {kind}\n"
                f"    %r = arith.divf %one, %m : {kind}",
                [x, y],
                np.divide(dtype(1), found),
                breaks=(f"arith.{op}", "arith.addf"),
            )


def _floats() -> None:
    basic = {"addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide, "remf": np.fmod}
    extremes = {"maximumf": np.maximum, "minimumf": np.minimum, "maxnumf": np.fmax, "minnumf": np.fmin}
    for kind, dtype in {"f16": np.float16, "f32": np.float32, "f64": np.float64}.items():
        x, y = floats(dtype), floats(dtype)
        with_nan = x.copy()
        with_nan[::5] = np.nan
        for op, function in (basic | extremes).items():
            first = with_nan if op in extremes else x
            PROGRAMS.each(
                f"arith_{op}_{kind}",
                f"arith.{op} {kind}",
                f"%r = arith.{op} %x, %y : {kind}",
                [first, y],
                function(first, y),
                breaks=(f"arith.{op}", "arith.subf" if op == "addf" else "arith.addf"),
            )
        PROGRAMS.each(f"arith_negf_{kind}", f"arith.negf {kind}", f"%r = arith.negf %x : {kind}", [x], -x)
        _signed_zeros(kind, dtype)
    x, y = from_bf16(to_bf16(floats(np.float32))), from_bf16(to_bf16(floats(np.float32)))
    for op, function in (basic | extremes).items():
        first = np.where(np.arange(len(x)) % 5 == 0, np.nan, x).astype(np.float32) if op in extremes else x
        PROGRAMS.each(
            f"arith_{op}_bf16",
            f"arith.{op} bf16",
            f"%n = arith.{op} %x, %y : bf16\n    %r = arith.extf %n : bf16 to f32",
            [to_bf16(first), to_bf16(y)],
            from_bf16(to_bf16(function(first, y))),
            kinds=["bf16", "bf16"],
        )
    predicates = {
        "oeq": lambda x, y: x == y, "one": lambda x, y: (x < y) | (x > y), "olt": lambda x, y: x < y,
        "ole": lambda x, y: x <= y, "ogt": lambda x, y: x > y, "oge": lambda x, y: x >= y,
        "ord": lambda x, y: ~np.isnan(x) & ~np.isnan(y), "uno": lambda x, y: np.isnan(x) | np.isnan(y),
        "ueq": lambda x, y: ~((x < y) | (x > y)), "une": lambda x, y: x != y,
        "ult": lambda x, y: ~(x >= y), "ule": lambda x, y: ~(x > y), "ugt": lambda x, y: ~(x <= y),
        "uge": lambda x, y: ~(x < y),
    }  # fmt: skip
    x, y = integers(np.float32, -2, 2), integers(np.float32, -2, 2)
    x[::7] = np.nan
    for predicate, function in predicates.items():
        PROGRAMS.each(
            f"arith_cmpf_{predicate}",
            f"arith.cmpf {predicate}",
            f"%r = arith.cmpf {predicate}, %x, %y : f32",
            [x, y],
            function(x, y),
            breaks=(f"cmpf {predicate}", "cmpf true"),
        )


def _casts() -> None:
    def add(op: str, source: str, target: str, x: np.ndarray, want: np.ndarray, **more) -> None:
        PROGRAMS.each(
            f"arith_{op}_{source}_{target}",
            f"arith.{op} {source} → {target}",
            f"%r = arith.{op} %x : {source} to {target}",
            [x],
            want,
            **more,
        )

    small, wide = integers(np.int8, -128, 128), integers(np.int64, -(2**40), 2**40)
    add("extsi", "i8", "i64", small, small.astype(np.int64))
    add("extui", "i8", "i64", small, small.view(np.uint8).astype(np.int64))
    flags = integers(np.int8) > 0
    add("extui", "i1", "i32", flags, flags.astype(np.int32))
    add("extsi", "i1", "i32", flags, -flags.astype(np.int32))
    add("trunci", "i64", "i16", wide, wide.astype(np.int16))
    add("trunci", "i64", "i1", wide, (wide & 1).astype(bool))
    f32, f64 = floats(np.float32), floats(np.float64)
    add("extf", "f32", "f64", f32, f32.astype(np.float64))
    add("extf", "f16", "f32", f32.astype(np.float16), f32.astype(np.float16).astype(np.float32))
    add("extf", "bf16", "f32", to_bf16(f32), from_bf16(to_bf16(f32)), kinds=["bf16"])
    add("truncf", "f64", "f32", f64, f64.astype(np.float32))
    add("truncf", "f32", "f16", f32, f32.astype(np.float16))
    add("truncf", "f64", "f16", f64, f64.astype(np.float16))
    add("truncf", "f32", "bf16", f32, to_bf16(f32), kind="bf16")
    add("sitofp", "i64", "f32", wide, wide.astype(np.float32))
    add("sitofp", "i8", "f16", small, small.astype(np.float16))
    add("uitofp", "i8", "f32", small, small.view(np.uint8).astype(np.float32))
    add("uitofp", "i64", "f64", wide, wide.view(np.uint64).astype(np.float64))
    add("fptosi", "f32", "i32", f32 * 1000, (f32 * 1000).astype(np.int32))
    add("fptosi", "f64", "i64", f64 * 1e12, (f64 * 1e12).astype(np.int64))
    add("fptoui", "f32", "i32", abs(f32) * 1e9, (abs(f32) * 1e9).astype(np.uint32).view(np.int32))
    add("index_cast", "i32", "index", small.astype(np.int32), small.astype(np.int64).view(np.uint64))
    add("index_castui", "i8", "index", small, small.view(np.uint8).astype(np.uint64))
    number = np.array([0, 255, 256, -129, 2**31 + 5, 2**33 - 7, -1, 65_535], np.int64).repeat(COUNT // 8)
    for op, kind, dtype in (("index_cast", "i8", np.int8), ("index_castui", "i32", np.uint32)):
        PROGRAMS.each(
            f"arith_{op}_narrow",
            f"arith.{op} index → {kind} → index",
            f"%n = arith.{op} %x : index to {kind}\n    %r = arith.{op} %n : {kind} to index",
            [number.view(np.uint64)],
            number.astype(dtype).astype(np.int64).view(np.uint64),
        )
    add("bitcast", "f32", "i32", f32, f32.view(np.int32))
    add("bitcast", "i64", "f64", f64.view(np.int64), f64)
    PROGRAMS.each(
        "arith_select",
        "arith.select",
        "%r = arith.select %z, %x, %y : f32",
        [f32, -f32 * 2, flags],
        np.where(flags, f32, -f32 * 2),
        breaks=("%x, %y", "%y, %x"),
    )


_integers()
_floats()
_casts()
