"""``python -m devices``: make a pack for a GPU elsewhere, judge its results (docs/how-to/gpu-tests.md)."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from devices import record
from devices.at_hand import CPU, CUDA, HIP, Device
from devices.cases import Batch, fill, operations, random_kernels, wrong
from devices.executables import add_executables, executables
from devices.pack import RUN, Pack, read_executables, read_results
from kernels.operations.groups import GROUPS


def batches(chip: str, kernels: int, groups: Sequence[str]) -> Iterator[Batch]:
    yield from operations(chip, groups)
    yield from random_kernels(chip, range(kernels))


def _kind(chip: str) -> str:
    return CUDA if chip.startswith("sm_") else HIP if chip.startswith("gfx") else CPU


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m devices", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("make", help="compile every kernel of the tests for a chip, into a folder")
    make.add_argument("folder", type=Path)
    judge = commands.add_parser("judge", help="compare the results with NumPy and the evaluator")
    judge.add_argument("results", type=Path)
    judge.add_argument("--record", metavar="NAME", help="note them as those of a device of this name")
    for command in (make, judge):
        command.add_argument("--chip", default="sm_90", help="default: sm_90")
        command.add_argument("--kernels", type=int, default=2000, help="random ones (default: 2000)")
        command.add_argument(
            "--groups", nargs="*", default=list(GROUPS), help="of docs/reference/coverage.md (default: all)"
        )
        command.add_argument(
            "--executables",
            nargs="*",
            metavar="NAME",
            help="examples and programs for operations (default: all)",
        )
    given = parser.parse_args(argv)
    chosen = list(executables(_kind(given.chip)))
    if given.executables is not None:
        chosen = [one for one in chosen if one.name in given.executables]
    if given.command == "make":
        with tempfile.TemporaryDirectory() as scratch:
            pack = Pack(given.folder, given.chip)
            cases = fill(pack, batches(given.chip, given.kernels, given.groups), Path(scratch))
            add_executables(pack, _kind(given.chip), chosen, Path(scratch))
        print(
            f"{len(cases)} launches, {len(chosen)} executables: "
            f"python {given.folder / RUN} RESULTS --device {_kind(given.chip)}"
        )
        return 0
    cases = [
        case
        for batch in batches(given.chip, given.kernels, given.groups)
        for one in batch.cases
        for case in one
    ]
    bad = wrong(cases, read_results(given.results))
    names = [case.name for case in cases]
    did = read_executables(given.results)
    for one in chosen:
        names.append(one.name)
        if said := one.judge(did[one.name]):
            bad[one.name] = f"{one.name}: {said}"
    print("\n".join([*bad.values(), f"{len(names) - len(bad)} right, {len(bad)} wrong"]))
    if given.record:
        device = Device(kind=_kind(given.chip), name=given.record, chip=given.chip)
        record.write(device, [name for name in names if name not in bad], list(bad))
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
