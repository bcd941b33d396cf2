"""Damaged files and answers at each entry point: a stated error or a result, nothing else.

GPUBUILD_TEST_UNTRUSTED (default 60; .ci/nightly sets more) is the number of cases for each entry.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from fuzz.untrusted import ENTRIES, accepted

CASES = int(os.environ.get("GPUBUILD_TEST_UNTRUSTED", "60"))


@pytest.mark.parametrize("name", ENTRIES)
def test_damage(name: str, tmp_path: Path) -> None:
    entry = ENTRIES[name]
    chance = random.Random(name)
    seeds = entry.seeds(tmp_path)
    whole = [accepted(entry, seed) for seed in seeds]
    assert any(whole), "the seeds do not get beyond the first check"
    results = set()
    for number in range(max(1, CASES // entry.share)):
        seed = chance.choice(seeds)
        damaged = chance.choice(entry.damages)(seed, chance)
        try:
            results.add(accepted(entry, damaged))
        except Exception:
            (tmp_path / "damaged").write_bytes(damaged)
            print(f"case {number}: {tmp_path / 'damaged'}: {damaged[:2000]!r}")
            raise
    assert False in results, "no damage was found"
