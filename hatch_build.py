"""Build hook of wheels: adds the runtime library, compiled for the machine of the wheel.

``GPUBUILD_WHEEL`` names another machine than this one, or ``any``: such a wheel, like an editable
installation, compiles the library where it is used.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class RuntimeHook(BuildHookInterface):
    """Puts the archive into the wheel and the machine into its name."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the library, unless this is an editable installation or a wheel for any machine."""
        sys.path.insert(0, self.root)
        from gpubuild.toolchain import runtime_library

        native = platform.machine() if platform.libc_ver()[0] == "glibc" else "any"
        machine = os.environ.get("GPUBUILD_WHEEL", native)
        if version == "editable" or machine not in runtime_library.MACHINES:
            return
        self._scratch = TemporaryDirectory()
        archive = runtime_library.build(machine, Path(self._scratch.name))
        build_data["force_include"][str(archive)] = (
            f"gpubuild/runtime/prebuilt/{archive.relative_to(self._scratch.name)}"
        )
        build_data["tag"] = f"py3-none-manylinux_{runtime_library.GLIBC.replace('.', '_')}_{machine}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Delete the compiled library, which is in the wheel."""
        if scratch := getattr(self, "_scratch", None):
            scratch.cleanup()
