"""Compile the stand-in of the CUDA driver: ``PYTHONPATH=tests python -m simulators.cuda_driver FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

from simulators.cuda_driver.standin import build

if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    build(folder)
