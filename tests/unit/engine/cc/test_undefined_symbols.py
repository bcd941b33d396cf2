"""Errors for symbols, libraries and flags that linkers complain about."""

import pytest

from gpubuild.engine.cc.link import link_error, undefined_hint

GNU = """/usr/bin/ld: object0.o: in function `run':
(.text+0x15): undefined reference to `_mlir_ciface_frame'
/usr/bin/ld: (.text+0x25): undefined reference to `n::area(int, char const*)'
/usr/bin/ld: (.text+0x25): undefined reference to `_mlir_ciface_frame'
collect2: error: ld returned 1 exit status
"""
LLD = """ld.lld: error: undefined symbol: _mlir_ciface_frame
>>> referenced by object0.o
ld.lld: error: undefined symbol: n::area(int, char const*)
"""


@pytest.mark.parametrize("output", [GNU, LLD])
def test_names_are_found_once(output: str) -> None:
    message = link_error(output, "").message
    assert message == "cannot link: nothing defines _mlir_ciface_frame, n::area(int, char const*)"


def test_long_lists_are_cut() -> None:
    output = "".join(f"ld.lld: error: undefined symbol: f{n}\n" for n in range(10, 21))
    assert link_error(output, "").message.endswith("f17 and 3 more")


@pytest.mark.parametrize(
    ("symbol", "advice"),
    [
        ("main", "int main(void)"),
        ("_mlir_ciface_frame", "llvm.emit_c_interface"),
        ("area", "sources:"),
        ("mgpuCreateCoo", "cuSPARSE"),
    ],
)
def test_advice_fits_the_symbol(symbol: str, advice: str) -> None:
    assert advice in undefined_hint([symbol])


@pytest.mark.parametrize(
    ("output", "hint"),
    [
        ("/usr/bin/ld: cannot find -lnope: No such file or directory", "install the library nope, or"),
        ("ld.lld: error: unable to find library -lnope", "install the library nope, or"),
        (
            "error: unable to find dynamic system library 'nope' using strategy",
            "install the library nope, or",
        ),
        ("cc: error: unrecognized command-line option '--nope'", "correct `link: flags:`"),
        ("clang: error: unknown argument: '--nope'", "correct `link: flags:`"),
        ("ld: out of memory", ""),
    ],
)
def test_a_library_or_a_flag_that_the_linker_does_not_know(output: str, hint: str) -> None:
    error = link_error(output, output)
    assert error.message == "cannot link"
    assert error.hint.startswith(hint) if hint else not error.hint


@pytest.mark.parametrize(
    ("output", "name", "advice"),
    [
        ("ld: b.o: in `main':\n(.text+0x0): multiple definition of `main'; a.o: first", "main", "one main"),
        ("ld.lld: error: duplicate symbol: scale\n>>> defined at a.c\n", "scale", "rename"),
    ],
)
def test_symbols_defined_more_than_once(output: str, name: str, advice: str) -> None:
    error = link_error(output, "")
    assert error.message == f"cannot link: {name} is defined more than once"
    assert advice in error.hint


def test_a_folder_of_libraries_relative_to_the_project() -> None:
    output = "/usr/bin/ld: cannot find -lx: No such file or directory"
    assert "list lib/libx.a under sources:" in link_error(output, "", ("-s", "-Llib")).hint
    assert link_error(output, "", ("-L/opt/lib",)).hint.startswith("install the library x")
