"""Option table: the options of ``build`` as data, for the parser and for ``cli.quick``.

Imports nothing: a build with nothing to do has no time for argparse.
"""

from __future__ import annotations

FLAG, PATH, NUMBER, WORDS = "flag", "path", "number", "words"  # words: may be repeated
PROJECT_FILE = "targets.yaml"

# By where the parser puts it: names, what it takes, what the help calls that, and the help.
OPTIONS = {
    "quiet": (("-q", "--quiet"), FLAG, "", "no progress"),
    "verbose": (("-v", "--verbose"), FLAG, "", "also show steps that had nothing to do"),
    "file": (("-f", "--file"), PATH, "FILE", f"the project file (default: {PROJECT_FILE})"),
    "build_dir": (("--build-dir",), PATH, "DIR", "default: build, beside the project file"),
    "jobs": (("-j", "--jobs"), NUMBER, "N", "steps at once (default: CPUs)"),
    "targets": (("-t", "--target"), WORDS, "TARGET", "compile kernels for this target only; may be repeated"),
    "cache_dir": (("--cache-dir",), PATH, "DIR", "overrides the project file"),
    "no_cache": (("--no-cache",), FLAG, "", "neither read nor write the cache"),
    "keep_going": (("-k", "--keep-going"), FLAG, "", "continue with all independent steps after a failure"),
    "dump_ir": (("--dump-ir",), PATH, "DIR", "write the IR after every stage; cached steps run again"),
    "trace": (("--trace",), PATH, "FILE", "write a trace for Perfetto or Chrome"),
    "dry_run": (("-n", "--dry-run"), FLAG, "", "say what would be done, compile nothing"),
    "explain": (("--explain",), FLAG, "", "list every step with its status and reason"),
    "json": (("--json",), FLAG, "", "one JSON document on stdout, nothing else there"),
}
