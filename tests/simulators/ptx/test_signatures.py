"""Functions of random signatures that hand their arguments on, called by name and by address, in PTX."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from simulators.device_ir.compiling import ptx_text
from simulators.device_ir.runner import DeviceModule, each_in_child
from simulators.ptx.translate import device_ir

BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i24": 24, "i48": 48, "i7": 7, "f16": 16,
        "bf16": 16, "f32": 32, "f64": 64}  # fmt: skip
FUNCTIONS = 8  # of a module
WORDS = 128


@dataclass(frozen=True)
class Type:
    name: str
    count: int
    element: str


def any_type(rng: random.Random, *, whole: bool) -> Type:
    """Return a type; a ``whole`` one has elements of whole bytes, as functions called by address need."""
    element = rng.choice([name for name, bits in BITS.items() if not whole or bits in (8, 16, 32, 64)])
    kind = rng.random()
    if kind < 0.45:
        return Type(element, 1, element)
    if kind < 0.6:
        float_ = rng.choice(["f32", "f64"])
        return rng.choice([Type("index", 1, "i64"), Type(f"complex<{float_}>", 2, float_)])
    count = rng.choice([1, 2, 3, 4, 5, 7, 8, 16])
    if kind > 0.92:
        return Type(f"vector<2x{count}x{element}>", 2 * count, element)
    return Type(f"vector<{count}x{element}>", count, element)


@dataclass
class Text:
    """Operations that make values of words, and words of values."""

    lines: list[str] = field(default_factory=list)
    number: int = 0

    def op(self, text: str) -> str:
        self.number += 1
        self.lines.append(f"%v{self.number} = {text}")
        return f"%v{self.number}"

    def element_of(self, word: str, kind: str) -> str:
        bits = word if BITS[kind] == 64 else self.op(f"arith.trunci {word} : i64 to i{BITS[kind]}")
        return bits if kind[0] == "i" else self.op(f"arith.bitcast {bits} : i{BITS[kind]} to {kind}")

    def word_of(self, value: str, kind: str) -> str:
        bits = value if kind[0] == "i" else self.op(f"arith.bitcast {value} : {kind} to i{BITS[kind]}")
        return bits if BITS[kind] == 64 else self.op(f"arith.extui {bits} : i{BITS[kind]} to i64")

    def value(self, kind: Type, words: Sequence[str]) -> str:
        if kind.name == "index":
            return self.op(f"arith.index_cast {words[0]} : i64 to index")
        elements = [self.element_of(word, kind.element) for word in words]
        if kind.name == kind.element:
            return elements[0]
        made = "complex.create" if kind.name.startswith("complex") else "vector.from_elements"
        return self.op(f"{made} {', '.join(elements)} : {kind.name}")

    def words(self, value: str, kind: Type) -> list[str]:
        if kind.name == "index":
            return [self.op(f"arith.index_cast {value} : index to i64")]
        if kind.name == kind.element:
            return [self.word_of(value, kind.element)]
        if kind.name.startswith("complex"):
            parts = [self.op(f"complex.{part} {value} : {kind.name}") for part in ("re", "im")]
        else:
            first = self.number + 1
            self.number += kind.count
            parts = [f"%v{n}" for n in range(first, self.number + 1)]
            self.lines.append(f"{', '.join(parts)} = vector.to_elements {value} : {kind.name}")
        return [self.word_of(part, kind.element) for part in parts]


def function(rng: random.Random, number: int) -> tuple[str, list[tuple[int, int]]]:
    """Text, and for each word that the kernel stores the word it is of and how many bits."""
    by_address = rng.random() < 0.5
    kinds = [any_type(rng, whole=by_address) for _ in range(rng.randint(1, 6))]
    order = rng.sample(range(len(kinds)), rng.randint(1, len(kinds)))
    names, results = ", ".join(k.name for k in kinds), ", ".join(kinds[i].name for i in order)
    kind = f"({names}) -> ({results})"
    text, first, values = Text(), [], []
    count = 0
    for k in kinds:
        first.append(count)
        places = [text.op(f"arith.constant {n} : index") for n in range(count, count + k.count)]
        values.append(text.value(k, [text.op(f"memref.load %in[{p}] : memref<?xi64>") for p in places]))
        count += k.count
    returned = [f"%r{i}" for i in order]
    called = f"call @g{number}"
    if by_address:
        one, other = (text.op(f"func.constant @{n}{number} : {kind}") for n in "gh")
        called = f"call_indirect {text.op(f'arith.select %yes, {one}, {other} : {kind}')}"
    text.lines.append(f"{', '.join(returned)} = func.{called}({', '.join(values)}) : {kind}")
    wanted: list[tuple[int, int]] = []
    for name, i in zip(returned, order, strict=True):
        for n, word in enumerate(text.words(name, kinds[i])):
            place = text.op(f"arith.constant {len(wanted)} : index")
            text.lines.append(f"memref.store {word}, %out[{place}] : memref<?xi64>")
            wanted.append((first[i] + n, BITS[kinds[i].element]))
    signature = ", ".join(f"%a{n}: {k.name}" for n, k in enumerate(kinds))
    given = ", ".join(f"%a{i}" for i in order)
    body = "\n".join(text.lines)
    functions = [
        f"func.func @{n}{number}({signature}) -> ({results}) {{ return {given} : {results} }}\n" for n in "gh"
    ]
    kernel = f"gpu.func @k{number}(%in: memref<?xi64>, %out: memref<?xi64>, %yes: i1) kernel {{"
    return f"{''.join(functions)}{kernel}\n{body}\ngpu.return\n}}\n", wanted


@pytest.mark.parametrize(("chip", "level", "seed"), [("sm_60", 0, 1), ("sm_90", 0, 5), ("sm_90", 3, 2)])
def test_arguments_come_back(chip: str, level: int, seed: int) -> None:
    rng = random.Random(seed)
    made = [function(rng, number) for number in range(FUNCTIONS)]
    module = "gpu.module @k {\n" + "".join(text for text, _ in made) + "}\n"
    text = device_ir(ptx_text(chip, module, opt_level=level), strict=True)
    given = np.random.default_rng(seed).integers(0, 2**64, WORDS, np.uint64)

    def work(numbers: Sequence[int]) -> Iterator[list[int]]:
        loaded = DeviceModule.load(text, chip)
        for number in numbers:
            out = np.zeros(WORDS, np.uint64)
            loaded.launch(f"k{number}", 1, 1, given.copy(), out, np.uint8(number % 2))
            yield out[: len(made[number][1])].tolist()

    found = dict(each_in_child(work, range(FUNCTIONS)))
    for number, (_, wanted) in enumerate(made):
        assert found[number] == [int(given[place]) % (1 << bits) for place, bits in wanted], made[number][0]
