"""NVIDIA: what only PTX text calls (``simulators.ptx``), of ``nvidia_ptx.c`` and ``nvidia_real.c``."""

from __future__ import annotations

EXTERNALS = """
declare ptr @nv_address(i64, i32)
declare ptr @nv_shared_address(i64, i32)
declare void @nv_trap()
declare void @nv_exit()
declare i32 @nv_bfind(i64, i32, i32, i32)
declare i64 @nv_bfe(i64, i32, i32, i32, i32)
declare i64 @nv_bfi(i64, i64, i32, i32, i32)
declare i32 @nv_prmt(i32, i32, i32, i32)
declare i32 @nv_lop3(i32, i32, i32, i32)
declare i32 @nv_fns(i32, i32, i32)
declare i32 @nv_dot(i32, i32, i32, i32, i32)
declare double @nv_widen(i32, i32)
declare i32 @nv_narrow(double, i32, i32, i32)
declare double @nv_round(double, i32)
declare i32 @nv_flush(i32)
declare i64 @nv_convert_to_integer(double, i32, i32, i32, i32)
declare double @nv_integer_to_double(i64, i32, i32)
declare i32 @nv_arith_small(i32, i32, i32, i32, i32, i32)
declare i32 @nv_approximate_small(i32, i32, i32, i32)
declare float @nv_extreme_f(i32, i32, float, float)
declare double @nv_extreme_d(i32, i32, double, double)
declare float @nv_divide_coarsely(float, float, i32, i32)
"""
