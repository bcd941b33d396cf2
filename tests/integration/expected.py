"""What each program prints, computed by NumPy: one line of this table for each .mlir file of this folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from integration.printed import AnyOrder, Printed

LANES = 32  # of a subgroup, on CPUs and NVIDIA's GPUs


def _count(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.int32)


def _square(n: int) -> np.ndarray:
    return _count(n) ** 2


def _mixed(n: int) -> np.ndarray:
    return _count(n) * 13 % 32


def _halves(n: int, first: int = 0) -> np.ndarray:
    return (np.arange(first, first + n) / 2).astype(np.float32)


def _place(rows: int, columns: int) -> np.ndarray:
    """Tens are the row, ones the column."""
    row, column = np.indices((rows, columns))
    return 10 * row + column


def _of_clusters(x: Callable[[np.ndarray], np.ndarray], y: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """A grid of 6 by 4 workgroups, two of which are a cluster, side by side."""
    row, column = np.indices((4, 6))
    return 10 * y(row) + x(column)


def _same(number: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda ids: np.full_like(ids, number)


def _in_pairs(combine: Callable[..., np.ndarray], size: int, stride: int, x: np.ndarray) -> np.ndarray:
    """What clusters of ``size`` work-items that stand ``stride`` apart reduce their numbers to."""
    grouped = x.reshape(-1, size, stride)
    return np.broadcast_to(combine(grouped, axis=1, keepdims=True), grouped.shape).reshape(-1)


_A = ((np.arange(256) % 7) - 3).reshape(16, 16).astype(np.float32)
_B = ((np.arange(256) % 5) - 2).reshape(16, 16).astype(np.float32)
_REST = (np.arange(256) % 7).reshape(16, 16).astype(np.float32)


def _furthest() -> np.ndarray:
    x = (_count(50) - 30) * _count(50)
    return np.full(50, x[np.argmax(abs(x))])


def _dynamic_memory() -> np.ndarray:
    following = np.roll(_mixed(32), -1)
    return following + following**2


def _returns() -> np.ndarray:
    x = _halves(32, -10)
    return np.where(x < 0, x, np.sqrt(abs(x)))


def _stored_matrix() -> np.ndarray:
    out = np.zeros((20, 32), np.float32)
    out[2:18, 8:24] = _REST
    return out


def _row_set() -> np.ndarray:
    out = np.full((4, 6), 3)
    out[2] = 7
    return out


def _to_bf16() -> np.ndarray:
    x = (1000 + np.arange(32)).astype(np.float32)
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def _complex_squares() -> np.ndarray:
    z = (_halves(8, -10) + 1j * np.arange(8)) ** 2
    return np.stack([z.real, z.imag]).astype(np.float32)


PRINTED: Mapping[str, Callable[[], Printed]] = {
    "affine.for": lambda: [np.tril(_count(64).reshape(8, 8)).sum(1)],
    "arith.truncf": lambda: [_to_bf16()],
    "async.execute": lambda: [6 * _count(16)],
    "cf.assert": lambda: [1000 - _square(32)],
    "complex.mul": lambda: [_complex_squares()],
    "func.call": lambda: [np.roll(_square(32), 1)],
    "gpu.all_reduce": lambda: [np.repeat(_mixed(200).reshape(2, 100).sum(1), 100) - _mixed(200)],
    "gpu.alloc": lambda: [_count(15).reshape(3, 5)],
    "gpu.barrier": lambda: [_square(32)[::-1]],
    "gpu.block_dim": lambda: [_count(20)],
    "gpu.block_id": lambda: [_place(2, 3)],
    "gpu.cluster_block_id": lambda: [_of_clusters(lambda x: x % 2, _same(0))],
    "gpu.cluster_dim": lambda: [_of_clusters(_same(3), _same(4))],
    "gpu.cluster_dim_blocks": lambda: [_of_clusters(_same(2), _same(1))],
    "gpu.cluster_id": lambda: [_of_clusters(lambda x: x // 2, lambda y: y)],
    "gpu.dealloc": lambda: [2 * _square(16)],
    "gpu.dynamic_shared_memory": lambda: [_dynamic_memory()],
    "gpu.func": lambda: [2 * _square(32)[::-1] + _square(32)],
    "gpu.global_id": lambda: [_count(21)],
    "gpu.grid_dim": lambda: [10 * _count(20) + _count(20) % 3],
    "gpu.host_register": lambda: [2 * _square(16)],
    "gpu.host_unregister": lambda: [2 * _square(16)],
    "gpu.lane_id": lambda: [_count(LANES).reshape(4, 8)],
    "gpu.launch": lambda: [100 + _place(3, 8) * 0.25],
    "gpu.launch_func": lambda: [2 * _count(16).reshape(2, 8)[:, ::-1].reshape(-1)],
    "gpu.memcpy": lambda: [_count(16).reshape(4, 4), _count(16).reshape(4, 4)[:, 2]],
    "gpu.memset": lambda: [_row_set()],
    "gpu.module": lambda: [2 * _count(16) + 100],
    "gpu.num_subgroups": lambda: [np.full(128, 128)],
    "gpu.printf": lambda: [
        AnyOrder([f"work-item {i}: twice {2 * i:.1f}, half {i / 2:.2f}" for i in range(5)])
    ],
    "gpu.return": lambda: [_returns()],
    "gpu.rotate": lambda: [np.pad(np.roll(_square(16), -3), (0, 16))],
    "gpu.set_default_device": lambda: [2 * _count(16)],
    "gpu.shuffle": lambda: [_square(32)[_count(32) ^ 5]],
    "gpu.subgroup_broadcast": lambda: [_square(32) + 7**2],
    "gpu.subgroup_id": lambda: [_count(128)],
    "gpu.subgroup_mma_compute": lambda: [_A @ _B + 1],
    "gpu.subgroup_mma_constant_matrix": lambda: [np.full((16, 16), 6.0)],
    "gpu.subgroup_mma_elementwise": lambda: [np.maximum(_REST - 3, 0)],
    "gpu.subgroup_mma_extract_thread_local": lambda: [_REST**2],
    "gpu.subgroup_mma_insert_thread_local": lambda: [_REST**2],
    "gpu.subgroup_mma_load_matrix": lambda: [_A.T @ _B],
    "gpu.subgroup_mma_store_matrix": lambda: [_stored_matrix()],
    "gpu.subgroup_reduce": lambda: [_in_pairs(np.sum, 8, 2, _square(32))],
    "gpu.subgroup_size": lambda: [np.ones(128, int)],
    "gpu.terminator": lambda: [np.where(_count(16) % 2, -_count(16), _count(16))],
    "gpu.thread_id": lambda: [_place(3, 4)],
    "gpu.wait": lambda: [2 * _count(16) + _square(16) + 100],
    "gpu.warp_execute_on_lane_0": lambda: [np.cumsum(_count(32))],
    "gpu.yield": lambda: [_furthest()],
    "index.ceildivs": lambda: [-(-_count(32) // 7)],
    "linalg.matmul": lambda: [_halves(24, -10).reshape(6, 4) @ _halves(20).reshape(4, 5) + 2],
    "math.exp": lambda: [np.exp(np.arange(32) / 2 - 5)],
    "memref.atomic_rmw": lambda: [np.bincount(_square(256) % 10, minlength=10)],
    "scf.parallel": lambda: [_place(6, 8)],
    "scf.while": lambda: [np.gcd(360360, 100 + _count(32))],
    "ub.poison": lambda: [2 * _square(32)],
    "vector.print": lambda: ["6", "( 8, 10, 12, 14 )"],
}
