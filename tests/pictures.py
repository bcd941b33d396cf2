"""Draw the pictures of the documentation, light and dark: ``python tests/pictures.py``. Needs Chromium.

Builds three examples twice, the second time with fast_math, and photographs the pages that gpubuild writes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs/images"
PROGRAMS = ["saxpy", "matmul", "reduction"]
# By name of the picture: what writes its page, the page, the window in pixels.
PAGES = {
    "graph": (["graph", "saxpy", "two_modules", "-o"], "graph.svg", "960,760"),
    "report": (["report", "-o"], "report.html", "1200,1150"),
}
SCHEMES = {"light": 1, "dark": 0}  # numbers of Blink's PreferredColorScheme


def gpubuild(folder: Path, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "gpubuild", *arguments], cwd=folder, check=True)


def main() -> None:
    """Write ``NAME-light.png`` and ``NAME-dark.png`` into docs/images."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "gpubuild"  # the title of the report
        shutil.copytree(ROOT / "examples", folder / "examples")
        shutil.copy(ROOT / "targets.yaml", folder)
        gpubuild(folder, "build", *PROGRAMS)
        gpubuild(folder, "build", "--set", "defaults.fast_math=true", *PROGRAMS)
        for picture, (arguments, page, size) in PAGES.items():
            gpubuild(folder, *arguments, page)
            for scheme, number in SCHEMES.items():
                output = IMAGES / f"{picture}-{scheme}.png"
                subprocess.run(
                    [
                        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                        f"--blink-settings=preferredColorScheme={number}", f"--window-size={size}",
                        f"--user-data-dir={name}/chromium", f"--screenshot={output}",
                        (folder / page).as_uri(),
                    ],
                    check=True,
                )  # fmt: skip


if __name__ == "__main__":
    main()
