"""The numbers in image_layout.py are those of runtime/cpu/cpu_image.h, as a C compiler sees them."""

import re
from pathlib import Path

import pytest

import gpubuild
from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.kernel_facts import Tier

HEADER = (Path(gpubuild.__file__).parent / "runtime" / "cpu" / "cpu_image.h").read_text()
SIZES = {"uint32_t": 4, "uint64_t": 8, "int64_t": 8}


def offsets(struct: str) -> dict[str, int]:
    """Byte offset of each field of a struct of integers, pointers and arrays of integers."""
    body = re.sub(
        r"/\*.*?\*/", "", re.search(rf"struct {struct} {{(.*?)\n}}", HEADER, re.DOTALL)[1], flags=re.DOTALL
    )
    at, found = 0, {}
    for field in filter(None, (f.strip() for f in re.sub(r"\([^()]*\);", ";", body).split(";"))):
        pointer = "*" in field
        size = 8 if pointer else SIZES[field.split()[0]]
        count = int(m[1]) if (m := re.search(r"\[(\d+)\]", field)) else 1
        at = (at + size - 1) // size * size
        found[re.search(r"(\w+)(?:\[\d+\])?\)?$", field)[1]] = at
        at += size * count
    found["sizeof"] = (at + 7) // 8 * 8
    return found


@pytest.mark.parametrize(("struct", "prefix"), [("gb_cpu_item", "ITEM_"), ("gb_cpu_launch_info", "LAUNCH_")])
def test_struct_offsets(struct, prefix):
    expected = {k.upper(): v for k, v in offsets(struct).items()}
    ours = {k.removeprefix(prefix): v for k, v in vars(image_layout).items() if k.startswith(prefix)}
    ours["SIZEOF"] = ours.pop("BYTES", expected["SIZEOF"])
    assert ours == {k: expected[k] for k in ours}
    assert set(expected) - set(ours) <= {"RESERVED"}


def test_image_offsets_and_services():
    assert offsets("gb_cpu_image")["services"] == image_layout.IMAGE_SERVICES
    services = offsets("gb_cpu_services")
    services.pop("sizeof")
    ours = {
        k.removeprefix("SERVICE_").lower(): 8 * v
        for k, v in vars(image_layout).items()
        if k.startswith("SERVICE_")
    }
    assert ours == services


def test_constants():
    constants = {
        k: int(v.rstrip("u"), 0)
        for k, v in re.findall(r"#define GB_CPU_(\w+) (0?x?[0-9A-Fa-f]+u?)\b", HEADER)
    }
    assert constants["IMAGE_MAGIC"] == image_layout.IMAGE_MAGIC
    assert constants["IMAGE_ABI"] == image_layout.IMAGE_ABI
    assert constants["MAX_BLOCK"] == image_layout.MAX_BLOCK
    assert constants["SUBGROUP"] == image_layout.SUBGROUP
    operations = {k: int(v) for k, v in re.findall(r"GB_CPU_(\w+) = (\d+)", HEADER)}
    ours = dict(image_layout.LaneOp.__members__)
    assert ours and ours == {name: operations[name] for name in ours}
    assert {tier.name: tier.value for tier in Tier} == {
        name.removeprefix("TIER_"): number for name, number in operations.items() if name.startswith("TIER_")
    }


def test_flags_of_kernels():
    flags = {k: int(v) for k, v in re.findall(r"#define GB_CPU_(KERNEL_\w+) (\d+)u", HEADER)}
    ours = {k: v for k, v in vars(image_layout).items() if k.startswith("KERNEL_")}
    assert ours == {k: flags[k] for k in ours}
    assert max(v for k, v in ours.items() if k != "KERNEL_STACK_SHIFT") < 1 << image_layout.KERNEL_STACK_SHIFT
    assert f"<< {image_layout.STACK_UNIT.bit_length() - 1})" in HEADER
