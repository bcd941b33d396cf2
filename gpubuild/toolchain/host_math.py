"""Identity of the host's mathematics: MLIR and LLVM fold constants with the C library's functions.

``sin``, ``exp``, ``pow`` and the like are not correctly rounded, and glibc selects variants for CPUs
with and without fused multiply-add when a program starts. A folded constant can therefore differ in
its last bit between two CPUs, or between two versions of the C library. The fingerprint covers the
results of some ten thousand calls; machines that agree on all of them share keys.
"""

from __future__ import annotations

import hashlib
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from gpubuild import environment
from gpubuild.environment import boot
from gpubuild.model.digest import digest_bytes, encode
from gpubuild.toolchain.fingerprint import Tool
from gpubuild.toolchain.memo import Memo

if TYPE_CHECKING:
    import ctypes  # takes 2 ms to load

NAME = "host-math"
_LIBRARY = "libm.so.6"
_BINARY = ("atan2", "pow")
FUNCTIONS = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "erf", "erfc", "exp"),
    *("exp2", "expm1", "log", "log10", "log1p", "log2", "pow", "sin", "sinh", "tan", "tanh"),
)
# From -16 to 16 and dense around zero, so that all branches of the functions are taken; also by NaNs.
_SPREAD = [(n * 0.6180339887498949 % 2 - 1) * 2.0 ** (n % 10 - 5) for n in range(256)]
# Doubles whose result is within 2^-10 of halfway between two neighbours: there the variants for CPUs
# with and without fused multiply-add differ first, and glibc selects one for all functions.
# Big-endian bit patterns; the two arguments of one call are side by side.
HARD = {
    "exp": (
        "400b147f6fa97f90c011aff7247911684023923e5b57d2704029b2b4b476b5d4c02b342fb15a0abc403d5a4fdaabfca8"
        "c042a6421c91e477c0338835751edd9fc03163991ad83e93401933586e20e4f04029b0dcd067aa184039ae2d2ad1fcb0"
        "403d90834522ec104036e2b8aedd37ccc0280b166b573a98bff915348b4b8b20"
    ),
    "pow": (
        "402d4454bec36e1abff839b0a64cc818401257b322557ff8c0115f5d579491fa3ffa3c77885cf08ebff2d3eaede4b6f8"
        "4021997ae8c5658e4018617d48a65c8c401491b70b8300ebbfe88898a1e5c5b03fe1d4d60f4cfe70bff9ed1700461d08"
        "402b4a72458c2bd84003740f74da42f8403209d8a81d9fa7c01dd73a2d7cdfd03ff00af5ffdd5472bffde5789f79aa00"
        "400684954259516a4011853ebfa631fc4023d27cc4bc0a00400a8284ec5cf33c40321e4b83330c584019301da534ab6c"
        "402fb0d38f576e0440239982bf1f573c40266afdbd0635fac01e820802dad88640102573f8ababfabfda4db05889abc0"
        "402018ac184b6c1f40158c4c0d4f9ee8"
    ),
}


def host_math(memo: Memo) -> Tool:
    """Return the C library's mathematics as this process uses it. Raises ``OSError`` without one.

    The memo keeps the fingerprint for one boot of the machine and one setting of the variables that
    select another library or variant.
    """
    path = _loaded_library()
    if path is None:
        _load()
        path = _loaded_library()
    if path is None:
        fingerprint = probe()  # without /proc there is no name for this boot either
    else:
        started = boot()
        seal = digest_bytes(encode((started, tuple(sorted(environment.host_math_variables().items())))))
        known = memo.fact(NAME, path)
        if started and isinstance(known, list) and known[:1] == [seal]:
            fingerprint = str(known[1])
        else:
            fingerprint = probe()
            memo.learn(NAME, path, [seal, fingerprint])
    return Tool(
        name=NAME,
        command=(str(path or _LIBRARY),),
        version=os.confstr("CS_GNU_LIBC_VERSION") or "",
        fingerprint=fingerprint,
        source="system",
    )


def probe() -> str:
    """Return a digest of the results of all functions. Takes 4 ms. Raises ``OSError``."""
    from ctypes import c_double, c_float

    library = _load()
    total = hashlib.sha256()
    for code, kind, suffix in (("d", c_double, ""), ("f", c_float, "f")):
        for name in FUNCTIONS:
            count = 2 if name in _BINARY else 1
            function = library[name + suffix]
            function.restype = kind
            function.argtypes = [kind] * count
            hard = struct.iter_unpack(f">{count}d", bytes.fromhex(HARD.get(name, "")))
            spread = zip(*(_SPREAD[::step] for step in (1, -1)[:count]), strict=True)
            results = [function(*arguments) for arguments in (*hard, *spread)]
            total.update(struct.pack(f"<{len(results)}{code}", *results))
    return total.hexdigest()


def _load() -> ctypes.CDLL:
    """Return the functions that the libraries of MLIR and LLVM find: those of LD_PRELOAD come first."""
    import ctypes

    ctypes.CDLL(_LIBRARY, ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(None)


def _loaded_library() -> Path | None:
    """Return the file of the C library's mathematics in this process."""
    try:
        with Path("/proc/self/maps").open(encoding="utf-8", errors="surrogateescape") as stream:
            paths = (Path(line.rstrip("\n").partition("/")[2]) for line in stream)
            return next((Path("/") / p for p in paths if p.name.startswith(("libm.so", "libm-2."))), None)
    except OSError:
        return None
