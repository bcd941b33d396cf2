"""Host options: how C and C++ sources are compiled, as ``host:`` of a project or a program says."""

from __future__ import annotations

from collections.abc import Sequence

from gpubuild.frozen import frozen

# What a driver would take for more than the beginning of a folder's name: `-I=dir` is in the sysroot.
_NOT_A_FOLDER = ("=", "$", "-")


@frozen
class CompilerOptions:
    """What goes with sources of one language.

    ``include`` are folders, relative to the project's or absolute; ``define`` are ``NAME`` or ``NAME=value``.
    """

    std: str = ""
    include: tuple[str, ...] = ()
    define: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


@frozen
class HostOptions:
    """``host:``. A macro without a value is ``None``; its order is that of the file."""

    include: tuple[str, ...] = ()
    define: tuple[tuple[str, str | None], ...] = ()
    c_std: str = ""
    cxx_std: str = ""
    c_flags: tuple[str, ...] = ()
    cxx_flags: tuple[str, ...] = ()

    def over(self, base: HostOptions) -> HostOptions:
        """These options of a program, and ``base``, those of its project.

        Its folders are searched first, its macros and standards replace, its flags come last.
        """
        return HostOptions(
            include=tuple(dict.fromkeys((*self.include, *base.include))),
            define=tuple({**dict(base.define), **dict(self.define)}.items()),
            c_std=self.c_std or base.c_std,
            cxx_std=self.cxx_std or base.cxx_std,
            c_flags=(*base.c_flags, *self.c_flags),
            cxx_flags=(*base.cxx_flags, *self.cxx_flags),
        )

    def of(self, *, cxx: bool) -> CompilerOptions:
        """What goes with C sources, or with C++ sources."""
        return CompilerOptions(
            std=self.cxx_std if cxx else self.c_std,
            include=self.include,
            define=tuple(name if value is None else f"{name}={value}" for name, value in self.define),
            flags=self.cxx_flags if cxx else self.c_flags,
        )


NO_OPTIONS = HostOptions()


def search_arguments(include: Sequence[str], define: Sequence[str]) -> list[str]:
    """Folders and macros on a command line that runs in the project's folder."""
    folders = (f"./{name}" if name.startswith(_NOT_A_FOLDER) else name for name in include)
    return [*(f"-I{name}" for name in folders), *(f"-D{text}" for text in define)]


def language_arguments(std: str, flags: Sequence[str]) -> list[str]:
    """The standard and the flags on a command line."""
    return [*([f"-std={std}"] if std else []), *flags]


def about_warnings(flags: Sequence[str]) -> bool:
    """Whether the flags say which warnings there are, or that they are errors."""
    return any(flag.startswith(("-W", "-pedantic")) or flag == "-w" for flag in flags)
