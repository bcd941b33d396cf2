"""Profiles: the dearest kernel first, and nothing but profiles."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpubuild.errors import UsageError
from gpubuild.report.profile import profile_section, read_profile

ENTRY = {
    "module": "k", "kernel": "<b>", "device": "cpu", "launches": 4,
    "total_ns": 2_000_000, "min_ns": 100_000, "max_ns": 900_000, "bytes": 6_000_000,
}  # fmt: skip


def written(folder: Path, *entries: dict[str, Any], schema: object = 1) -> Path:
    (folder / "p.json").write_text(json.dumps({"schema": schema, "kernels": entries}))
    return folder / "p.json"


def test_the_dearest_first_with_shares_and_bandwidth(tmp_path: Path) -> None:
    dear = {**ENTRY, "kernel": "dear", "total_ns": 6_000_000, "bytes": None}
    costs = read_profile(written(tmp_path, ENTRY, dear))
    assert [cost.kernel for cost in costs] == ["dear", "<b>"]
    html = profile_section("p.json", costs).html
    assert "<b>" not in html
    cells = html.split("&lt;b&gt;")[1]
    for cell in ("2.000", "25%", "100.0", "500.0", "900.0", "3.00"):
        assert f">{cell}<" in cells


def test_no_launches(tmp_path: Path) -> None:
    assert "No launches" in profile_section("p", read_profile(written(tmp_path))).html
    never = {**ENTRY, "launches": 0, "total_ns": 0}
    assert ">-<" in profile_section("p", read_profile(written(tmp_path, never))).html


@pytest.mark.parametrize(
    "change",
    [
        {"launches": -1},
        {"total_ns": "1"},
        {"bytes": True},
        {"min_ns": None},
        {"max_ns": 1.5},
        {"total_ns": 10**400},
    ],
)
def test_what_is_no_profile(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="is not a profile"):
        read_profile(written(tmp_path, {**ENTRY, **change}))


def test_other_files_and_versions(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="schema 2"):
        read_profile(written(tmp_path, schema=2))
    for text in ("", "[]", "{}", "[" * 99999):
        (tmp_path / "p.json").write_text(text)
        with pytest.raises(UsageError, match="is not a profile"):
            read_profile(tmp_path / "p.json")
    with pytest.raises(UsageError, match="cannot read"):
        read_profile(tmp_path / "none")
