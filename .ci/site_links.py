"""mkdocs hook: links from docs/ to files elsewhere in the repository become their names on the site.

In the repository they lead to the file; the site has no such page. One that leads nowhere is left
as it is, so that the strict build complains of it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"\[([^\]]*)\]\((\.\./[^)#\s]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: object) -> str:  # noqa: ANN401 - mkdocs' own
    """See mkdocs, "Event: page_markdown"."""
    docs = Path(config.docs_dir)
    folder = (docs / page.file.src_uri).parent

    def name(found: re.Match[str]) -> str:
        target = (folder / found[2]).resolve()
        if target.is_relative_to(docs.resolve()) or not target.exists():
            return found[0]
        return f"{found[1]} (`{target.relative_to(docs.resolve().parent)}`)"

    return _LINK.sub(name, markdown)
