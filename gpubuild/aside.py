"""Aside: what is looked at in a build folder that cannot be written, in a temporary folder beside it.

Nobody is kept from building meanwhile: since all files count by content, what is outdated at worst
is made of its source once more, here.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from gpubuild.frozen import replace
from gpubuild.graph.layout import Layout
from gpubuild.model.project import Project, RemoteMode
from gpubuild.settings import Settings

_OFF = "off"


def lay_out(layout: Layout, folder: Path) -> Layout:
    """The same, with ``folder`` for what is made of sources, where all lies that has been made of them."""
    aside = replace(layout, scratch=folder)
    for directory, _, names in os.walk(layout.sources):
        here = aside.sources / Path(directory).relative_to(layout.sources)
        here.mkdir(parents=True, exist_ok=True)
        for name in names:
            there = Path(directory, name)
            with suppress(OSError):  # gone by now
                if there.suffix == ".json":  # read in this process after its digest was
                    shutil.copyfile(there, here / name)
                else:
                    (here / name).symlink_to(there)
    return aside


def reading_only(settings: Settings, project: Project) -> Settings:
    """With caches that are only asked, as far as they may be."""
    asked = (RemoteMode.READ_WRITE, RemoteMode.READ_ONLY, "")
    remote = project.cache.remote
    configured = settings.remote_mode or (remote.mode if remote else "")
    return replace(
        settings,
        cache_mode=RemoteMode.READ_ONLY if settings.cache_mode in asked else _OFF,
        remote_mode=RemoteMode.READ_ONLY if configured in asked else _OFF,
    )
