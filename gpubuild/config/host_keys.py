"""Host keys: what ``host:`` in targets.yaml may say of C and C++ sources, of all and of single ones."""

from __future__ import annotations

from gpubuild.config.spec import Either, Key, ListOf, Nothing, Number, Record, Table, Text, path_with

C_SUFFIXES = (".c",)
CXX_SUFFIXES = (".cpp", ".cc", ".cxx")

_STD = Text(
    what="a C or C++ standard",
    pattern=r"(c|gnu)(89|90|99|11|17|18|23|2x|\+\+(98|03|11|14|17|20|23|26|2a|2b|2c))",
    advice="write c11, gnu17, c++17 and the like",
)
_C_FLAGS = ListOf(
    item=Text(
        what="a compiler option",
        pattern=r"-[^\0\r\n]+",
        advice="each item is one option, beginning with '-', and joined to its value",
    )
)
# What sources of both languages have in common.
_SEARCH = {
    "include": Key(
        spec=ListOf(item=Text(what="a folder"), unique=True),
        help="Folders that #include looks in, in this order, relative to this file.",
        aka=("includes", "include_dirs", "include_directories", "includedirs", "inc", "i"),
    ),
    "define": Key(
        spec=Table(
            what="define",
            name=Text(
                what="a macro's name: letters, digits and '_', not a digit first",
                pattern=r"[A-Za-z_][A-Za-z0-9_]*",
            ),
            value=Either(
                options=(
                    Nothing(),
                    Number(),
                    Text(what="a macro's value, on one line", pattern=r"[^\0\r\n]*"),
                )
            ),
            empty=True,
        ),
        help="Macros: NAME: value, or NAME: with nothing behind it for 1.",
        aka=("defines", "definitions", "compile_definitions", "local_defines", "macros", "d"),
    ),
}
_STD_WORDS = ("standard", "c_std", "cpp_std", "cxx_std", "c_standard", "cxx_standard")
_FLAG_WORDS = ("cflags", "cxxflags", "copts", "compile_options", "options", "c_args", "cpp_args")

_SOURCE = Record(
    what="a source",
    keys={
        **_SEARCH,
        "std": Key(spec=_STD, help="Its language's standard, such as c11 or c++17.", aka=_STD_WORDS),
        "flags": Key(
            spec=_C_FLAGS, help="Further options of the compiler (-W…, -f…, -m…, -O…).", aka=_FLAG_WORDS
        ),
    },
)

HOST = Record(
    what="host",
    keys={
        **_SEARCH,
        "std": Key(
            spec=Either(options=(_STD, ListOf(item=_STD, min_items=1, unique=True))),
            help="The language's standard, such as c11 or c++17; a list for both languages.",
            aka=_STD_WORDS,
        ),
        "flags": Key(
            spec=Either(
                options=(
                    _C_FLAGS,
                    Record(
                        what="flags",
                        keys={
                            "c": Key(spec=_C_FLAGS, help="For C sources."),
                            "c++": Key(spec=_C_FLAGS, help="For C++ sources.", aka=("cpp", "cxx")),
                        },
                    ),
                )
            ),
            help="Further options of the compiler (-W…, -f…, -m…, -O…): a list, or lists by language.",
            aka=_FLAG_WORDS,
        ),
        "sources": Key(
            spec=Table(
                what="sources",
                name=path_with((*C_SUFFIXES, *CXX_SUFFIXES), "a C or C++ source"),
                value=_SOURCE,
                empty=True,
            ),
            help="The same for single sources, by the names they have under a program's `sources`; it goes "
            "before what is said for all.",
            aka=("source", "files", "file", "per_source"),
        ),
    },
)

# What other build tools call it, where they have it.
HOST_WORDS = (
    *("c", "cflags", "cxxflags", "copts", "compile", "compile_definitions", "compile_options", "define"),
    *("defines", "flags", "include", "include_dirs", "include_directories", "includes", "std"),
)
