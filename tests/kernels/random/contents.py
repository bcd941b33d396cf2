"""What random kernels hold: how many of them have each operation, type and form.

    PYTHONPATH=tests python -m kernels.random.contents [COUNT]

prints it for the first COUNT kernels (2,000).
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable

from kernels.random.kernel import RandomKernel

_PATTERNS = {
    "integers i8": r"arith\.\w+i .*: i8$",
    "integers i16": r"arith\.\w+i .*: i16$",
    "integers i32": r"arith\.\w+i .*: i32$",
    "integers i64": r"arith\.\w+i .*: i64$",
    "floats f16": r"f .*: f16$",
    "floats f32": r"f .*: f32$",
    "floats f64": r"f .*: f64$",
    "vectors of integers": r": vector<\dxi",
    "vectors of floats": r": vector<\dxf",
    "vector.shuffle": r"vector\.shuffle",
    "index casts": r"index_cast %v",
    "bit casts": r"arith\.bitcast",
    "scf.if": r"scf\.if",
    "scf.for": r"scf\.for %v",
    "scf.while": r"scf\.while",
    "scf.parallel": r"scf\.parallel",
    "scf.index_switch": r"scf\.index_switch",
    "branches (cf)": r"cf\.cond_br",
    "barriers": r"gpu\.barrier",
    "barriers in control flow": r"^ +scf\.(if|for|while|parallel|index_switch)(?s:.*?)gpu\.barrier",
    "workgroup memory of i32": r"%s\[",
    "workgroup memory of other types": r"%s_\w+ : memref<1024x[if]",
    "workgroup memory of vectors": r"%s_\w+ : memref<1024xvector",
    "private memory": r"%priv\[",
    "views": r"memref\.subview",
    "all_reduce of integers": r"gpu\.all_reduce .*\(i\d+\)",
    "all_reduce of floats": r"gpu\.all_reduce .*\(f\d+\)",
    "all_reduce with rounding": r"all_reduce add %rounded",
    "all_reduce with a region": r"gpu\.yield",
    "trees": r"%tree",
    "subgroup_reduce": r"gpu\.subgroup_reduce",
    "subgroup_reduce of clusters": r"cluster\(size",
    "shuffles": r"gpu\.shuffle",
    "subgroup_broadcast": r"gpu\.subgroup_broadcast",
    "rotate": r"gpu\.rotate",
    "atomics of integers": r"atomic_rmw \w+ .*\(i32",
    "atomics of floats": r"atomic_rmw \w+ .*\(f64",
    "atomics in workgroup memory": r"%bins\[%v",
    "generic_atomic_rmw": r"generic_atomic_rmw",
    "calls": r"func\.call @(mix|look)",
    "calls that wait": r"func\.call @(next|further)",
    "known_block_size": r"known_block_size",
    "ids read in control flow": r"^ +scf\.(if|for|while)(?s:.*?)gpu\.thread_id",
    "bounds checks": r"arith\.cmpi \w+, %(x|t|g|c\d+|ub|nx), %(x|t|g|c\d+|ub|nx) : index\n +scf\.if",
    "loops along rows": r"scf\.for %v\w+ = %\w+ to %n step %nx iter_args",
}
_COMPILED = {name: re.compile(pattern, re.MULTILINE) for name, pattern in _PATTERNS.items()}


def contents(kernels: Iterable[RandomKernel]) -> Counter[str]:
    """How many of ``kernels`` hold what; 0 is among the values."""
    found = Counter(dict.fromkeys(_COMPILED, 0))
    for kernel in kernels:
        found.update(name for name, pattern in _COMPILED.items() if pattern.search(kernel.text))
    return found


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    for what, number in contents(RandomKernel(i, f"k{i}") for i in range(count)).items():
        print(f"{number:6} {what}")
