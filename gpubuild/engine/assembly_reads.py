"""Assembly reads: files that inline assembly has the assembler read, with ``.incbin`` and ``.include``.

No key covers them: a result holds while they are as they were, like one that headers went into.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from gpubuild.engine.io import StepIO
from gpubuild.model.digest import digest_bytes

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
