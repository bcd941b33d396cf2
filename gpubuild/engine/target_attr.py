"""Target attribute: the ``#nvvm.target`` or ``#rocdl.target`` text that describes a target to MLIR."""

from __future__ import annotations

from gpubuild.model.params import CompileParams, ObjectParams
from gpubuild.model.target import NVVM_TRIPLE, ROCDL_TRIPLE, Kind, Target

_DEFAULT_TRIPLES = {Kind.NVVM: NVVM_TRIPLE, Kind.ROCDL: ROCDL_TRIPLE}


def target_attr(target: ObjectParams | CompileParams | Target) -> str:
    """The attribute's text, spelled as MLIR takes it for a gpu.module or a ``#gpu.object``.

    A CPU is described by ``#nvvm.target`` with a host triple, because the verifier of
    ``#gpu.object`` takes that and refuses ``#llvm.target``.
    """
    dialect = "rocdl" if target.kind is Kind.ROCDL else "nvvm"
    fields = [f"O = {target.opt_level}"]
    if target.triple != _DEFAULT_TRIPLES.get(target.kind):
        fields.append(f"triple = {quoted(target.triple)}")
    fields.append(f"chip = {quoted(target.chip)}")
    if target.features:
        fields.append(f"features = {quoted(target.features)}")
    if target.fast_math:
        # NVVM's reading of "fast" has flushing to zero beside it; ROCDL's "fast" implies it.
        fields.append("flags = {fast}" if target.kind is Kind.ROCDL else "flags = {fast, ftz}")
    return f"#{dialect}.target<{', '.join(fields)}>"


def quoted(text: str) -> str:
    """``text`` as an MLIR string literal: quotes, backslashes and non-printing bytes as ``\\XX``."""
    body = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\{byte:02X}" for byte in text.encode()
    )
    return f'"{body}"'
