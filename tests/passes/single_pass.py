"""Run one pass of a back end, or a range: ``python tests/passes/single_pass.py TARGET NAME[..NAME] FILE``.

For authors of passes. For TARGET ``linalg`` or ``tosa`` they are the passes of that pipeline on tensors.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from gpubuild.engine.backends import lowering
from gpubuild.engine.source import tensors
from gpubuild.errors import GpubuildError, UsageError
from gpubuild.model.project import TENSOR_PIPELINES
from gpubuild.model.step import CompileParams
from gpubuild.support.text import did_you_mean
from gpubuild.targets.registry import of_name
from gpubuild.targets.target import FULL, Sanitize, Target

_MODULE = "module"  # no pass reads its name


def main() -> None:
    """Write the module after the passes to stdout."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("target", metavar="TARGET", help="a chip, such as sm_90, gfx90a or cpu")
    parser.add_argument(
        "names", metavar="NAME[..NAME]", nargs="?", default="", help="default: list the passes"
    )
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path, help="a module in MLIR")
    parser.add_argument("--fast-math", action="store_true", help="as in targets.yaml")
    parser.add_argument("--debug", action="store_true", help="as in targets.yaml")
    parser.add_argument("--debug-full", action="store_const", const=FULL, dest="debug", help="the same")
    parser.add_argument("--sanitize", metavar="CHECK[,CHECK]", default="", help="as in targets.yaml")
    options = parser.parse_args()
    if options.names and options.file is None:
        parser.error("which FILE?")
    try:
        print(_result(options))
    except GpubuildError as error:
        parser.exit(2, error.render() + "\n")


def _result(options: argparse.Namespace) -> str:
    first, _, last = options.names.partition("..")
    if options.target in TENSOR_PIPELINES:
        if not first:
            return "\n".join(one.name for one in tensors.PASSES)
        text = options.file.read_text(encoding="utf-8")
        return tensors.run_range(text, options.target, first, last, name=str(options.file))
    params = target_params(
        options.target, fast_math=options.fast_math, debug=options.debug, sanitize=options.sanitize
    )
    if not first:
        return "\n".join(one.name for one in lowering.passes_of(params.target.kind))
    text = options.file.read_text(encoding="utf-8")
    return lowering.run_range(text, params, first, last, name=str(options.file))


def target_params(
    chip: str, *, fast_math: bool = False, debug: bool | str = False, sanitize: str = ""
) -> CompileParams:
    """Return the parameters of a compile step for ``chip``. Raises ``UsageError`` for an unknown chip."""
    vendor = of_name(chip)
    if vendor is None:
        raise UsageError(
            f"no vendor has a chip called {chip!r}", hint="write a chip such as sm_90, gfx90a or cpu"
        )
    name, machine = chip, os.uname().machine
    chip = vendor.default_chip(chip, machine)
    target = Target(
        name=name,
        kind=vendor.kind,
        triple=vendor.default_triple(chip, machine),
        chip=chip,
        fast_math=fast_math,
        flags=vendor.with_fast_flags((), fast_math=fast_math),
        debug=debug,
        sanitize=_checks(sanitize),
    )
    return CompileParams(module=_MODULE, target=target)


def _checks(text: str) -> tuple[Sanitize, ...]:
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in list(Sanitize):
            raise UsageError(f"there is no check {name!r}", hint=did_you_mean(name, list(Sanitize)))
    return tuple(Sanitize(name) for name in names)


if __name__ == "__main__":
    main()
