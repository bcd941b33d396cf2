"""C sources: preprocessing, compiling, messages; with the system's compiler and with zig."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from unit.engine.steps import COMPILERS, Ran, Tools, failing_step, run_step, system_tools

from gpubuild.engine.cc import preprocess
from gpubuild.engine.cc.driver import parse_messages, run_driver
from gpubuild.engine.cc.preprocess import parse_depfile
from gpubuild.errors import InputChangedError, StepError
from gpubuild.model.digest import digest_bytes
from gpubuild.model.step import CcParams, PreprocessParams, RuntimeParams, StepKind

MAIN = """#include "sub/value.h" // a comment
#include <stddef.h>
const char *where(void) { return __FILE__; }
size_t value(void) {
    return VALUE;
}
"""
C = PreprocessParams(language="c", suffix=".i", source_name="src/main.c")
CC = CcParams(language="c", source_name="src/main.c")


@pytest.fixture(params=["system", "zig"])
def tools(request: pytest.FixtureRequest) -> Tools:
    return COMPILERS[request.param]()


def project(root: Path, main: str = MAIN, header: str = "#define VALUE 42\n") -> Path:
    (root / "src/sub").mkdir(parents=True)
    (root / "src/main.c").write_text(main)
    (root / "src/sub/value.h").write_text(header)
    return root / "src/main.c"


def preprocessed(work: Path, source: Path, tools: Tools, params: PreprocessParams = C) -> Ran:
    return run_step(work, StepKind.PREPROCESS, params, {"source": source}, ("text", "deps"), tools)


def compiled(work: Path, source: Path, tools: Tools, **options: Any) -> Ran:
    text = preprocessed(work / "pre", source, tools, replace(C, **options)).outputs["text"]
    inputs = {"text": text, "source": source}
    return run_step(work / "cc", StepKind.CC, replace(CC, **options), inputs, ("object",), tools)


def test_a_text_and_the_headers_that_it_is_made_of(tmp_path: Path, tools: Tools) -> None:
    source = project(tmp_path / "p")
    ran = preprocessed(tmp_path / "w1", source, tools)
    text = ran.text("text")
    assert "return 42;" in text
    assert '"src/main.c"' in text  # __FILE__ is relative to the project
    assert "comment" not in text and str(tmp_path) not in text
    assert not any(line.startswith("#") for line in text.splitlines())
    found = dict(ran.result.result.discovered)
    header = source.parent / "sub/value.h"
    assert found[str(header)] == digest_bytes(header.read_bytes())
    assert str(source) not in found  # it is a declared input
    assert any(Path(name).name == "stddef.h" for name in found)
    assert all(Path(name).is_absolute() for name in found)
    assert {"src/main.c", "src/sub/value.h"} <= set(json.loads(ran.text("deps")))
    edited = project(tmp_path / "elsewhere", main=MAIN.replace("// a comment", "/* another */"))
    assert preprocessed(tmp_path / "w2", edited, tools).text("text") == text


@pytest.mark.parametrize("debug", [False, True])
def test_objects_do_not_depend_on_folders(tmp_path: Path, tools: Tools, debug: bool) -> None:
    one = compiled(tmp_path / "w1", project(tmp_path / "p1"), tools, debug=debug)
    two = compiled(tmp_path / "longer/w2", project(tmp_path / "elsewhere/p"), tools, debug=debug)
    assert one.outputs == two.outputs
    data = one.outputs["object"]
    assert str(tmp_path).encode() not in data
    assert b"site-packages" not in data
    (tmp_path / "x.o").write_bytes(data)
    with (tmp_path / "x.o").open("rb") as stream:
        file = ELFFile(stream)
        assert file.has_dwarf_info(strict=True) == debug
        names = {s.name for s in file.get_section_by_name(".symtab").iter_symbols()}
        assert {"where", "value"} <= names
        assert not any("ubsan" in n for n in names)
        if debug:
            (unit,) = file.get_dwarf_info().iter_CUs()
            assert unit.get_top_DIE().attributes["DW_AT_name"].value == b"src/main.c"


def test_a_missing_header_is_located(tmp_path: Path, tools: Tools) -> None:
    source = project(tmp_path / "p", main='int x;\n#include "none.h"\n')
    error = failing_step(tmp_path / "w", StepKind.PREPROCESS, C, {"source": source}, ("text", "deps"), tools)
    assert error.message == "cannot preprocess src/main.c"
    assert str(error.diagnostics[0].location) == "src/main.c:2:10"
    assert error.diagnostics[0].source_line == '#include "none.h"'
    assert "folder of the including file" in error.hint


def compile_error(tmp_path: Path, tools: Tools, main: str, header: str = "#define VALUE 42\n") -> StepError:
    source = project(tmp_path / "p", main=main, header=header)
    text = preprocessed(tmp_path / "pre", source, tools).outputs["text"]
    inputs = {"text": text, "source": source}
    return failing_step(tmp_path / "cc", StepKind.CC, CC, inputs, ("object",), tools)


def test_a_mistake_points_into_the_users_file(tmp_path: Path, tools: Tools) -> None:
    error = compile_error(tmp_path, tools, MAIN.replace("return VALUE", "return VALEU"))
    assert error.message == "cannot compile src/main.c"
    assert (error.diagnostics[0].location.file, error.diagnostics[0].location.line) == ("src/main.c", 5)
    assert "VALEU" in error.diagnostics[0].message
    assert error.diagnostics[0].source_line == "    return VALEU;"
    assert "^" in error.render()


def test_a_mistake_in_a_header_points_there(tmp_path: Path, tools: Tools) -> None:
    error = compile_error(tmp_path, tools, MAIN, header="\n\nint x = ;\n#define VALUE 1\n")
    assert error.diagnostics[0].location.file == "src/sub/value.h"
    assert error.diagnostics[0].location.line == 3


def test_without_the_source_a_mistake_is_still_reported(tmp_path: Path, tools: Tools) -> None:
    error = failing_step(tmp_path, StepKind.CC, CC, {"text": "int x = y;\n"}, ("object",), tools)
    assert error.diagnostics[0].source_line == "int x = y;"


def test_what_only_the_back_end_notices_is_reported(tmp_path: Path, tools: Tools) -> None:
    error = compile_error(tmp_path, tools, 'void f(void) { __asm__("no_such_instruction"); }\n')
    assert "no_such_instruction" in error.render()


def test_warnings_are_kept_with_their_places(tmp_path: Path, tools: Tools) -> None:
    source = project(tmp_path / "p", main="int f(void) {\n    char *p = 0;\n    return &p == 5;\n}\n")
    ran = compiled(tmp_path / "w", source, tools)
    (warning,) = ran.result.result.warnings
    assert warning.startswith("src/main.c:3:")
    assert "warning: comparison between pointer and integer" in warning


def test_neither_the_clock_nor_the_time_of_the_file_reaches_objects(tmp_path: Path, tools: Tools) -> None:
    main = "const char *when[] = {__DATE__ __TIME__, __TIMESTAMP__};\n"
    ran = preprocessed(tmp_path / "w", project(tmp_path / "p", main=main), tools)
    assert ran.text("text").count("Jan  1 1970") == 1
    assert '"Thu Jan  1 00:00:00 1970"' in ran.text("text")
    assert ran.result.result.warnings == ()


def test_what_asks_the_compiler_for_its_place_is_told_the_users(tmp_path: Path, tools: Tools) -> None:
    """The preprocessor does not expand these, of which ``std::source_location`` consists."""
    main = "// a comment\n\nint line = __builtin_LINE();\nconst char *file = __builtin_FILE();\n"
    ran = compiled(tmp_path / "w", project(tmp_path / "p", main=main), tools)
    assert b"src/main.c\0" in ran.outputs["object"]
    assert b"source.i" not in ran.outputs["object"]
    elf = ELFFile(io.BytesIO(ran.outputs["object"]))
    (line,) = elf.get_section_by_name(".symtab").get_symbol_by_name("line")
    data = elf.get_section(line["st_shndx"]).data()
    assert int.from_bytes(data[line["st_value"] :][:4], "little") == 3


def test_sanitizers_report_the_users_places(tmp_path: Path) -> None:
    source = project(tmp_path / "p", main="\n\nint f(int a, int b) { return a / b; }\n")
    ran = compiled(tmp_path / "w", source, system_tools(), flags=("-fsanitize=undefined",))
    assert b"src/main.c\0" in ran.outputs["object"]


def test_a_warning_holds_while_its_file_is_as_it_was(tmp_path: Path, tools: Tools) -> None:
    header_text = "static int g(char *p) { return p == 42; }\n"
    main = '#include "sub/value.h"\nint f(char *p) { return g(p); }\n'
    source = project(tmp_path / "p", main=main, header=header_text)
    ran = compiled(tmp_path / "w", source, tools)
    assert ran.result.result.warnings
    files = (source, source.parent / "sub/value.h")
    assert dict(ran.result.result.discovered) == {str(f): digest_bytes(f.read_bytes()) for f in files}


def test_the_cpu_of_this_machine_reaches_neither_text_nor_objects(tmp_path: Path, tools: Tools) -> None:
    """No key covers it: another machine with the same cache could lack its instructions."""
    flags = Path("/proc/cpuinfo").read_text()
    if " avx " not in flags:
        pytest.skip("this machine has no instructions that are optional on x86-64")
    code = "#ifdef __AVX__\n#error of this machine\n#endif\nint f(void) { return 1; }\n"
    compiled(tmp_path / "c", project(tmp_path / "p", code), tools)
    library = run_step(tmp_path / "rt", StepKind.RUNTIME, RuntimeParams(), {"a.c": code}, ("archive",), tools)
    assert b"a.c.o" in library.outputs["archive"]


def test_a_source_that_is_called_like_an_option(tmp_path: Path, tools: Tools) -> None:
    (tmp_path / "p").mkdir()
    source = tmp_path / "p/-o.c"
    source.write_text("int f(void) { char *p = 0; return &p == 5; }\n")
    params = PreprocessParams(language="c", suffix=".i", source_name="-o.c")
    ran = preprocessed(tmp_path / "w", source, tools, params)
    assert "return &p" in ran.text("text")
    assert str(source) not in dict(ran.result.result.discovered)
    inputs = {"text": ran.outputs["text"], "source": source}
    done = run_step(tmp_path / "cc", StepKind.CC, replace(CC, source_name="-o.c"), inputs, ("object",), tools)
    assert "-o.c:1:" in done.result.result.warnings[0]


def test_a_source_outside_the_project_keeps_its_own_name(tmp_path: Path) -> None:
    assert preprocess.split_root(Path("/x/y/z.c"), "/x/y/z.c") == (Path("/x/y"), "z.c")
    assert preprocess.split_root(Path("/x/y/z.c"), "y/z.c") == (Path("/x"), "y/z.c")
    assert preprocess.split_root(Path("/x/y/z.c"), "") == (Path("/x/y"), "z.c")


def edit_while_preprocessing(
    monkeypatch: pytest.MonkeyPatch, edit: Callable[[int], object]
) -> Callable[[], int]:
    """Edit files after each run of the preprocessor; returns a counter of runs."""
    runs = 0

    def run(*args: object, **kwargs: object) -> object:
        nonlocal runs
        made = run_driver(*args, **kwargs)
        runs += 1
        edit(runs)
        return made

    monkeypatch.setattr(preprocess, "run_driver", run)
    return lambda: runs


def test_a_header_edited_meanwhile_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = project(tmp_path / "p")
    header = source.parent / "sub/value.h"
    other = "#define VALUE 43\n"
    runs = edit_while_preprocessing(monkeypatch, lambda run: run == 1 and header.write_text(other))
    ran = preprocessed(tmp_path / "w", source, COMPILERS["system"]())
    assert "return 43;" in ran.text("text")
    assert dict(ran.result.result.discovered)[str(header)] == digest_bytes(other.encode())
    assert runs() >= 2


def test_a_header_that_keeps_changing_stores_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = project(tmp_path / "p")
    header = source.parent / "sub/value.h"
    edit_while_preprocessing(monkeypatch, lambda run: header.write_text(f"#define VALUE {run}\n"))
    with pytest.raises(InputChangedError, match="keeps changing"):
        preprocessed(tmp_path / "w", source, COMPILERS["system"]())


def test_a_source_edited_meanwhile_stores_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = project(tmp_path / "p")
    edit_while_preprocessing(monkeypatch, lambda run: source.write_text("int other;\n"))
    with pytest.raises(InputChangedError, match="changed while the build was running"):
        preprocessed(tmp_path / "w", source, COMPILERS["system"]())


LEVEL = """#include <level.h>
#include <stdio.h>
#ifndef __OPTIMIZE__
#error not as it is compiled
#endif
#ifndef NDEBUG
int asserted;
#endif
#warning as ever
const char text[] = NAME;
int level(int n) {
    int unused;
    switch (n) {
    case 0: n = 1; /* fall through */
    default: return n + LEVEL + sizeof text;
    }
}
"""


def test_options_of_the_user(tmp_path: Path, tools: Tools) -> None:
    """Folders in order, macros and flags have effect; warnings are about the user's own files."""
    source = project(tmp_path / "p", main=LEVEL)
    for folder, text in (("=one", "#define LEVEL 1\n"), ("two", "#define LEVEL 2\n"), ("two/deep", "")):
        (tmp_path / "p" / folder).mkdir()
        (tmp_path / "p" / folder / "level.h").write_text(text)
    options = {
        "std": "gnu11",
        "include": ("=one", "two"),
        "define": ('NAME="a b"',),
        "flags": ("-Wall", "-Wextra", "-Wno-sign-compare"),
    }
    pre = preprocessed(tmp_path / "pre", source, tools, replace(C, **options))
    assert "return n + 1 + sizeof text" in pre.text("text")
    assert 'text[] = "a b"' in pre.text("text")
    assert "asserted" in pre.text("text")
    assert str(tmp_path / "p/=one/level.h") in dict(pre.result.result.discovered)
    assert [w.partition(": ")[2].partition(":")[0] for w in pre.result.result.warnings] == ["warning"]
    assert "src/main.c:9:2: warning: " in pre.result.result.warnings[0]

    inputs = {"text": pre.outputs["text"], "source": source}
    params = replace(CC, **options)
    ran = run_step(tmp_path / "cc", StepKind.CC, params, inputs, ("object",), tools)
    # The preprocessor's warning is not repeated, nor one for a comment that the text lacks.
    (warning,) = ran.result.result.warnings
    assert "src/main.c:12:9: warning: unused variable 'unused'" in warning

    params = replace(params, flags=(*params.flags, "-Werror"))
    inputs["source"].write_text(LEVEL.replace("#warning as ever", ""))
    error = failing_step(tmp_path / "cc2", StepKind.CC, params, inputs, ("object",), tools)
    assert [d.message.partition("'")[0] for d in error.diagnostics] == ["unused variable "]
    inputs["source"].write_text(LEVEL.replace("#warning as ever", "").replace("int unused;", ""))
    inputs["text"] = inputs["text"].replace(b"int unused;", b"")
    # The text has no comment about falling through.
    ran = run_step(tmp_path / "cc3", StepKind.CC, params, inputs, ("object",), tools)
    assert ran.result.result.warnings == ()


def test_a_wrong_flag_is_told_as_the_compiler_tells_it(tmp_path: Path, tools: Tools) -> None:
    source = project(tmp_path / "p")
    params = replace(C, flags=("-Wall", "-fno-such-thing"))
    inputs = {"source": source}
    error = failing_step(tmp_path / "w", StepKind.PREPROCESS, params, inputs, ("text", "deps"), tools)
    assert "-fno-such-thing" in error.output
    assert "`host:` in the project file gives these options: -Wall -fno-such-thing" in error.hint
    if "zig" not in tools["cc"][0]:
        # Warnings about options of other languages are shown, too.
        ran = preprocessed(tmp_path / "w2", source, tools, replace(C, flags=("-fno-rtti",)))
        (warning,) = ran.result.result.warnings
        assert warning.startswith("`host: flags:` in the project file: ")
        assert "-fno-rtti" in warning


# ---- messages of compilers ----


GCC = """In file included from main.c:1:
sub/h.h:3:12: error: unknown type name 'foo'
    3 | extern foo x;
      |            ^
main.c: In function 'main':
main.c:7:5: warning: implicit declaration of function 'f' [-Wimplicit-function-declaration]
    7 |     f();
main.c:2:9: note: declared here
compilation terminated.
main.c:9:10: fatal error: none.h: No such file or directory
"""


def lines(file: str, line: int) -> str:
    return f"<{file} {line}>"


def test_messages_keep_order_place_line_and_notes() -> None:
    header, warning, fatal = parse_messages(GCC, lines)
    assert (header.severity, str(header.location)) == ("error", "sub/h.h:3:12")
    assert header.message == "unknown type name 'foo'"
    assert header.source_line == "<sub/h.h 3>"
    assert warning.severity == "warning"
    (note,) = warning.notes
    assert (note.message, str(note.location)) == ("declared here", "main.c:2:9")
    assert (fatal.severity, fatal.message) == ("error", "none.h: No such file or directory")


def test_a_message_about_a_macro_of_an_option() -> None:
    text = "<command-line>: error: expected ';'\nmain.c:2:9: note: in expansion of macro 'X'\n"
    (error,) = parse_messages(text, lines)
    assert (error.severity, error.message, str(error.location)) == ("error", "expected ';'", "main.c:2:9")
    (other,) = parse_messages("<command-line>: warning: w\nmain.c:3:1: error: e\n", lines)
    assert (other.severity, other.message) == ("error", "e")


WIDE = "\t/* é 漢 */ return undeclared;"
GCC_WIDE = """a.c: In function 'f':
a.c:2:27: error: 'undeclared' undeclared (first use in this function)
    2 |         /* é 漢 */ return undeclared;
      |                           ^~~~~~~~~~
a.c:2:27: note: each undeclared identifier is reported only once
"""
OLD_GCC_WIDE = GCC_WIDE.replace("2:27", "2:22").replace("27", "22")
ZIG_WIDE = """a.c:2:22: error: use of undeclared identifier 'undeclared'
    2 |         /* é 漢 */ return undeclared;
      |                           ^~~~~~~~~~
1 error generated.
"""
BARE = "a.c:2:22: error: use of undeclared identifier 'undeclared'\n"


@pytest.mark.parametrize("text", [GCC_WIDE, OLD_GCC_WIDE, ZIG_WIDE, BARE])
def test_columns_are_characters_whatever_the_compiler_counts(text: str) -> None:
    """gcc since 11 counts a terminal's columns, others bytes."""
    (error,) = parse_messages(text, source_line=lambda file, line: WIDE)
    assert error.location.column == WIDE.index("undeclared") + 1


def test_a_caret_in_the_middle_of_a_range() -> None:
    text = 'a.c:1:12: error: no\n    1 | "é" a ~ + b;\n      |     ~~~~^~~\n'
    (error,) = parse_messages(text, source_line=lambda file, line: '"é" a ~ + b;')
    assert error.location.column == 9


# ---- make rules as gcc and clang write them ----


def test_lines_are_joined_and_names_kept_once() -> None:
    text = "text: a.c /usr/include/stdio.h \\\n  sub/b.h \\\n a.c\n\n/usr/include/stdio.h:\n"
    assert parse_depfile(text) == ["a.c", "/usr/include/stdio.h", "sub/b.h"]
    with pytest.raises(ValueError, match="without a rule"):
        parse_depfile("")


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (r"with\ blank.h", "with blank.h"),
        (r"hash\#.h", "hash#.h"),
        ("dollar$$.h", "dollar$.h"),
        (r"back\slash.h", r"back\slash.h"),
        ("colon:colon.h", "colon:colon.h"),
        ("ünïcode.h", "ünïcode.h"),
    ],
)
def test_odd_names(written: str, name: str) -> None:
    assert parse_depfile(f"text: a.c {written} \\\n last.h\n") == ["a.c", name, "last.h"]
