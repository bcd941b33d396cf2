"""Assembly reads: files that inline assembly has the assembler read, with ``.incbin`` and ``.include``.

No key covers them: a result holds while they are as they were, like one that headers went into.
"""

from __future__ import annotations

import re
from contextlib import suppress

from gpubuild.engine.io import StepIO
from gpubuild.model.digest import digest_file

# In assembly, in preprocessed C (\") and in LLVM IR (\22).
_READS = re.compile(rb'\.inc(?:bin|lude)\s*(?:\\?"|\\22)([^"\\\n]+)')


def mentions(text: bytes) -> bool:
    """Whether the text may have the assembler read a file."""
    return b".incbin" in text or b".include" in text


def discover(text: bytes, io: StepIO) -> None:
    """Record the files that ``text`` names. What cannot be read was no name: the assembler went on."""
    for name in dict.fromkeys(_READS.findall(text)):
        file = io.scratch / name.decode(errors="surrogateescape")
        with suppress(OSError):
            io.discover(file, digest_file(file))
