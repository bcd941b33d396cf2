"""Offsets and numbers of runtime/cpu/cpu_image.h; a test compares the two files."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from gpubuild.targets.target import Sanitize

IMAGE_SYMBOL = "gpubuild_cpu_image"  # in images that clang-linker-wrapper links: .MODULE behind it
CHIP_MARK = "gpubuild.chip="
IMAGE_MAGIC = 0x55504342
IMAGE_ABI = 8
IMAGE_SERVICES = 8  # byte offset of the slot that the runtime fills

MAX_BLOCK = 1024  # work-items in a workgroup
SUBGROUP = 32
SHARED_ALIGNMENT = 64  # bytes

# struct gb_cpu_item, byte offsets
ITEM_THREAD_ID = 0
ITEM_BLOCK_DIM = 12
ITEM_BLOCK_ID = 24
ITEM_GRID_DIM = 36
ITEM_CLUSTER_DIM = 48
ITEM_LINEAR_ID = 60
ITEM_SHARED = 64
ITEM_DYNAMIC = 72
ITEM_DYNAMIC_BYTES = 80
ITEM_KERNEL = 88
ITEM_CONTEXTS = 96
ITEM_BYTES = 104

# struct gb_cpu_launch_info, byte offsets
LAUNCH_BLOCK_DIM = 0
LAUNCH_GRID_DIM = 12
LAUNCH_CLUSTER_DIM = 24
LAUNCH_DYNAMIC_BYTES = 36
LAUNCH_PARAMS = 40
LAUNCH_KERNEL = 48
LAUNCH_CACHE_BYTES = 56

# struct gb_cpu_services, index of each function pointer
SERVICE_BARRIER = 0
SERVICE_CLUSTER_BARRIER = 1
SERVICE_LANES = 2
SERVICE_PRINT = 3
SERVICE_ASSERT_FAIL = 4
SERVICE_TIME_NS = 5
SERVICE_CHECK_BOUNDS = 6
SERVICE_CHECK_VIEW = 7
SERVICE_CHECK_ACCESS = 8
SERVICE_CHECK_MEET = 9
SERVICE_DIVERGED = 10
SERVICE_CHECK_WAIT = 11


class LaneOp(IntEnum):
    """Values are those of ``enum gb_cpu_lane_op``."""

    SHUFFLE_UP = 0
    SHUFFLE_DOWN = 1
    SHUFFLE_XOR = 2
    SHUFFLE_INDEX = 3
    VOTE_ALL = 4
    VOTE_ANY = 5
    VOTE_UNIFORM = 6
    VOTE_BALLOT = 7
    MATCH_ANY = 8
    MATCH_ALL = 9
    LANE_SYNC = 10
    ELECT = 11
    REDUCE_ADD = 12
    REDUCE_AND = 13
    REDUCE_OR = 14
    REDUCE_XOR = 15
    REDUCE_MIN = 16
    REDUCE_MAX = 17
    REDUCE_UMIN = 18
    REDUCE_UMAX = 19


# Flags of a kernel
KERNEL_CLUSTER_BARRIER = 1
KERNEL_CHECK_BOUNDS = 2
KERNEL_CHECK_RACE = 4
KERNEL_CHECK_BARRIER = 8
KERNEL_CHECK_UNINITIALIZED = 16
KERNEL_CHECK_HOST_MEMORY = 32
KERNEL_STACK_SHIFT = 8  # position of the stack's size above the flags, in units of
STACK_UNIT = 1 << 16  # bytes

# enum gb_check_mode
CHECK_READ = 0
CHECK_WRITE = 1
CHECK_ATOMIC = 2
CHECK_UNKNOWN = 3
CHECK_NO_RACE = 4
CHECK_INITIALIZED = 8

# Called by fissioned code with x, y, z and the linear id, before code that reads its work-item's record
PLACE_ITEM = "gpubuild.place_item"
# Called by fissioned code with a byte for each work-item, where only some of them reach a barrier
DIVERGED = "gpubuild.diverged"

# Called by checked code (engine.backends.cpu.sanitizer.instrument)
CHECK_BOUNDS = "gpubuild.check_bounds"
CHECK_VIEW = "gpubuild.check_view"
CHECK_ACCESS = "gpubuild.check_access"
CHECK_MEET = "gpubuild.check_meet"
CHECK_WAIT = "gpubuild.check_wait"
CHECK_BARRIER = "gpubuild.check_barrier"
CHECK_DYNAMIC_BYTES = "gpubuild.check_dynamic_bytes"


def check_flags(sanitize: Iterable[Sanitize]) -> int:
    """Return the flags of a kernel that is compiled with these checks."""
    flags = {
        Sanitize.BOUNDS: KERNEL_CHECK_BOUNDS,
        Sanitize.RACE: KERNEL_CHECK_RACE,
        Sanitize.BARRIER: KERNEL_CHECK_BARRIER,
        Sanitize.UNINITIALIZED: KERNEL_CHECK_UNINITIALIZED,
        Sanitize.HOST_MEMORY: KERNEL_CHECK_HOST_MEMORY,
    }
    return sum(flags[kind] for kind in set(sanitize))
