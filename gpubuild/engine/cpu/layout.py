"""Layout: offsets and numbers of runtime/cpu_image.h, which a test compares with this file."""

from __future__ import annotations

IMAGE_SYMBOL = "gpubuild_cpu_image"
IMAGE_MAGIC = 0x55504342
IMAGE_ABI = 2
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
ITEM_SLOTS = 96
ITEM_BYTES = 104

# struct gb_cpu_launch_info, byte offsets
LAUNCH_BLOCK_DIM = 0
LAUNCH_GRID_DIM = 12
LAUNCH_CLUSTER_DIM = 24
LAUNCH_DYNAMIC_BYTES = 36
LAUNCH_PARAMS = 40
LAUNCH_KERNEL = 48

# struct gb_cpu_services, index of each function pointer
SERVICE_BARRIER = 0
SERVICE_CLUSTER_BARRIER = 1
SERVICE_LANES = 2
SERVICE_PRINT = 3
SERVICE_ASSERT_FAIL = 4
SERVICE_TIME_NS = 5

# enum gb_cpu_lane_op
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

KERNEL_CLUSTER_BARRIER = 1

# Called by fissioned code with x, y, z and the linear id, before code that looks at its work-item
PLACE_ITEM = "gpubuild.place_item"
