"""The page: whole, self-contained, and safe whatever the sources call their kernels."""

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser

from unit.report.test_facts import build, compiled, linked, step

from gpubuild.build.log import History
from gpubuild.report.page import Section, make_page

EVIL = "</style><script>alert(1)</script>\"' onload=x \x00\ud800"


class Page(HTMLParser):
    """Tags that are opened and closed, attributes, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.style = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.add(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        if self.open and self.open[-1] == "style":
            self.style += data
        else:
            self.text += data


def test_lanes_have_the_names_of_workers() -> None:
    steps = [step("a", worker="w1"), step("b", worker="tcp://10.0.0.1:40331"), step("c")]
    text = Page(make_page(History(builds=(build(*steps),), base={}), project="p")).text
    for name in ("here 1", "w1", "….0.1:40331", "a: 1.000 s on w1"):
        assert name in text


def page(**names: str) -> str:
    kernel = compiled("app/compile/k/sm_90", 8, 100, **names)
    first = build(kernel, linked(1000, kernel.id))
    second = build(
        compiled("app/compile/k/sm_90", 100, 90, **({"reason": "a barrier"} | names)),
        step(
            "cc/main.c",
            0.5,
            0.8,
            kind="cc",
            reason=EVIL if names else "main.c changed",
            stages=((EVIL, 0.2),),
        ),
        step("app/host", status="hit-local", cost_seconds=4.0),
        up_to_date=3,
    )
    return make_page(History(builds=(first, second), base={}), project=EVIL if names else "demo")


def test_it_loads_and_runs_nothing() -> None:
    found = Page(page())
    assert not found.tags & {"script", "link", "img", "iframe", "object", "base", "form", "a", "use", "image"}
    assert not [
        a for a in found.attributes if a[0] in ("src", "href", "style", "action") or a[0].startswith("on")
    ]
    assert not re.search(r"url\(|@import|https?:", found.style)


def test_the_policy_allows_its_own_style_and_nothing_else() -> None:
    text = page()
    found = Page(text)
    digest = base64.b64encode(hashlib.sha256(found.style.encode()).digest()).decode()
    policies = [
        value for name, value in found.attributes if name == "content" and "default-src" in (value or "")
    ]
    assert policies == [f"default-src 'none'; style-src 'sha256-{digest}'"]


def test_what_it_tells() -> None:
    text = " ".join(Page(page()).text.split())
    for part in (
        "demo",
        "8",
        "100 (+92)",
        "90 (-10)",
        "25 (-75) registers",
        "because of a barrier",
        "app/host",
        "from the cache",
        "main.c changed",
    ):
        assert part in text
    assert "3 steps more had nothing to do" in text
    assert "3.0 s" in text and "saved by the cache" in text
    assert "worker 1" in text


def test_names_cannot_break_out() -> None:
    text = page(kernel=EVIL, tier=EVIL, reason=EVIL)
    found = Page(text)
    assert "script" not in found.tags
    assert not [a for a in found.attributes if a[0].startswith("on")]
    assert "alert(1)" in found.text
    assert "\0" not in text
    text.encode()  # no lone surrogates


def test_other_parts_can_be_added() -> None:
    more = Section(title="Runtime <profile>", html="<p>seen</p>")
    text = make_page(History(builds=(build(),), base={}), project="p", more=[more])
    assert "everything came from the cache" in Page(text).text
    assert "<h2>Runtime &lt;profile&gt;</h2>\n<p>seen</p>" in text


def test_a_failed_build_shows_its_errors_first() -> None:
    text = "k.mlir:3:5: error: no <b>such</b> thing\n    x.y\n    ^"
    failed = replace(build(step("cc/main.c", status="failed")), ok=False, errors=(text,))
    shown = make_page(History(builds=(failed,), base={}), project="p")
    assert text in Page(shown).text
    assert shown.index("Errors") < shown.index("Timeline")
    assert "Errors" not in page()
