"""Write record.json: ``PYTHONPATH=tests GPUBUILD_TEST_TINYGRAD=… python -m simulators.amd_code [chip …]``."""

from __future__ import annotations

import sys
from itertools import chain

from kernels.operations.groups import GROUPS
from simulators.amd_code import emulator, record
from simulators.amd_code.compiling import CHIPS, outcomes, rows

for chip in sys.argv[1:] or CHIPS:
    found = outcomes(chip, rows(chip))
    wrong = {
        name: said for name, said in found.items() if said != record.RIGHT and not said.startswith("lacks:")
    }
    for name, said in wrong.items():
        print(f"{chip}: {name}: {said}", file=sys.stderr)
    if wrong:
        sys.exit(1)
    record.write(chip, emulator.version(), found, chain.from_iterable(GROUPS.values()))
    print(f"{chip}: {sum(said == record.RIGHT for said in found.values())} of {len(found)} rows right")
