"""Programs of the complex dialect."""

from __future__ import annotations

import numpy as np
from kernels.program import COUNT, Program, each, floats

_FUNCTIONS = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "tan": np.tan, "expm1": np.expm1, "log1p": np.log1p, "rsqrt": lambda v: 1 / np.sqrt(v),
    "sign": lambda v: v / abs(v),
}  # fmt: skip


def programs() -> list[Program]:
    """Made anew at each call, with further numbers of those that all rows share."""
    programs = []
    for kind, dtype, real in (("f32", np.complex64, np.float32), ("f64", np.complex128, np.float64)):
        x = (floats(real) + 1j * floats(real)).astype(dtype)
        y = (floats(real, 1, 3) + 1j * floats(real, 1, 3)).astype(dtype)
        wide = x.astype(np.complex128), y.astype(np.complex128)
        full = f"complex<{kind}>"
        binary = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}
        for op, function in binary.items():
            line = f"%r = complex.{op} %x, %y : {full}"
            made = each(f"complex_{op}_{kind}", f"complex.{op} {kind}", line, [x, y], x, tolerance_ulp=4)
            made.expect["out"] = function(*wide)
            programs.append(made)
        for op, function in {"neg": np.negative, "conj": np.conj}.items():
            line = f"%r = complex.{op} %x : {full}"
            programs.append(each(f"complex_{op}_{kind}", f"complex.{op} {kind}", line, [x], function(x)))
        for op, function in _FUNCTIONS.items():
            line = f"%r = complex.{op} %x : {full}"
            made = each(
                f"complex_{op}_{kind}",
                f"complex.{op} {kind}",
                line,
                [x],
                x,
                tolerance_ulp=16,
            )
            made.expect["out"] = function(wide[0])
            programs.append(made)
        line = f"%r = complex.pow %x, %y : {full}"
        made = each(f"complex_pow_{kind}", f"complex.pow {kind}", line, [x, y], x, tolerance_ulp=64)
        made.expect["out"] = np.power(*wide)
        programs.append(made)
        for op, function in {"abs": np.abs, "angle": np.angle}.items():
            line = f"%r = complex.{op} %x : {full}"
            made = each(
                f"complex_{op}_{kind}",
                f"complex.{op} {kind}",
                line,
                [x],
                x.real.copy(),
                tolerance_ulp=4,
            )
            made.expect["out"] = function(wide[0])
            programs.append(made)
        line = (
            f"%a = complex.re %x : {full}\n    %b = complex.im %x : {full}\n"
            f"    %r = complex.create %b, %a : {full}"
        )
        swapped = x.imag + 1j * x.real
        programs.append(
            each(f"complex_parts_{kind}", f"complex.re, im, create {kind}", line, [x], swapped.astype(dtype))
        )
        for op, function in {"eq": np.equal, "neq": np.not_equal}.items():
            other = np.where(np.arange(COUNT) % 2, x, y).astype(dtype)
            line = f"%r = complex.{op} %x, %y : {full}"
            programs.append(
                each(f"complex_{op}_{kind}", f"complex.{op} {kind}", line, [x, other], function(x, other))
            )
    return programs
