"""``gpubuild pass TARGET NAME[..NAME] FILE``: run one pass of a back end, or a range, on a file.

For TARGET ``linalg`` or ``tosa`` they are the passes of that pipeline on tensors.

For authors of passes; no help lists it. It runs in this process, which a pass may crash.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from gpubuild.cli.console import Console
from gpubuild.cli.options import Parser, path
from gpubuild.errors import UsageError
from gpubuild.model.project import TENSOR_PIPELINES
from gpubuild.model.step import CompileParams
from gpubuild.support.text import did_you_mean
from gpubuild.targets.registry import of_name
from gpubuild.targets.target import FULL, Sanitize, Target

_MODULE = "module"  # no pass reads its name


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of the command. Raises ``UsageError``."""
    parser = Parser(prog="gpubuild pass", description=__doc__, allow_abbrev=False)
    parser.add_argument("target", metavar="TARGET", help="a chip, such as sm_90, gfx90a or cpu")
    parser.add_argument(
        "names", metavar="NAME[..NAME]", nargs="?", default="", help="a pass, or the first and last"
    )
    parser.add_argument("file", metavar="FILE", nargs="?", type=path, help="a module in MLIR")
    parser.add_argument("-o", "--output", metavar="FILE", type=path, help="default: stdout")
    parser.add_argument("--list", action="store_true", help="list the passes of the target in order")
    parser.add_argument("--fast-math", action="store_true", help="as in targets.yaml")
    parser.add_argument("--debug", action="store_true", help="as in targets.yaml")
    parser.add_argument("--debug-full", action="store_const", const=FULL, dest="debug", help="the same")
    parser.add_argument("--sanitize", metavar="CHECK[,CHECK]", default="", help="as in targets.yaml")
    options = parser.parse_args(arguments, argparse.Namespace(quiet=False, verbose=False, json=False))
    if not options.list and options.file is None:
        parser.error("a pass and a file are required, or --list")
    options.command = execute
    return options


def execute(options: argparse.Namespace) -> int:
    """Run the command."""
    from gpubuild.engine.backends import lowering
    from gpubuild.engine.source import tensors

    console: Console = options.console
    pipeline = options.target if options.target in TENSOR_PIPELINES else ""
    params = (
        None
        if pipeline
        else target_params(
            options.target, fast_math=options.fast_math, debug=options.debug, sanitize=options.sanitize
        )
    )
    if options.list:
        table = lowering.passes_of(params.target.kind) if params else tensors.PASSES
        console.print("\n".join(one.name for one in table))
        return 0
    first, _, last = options.names.partition("..")
    file: Path = options.file
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    if params:
        result = lowering.run_range(text, params, first, last, name=str(file))
    else:
        result = tensors.run_range(text, pipeline, first, last, name=str(file))
    if options.output is None:
        console.out.write(result)
    else:
        console.save(options.output, result)
    return 0


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
