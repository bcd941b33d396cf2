"""Resources are read from what ptxas prints and from AMD's metadata."""

import json

from gpubuild.engine.backends.amd.compile import parse_assembly
from gpubuild.engine.backends.gpu_compile import KernelInfo, info_json
from gpubuild.engine.backends.nvidia.compile import parse_ptxas

PTXAS = """\
ptxas info    : 0 bytes gmem, 8 bytes cmem[4]
ptxas info    : Compiling entry function 'second' for 'sm_60'
ptxas info    : Function properties for second
    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 2048 bytes smem, 376 bytes cmem[0]
ptxas info    : Function properties for helper
    0 bytes stack frame, 99 bytes spill stores, 99 bytes spill loads
ptxas info    : Compiling entry function 'first' for 'sm_60'
ptxas info    : Function properties for first
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, 376 bytes cmem[0]
"""

AMD = """\
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .name:           not_a_kernel
        .offset:         0
    .group_segment_fixed_size: 128
    .name:           f
    .vgpr_count:     11
    .vgpr_spill_count: 3
  - .group_segment_fixed_size: 0
    .name:           'g h'
    .vgpr_count:     2
    .vgpr_spill_count: 0
amdhsa.target:   amdgcn-amd-amdhsa--gfx90a
...
\t.end_amdgpu_metadata
"""


def test_ptxas_output_in_the_order_asked_for() -> None:
    assert parse_ptxas(PTXAS, ["first", "second", "absent"]) == [
        KernelInfo(name="first", registers=8, shared_bytes=0, spill_bytes=0),
        KernelInfo(name="second", registers=255, shared_bytes=2048, spill_bytes=12),
        KernelInfo(name="absent"),
    ]


def test_amd_metadata() -> None:
    assert parse_assembly(AMD, ["f", "g h", "absent"]) == [
        KernelInfo(name="f", registers=11, shared_bytes=128, spill_bytes=12),
        KernelInfo(name="g h", registers=2, shared_bytes=0, spill_bytes=0),
        KernelInfo(name="absent"),
    ]


def test_json_names_what_is_unknown_null() -> None:
    document = json.loads(info_json([KernelInfo(name="f", registers=1)]))
    assert document == {
        "schema": 1,
        "kernels": [
            {
                "name": "f",
                "parameters": None,
                "registers": 1,
                "shared_bytes": None,
                "spill_bytes": None,
                "tier": None,
                "tier_reason": None,
            }
        ],
    }
