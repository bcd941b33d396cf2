"""Programs with operations on sparse matrices, with and without tokens, run on the CPU beside NumPy."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from devices import at_hand
from e2e.command import build_project, execute, run_on_cpu

RNG = np.random.default_rng(14)
KINDS = {"f4": "f32", "f8": "f64", "i4": "i32", "i8": "i64", "f2": "f16"}


def integers(*shape: int, kind: str = "f8", density: float = 1.0) -> np.ndarray:
    return (RNG.integers(-4, 5, shape) * (RNG.random(shape) < density)).astype(kind)


A = integers(6, 8, density=0.4)
A[2] = 0
A[:, 5] = 0
B, C = integers(8, 3), integers(6, 3)
X, Y = integers(8), integers(6)
LEFT, RIGHT = integers(6, 5), integers(8, 5)
S = integers(8, 4, density=0.5)
H = integers(32, 64, kind="f2")  # cuSPARSELt takes multiples of 16
H[:, np.isin(np.arange(64) % 8, [0, 2, 5, 7])] = 0
HB, HC = integers(64, 16, kind="f2"), integers(32, 16, kind="f2")


def compressed(matrix: np.ndarray, columns: str = "i4") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    at = np.argwhere(matrix)
    starts = np.concatenate([[0], np.cumsum((matrix != 0).sum(axis=1))])
    return starts.astype("i4"), at[:, 1].astype(columns), matrix[tuple(at.T)]


class Function:
    """Host code of a function, whose gpu operations are all synchronous, or a chain of tokens."""

    def __init__(self, name: str, *, chained: bool) -> None:
        self.name, self.chained = name, chained
        self.globals: list[str] = []
        self.lines: list[str] = ["%t0 = gpu.wait async"] if chained else []
        self.tokens = 0

    def op(self, op: str, rest: str, results: str = "") -> None:
        if self.chained:
            names = f"{results}, %t{self.tokens + 1}" if results else f"%t{self.tokens + 1}"
            self.lines.append(f"{names} = gpu.{op} async [%t{self.tokens}] {rest}")
            self.tokens += 1
        else:
            self.lines.append(f"{results} = gpu.{op} {rest}" if results else f"gpu.{op} {rest}")

    def wait(self) -> None:
        if self.chained:
            self.lines += [f"gpu.wait [%t{self.tokens}]", f"%t{self.tokens + 1} = gpu.wait async"]
            self.tokens += 1

    def constant(self, value: int) -> str:
        self.lines.append(f"%c{len(self.lines)} = arith.constant {value} : index")
        return f"%c{len(self.lines) - 1}"

    def array(self, name: str, values: np.ndarray) -> tuple[str, str]:
        """Upload ``values``; return the name and the type of the memref."""
        flat = values.reshape(-1)
        kind = f"memref<{flat.size}x{KINDS[values.dtype.str[1:]]}>"
        text = ", ".join(repr(v) for v in flat.tolist())
        self.globals.append(
            f'memref.global "private" @{self.name}_{name} : {kind} = dense<[{text}]> {{alignment = 64}}'
        )
        self.lines.append(f"%h_{name} = memref.get_global @{self.name}_{name} : {kind}")
        self.op("alloc", f"() : {kind}", f"%{name}")
        self.op("memcpy", f"%{name}, %h_{name} : {kind}, {kind}")
        return f"%{name}", kind

    def tensor(self, name: str, values: np.ndarray, skip: int = 0) -> str:
        """Create a dense tensor of an array of which the first ``skip`` elements are no part."""
        memref, kind = self.array(
            f"m_{name}", np.concatenate([np.ones(skip, values.dtype), values.reshape(-1)])
        )
        if skip:
            whole, kind = kind, kind.replace("memref<", "").partition("x")[2]
            kind = f"memref<{values.size}x{kind[:-1]}, strided<[1], offset: {skip}>>"
            self.lines.append(
                f"%part_{name} = memref.subview {memref}[{skip}] [{values.size}] [1] : {whole} to {kind}"
            )
            memref = f"%part_{name}"
        sizes = [self.constant(size) for size in values.shape]
        types = ", ".join(["index"] * len(sizes))
        self.op("create_dn_tensor", f"{memref}, {', '.join(sizes)} : {types} into {kind}", f"%{name}")
        return f"%{name}"

    def matrix(self, name: str, op: str, sizes: list[int], *arrays: np.ndarray) -> str:
        given = [self.array(f"{name}{n}", array) for n, array in enumerate(arrays)]
        numbers = ", ".join([self.constant(size) for size in sizes])
        names, types = (", ".join(part) for part in zip(*given, strict=True))
        self.op(op, f"{numbers}, {names} : {types}", f"%{name}")
        return f"%{name}"

    def show(self, name: str, values: np.ndarray) -> None:
        """Print an array of f64 or i32 of the device."""
        kind = KINDS[values.dtype.str[1:]]
        memref = f"memref<{values.size}x{kind}>"
        self.lines.append(f"%to_{name} = memref.alloc() : {memref}")
        self.op("memcpy", f"%to_{name}, %{name} : {memref}, {memref}")
        self.wait()
        self.lines.append(f"%any_{name} = memref.cast %to_{name} : {memref} to memref<*x{kind}>")
        self.lines.append(f"call @printMemref{kind.upper()}(%any_{name}) : (memref<*x{kind}>) -> ()")

    def text(self) -> str:
        body = "\n  ".join([*self.lines, f"gpu.wait [%t{self.tokens}]" if self.chained else "", "return"])
        return "\n".join([*self.globals, f"func.func @{self.name}() {{\n  {body}\n}}\n"])


def create(f: Function, form: str) -> str:
    """Create the matrix A in one of the formats."""
    at = np.argwhere(A)
    rows, cols = at.T.astype("i8")
    sizes, values = [6, 8, len(at)], A[tuple(at.T)]
    match form:
        case "coo":
            return f.matrix("a", "create_coo", sizes, rows, cols, values)
        case "coo_aos":
            return f.matrix("a", "create_coo_aos", sizes, at.astype("i4"), values)
        case "csr":
            return f.matrix("a", "create_csr", sizes, *compressed(A))
        case "csr_mixed":
            return f.matrix("a", "create_csr", sizes, *compressed(A, columns="i8"))
        case "csc":
            return f.matrix("a", "create_csc", sizes, *compressed(A.T))
    width = 4 if form == "bsr_wide" else 2
    blocks = A.reshape(3, 2, 8 // width, width).swapaxes(1, 2)
    starts, cols, _ = compressed(blocks.any(axis=(2, 3)).astype(int))
    counts = [3, 8 // width, len(cols), 2, width]
    return f.matrix("a", "create_bsr", counts, starts, cols, blocks[blocks.any(axis=(2, 3))])


def buffer(f: Function, size: str = "%size") -> str:
    f.op("alloc", f"({size}) : memref<?xi8>", f"{size}_buffer")
    return f"{size}_buffer"


def spmv(f: Function, form: str) -> list[np.ndarray]:
    a, x, y = create(f, form), f.tensor("x", X, skip=2), f.tensor("y", Y)
    f.op("spmv_buffer_size", f"{a}, {x}, {y} into f64", "%size")
    f.op("spmv", f"{a}, {x}, {y}, {buffer(f)} : memref<?xi8> into f64")
    # Handles in a loop, and a transposed product, which cuSPARSE lacks for square blocks.
    f.wait()
    times = 0 if form == "bsr" else 3
    low, high, step = (f.constant(number) for number in (0, times, 1))
    f.lines += [
        f"scf.for %i = {low} to {high} step {step} {{",
        f"gpu.spmv {a}{{TRANSPOSE}}, {y}, {x}, %size_buffer : memref<?xi8> into f64",
        "}",
    ]
    f.show("m_y", Y)
    f.show("m_x", np.zeros(10))
    f.op("destroy_sp_mat", a)
    f.op("destroy_dn_tensor", x)
    y1 = A @ X + Y
    return [y1, np.concatenate([np.ones(2), X + times * A.T @ y1])]


def spmm(f: Function) -> list[np.ndarray]:
    a, b, c = create(f, "csr"), f.tensor("b", B.T.copy()), f.tensor("c", C)
    f.op("spmm_buffer_size", f"{a}, {b}{{TRANSPOSE}}, {c} : index into f64", "%size")
    f.op("spmm", f"{a}, {b}{{TRANSPOSE}}, {c}, {buffer(f)} : memref<?xi8> into f64")
    f.op("destroy_dn_tensor", c)
    f.show("m_c", C)
    return [A @ B + C]


def sddmm(f: Function) -> list[np.ndarray]:
    a, left, right = create(f, "csr"), f.tensor("l", LEFT), f.tensor("r", RIGHT)
    f.op("sddmm_buffer_size", f"{left}, {right}{{TRANSPOSE}}, {a} into f64", "%size")
    f.op("sddmm", f"{left}, {right}{{TRANSPOSE}}, {a}, {buffer(f)} : memref<?xi8> into f64")
    f.show("a2", A[A != 0])
    return [(LEFT @ RIGHT.T + A)[A != 0]]


def spgemm(f: Function) -> list[np.ndarray]:
    a = create(f, "csr")
    s = f.matrix("s", "create_csr", [8, 4, np.count_nonzero(S)], *compressed(S))
    result = f.matrix("r", "create_csr", [6, 4, 0], np.zeros(7, "i4"), np.zeros(1, "i4"), np.zeros(1))
    f.op("spgemm_create_descr", "", "%d")
    f.lines.append("%none = memref.alloc() : memref<0xi8>")
    nothing = f.constant(0)
    for kind, size in (("WORK_ESTIMATION", "%work"), ("COMPUTE", "%temporary")):
        operands = f"{{{kind}}} {a}, {s}, {result}, %d"
        op = "spgemm_work_estimation_or_compute"
        f.op(op, f"{operands}, {nothing}, %none : f64 into memref<0xi8>", size)
        memory = buffer(f, size)
        f.op(op, f"{operands}, {size}, {memory} : f64 into memref<?xi8>", f"{size}_used")
    f.op("spmat_get_size", result, "%rows, %cols, %count")
    product = (A != 0).astype(int) @ (S != 0) != 0
    starts, indices, _ = compressed(product.astype(int))
    # The sizes are constants, so that the result can be printed; the program prints the real one, too.
    f.op("alloc", f"() : memref<{indices.size}xi32>", "%indices")
    f.op("alloc", f"() : memref<{indices.size}xf64>", "%values")
    types = f"memref<7xi32>, memref<{indices.size}xi32>, memref<{indices.size}xf64>"
    f.op("set_csr_pointers", f"{result}, %r0, %indices, %values : {types}")
    f.op("spgemm_copy", f"{a}, {s}, {result}, %d : f64")
    f.op("spgemm_destroy_descr", "%d")
    f.lines.append("%one = memref.alloc() : memref<1xi32>")
    zero = f.constant(0)
    f.lines += [
        "%count32 = arith.index_cast %count : index to i32",
        f"memref.store %count32, %one[{zero}] : memref<1xi32>",
        "%any = memref.cast %one : memref<1xi32> to memref<*xi32>",
        "call @printMemrefI32(%any) : (memref<*xi32>) -> ()",
    ]
    f.show("r0", starts)
    f.show("indices", indices.astype("i4"))
    f.show("values", np.zeros(indices.size))
    return [np.array([indices.size]), starts, indices, (A @ S)[product]]


def structured(f: Function) -> list[np.ndarray]:
    memref, kind = f.array("values", H)
    sizes = ", ".join(f.constant(size) for size in H.shape)
    f.op("create_2to4_spmat", f"{{PRUNE_AND_CHECK}} {sizes}, {memref} : {kind}", "%a")
    b, c = f.tensor("b", HB), f.tensor("c", HC)
    f.op("spmm_buffer_size", f"%a, {b}, {c} : index, index, index into f16", "%size, %size1, %size2")
    buffers = ", ".join([buffer(f, size) for size in ("%size", "%size1", "%size2")])
    types = ", ".join(["memref<?xi8>"] * 3)
    f.op("spmm", f"%a, {b}, {c}, {buffers} : {types} into f16")
    f.op("destroy_sp_mat", "%a")
    f.op("destroy_dn_tensor", b)
    f.show("m_c", HC)
    return [H @ HB + HC]


# x has two elements, the matrix three columns.
MISMATCH = """func.func @main() {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %c2 = arith.constant 2 : index
  %i = memref.alloc() : memref<4xi32>
  %v = memref.alloc() : memref<4xf32>
  %a = gpu.create_csr %c2, %c3, %c0, %i, %i, %v : memref<4xi32>, memref<4xi32>, memref<4xf32>
  %x = gpu.create_dn_tensor %v, %c2 : index into memref<4xf32>
  gpu.spmv %a, %x, %x, %v : memref<4xf32> into f32
  return
}"""
# cuSPARSE 12 lacks these; the CPU has all.
ON_CPUS_ONLY = ("coo_aos", "csr_mixed", "bsr_wide")
FUNCTIONS = {
    **{f"spmv_{form}": partial(spmv, form=form) for form in ("coo", "csr", "csc", "bsr", *ON_CPUS_ONLY)},
    "spmm": spmm, "sddmm": sddmm, "spgemm": spgemm, "structured": structured,
}  # fmt: skip
MODES = {"synchronous": False, "chained": True}
PRINTED = ("F64", "I32", "F16")


def program(
    chained: bool, names: Iterable[str] = tuple(FUNCTIONS)
) -> tuple[str, dict[str, list[np.ndarray]]]:
    texts, expected = [], {}
    for name in names:
        write = FUNCTIONS[name]
        function = Function(name, chained=chained)
        expected[name] = write(function)
        texts.append(function.text())
    declared = [f"func.func private @printMemref{kind}(memref<*x{kind.lower()}>)" for kind in PRINTED]
    calls = "\n  ".join(f"call @{name}() : () -> ()" for name in expected)
    return "\n".join([*declared, *texts, f"func.func @main() {{\n  {calls}\n  return\n}}\n"]), expected


def build(folder: Path, programs: dict[str, str]) -> Path:
    entries = [f"  {name}: {{sources: [{name}.mlir]}}" for name in programs]
    yaml = "version: 1\ntargets: {cpu: {}}\nprograms:\n" + "\n".join(entries)
    return build_project(folder, yaml, {f"{name}.mlir": text for name, text in programs.items()})


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = {mode: program(chained)[0] for mode, chained in MODES.items()}
    return build(tmp_path_factory.mktemp("sparse"), texts | {"mismatch": MISMATCH})


def check(out: str, expected: dict[str, list[np.ndarray]]) -> None:
    printed = re.findall(r"data =\s*\[([^]]*)\]", out)
    found = [[float(number) for number in text.split(",")] for text in printed]
    names = [(name, array) for name, arrays in expected.items() for array in arrays]
    for (name, wanted), values in zip(names, found, strict=True):
        assert values == wanted.reshape(-1).astype(float).tolist(), name


@pytest.mark.parametrize("mode", MODES)
def test_every_operation(built: Path, mode: str) -> None:
    outcome = run_on_cpu(built / mode / mode)
    assert outcome.code == 0, outcome.err
    check(outcome.out, program(MODES[mode])[1])


@pytest.mark.cuda
@pytest.mark.skipif(at_hand.cuda() is None, reason="no NVIDIA GPU")
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if not name.endswith(ON_CPUS_ONLY)])
def test_on_cuda(tmp_path: Path, name: str) -> None:
    texts = {mode: program(chained, [name])[0] for mode, chained in MODES.items()}
    folder = build(tmp_path, texts)
    for mode, chained in MODES.items():
        done = execute(folder / mode / mode, env=os.environ | {"GPUBUILD_DEVICE": "cuda"})
        check(done.out, program(chained, [name])[1])


def test_errors_name_the_operation(built: Path) -> None:
    outcome = run_on_cpu(built / "mismatch/mismatch")
    assert outcome.code == 1
    assert outcome.err.startswith(
        "gpubuild: the sizes of a product do not match: 2 x 3 times 2 x 1 into 2 x 1"
    )
    assert "  location: mismatch.mlir:9:3 (gpu.spmv in @main)\n" in outcome.err
