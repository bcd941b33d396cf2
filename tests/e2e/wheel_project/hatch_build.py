"""Compile the kernels of the package, and put the library and its Python module into the wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

import gpubuild


class Kernels(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        kernels = gpubuild.load(Path(self.root) / "kernels.mlir", targets=["sm_60", "cpu"])
        for file in (kernels.path, kernels.path.with_name("kernels.py")):
            build_data["force_include"][str(file)] = f"vectors/{file.name}"
        build_data["infer_tag"] = True
        build_data["pure_python"] = False
