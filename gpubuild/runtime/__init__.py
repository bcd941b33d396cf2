"""C sources of ``libgpubuild_rt``; compiled by a build step, never at install time."""
