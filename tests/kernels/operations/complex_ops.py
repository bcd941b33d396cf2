"""Programs of the complex dialect."""

from __future__ import annotations

import numpy as np
from kernels.program import COUNT, Program, Programs, floats

_FUNCTIONS = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "tan": np.tan, "expm1": np.expm1, "log1p": np.log1p, "rsqrt": lambda v: 1 / np.sqrt(v),
    "sign": lambda v: v / abs(v),
}  # fmt: skip


def programs() -> list[Program]:
    """Made again at each call, with further numbers of those that all rows share."""
    return [*_of("f32", np.complex64, np.float32), *_of("f64", np.complex128, np.float64)]


def _of(kind: str, dtype: type, real: type) -> Programs:
    programs = Programs()
    x = (floats(real) + 1j * floats(real)).astype(dtype)
    y = (floats(real, 1, 3) + 1j * floats(real, 1, 3)).astype(dtype)
    wide = x.astype(np.complex128), y.astype(np.complex128)

    def add(op: str, inputs: list[np.ndarray], want: np.ndarray, stored: type, **more) -> None:
        operands = ", ".join(("%x", "%y")[: len(inputs)])
        line = f"%r = complex.{op} {operands} : complex<{kind}>"
        programs.each(
            f"complex_{op}_{kind}", f"complex.{op} {kind}", line, inputs, want, stored=stored, **more
        )

    for op, function in {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}.items():
        add(op, [x, y], function(*wide), dtype, tolerance_ulp=4)
    for op, function in {"neg": np.negative, "conj": np.conj}.items():
        add(op, [x], function(x), dtype)
    for op, function in _FUNCTIONS.items():
        add(op, [x], function(wide[0]), dtype, tolerance_ulp=16)
    add("pow", [x, y], np.power(*wide), dtype, tolerance_ulp=64)
    for op, function in {"abs": np.abs, "angle": np.angle}.items():
        add(op, [x], function(wide[0]), real, tolerance_ulp=4)
    full = f"complex<{kind}>"
    line = (
        f"%a = complex.re %x : {full}\n    %b = complex.im %x : {full}\n"
        f"    %r = complex.create %b, %a : {full}"
    )
    swapped = (x.imag + 1j * x.real).astype(dtype)
    programs.each(f"complex_parts_{kind}", f"complex.re, im, create {kind}", line, [x], swapped)
    for op, function in {"eq": np.equal, "neq": np.not_equal}.items():
        other = np.where(np.arange(COUNT) % 2, x, y).astype(dtype)
        add(op, [x, other], function(x, other), np.bool_)
    return programs
