"""Random kernels: none is wrong or reported; without a barrier, each wrong one is reported."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("checked_random.py")


def test_races_of_kernels_that_lack_a_barrier(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 66, done.stderr
    document = json.loads(done.stdout)
    reported = set(re.findall(r"check: data race in kernel @(\w+)", done.stderr))
    assert done.stderr.count(" in kernel @") == done.stderr.count("data race in kernel @")
    assert "last_" in reported
    reported.remove("last_")
    lacking = {name for name in document["names"] if name.endswith("_")}
    assert set(document["wrong"]) <= reported <= lacking
    assert len(reported) >= 4  # or the comparison says nothing
