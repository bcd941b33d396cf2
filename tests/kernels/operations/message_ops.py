# ruff: noqa: E501 — kernel text reads better unbroken
"""Programs of the gpu dialect that print, and of assertions."""

from __future__ import annotations

import numpy as np
from kernels.program import Program, Programs


def programs() -> list[Program]:
    """Those of what they print, and of assertions."""
    kinds = [
        ("i32", "%d", "-7", np.int32(-7)), ("i64", "%ld", "-5000000000", np.int64(-5_000_000_000)),
        ("i16", "%d", "-3", np.int16(-3)), ("i8", "%d", "-5", np.int8(-5)), ("f32", "%.3f", "1.500", np.float32(1.5)),
        ("f64", "%.3f", "2.250", np.float64(2.25)), ("f16", "%.2f", "0.50", np.float16(0.5)),
        ("index", "%lu", "12", np.uint64(12)), ("i1", "%d", "1", np.bool_(True)),
    ]  # fmt: skip
    programs = Programs()
    for kind, form, said, value in kinds:
        programs.add(
            name=f"gpu_printf_{kind}",
            op=f"gpu.printf {kind}",
            body=f'gpu.printf "<{form}>\\0A", %v : {kind}',
            args={"v": value},
            expect={},
            block=1,
            prints=f"<{said}>\n",
        )
    return [
        *programs,
        Program(
            name="gpu_printf_none",
            op="gpu.printf without arguments",
            body='gpu.printf "100%% plain\\0A"',
            args={},
            expect={},
            block=1,
            prints="100% plain\n",
        ),
        Program(
            name="gpu_printf_bf16",
            op="gpu.printf bf16",
            body='%b = arith.truncf %v : f32 to bf16\n    gpu.printf "<%.2f>\\0A", %b : bf16',
            args={"v": np.float32(1.5)},
            expect={},
            block=1,
            prints="<1.50>\n",
        ),
        Program(
            name="gpu_printf_many",
            op="gpu.printf, several arguments",
            body='gpu.printf "%d %f %ld %g\\0A", %a, %b, %c, %d : i32, f32, i64, f64',
            args={"a": np.int32(1), "b": np.float32(2.5), "c": np.int64(3), "d": np.float64(0.25)},
            expect={},
            block=1,
            prints="1 2.500000 3 0.25\n",
        ),
        Program(
            name="gpu_printf_narrow",
            op="gpu.printf, narrow arguments beside each other",
            body="%h = arith.truncf %d : f32 to f16\n"
            '    gpu.printf "%d %d %d %.1f %d\\0A", %a, %b, %c, %h, %a : i8, i16, i1, f16, i8',
            args={"a": np.int8(-5), "b": np.int16(-300), "c": np.bool_(True), "d": np.float32(0.5)},
            expect={},
            block=1,
            prints="-5 -300 1 0.5 -5\n",
        ),
        Program(
            name="cf_assert",
            op="cf.assert that holds",
            body='%p = arith.cmpi ult, %t, %k : index\n    cf.assert %p, "in range"\n'
            "    memref.store %t, %out[%i] : memref<?xindex>",
            args={"k": np.uint64(40), "out": np.zeros(32, np.uint64)},
            expect={"out": np.arange(32, dtype=np.uint64)},
        ),
    ]
