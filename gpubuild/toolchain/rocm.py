"""ROCm: where its device libraries (ocml, ockl and their control constants) lie."""

from __future__ import annotations

from pathlib import Path

_NEEDED = ("ocml.bc", "ockl.bc")
_BELOW_ROCM = ("amdgcn/bitcode", "lib/llvm/lib/clang/*/amdgcn/bitcode")
# Debian and Ubuntu have had both of the latter places.
_SYSTEM = (
    "opt/rocm/amdgcn/bitcode",
    "opt/rocm/lib/llvm/lib/clang/*/amdgcn/bitcode",
    "usr/lib/*-linux-gnu/amdgcn/bitcode",
    "usr/lib/llvm-*/lib/clang/*/amdgcn/bitcode",
)


def find_device_libraries(rocm_path: Path | None, *, root: Path = Path("/")) -> tuple[Path | None, str, str]:
    """The folder of ``.bc`` files, ROCm's version when it says so, and what is wrong if there is none.

    A ROCM_PATH without the libraries is reported, never passed over: the user named it.
    """
    base, patterns = (rocm_path, _BELOW_ROCM) if rocm_path else (root, _SYSTEM)
    for pattern in patterns:
        # The newest of several LLVM versions last in text order is near enough; it is shown by doctor.
        for folder in sorted(base.glob(pattern), reverse=True):
            if all((folder / name).is_file() for name in _NEEDED):
                return folder, _version(rocm_path or root / "opt/rocm", folder), ""
    if rocm_path:
        return None, "", f"ROCM_PATH is {rocm_path}, which has no amdgcn/bitcode with ocml.bc and ockl.bc"
    return None, "", "no folder amdgcn/bitcode with ocml.bc and ockl.bc in /opt/rocm or /usr/lib"


def looked_at(rocm_path: Path | None, *, root: Path = Path("/")) -> set[Path]:
    """Every path whose appearance or disappearance can change :func:`find_device_libraries`' answer."""
    base, patterns = (rocm_path, _BELOW_ROCM) if rocm_path else (root, _SYSTEM)
    seen = {(rocm_path or root / "opt/rocm") / ".info/version"}
    for pattern in patterns:
        folders = {base}
        for part in pattern.split("/"):
            if "*" in part:
                seen |= folders  # their stat data tell of new entries
                folders = {p for folder in folders for p in folder.glob(part)}
            else:
                below = {folder / part for folder in folders}
                folders = {p for p in below if p.is_dir()}
                seen |= below - folders
        seen.update(folder / name for folder in folders for name in _NEEDED)
    return seen


def library_files(folder: Path) -> list[Path]:
    """Every library of the folder that a kernel can come to be linked with, by name."""
    return sorted(p for p in folder.glob("*.bc") if p.name.startswith(("oc", "hip")))


def _version(rocm: Path, folder: Path) -> str:
    try:
        text = (
            (rocm / ".info/version").read_text(encoding="utf-8").strip()
            if folder.is_relative_to(rocm)
            else ""
        )
    except (OSError, UnicodeDecodeError):
        return ""
    return text.splitlines()[0] if text else ""
