"""Environment: the variables that gpubuild heeds. Nothing else reads the process's environment.

``settings`` gives them types and names; what must be quick (see ``receipt``) compares their texts.
"""

from __future__ import annotations

import os

# What decides which tools are found. Receipts hold these: a change of one of them voids the receipt.
OF_TOOLS = (
    "GPUBUILD_CC",
    "GPUBUILD_CXX",
    "GPUBUILD_PTXAS",
    "GPUBUILD_LIBDEVICE",
    "GPUBUILD_LLD",
    "GPUBUILD_CLANG_LINKER_WRAPPER",
    "ROCM_PATH",
    "CUDA_PATH",
    "PATH",
)


def whole() -> dict[str, str]:
    """Every variable as it is now."""
    return dict(os.environ)


def tool_variables() -> dict[str, str]:
    """The variables that decide which tools are found; those not set are left out."""
    return {name: os.environ[name] for name in OF_TOOLS if os.environ.get(name)}


def color() -> bool | None:
    """What NO_COLOR and FORCE_COLOR ask for; ``None``: as the terminal says."""
    if os.environ.get("NO_COLOR"):
        return False
    return True if os.environ.get("FORCE_COLOR") else None
