"""Compare the random functions of a library with NumPy: ``check_random.py FIRST COUNT``."""

import sys

import rand
from kernels.random.tensors import TensorFunction

first, count = map(int, sys.argv[1:])
for seed in range(first, first + count):
    function = TensorFunction(seed)
    if wrong := function.difference(getattr(rand, function.name)):
        print(wrong)
