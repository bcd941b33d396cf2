"""Layout: where every file of a build lies. Others script against the public part (README)."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from gpubuild.model.digest import digest_bytes
from gpubuild.model.project import Product, Program
from gpubuild.support.frozen import frozen
from gpubuild.support.text import shown_path
from gpubuild.targets.registry import vendor

PLACES = "places.txt"  # beside the texts of a source: which lines operations are from
_LONGEST_NAME = 100  # module and target together, with suffixes, stay below the usual 255 bytes
_KEPT_OF_LONG_NAME = 80
_AFFIXES = {
    Product.EXECUTABLE: ("", ""),
    Product.SHARED: ("lib", ".so"),
    Product.STATIC: ("lib", ".a"),
    Product.OBJECT: ("", ".o"),
}


@frozen
class Layout:
    """Paths under one build folder. ``root`` is the project's folder; both are absolute."""

    root: Path
    build_dir: Path

    @property
    def private(self) -> Path:
        """gpubuild's own folder: state, scratch, files shared by programs."""
        return self.build_dir / ".gpubuild"

    @property
    def state_file(self) -> Path:
        """The record of the last build."""
        return self.private / "state.json"

    @property
    def tools_memo(self) -> Path:
        """Memorised digests of tools, keyed by their stat data."""
        return self.private / "tools.json"

    @property
    def lock_file(self) -> Path:
        """Held by the one build that may write here."""
        return self.private / "lock"

    @property
    def work(self) -> Path:
        """Private folders of steps that run."""
        return self.private / "work"

    @property
    def sources(self) -> Path:
        """Files made of single sources."""
        return self.private / "sources"

    @property
    def generated(self) -> Path:
        """Sources made by commands of ``generate:``."""
        return self.private / "generated"

    @property
    def runtime_archive(self) -> Path:
        """``libgpubuild_rt.a``."""
        return self.private / "runtime" / "libgpubuild_rt.a"

    def program_dir(self, program: str) -> Path:
        """Return the folder of a program's artefacts."""
        return self.build_dir / file_name(program)

    def product(self, program: Program) -> Path:
        """Return the executable, library or object that a program is linked into."""
        prefix, suffix = _AFFIXES[program.product]
        return self.program_dir(program.name) / f"{prefix}{file_name(program.name)}{suffix}"

    def interface_files(self, program: str) -> dict[str, Path]:
        """Return the files for callers of a library: ``header``, Python ``module`` and their ``object``."""
        folder, name = self.program_dir(program), file_name(program)
        return {
            "header": folder / f"{name}.h",
            "module": folder / f"{name}.py",
            "object": folder / f"{name}.interface.o",
        }

    def source_dir(self, source: Path, variant: str = "") -> Path:
        """Return the folder of files made of one source, shared by the programs that use it.

        ``variant`` tells apart different treatments of the same file (``Program.outlining``).
        """
        slug = self.source_slug(source)
        if variant:
            slug += "." + digest_bytes(variant.encode())[:12]
        return self.sources / slug

    def places_file(self, source: Path, variant: str = "") -> Path:
        """Return the file that maps operations to lines of ``source``; the runtime knows this path, too."""
        return self.source_dir(source, variant) / PLACES

    def owns(self, path: Path) -> bool:
        """Whether ``path`` is in the build folder by itself: no link, and not behind one."""
        if self.build_dir not in path.parents or ".." in path.parts or path.is_symlink():
            return False
        return path.parent.resolve() == self.build_dir.resolve() / path.parent.relative_to(self.build_dir)

    def source_slug(self, source: Path) -> str:
        """Return a file name for a source: readable, and unique because the path is escaped or hashed."""
        shown = self.shown(source)
        if len(shown) < 120 and not Path(shown).is_absolute() and ".." not in shown:
            return file_name(shown)
        return f"{digest_bytes(shown.encode())[:16]}-{re.sub(r'[^A-Za-z0-9_.-]', '_', source.name)[-80:]}"

    def shown(self, path: Path) -> str:
        """Return ``path``, relative to the project if it is in it: the same text in every checkout."""
        return shown_path(path, self.root)

    def object_files(
        self,
        program: str,
        module: str,
        target: str,
        kind: str,
        *,
        relocatable: bool = False,
        assembly: bool = True,
    ) -> dict[str, Path]:
        """Return a step's outputs: ``llvm``, ``object``, ``info``; if wanted, ``asm`` and ``device``."""
        suffixes = vendor(kind)
        folder, stem = self.program_dir(program), f"{file_name(module)}.{file_name(target)}"
        files = {
            "llvm": folder / f"{stem}.ll",
            "object": folder / f"{stem}.{suffixes.object_suffix}",
            "info": folder / f"{stem}.json",
        }
        if assembly:
            files["asm"] = folder / f"{stem}.{suffixes.asm_suffix}"
        if relocatable:
            files["device"] = folder / f"{stem}.{suffixes.relocatable_suffix}"
        return files

    def binary_file(self, program: str, module: str) -> Path:
        """Return the file of the module's ``gpu.binary``."""
        return self.program_dir(program) / f"{file_name(module)}.binary.mlir"

    def images_file(self, program: str, module: str) -> Path:
        """Return the object with the module's images, which is linked."""
        return self.program_dir(program) / f"{file_name(module)}.images.o"

    def host_file(self, program: str, stem: str, suffix: str) -> Path:
        """Return ``host.mlir|ll|o``; of several MLIR sources, ``host.<stem>.…`` for each of them."""
        name = f"host.{file_name(stem)}" if stem else "host"
        return self.program_dir(program) / f"{name}.{suffix}"


@lru_cache(maxsize=4096)
def file_name(name: str) -> str:
    """Return ``name`` as a path component: letters, digits, ``_-~`` and inner dots stay, others are %XX.

    Names too long for a file system are cut, and told apart by a digest.
    """
    escaped = quote(name, safe="")
    if len(escaped) > _LONGEST_NAME:
        # `%-` is no escape, so no shorter name comes out like this.
        escaped = f"{escaped[:_KEPT_OF_LONG_NAME]}%-{digest_bytes(name.encode())[:16]}"
    return "%2E" + escaped[1:] if escaped.startswith(".") else escaped
