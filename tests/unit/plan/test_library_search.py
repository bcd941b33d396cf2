"""Libraries: where linkers look, in their order, and what is there."""

from pathlib import Path

import pytest

from gpubuild.plan.library_search import places, present


@pytest.mark.parametrize(
    ("flags", "folders"),
    [
        (("-L/a", "-L/b"), ["/a", "/b"]),
        (("-L", "/a"), ["/a"]),
        (("-Wl,-L/a,--library-path=/b",), ["/a", "/b"]),
        (("-Lrelative", "-Wl,--version-script=/v.map", "-s"), []),
    ],
)
def test_folders_come_in_the_order_of_the_flags(flags: tuple[str, ...], folders: list[str]) -> None:
    found = places(("x",), flags)
    expected = [f"{folder}/libx.{suffix}" for folder in folders for suffix in ("so", "a")]
    assert list(found[: len(expected)]) == expected
    assert found[len(expected) :] == places(("x",), ())  # the system's folders


def test_names_come_from_flags_too_and_not_from_the_compiler() -> None:
    assert places(("m", "pthread"), ("-L/a",)) == ()
    assert "/a/libx.a" in places((), ("-L/a", "-lx"))
    assert "/a/libx.a" in places((), ("-L/a", "-Wl,-l:libx.a"))


def test_only_what_is_there_counts(tmp_path: Path) -> None:
    candidates = places(("gpubuild_test",), (f"-L{tmp_path}",))
    assert present(candidates) == ()
    library = tmp_path / "libgpubuild_test.a"
    library.touch()
    assert present(candidates) == (str(library),)
