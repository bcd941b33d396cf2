"""Programs of 8-bit floats: every value widened, and every value, tie and edge narrowed to."""

from __future__ import annotations

import numpy as np
from kernels.program import Programs

PROGRAMS = Programs()

# mantissa bits, bias, whether there are infinities, whether 0x80 is the one NaN
FORMATS = {
    "f8E5M2": (2, 15, True, False), "f8E4M3": (3, 7, True, False), "f8E3M4": (4, 3, True, False),
    "f8E4M3FN": (3, 7, False, False), "f8E5M2FNUZ": (2, 16, False, True),
    "f8E4M3FNUZ": (3, 8, False, True), "f8E4M3B11FNUZ": (3, 11, False, True),
}  # fmt: skip


def decode(name: str) -> np.ndarray:
    """What each of the 256 bytes stands for, straight from the definition of the type."""
    mantissa, bias, infinities, one_nan = FORMATS[name]
    values = []
    for byte in range(256):
        exponent, fraction = (byte & 0x7F) >> mantissa, byte & ((1 << mantissa) - 1)
        scale = 2.0 ** (max(exponent, 1) - bias - mantissa)
        value = (fraction + ((1 << mantissa) if exponent else 0)) * scale
        if infinities and exponent == 0x7F >> mantissa:
            value = np.nan if fraction else np.inf
        if not infinities and not one_nan and byte & 0x7F == 0x7F:
            value = np.nan
        if one_nan and byte == 0x80:
            value = np.nan
        values.append(-value if byte & 0x80 else value)
    return np.array(values)


def encode(name: str, values: np.ndarray) -> np.ndarray:
    """The nearest byte by search: of two as near, the even one; overflow as if exponents went on."""
    mantissa, _, infinities, one_nan = FORMATS[name]
    table = decode(name)[:128]
    finite = [v for v in table if np.isfinite(v)]
    step = finite[-1] - finite[-2]
    grid = np.array([*finite, finite[-1] + step])  # the last stands for what is too large
    beyond = {True: len(finite)}.get(infinities, 0x80 if one_nan else 0x7F)
    found = []
    for value in values:
        magnitude = abs(float(value))
        if np.isnan(magnitude):
            code = 0x80 if one_nan else 0x7F if not infinities else len(finite) | 1 << (mantissa - 1)
        elif magnitude > grid[-1]:
            code = beyond
        else:
            above = int(np.searchsorted(grid, magnitude))
            below = max(above - 1, 0)
            up, down = grid[above] - magnitude, magnitude - grid[below]
            code = above if up < down or (up == down and above % 2 == 0) else below
            code = beyond if code == len(finite) else code
        if np.signbit(value) and not (one_nan and code in {0, 0x80}):
            code |= 0x80
        found.append(code)
    return np.array(found, np.uint8)


def _edges(name: str) -> np.ndarray:
    """Every number, every tie, their neighbours in f32, and what is beyond."""
    table = decode(name)
    numbers = np.unique(table[np.isfinite(table)])
    step = numbers[-1] - numbers[-2]
    numbers = np.array([numbers[0] - step, *numbers, numbers[-1] + step])
    ties = (numbers[1:] + numbers[:-1]) / 2
    near = np.concatenate([numbers, ties]).astype(np.float32)
    big = np.float32(np.finfo(np.float32).max)
    special = np.array([0.0, -0.0, np.inf, -np.inf, big, -big, 1e-30, -1e-30, np.nan], np.float32)
    every = np.concatenate([near, np.nextafter(near, big), np.nextafter(near, -big), special])
    return np.resize(every, -(-len(every) // 32) * 32)


def _conversions(name: str) -> None:
    every = np.arange(256, dtype=np.uint8).view(np.int8)
    table = decode(name)
    for kind, dtype in (("f32", np.float32), ("f64", np.float64), ("f16", np.float16)):
        PROGRAMS.each(
            f"extf_{name}_{kind}", f"arith.extf {name} to {kind}",
            f"%r = arith.extf %x : {name} to {kind}",
            [every], table.astype(dtype), kinds=[name],
        )  # fmt: skip
    x = _edges(name)
    for kind, values in (("f32", x), ("f64", _between(x))):
        PROGRAMS.each(
            f"truncf_{kind}_{name}", f"arith.truncf {kind} to {name}",
            f"%r = arith.truncf %x : {kind} to {name}",
            [values], encode(name, values).view(np.int8), kind=name,
        )  # fmt: skip


def _between(x: np.ndarray) -> np.ndarray:
    """f64 values so near to ``x`` that rounding to f32 first would make ties of them."""
    wide = x.astype(np.float64)
    return np.where(
        np.isfinite(wide), wide * np.where(np.arange(len(x)) % 2, 1 + 2.0**-40, 1 - 2.0**-40), wide
    )


def _arithmetic(name: str) -> None:
    table = decode(name)
    x, y = (np.arange(256) * n % 256 for n in (3, 5))
    with np.errstate(all="ignore"):
        want = encode(name, (table[x] + table[y]).astype(np.float32))
    # Which NaN an addition gives is the machine's choice.
    keep = ~np.isnan(table[x] + table[y])
    x, y, want = (np.resize(v[keep], 224) for v in (x, y, want))
    inputs = [v.astype(np.uint8).view(np.int8) for v in (x, y)]
    PROGRAMS.each(
        f"addf_{name}", f"arith.addf {name}", f"%r = arith.addf %x, %y : {name}",
        inputs, want.view(np.int8), kinds=[name, name], kind=name, breaks=("addf", "subf"),
    )  # fmt: skip
    less = (table[x] < table[y]).astype(np.int8)
    PROGRAMS.each(
        f"cmpf_{name}", f"arith.cmpf {name}",
        f"%b = arith.cmpf olt, %x, %y : {name}\n    %r = arith.extui %b : i1 to i8",
        inputs, less, kinds=[name, name], breaks=("olt", "ogt"),
    )  # fmt: skip


# Element bits, mantissa bits, bias of types without infinities and NaNs.
TINY = {"f6E2M3FN": (6, 3, 1), "f6E3M2FN": (6, 2, 3), "f4E2M1FN": (4, 1, 1)}


def tiny_values(name: str) -> np.ndarray:
    """What each code stands for."""
    bits, mantissa, bias = TINY[name]
    codes = np.arange(1 << (bits - 1))
    exponent, fraction = codes >> mantissa, codes & ((1 << mantissa) - 1)
    values = (fraction + (exponent > 0) * (1 << mantissa)) * 2.0 ** (
        np.maximum(exponent, 1) - bias - mantissa
    )
    return np.concatenate([values, -values])


def tiny_codes(name: str, values: np.ndarray) -> np.ndarray:
    """The nearest code, the even one of two; what is too large is the largest, and so is a NaN."""
    half = 1 << (TINY[name][0] - 1)
    table = tiny_values(name)[:half]
    found = []
    for value in values:
        far = (
            np.abs(table - min(abs(float(value)), table[-1]))
            if not np.isnan(value)
            else np.abs(table - table[-1])
        )
        near = np.flatnonzero(far == far.min())
        code = next(c for c in near if len(near) == 1 or c % 2 == 0)
        found.append(code + (half if np.signbit(value) and not np.isnan(value) else 0))
    return np.array(found, np.int8)


def _tiny() -> None:
    """Types of less than a byte, by way of their bits in bytes."""
    for name, (bits, _, _) in TINY.items():
        codes = np.resize(np.arange(1 << bits), 64).astype(np.int8)
        narrow = f"%n = arith.trunci %x : i8 to i{bits}\n    %s = arith.bitcast %n : i{bits} to {name}\n    "
        wide = f"\n    %b = arith.bitcast %t0 : {name} to i{bits}\n    %r = arith.extui %b : i{bits} to i8"
        table = tiny_values(name)
        for kind, dtype in (("f32", np.float32), ("f16", np.float16)):
            PROGRAMS.each(
                f"extf_{name}_{kind}", f"arith.extf {name} to {kind}",
                f"{narrow}%r = arith.extf %s : {name} to {kind}", [codes], table[codes].astype(dtype),
            )  # fmt: skip
        numbers = np.unique(np.concatenate([table, (table[1:] + table[:-1]) / 2])).astype(np.float32)
        near = [np.nextafter(numbers, np.float32(np.inf)), np.nextafter(numbers, np.float32(-np.inf))]
        special = np.array([0.0, -0.0, np.inf, -np.inf, 1e30, -1e30, 1e-30, -1e-30, np.nan], np.float32)
        every = np.concatenate([numbers, *near, special])
        every = np.resize(every, -(-len(every) // 32) * 32)
        for kind, values in (("f32", every), ("f64", _between(every))):
            PROGRAMS.each(
                f"truncf_{kind}_{name}", f"arith.truncf {kind} to {name}",
                f"%t0 = arith.truncf %x : {kind} to {name}{wide}", [values], tiny_codes(name, values),
            )  # fmt: skip
        x, y = codes, codes[::-1].copy()
        PROGRAMS.each(
            f"addf_{name}", f"arith.addf {name}",
            f"""{narrow}%m = arith.trunci %y : i8 to i{bits}
    %u = arith.bitcast %m : i{bits} to {name}
    %t0 = arith.addf %s, %u : {name}{wide}""",
            [x, y], tiny_codes(name, table[x] + table[y]), breaks=("addf", "subf"),
        )  # fmt: skip


def _scales() -> None:
    """f8E8M0FNU: every code widened, powers of two and what lies around their midpoints narrowed to it."""
    every = np.arange(256, dtype=np.uint8)
    values = np.where(every == 255, np.nan, 2.0 ** (every.astype(float) - 127))
    for kind, dtype in (("f32", np.float32), ("f64", np.float64)):
        PROGRAMS.each(
            f"extf_f8E8M0FNU_{kind}", f"arith.extf f8E8M0FNU to {kind}",
            f"%r = arith.extf %x : f8E8M0FNU to {kind}", [every.view(np.int8)], values.astype(dtype),
            kinds=["f8E8M0FNU"],
        )  # fmt: skip
    powers = 2.0 ** np.arange(-127.0, 128.0)
    x = np.concatenate([powers, powers * 1.25, powers * 1.5, [0.0, 1e-45, np.inf, np.nan]])
    codes = np.concatenate([np.arange(255), np.arange(255), np.arange(1, 256), [0, 0, 255, 255]])
    x, codes = np.resize(x, 800), np.resize(codes, 800).astype(np.uint8).view(np.int8)
    below = np.where(np.isfinite(x), x * (1 - 2.0**-40), x)
    lower = np.resize(np.concatenate([np.arange(255), np.arange(255), np.arange(255), [0, 0, 255, 255]]), 800)
    for kind, wide, want in (
        ("f32", x.astype(np.float32), codes), ("f64", below, lower.astype(np.uint8).view(np.int8)),
    ):  # fmt: skip
        PROGRAMS.each(
            f"truncf_{kind}_f8E8M0FNU", f"arith.truncf {kind} to f8E8M0FNU",
            f"%r = arith.truncf %x : {kind} to f8E8M0FNU", [wide], want, kind="f8E8M0FNU",
        )  # fmt: skip
    table = tiny_values("f4E2M1FN")
    elements = np.resize(np.arange(16), 64).astype(np.int8)
    scale = np.resize(np.arange(100, 150), 64).astype(np.uint8)
    scaled = table[elements] * 2.0 ** (scale.astype(float) - 127)
    PROGRAMS.each(
        "scaling_extf", "arith.scaling_extf f4E2M1FN, f8E8M0FNU to f32",
        """%n = arith.trunci %x : i8 to i4
    %s = arith.bitcast %n : i4 to f4E2M1FN
    %r = arith.scaling_extf %s, %y : f4E2M1FN, f8E8M0FNU to f32""",
        [elements, scale.view(np.int8)], scaled.astype(np.float32), kinds=["", "f8E8M0FNU"],
    )  # fmt: skip
    PROGRAMS.each(
        "scaling_truncf", "arith.scaling_truncf f32, f8E8M0FNU to f8E4M3FN",
        "%r = arith.scaling_truncf %x, %y : f32, f8E8M0FNU to f8E4M3FN",
        [(scaled * 3).astype(np.float32), scale.view(np.int8)],
        encode("f8E4M3FN", (table[elements] * 3).astype(np.float32)).view(np.int8),
        kinds=["", "f8E8M0FNU"], kind="f8E4M3FN",
    )  # fmt: skip


def _vectors() -> None:
    table = decode("f8E4M3FN")
    x = np.arange(4, dtype=np.int8) + 60
    PROGRAMS.add(
        name="small_float_vector",
        op="arith.extf, truncf of vectors of f8E4M3FN, f8E5M2",
        body="""%v = vector.load %xs[%c0] : memref<?xf8E4M3FN>, vector<4xf8E4M3FN>
    %w = arith.extf %v : vector<4xf8E4M3FN> to vector<4xf32>
    %n = arith.truncf %w : vector<4xf32> to vector<4xf8E5M2>
    vector.store %n, %out[%c0] : memref<?xf8E5M2>, vector<4xf8E5M2>""",
        args={"xs": x},
        types={"xs": "f8E4M3FN", "out": "f8E5M2"},
        expect={"out": encode("f8E5M2", table[x]).view(np.int8)},
        block=1,
    )


for _name in FORMATS:
    _conversions(_name)
for _name in ("f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f8E5M2FNUZ"):
    _arithmetic(_name)
_vectors()
_tiny()
_scales()
