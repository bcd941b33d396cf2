"""A cached preprocessor run serves only where the preprocessor would read the same."""

from dataclasses import replace
from pathlib import Path

import pytest

from gpubuild.build.include_scan import concerns, from_store, surroundings, to_store
from gpubuild.model.digest import Digest, digest_file
from gpubuild.model.step import ActionResult, CcParams, Input, PreprocessParams, Step, StepKind


def digest_of(path: Path) -> Digest | None:
    return digest_file(path) if path.is_file() else None


def step(root: Path, *include: str) -> Step:
    return Step(
        id="preprocess/src/main.c",
        kind=StepKind.PREPROCESS,
        params=PreprocessParams(language="c", suffix=".i", include=include),
        inputs=(Input(name="source", path=root / "src/main.c"),),
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "one"
    (root / "src").mkdir(parents=True)
    (root / "src/main.c").write_text('#include "own.h"\n#include <sys/out.h>\n')
    (root / "src/own.h").write_text("1")
    (tmp_path / "include/sys").mkdir(parents=True)
    (tmp_path / "include/sys/out.h").write_text("2")
    return root


def result(root: Path) -> ActionResult:
    headers = (root / "src/own.h", root.parent / "include/sys/out.h")
    return ActionResult(blobs=(), discovered=tuple((str(h), digest_file(h)) for h in headers))


def stored(root: Path) -> ActionResult:
    return to_store(result(root), step(root), root)


def test_it_serves_in_another_checkout(project: Path) -> None:
    other = project.parent / "two/deeper"
    (other / "src").mkdir(parents=True)
    (other / "src/own.h").write_text("1")
    found = from_store(stored(project), step(other), other, digest_of)
    headers = (other / "src/own.h", project.parent / "include/sys/out.h")
    assert [path for path, _ in found.discovered] == list(map(str, headers))


@pytest.mark.parametrize("header", ["one/src/own.h", "include/sys/out.h"])
@pytest.mark.parametrize("change", ["edit", "delete"])
def test_a_changed_header_is_a_miss(project: Path, header: str, change: str) -> None:
    kept = stored(project)
    assert from_store(kept, step(project), project, digest_of) == result(project)
    path = project.parent / header
    path.write_text("3") if change == "edit" else path.unlink()
    assert from_store(kept, step(project), project, digest_of) is None


@pytest.mark.parametrize("name", ["out.h", "sys/out.h", "include/sys/out.h"])
def test_a_file_that_may_stand_before_a_header_is_a_miss(project: Path, name: str) -> None:
    kept = stored(project)
    (project / "src" / name).parent.mkdir(parents=True, exist_ok=True)
    (project / "src" / name).write_text("in front")
    assert from_store(kept, step(project), project, digest_of) is None


@pytest.mark.parametrize("word", ["__has_include", "__DATE__", "__TIME__", "__TIMESTAMP__", "__has_embed"])
@pytest.mark.parametrize("file", ["main.c", "own.h"])
def test_what_depends_on_more_than_files_is_not_stored(project: Path, file: str, word: str) -> None:
    with (project / "src" / file).open("a") as stream:
        stream.write(f"{word}\n")
    assert to_store(result(project), step(project), project) is None


def around(root: Path) -> str:
    return surroundings(result(root).discovered, step(root), root).digest(root)


@pytest.mark.parametrize("name", ["src/out.h", "src/sys/out.h"])
def test_a_header_that_comes_to_stand_before_another_is_noticed(project: Path, name: str) -> None:
    (project / "src/sys").mkdir()
    before = around(project)
    (project / "src/unrelated.h").touch()
    (project / "src/sys/own.h").touch()
    assert before == around(project) != ""
    absent = surroundings(result(project).discovered, step(project), project).absent
    assert str(project / name) in absent
    (project / name).touch()
    assert around(project) != before


@pytest.mark.parametrize(
    "text",
    [
        "#if defined(__has_include) && __has_include(<asked.h>)\n#endif\n",
        "#if __has_include(NAME)\n#endif\n",
        '#define ASKS __has_include\n#if ASKS("a.h")\n#endif\n',
        'const char data[] = {\n#embed "data.bin"\n};\n#if __has_embed("more.bin")\n#endif\n',
    ],
)
@pytest.mark.parametrize("file", ["main.c", "own.h"])
def test_what_asks_which_files_exist_is_never_known(project: Path, file: str, text: str) -> None:
    other_questions = "#if __has_attribute(pure) && __has_builtin(__builtin_trap)\n#endif\n"
    (project / "src" / file).write_text(other_questions)
    assert around(project) != ""
    (project / "src" / file).write_text(text)
    assert around(project) == ""


def test_a_macro_of_the_project_file_may_ask(project: Path) -> None:
    params = PreprocessParams(language="c", suffix=".i", define=("ASKS=__has_include",))
    asks = replace(step(project), params=params)
    assert to_store(result(project), asks, project) is None
    assert not surroundings(result(project).discovered, asks, project).known


def test_warnings_are_of_one_file(project: Path) -> None:
    """Another file of the same text has the compiler say the same, but not about this one."""

    def compiling(name: str) -> Step:
        inputs = (
            Input(name="text", path=project / f"{name}.i"),
            Input(name="source", path=project / "src" / name, in_key=False),
        )
        return Step(id=f"cc/{name}", kind=StepKind.CC, params=CcParams(language="c"), inputs=inputs)

    main = project / "src/main.c"
    (project / "main.c.i").write_text("int main;")
    told = ActionResult(blobs=(), discovered=((str(main), digest_file(main)),), warnings=("main.c:1: hm",))
    kept = to_store(told, compiling("main.c"), project)
    assert from_store(kept, compiling("main.c"), project, digest_of) == told
    assert from_store(kept, compiling("same.c"), project, digest_of) is None
    assert concerns(told, compiling("main.c"))
    assert not concerns(told, compiling("same.c"))
    main.write_text("// a comment\n" + main.read_text())
    assert from_store(kept, compiling("main.c"), project, digest_of) is None


def test_a_header_of_a_folder_above_is_not_stored(project: Path) -> None:
    above = project / "src/../../include/sys/out.h"
    made = ActionResult(blobs=(), discovered=((str(above), digest_file(above)),))
    assert to_store(made, step(project), project) is None


INCLUDE = ("first", "second", "../third")


def found_in_folders(root: Path) -> tuple[tuple[str, Digest], ...]:
    """What a source reads that looks in INCLUDE: a header of the second, of the third, of the system."""
    names = ("second/lib/a.h", "../third/b.h", "../include/sys/out.h")
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / "first").mkdir()
    # As on the compiler's command line: the path of the third folder goes through the project's.
    paths = [root / "second/lib/a.h", root / "../third/b.h", (root / "../include/sys/out.h").resolve()]
    return tuple((str(path), digest_file(path)) for path in paths)


@pytest.mark.parametrize(
    ("name", "shadows"),
    [
        ("first/lib/a.h", True),
        ("src/lib/a.h", True),  # beside the source, for "lib/a.h"
        ("first/b.h", True),
        ("second/b.h", True),
        ("second/lib/b.h", True),  # beside a header that may have asked for it
        ("../third/sys/out.h", True),  # before the system's
        ("first/other.h", False),
        ("elsewhere/a.h", False),
    ],
)
def test_a_header_in_a_named_folder_before_the_one_that_was_found(
    project: Path, name: str, shadows: bool
) -> None:
    found, reader = found_in_folders(project), step(project, *INCLUDE)
    made = ActionResult(blobs=(), discovered=tuple(pair for pair in found if "third" not in pair[0]))
    kept = to_store(made, reader, project)
    assert from_store(kept, reader, project, digest_of) == made
    before = surroundings(found, reader, project)
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).touch()
    after = surroundings(found, reader, project)
    assert (after.digest(project) != before.digest(project)) == shadows
    # What a receipt looks at: the file, or the folder that it came with.
    assert (any(Path(path).exists() for path in before.absent)) == shadows
    if "b.h" not in name:  # of the third folder, which is not among what was stored
        assert (from_store(kept, reader, project, digest_of) is None) == shadows


def test_headers_of_one_name_that_were_read_hide_nothing(project: Path) -> None:
    for name in ("first/a.h", "second/a.h"):
        (project / name).parent.mkdir()
        (project / name).touch()
    paths = (str(project / "first/a.h"), str(project / "second/a.h"))
    made = ActionResult(blobs=(), discovered=tuple((p, digest_file(Path(p))) for p in paths))
    kept = to_store(made, step(project, *INCLUDE), project)
    assert from_store(kept, step(project, *INCLUDE), project, digest_of) == made


@pytest.mark.parametrize("word", ["__has_include(<a.h>)", "__TIME__"])
def test_what_a_header_of_a_named_folder_outside_asks_is_not_stored(project: Path, word: str) -> None:
    outside = project.parent / "include/sys/out.h"
    outside.write_text(word)
    made = ActionResult(blobs=(), discovered=((str(outside), digest_file(outside)),))
    assert to_store(made, step(project), project) is not None
    assert to_store(made, step(project, str(outside.parent)), project) is None
