"""NVIDIA's math library libdevice, linked from bitcode with the precision a target asks for.

Reading the whole library takes 60 ms. So the functions that a module uses are kept as a *slice*, a file of
their own in the user's cache folder, named after everything that it is made of.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gpubuild.engine.ir import llvm
from gpubuild.model.digest import digest_bytes, encode
from gpubuild.settings import NO_USER_CACHE, Settings
from gpubuild.support.files import write_atomically
from gpubuild.targets.target import Target

PREFIX = "__nv_"  # of all its functions
_QUESTION = re.compile(r'^(@[-\w.$"]+) = [^\n]*c"(__CUDA_\w+)\\00"', re.MULTILINE)
_ASKED = r"call i32 @__nvvm_reflect\(ptr (?:nonnull )?(?:noundef )?{name}\)[^\n]*"
_SLICE_VERSION = "1"
_DIGEST_LENGTH = 64
_FUNCTION_TYPE = re.compile(r"(.*) (\(.*\))")


def link_libdevice(module: llvm.Module, library: Path, target: Target) -> llvm.Module:
    """Link the functions that ``module`` uses and return the linked module.

    The library asks ``__nvvm_reflect`` whether to flush denormals and whether square roots must be correctly
    rounded. LLVM always answers the second with no, so both are answered here: IEEE results unless the target
    has the flag ``ftz`` or fast mathematics.
    """
    used = sorted(n for n in llvm.undefined_symbols(module) if n.startswith(PREFIX))
    declared = []
    for name in used:
        result, parameters = _FUNCTION_TYPE.fullmatch(
            str(module.get_function(name).global_value_type)
        ).groups()  # type: ignore[union-attr]
        declared.append(f"declare {result} @{name}{parameters}")
    llvm.link_library(module, _slice(library.read_bytes(), declared, module.triple), "libdevice")
    answers = {"__CUDA_FTZ": int("ftz" in target.flags), "__CUDA_PREC_SQRT": int(not target.fast_math)}
    text = str(module)
    resolved = text
    for match in _QUESTION.finditer(text):
        if match[2] in answers:
            asked = re.compile(_ASKED.format(name=re.escape(match[1])))
            resolved = asked.sub(f"add i32 {answers[match[2]]}, 0", resolved)
    if resolved == text:
        return module
    return llvm.parse_assembly(resolved, llvm.new_context(), name="LLVM IR with libdevice")


def _slice(library: bytes, declared: Sequence[str], triple: str) -> bytes:
    """Return bitcode with the functions that are ``declared`` and what these call."""
    made_of = (_SLICE_VERSION, llvm.version(), digest_bytes(library), triple, *declared)
    cache = Settings.from_environ().user_cache
    file = cache / "libdevice" / f"{digest_bytes(encode(made_of))}.bc"
    with suppress(OSError):
        stored = file.read_bytes()
        content = stored[_DIGEST_LENGTH:]
        if stored[:_DIGEST_LENGTH] == digest_bytes(content).encode() and _is_personal(file):
            return content
    module = llvm.parse_assembly("\n".join(declared), llvm.new_context(), name="functions of libdevice")
    module.triple = triple
    llvm.link_library(module, library, "libdevice")
    for function in module.functions:
        if not function.is_declaration and function.name.startswith(PREFIX):
            function.linkage = "external"
    content = llvm.emit_bitcode(module)
    if cache != NO_USER_CACHE:
        with suppress(OSError):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(file, digest_bytes(content).encode() + content, mode=0o600)
    return content


def _is_personal(file: Path) -> bool:
    """Return whether only this user can have written ``file``."""
    folder, entry = file.parent.stat(), file.stat()
    return all(each.st_uid == os.geteuid() and not each.st_mode & 0o022 for each in (folder, entry))
