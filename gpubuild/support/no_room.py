"""Whether a disk has room: programs and libraries that fail on a full one often do not say so."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from gpubuild.support.atomic_write import PREFIX

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})


def why_full(folder: str | os.PathLike[str], size_bytes: int = 1 << 16) -> str:
    """Return the system's reason why there is no room for ``size_bytes`` in ``folder``.

    Return an empty string if there is, or if writing fails for another reason. A file is written and deleted:
    free blocks say nothing about quotas, file numbers and what is reserved for root.
    """
    path = Path(folder) / f"{PREFIX}{os.urandom(8).hex()}.tmp"
    try:
        with path.open("xb") as stream:
            stream.write(bytes(size_bytes))
    except OSError as error:
        return (error.strerror or "") if error.errno in NO_ROOM else ""
    finally:
        with suppress(OSError):
            path.unlink()
    return ""
