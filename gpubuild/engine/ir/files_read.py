"""Pipeline reads: files that a pass pipeline has passes read, such as libraries of transforms.

``passes:`` may name them in any option of any pass. No key covers them: a result holds while they are
as they were, like one that headers went into.

Assembly reads: files that inline assembly has the assembler read, with ``.incbin`` and ``.include``.

No key covers them: a result holds while they are as they were, like one that headers went into.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import InputChangedError, StepError
from gpubuild.model.digest import Digest, digest_bytes, digest_file

_WORD = re.compile(r"""[^\s,={}()"';]*[/.][^\s,={}()"';]*""")  # no file without a dot or slash


@contextmanager
def recorded(pipeline: str, io: StepIO) -> Iterator[None]:
    """Record the files that ``pipeline`` names, which the body has passes read.

    Raises ``StepError`` for a folder, as what is in it later cannot be known, and
    ``InputChangedError`` when a file changes meanwhile.
    """
    before = _digests(pipeline)
    yield
    if _digests(pipeline) != before:
        raise InputChangedError(
            "a file that the pass pipeline names changed while it ran",
            hint="build again; nothing was stored",
        )
    for file, digest in before.items():
        io.discover(file, digest)


def _digests(pipeline: str) -> dict[Path, Digest]:
    found = {}
    for word in dict.fromkeys(_WORD.findall(pipeline)):
        file = Path(word).absolute()
        if "library-paths" in pipeline and file.is_dir():
            raise StepError(
                f"the pass pipeline names the folder {word}, in which files may come and go unnoticed",
                hint="name the files in it, with commas between them",
            )
        if file.is_file():
            found[file] = digest_file(file)
    return found


# In assembly, in preprocessed C (\") and in LLVM IR (\22). Assemblers know directives in capitals, too.
_READS = re.compile(rb'\.inc(bin|lude)\s*(?:\\?"|\\22)([^"\\\n]+)', re.IGNORECASE)
_MENTIONS = re.compile(rb"\.inc(?:bin|lude)", re.IGNORECASE)


def mentions(text: bytes) -> bool:
    """Whether the text may have the assembler read a file."""
    return _MENTIONS.search(text) is not None


def discover(text: bytes, io: StepIO) -> None:
    """Record the files that ``text`` names, and those that included ones name in turn.

    What cannot be read was no name: the assembler went on.
    """
    seen: set[Path] = set()
    texts = [text]
    while texts:
        for directive, name in _READS.findall(texts.pop()):
            file = io.scratch / name.decode(errors="surrogateescape")
            if file in seen:
                continue
            seen.add(file)
            with suppress(OSError):
                data = file.read_bytes()
                io.discover(file, digest_bytes(data))
                if directive.lower() == b"lude":
                    texts.append(data)
