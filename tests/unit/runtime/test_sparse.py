"""Sparse matrices: the CPU's results beside NumPy, and calls of stand-ins of cuSPARSE and hipSPARSE."""

# ruff: noqa: E501  (programs inside strings are not broken for width)

import itertools

import numpy as np
import pytest
from unit.runtime.programs import Runtime

BEGIN = """
for name, result, arguments in [
    ('CreateDnVec', P, [I, P, c_int32, P]), ('CreateDnMat', P, [I, I, P, c_int32, P]),
    ('CreateCoo', P, [I, I, I, P, P, P, c_int32, c_int32, P]), ('CreateCooAoS', P, [I, I, I, P, P, c_int32, c_int32, P]),
    ('CreateCsr', P, [I, I, I, P, P, P, c_int32, c_int32, c_int32, P]),
    ('CreateCsc', P, [I, I, I, P, P, P, c_int32, c_int32, c_int32, P]),
    ('CreateBsr', P, [I, I, I, I, I, P, P, P, c_int32, c_int32, c_int32, P]),
    ('DestroyDnVec', None, [P, P]), ('DestroyDnMat', None, [P, P]), ('DestroySpMat', None, [P, P]),
    ('SpMVBufferSize', I, [c_int32, P, P, P, c_int32, P]), ('SpMV', None, [c_int32, P, P, P, c_int32, P, P]),
    ('SpMMBufferSize', I, [c_int32, c_int32, P, P, P, c_int32, P]), ('SpMM', None, [c_int32, c_int32, P, P, P, c_int32, P, P]),
    ('SDDMMBufferSize', I, [c_int32, c_int32, P, P, P, c_int32, P]), ('SDDMM', None, [c_int32, c_int32, P, P, P, c_int32, P, P]),
    ('SpGEMMCreateDescr', P, [P]), ('SpGEMMDestroyDescr', None, [P, P]),
    ('SpGEMMWorkEstimation', I, [P, c_int32, c_int32, P, P, P, c_int32, I, P, P]),
    ('SpGEMMCompute', I, [P, c_int32, c_int32, P, P, P, c_int32, I, P, P]),
    ('SpGEMMCopy', None, [P, c_int32, c_int32, P, P, P, c_int32, P]),
    ('SpMatGetSize', None, [P, P, P, P, P]), ('SetCsrPointers', None, [P, P, P, P, P]),
    ('CusparseLtCreate2To4SpMat', None, [P, I, I, P, c_int32, P]), ('CreateCuSparseLtDnMat', None, [P, I, I, P, c_int32, P]),
    ('CuSparseLtSpMMBufferSize', None, [P, c_int32, c_int32, P, P, P, c_int32, c_int32, P]),
    ('CuSparseLtSpMM', None, [P, P, P, P, P, P, P]),
    ('DestroyCuSparseLtSpMat', None, [P, P]), ('DestroyCuSparseLtDnMat', None, [P, P]),
]:
    function = getattr(rt, 'mgpu' + name)
    function.restype, function.argtypes = result, arguments
    globals()[name] = function
kept = {}
def data(text):
    content = bytes.fromhex(text)
    buffer = create_string_buffer(content, max(1, len(content)))
    kept[addressof(buffer)] = buffer
    return addressof(buffer)
s = mgpuStreamCreate()
def show(address, count):
    mgpuStreamSynchronize(s)
    print(string_at(address, count).hex(), flush=True)
"""
SPGEMM = f"""
def multiply(mode_a, mode_b, a, b):
    starts, product = data('{"ff" * 104}'), SpGEMMCreateDescr(s)
    c = CreateCsr(12, 12, 0, starts, None, None, 3, 2, 5, s)
    def step(function, size):
        return function(product, mode_a, mode_b, a, b, c, 5, size, data('00' * size), s)
    step(SpGEMMWorkEstimation, step(SpGEMMWorkEstimation, 0))
    step(SpGEMMCompute, step(SpGEMMCompute, 0))
    rows, cols, count = c_int64(), c_int64(), c_int64()
    SpMatGetSize(c, byref(rows), byref(cols), byref(count), s)
    print(rows.value, cols.value, count.value)
    indices, values = data('ff' * (4 * count.value)), data('ff' * (16 * count.value))
    SetCsrPointers(c, starts, indices, values, s)
    SpGEMMCopy(product, mode_a, mode_b, a, b, c, 5, s)
    show(starts, 104); show(indices, 4 * count.value); show(values, 16 * count.value)
    SpGEMMDestroyDescr(product, s); DestroySpMat(c, s)
"""
CODES = {"f4": 0, "f8": 1, "f2": 2, "i1": 3, "c8": 4, "c16": 5, "i4": 10}  # cudaDataType
INDICES = {"i4": 2, "i8": 3}
FORMS = ("coo", "coo_aos", "csr", "csc", "bsr")
MODES = {0: lambda m: m, 1: lambda m: m.T, 2: lambda m: m.conj().T}


def hexed(array: np.ndarray) -> str:
    return f"data('{np.ascontiguousarray(array).tobytes().hex()}')"


def dense(array: np.ndarray, name: str) -> str:
    kind = CODES[array.dtype.str[1:]]
    shape = ", ".join(map(str, array.shape))
    return f"{name}_ = {hexed(array)}; {name} = {'CreateDnMat' if array.ndim == 2 else 'CreateDnVec'}({shape}, {name}_, {kind}, s)"


def sparse(array: np.ndarray, form: str, index: str, name: str) -> tuple[str, np.ndarray]:
    """Return a statement that creates a sparse matrix, and the coordinates of its values in their order."""
    rows, cols = array.shape
    kind, code = CODES[array.dtype.str[1:]], INDICES[index]
    transposed = form == "csc"
    at = np.argwhere(array.T != 0)[:, ::-1] if transposed else np.argwhere(array != 0)
    if form == "bsr":
        blocks = np.argwhere(array.reshape(rows // 2, 2, cols // 3, 3).any(axis=(1, 3)))
        at = np.array(
            [(2 * r + i, 3 * c + j) for r, c in blocks for i in range(2) for j in range(3)], dtype=int
        ).reshape(-1, 2)
        majors, minors, count = blocks[:, 0], blocks[:, 1], rows // 2
    else:
        majors, minors, count = at[:, transposed * 1], at[:, 1 - transposed], cols if transposed else rows
    starts = np.concatenate([[0], np.cumsum(np.bincount(majors, minlength=count))]).astype("i8")
    values = f"{name}_ = {hexed(array[tuple(at.T)])}"
    minor = hexed(minors.astype(index))
    creates = {
        "coo": f"CreateCoo({rows}, {cols}, {len(at)}, {hexed(at[:, 0].astype(index))}, {minor}, {name}_, {code}, {kind}, s)",
        "coo_aos": f"CreateCooAoS({rows}, {cols}, {len(at)}, {hexed(at.astype(index))}, {name}_, {code}, {kind}, s)",
        "csr": f"CreateCsr({rows}, {cols}, {len(at)}, {hexed(starts)}, {minor}, {name}_, 3, {code}, {kind}, s)",
        "csc": f"CreateCsc({rows}, {cols}, {len(at)}, {hexed(starts)}, {minor}, {name}_, 3, {code}, {kind}, s)",
        "bsr": f"CreateBsr({rows // 2}, {cols // 3}, {len(minors)}, 2, 3, {hexed(starts)}, {minor}, {name}_, 3, {code}, {kind}, s)",
    }
    return f"{values}; {name} = {creates[form]}", at


def numbers(rng: np.random.Generator, shape: tuple[int, ...], kind: str, density: float = 1.0) -> np.ndarray:
    """Return small integers, whose products are exact in every type; with empty rows if not dense."""
    array = rng.integers(-3, 4, shape).astype(kind)
    if kind.startswith("c"):
        array = array + 1j * rng.integers(-3, 4, shape)
    array = (array * (rng.random(shape) < density)).astype(kind)
    if density < 1:
        array[shape[0] // 2] = 0
    return array


def on_cpu(runtime: Runtime, lines: list[str]) -> list[str]:
    """Return the lines that a program prints."""
    script = (BEGIN + "\n".join(lines)).encode()
    return runtime.run("exec(blobs[0])", script, device="cpu").ok().out.decode().splitlines()


def results(lines: list[str], *like: np.ndarray) -> list[np.ndarray]:
    return [
        np.frombuffer(bytes.fromhex(line), a.dtype).reshape(a.shape)
        for line, a in zip(lines, like, strict=False)
    ]


@pytest.mark.parametrize("form", FORMS)
def test_products_with_dense_matrices(runtime: Runtime, form: str) -> None:
    lines, expected, names = [], [], []

    def product(call: str, kind: str, result: np.ndarray) -> None:
        size = f"{call.replace('(', 'BufferSize(')}, {CODES[kind]}, s)"
        lines.append(f"{call}, {CODES[kind]}, mgpuMemAlloc({size}, s, 0), s)")
        expected.append(result)
        names.append(f"{kind} {call}")

    for kind, index in zip(("f4", "f8", "c8", "c16", "f2", "i4"), ("i4", "i8") * 3, strict=True):
        rng = np.random.default_rng(len(form) + CODES[kind])
        a = numbers(rng, (8, 12), kind, 0.3)
        lines.append(sparse(a, form, index, "a")[0])
        for mode_a, mode_b in itertools.product(MODES, MODES):
            left = MODES[mode_a](a)
            b = numbers(rng, (left.shape[1], 5) if mode_b == 0 else (5, left.shape[1]), kind)
            c = numbers(rng, (left.shape[0], 5), kind)
            lines += [dense(b, "b"), dense(c, "c")]
            product(f"SpMM({mode_a}, {mode_b}, a, b, c", kind, left @ MODES[mode_b](b) + c)
            lines.append(f"DestroyDnMat(c, s); DestroyDnMat(b, s); show(c_, {c.nbytes})")
            if mode_b == 0:
                x, y = b[:, 0].copy(), c[:, 0].copy()
                lines += [dense(x, "x"), dense(y, "y")]
                product(f"SpMV({mode_a}, a, x, y", kind, left @ x + y)
                lines.append(f"DestroyDnVec(x, s); show(y_, {y.nbytes})")
        lines.append("DestroySpMat(a, s)")
    found = results(on_cpu(runtime, lines), *expected)
    for name, result, wanted in zip(names, found, expected, strict=True):
        np.testing.assert_array_equal(result, wanted, err_msg=name)


@pytest.mark.parametrize("form", FORMS)
def test_sampled_products(runtime: Runtime, form: str) -> None:
    lines, expected = [], []
    for kind, mode_a, mode_b in itertools.product(("f4", "c16"), MODES, MODES):
        rng = np.random.default_rng(5 + mode_a + 3 * mode_b)
        c = numbers(rng, (6, 9), kind, 0.4)
        create, at = sparse(c, form, "i4", "c")
        a = numbers(rng, (6, 4) if mode_a == 0 else (4, 6), kind)
        b = numbers(rng, (4, 9) if mode_b == 0 else (9, 4), kind)
        values = (MODES[mode_a](a) @ MODES[mode_b](b) + c)[tuple(at.T)]
        lines += [
            create, dense(a, "a"), dense(b, "b"), f"SDDMMBufferSize({mode_a}, {mode_b}, a, b, c, 0, s)",
            f"SDDMM({mode_a}, {mode_b}, a, b, c, 0, None, s); DestroySpMat(c, s); show(c_, {values.nbytes})",
        ]  # fmt: skip
        expected.append(values)
    for found, wanted in zip(results(on_cpu(runtime, lines), *expected), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("form", FORMS)
def test_products_of_sparse_matrices(runtime: Runtime, form: str) -> None:
    lines, wanted = [SPGEMM], []
    for mode_a, mode_b in ((0, 0), (1, 0), (0, 2)):
        rng = np.random.default_rng(7)
        a = numbers(rng, (12, 6) if mode_a == 0 else (6, 12), "c16", 0.4)
        b = numbers(rng, (6, 12) if mode_b == 0 else (12, 6), "c16", 0.4)
        (make_a, at_a), (make_b, at_b) = sparse(a, form, "i4", "a"), sparse(b, form, "i8", "b")
        lines += [make_a, make_b, f"multiply({mode_a}, {mode_b}, a, b)"]
        has_a, has_b = np.zeros(a.shape, int), np.zeros(b.shape, int)  # BSR stores zeros in its blocks, too
        has_a[tuple(at_a.T)] = has_b[tuple(at_b.T)] = 1
        pattern = MODES[mode_a](has_a) @ MODES[mode_b](has_b) != 0
        starts = np.array([0, *np.cumsum(pattern.sum(axis=1))])
        values = (MODES[mode_a](a) @ MODES[mode_b](b))[pattern]
        wanted.append((f"12 12 {pattern.sum()}", starts, np.argwhere(pattern)[:, 1].astype("i4"), values))
    found = iter(on_cpu(runtime, lines))
    for sizes, *arrays in wanted:
        assert next(found) == sizes
        for result, array in zip(results([next(found) for _ in arrays], *arrays), arrays, strict=True):
            np.testing.assert_array_equal(result, array)


def bf16(values: np.ndarray) -> np.ndarray:
    """Round numbers that f32 can represent."""
    bits = values.astype("f4").view("u4")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("u2")


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_conversions_of_small_floats(runtime: Runtime) -> None:
    """Multiply them by the identity, into and from f64."""
    rng = np.random.default_rng(3)
    every = np.arange(65536, dtype="u2")
    wide = np.concatenate([
        rng.integers(0, 2**32, 65530, dtype="u4").view("f4").astype("f8"),
        np.array([65519.996, 65520, 2.0**-25, 2.0**-24 * 1.5, -0.0, np.inf], "f4").astype("f8"),
    ])  # fmt: skip
    wide += 0.0  # -0.0 added to 0.0 is 0.0
    wide[:30000] = rng.standard_normal(30000).astype("f4") * 2.0 ** rng.integers(-28, 17, 30000)
    zeros, ones, places = np.zeros(65536), np.ones(65536), np.arange(65536, dtype="i4")
    script = [
        f"identity = CreateCoo(65536, 65536, 65536, {hexed(places)}, {hexed(places)}, {hexed(ones)}, 2, 1, s)"
    ]
    for code in (2, 14):
        script += [f"x = CreateDnVec(65536, {hexed(every)}, {code}, s)", dense(zeros, "y")]
        script += [f"SpMV(0, identity, x, y, 1, None, s); show(y_, {zeros.nbytes})", dense(wide, "x")]
        script += [
            f"y_ = data('00' * 131072); y = CreateDnVec(65536, y_, {code}, s)",
            "SpMV(0, identity, x, y, 1, None, s); show(y_, 131072)",
        ]
    arrays = results(on_cpu(runtime, script), zeros, every, zeros, every)
    from_half, to_half, from_bf16, to_bf16 = arrays
    with np.errstate(over="ignore", invalid="ignore"):
        halves = wide.astype("f2")
    np.testing.assert_array_equal(from_half, every.view("f2").astype("f8"))
    np.testing.assert_array_equal(to_half.view("f2"), halves)
    np.testing.assert_array_equal(from_bf16, (every.astype("u4") << 16).view("f4").astype("f8"))
    finite = ~np.isnan(wide)
    np.testing.assert_array_equal(to_bf16[finite], bf16(wide[finite]))
    assert (to_bf16[~finite] & 0x7FFF > 0x7F80).all()


def test_structured_matrices(runtime: Runtime) -> None:
    lines, wanted = [], []
    for kind, flag in itertools.product(("f2", "f4", "i1"), (0, 1, 2)):
        rng = np.random.default_rng(11)
        a = numbers(rng, (4, 10), kind)
        ranks = np.zeros(a.shape, int)
        for row, col in np.ndindex(a.shape):
            group = np.abs(a[row, col // 4 * 4 : col // 4 * 4 + 4])
            here = np.abs(a[row, col])
            ranks[row, col] = (group > here).sum() + (group[: col % 4] == here).sum()
        pruned = np.where(ranks < 2, a, 0).astype(kind)
        b, c = numbers(rng, (10, 3), kind), numbers(rng, (4, 3), kind)
        code = CODES[kind]
        lines += [
            "places = [data('00' * 44104), data('00' * 11032), data('00' * 11032)]",
            f"a_, b_, c_ = {hexed(a if flag else pruned)}, {hexed(b)}, {hexed(c)}",
            f"CusparseLtCreate2To4SpMat(places[0], 4, 10, a_, {code}, s); CreateCuSparseLtDnMat(places[1], 10, 3, b_, {code}, s)",
            f"CreateCuSparseLtDnMat(places[2], 4, 3, c_, {code}, s); sizes = (c_int64 * 3)(-1, -1, -1)",
            f"CuSparseLtSpMMBufferSize(sizes, 0, 0, *places, {code}, {flag}, s); CuSparseLtSpMM(*places, None, None, None, s)",
            "DestroyCuSparseLtSpMat(places[0], s); DestroyCuSparseLtDnMat(places[1], s); DestroyCuSparseLtDnMat(places[2], s)",
            f"show(a_, {a.nbytes}); show(c_, {c.nbytes}); show(sizes, 24)",
        ]
        wanted += [pruned, pruned @ b + c, np.zeros(3, "i8")]
    for found, array in zip(results(on_cpu(runtime, lines), *wanted), wanted, strict=True):
        np.testing.assert_array_equal(found, array)


def test_empty_matrices(runtime: Runtime) -> None:
    lines = [
        f"a = CreateCsr(3, 0, 0, {hexed(np.zeros(4, 'i4'))}, None, None, 2, 2, 0, s); b = CreateDnMat(0, 2, None, 0, s)",
        dense(np.array([[1, 2], [3, 4], [5, 6]], "f4"), "c"),
        "SpMM(0, 0, a, b, c, 0, None, s); show(c_, 24)",
        "none = CreateCoo(0, 0, 0, None, None, None, 3, 1, s); x = CreateDnVec(0, None, 1, s)",
        "SpMV(0, none, x, x, 1, None, s); SDDMM(0, 0, b, CreateDnMat(2, 0, None, 0, s), none, 0, None, s); mgpuStreamSynchronize(s)",
        f"p, starts = SpGEMMCreateDescr(s), {hexed(np.full(4, 9, 'i4'))}; d = CreateCsr(0, 3, 0, {hexed(np.zeros(1, 'i4'))}, None, None, 2, 2, 0, s)",
        "e = CreateCsr(3, 3, 0, starts, None, None, 2, 2, 0, s)",
        "SpGEMMCompute(p, 0, 0, a, d, e, 0, 1, data('00'), s); SpGEMMCopy(p, 0, 0, a, d, e, 0, s); show(starts, 16)",
    ]
    c, starts = results(on_cpu(runtime, lines), np.zeros(6, "f4"), np.zeros(4, "i4"))
    assert (c.tolist(), starts.tolist()) == ([1, 2, 3, 4, 5, 6], [0, 0, 0, 0])


ONE_ROW = f"x = CreateDnVec(2, data('00' * 8), 0, s); y = CreateDnVec(1, data('00' * 4), 0, s); i = {hexed(np.array([0, 1, 5, 1], 'i4'))}; v = data('00' * 16)\n"


MISTAKES = {
    "entry 0 of a sparse matrix is in row 0 and column 5; the matrix has 1 rows and 2 columns":
        "a = CreateCsr(1, 2, 1, i, i + 8, v, 2, 2, 0, s); SpMV(0, a, x, y, 0, None, s); show(v, 4)",
    "row or column 0 of a sparse matrix has entries 1 to 5, but the matrix has 1":
        "a = CreateCsr(1, 2, 1, i + 4, i, v, 2, 2, 0, s); SpMV(0, a, x, y, 0, None, s); show(v, 4)",
    "the CPU has no sparse matrices with elements of cudaDataType 99: allowed are f16, bf16, f32, f64, i8, i32, complex<f32> and complex<f64>":
        "a = CreateCoo(1, 2, 1, i, i, v, 2, 99, s); SpMV(0, a, x, y, 0, None, s); show(v, 4)",
    "the sizes of a product do not match: 1 x 3 times 2 x 1 into 1 x 1":
        "a = CreateCsr(1, 3, 0, i, i, v, 2, 2, 0, s); SpMV(0, a, x, y, 0, None, s)",
    "a matrix has a negative size: -1 x 2, 0 entries":
        "CreateCoo(-1, 2, 0, i, i, v, 2, 0, s)",
    "a block of a sparse matrix is empty: 0 x 2":
        "CreateBsr(1, 2, 0, 0, 2, i, i, v, 2, 2, 0, s)",
    "the product of sparse matrices was not computed for this matrix":
        "SpGEMMCopy(SpGEMMCreateDescr(s), 0, 0, None, None, CreateCsr(1, 2, 1, i, i, v, 2, 2, 0, s), 0, s)",
    "a product of sparse matrices needs a result made by gpu.create_csr":
        "a = CreateCoo(1, 1, 0, i, i, v, 2, 0, s); SpGEMMCompute(SpGEMMCreateDescr(s), 0, 0, a, a, a, 0, 1, v, s)",
    "row 0 of a 2:4 matrix has more than two entries in columns 0 to 3":
        "p = data('00' * 44104); CusparseLtCreate2To4SpMat(p, 1, 4, data('00' * 2 + '3c' * 6), 2, s); b = data('00' * 64); CreateCuSparseLtDnMat(b, 4, 1, v, 2, s); c = data('00' * 64); CreateCuSparseLtDnMat(c, 1, 1, v, 2, s); CuSparseLtSpMM(p, b, c, None, None, None, s); show(v, 4)",
}  # fmt: skip


def test_errors_on_the_cpu(runtime: Runtime) -> None:
    scripts = [(BEGIN + ONE_ROW + script, {}) for script in MISTAKES.values()]
    for message, done in zip(MISTAKES, runtime.each(scripts, device="cpu"), strict=True):
        assert (done.code, f"gpubuild: {message}" in done.err) == (1, True), done.err
        assert "  device: cpu\n  call: mgpu" in done.err


# ---- through cuSPARSE and hipSPARSE ----

EVERYTHING = """
v, i = data('00' * 64), data('00' * 64)
x = CreateDnVec(4, v, 1, s)
d = CreateDnMat(3, 4, v, 1, s)
coo = CreateCoo(3, 4, 5, i, i + 8, v, 2, 1, s)
csr = CreateCsr(3, 4, 5, i, i + 8, v, 3, 2, 0, s)
csc = CreateCsc(3, 4, 5, i, i + 8, v, 2, 3, 4, s)
bsr = CreateBsr(3, 4, 5, 6, 7, i, i + 8, v, 3, 2, 0, s)
print(SpMVBufferSize(1, coo, x, x, 4, s), SpMMBufferSize(1, 2, csr, d, d, 5, s), SDDMMBufferSize(2, 1, d, d, csr, 1, s))
SpMV(1, coo, x, x, 2, v, s)
SpMM(1, 2, csr, d, d, 14, v, s)
SDDMM(2, 1, d, d, csr, 10, v, s)
p = SpGEMMCreateDescr(s)
print(SpGEMMWorkEstimation(p, 0, 1, csr, csc, coo, 4, 0, v, s), SpGEMMCompute(p, 0, 1, csr, csc, coo, 1, 16, v, s))
SpGEMMCopy(p, 0, 1, csr, csc, coo, 0, s)
rows, cols, count = c_int64(), c_int64(), c_int64()
SpMatGetSize(coo, byref(rows), byref(cols), byref(count), s)
print(rows.value, cols.value, count.value)
SetCsrPointers(csr, i, i + 8, v, s)
SpGEMMDestroyDescr(p, s); DestroySpMat(csr, s); DestroyDnMat(d, s); DestroyDnVec(x, s)
print(*(f'{n}={a:#x}' for n, a in dict(v=v, i=i, j=i + 8, s=s, x=x, d=d, coo=coo, csr=csr, csc=csc, p=p).items()))
"""
# Without the handle, which is the same in all; `one` is of the compute type.
CALLS = """
CreateDnVec 4 v 1
CreateDnMat 3 4 4 v 1 2
CreateCoo 3 4 5 i j v 2 0 1
CreateCsr 3 4 5 i j v 3 2 0 0
CreateCsc 3 4 5 i j v 2 3 0 4
CreateBsr 3 4 5 6 7 i j v 3 2 0 0 2
SpMV_bufferSize 1,0 coo x x 4 0
  factors 0000803f00000000 0000803f00000000
SpMM_bufferSize 1,2 csr d d 5 0
  factors 000000000000f03f0000000000000000 000000000000f03f0000000000000000
SDDMM_bufferSize 2,1 d d csr 1 0
  factors 000000000000f03f 000000000000f03f
SpMV 1,0 coo x x 2 0 v
  factors 003c 003c
SpMM 1,2 csr d d 14 0 v
  factors 803f 803f
SDDMM 2,1 d d csr 10 0 v
  factors 01000000 01000000
SpGEMM_createDescr
SpGEMM_workEstimation 0,1 csr csc coo 4 0 p 0 (nil)
  factors 0000803f00000000 0000000000000000
SpGEMM_compute 0,1 csr csc coo 1 0 p 16 v
  factors 000000000000f03f 0000000000000000
SpGEMM_copy 0,1 csr csc coo 0 0 p
  factors 0000803f 00000000
SpMatGetSize coo
CsrSetPointers csr i j v
SpGEMM_destroyDescr p
DestroySpMat csr
DestroyDnMat d
DestroyDnVec x
"""
LIBRARIES = [("cusparse", {"cuda": "9.0"}), ("hipsparse", {"hip": "gfx90a"})]


@pytest.mark.parametrize(("prefix", "devices"), LIBRARIES)
def test_calls_of_a_library(runtime: Runtime, prefix: str, devices: dict[str, str]) -> None:
    done = runtime.run(BEGIN + EVERYTHING, device=next(iter(devices)), sparse=True, **devices).ok()
    *printed, names = done.out.decode().splitlines()
    assert printed == ["7 8 9", "10 11", "3 4 5"]
    known = {address: name for name, _, address in (word.partition("=") for word in names.split())}
    create, *calls = [
        call.strip(" ") if call.startswith(prefix) else call for call in done.called(prefix, "  factors")
    ]
    streams = {call for call in calls if call.startswith(f"{prefix}SetStream")}
    assert (create, len(streams)) == (f"{prefix}Create", 1)
    (_, handle, stream), *_ = (call.split() for call in streams)
    assert known[stream] == "s"
    found = []
    for call in calls:
        if call not in streams:
            words = [known.get(word, word) for word in call.removeprefix(prefix).split(" ") if word != handle]
            found.append(" ".join(words).rstrip())
    assert found == CALLS.strip().splitlines()


@pytest.mark.parametrize(("prefix", "devices"), LIBRARIES)
def test_failures_of_a_library(runtime: Runtime, prefix: str, devices: dict[str, str]) -> None:
    device = next(iter(devices))
    failing = {"FAKE_FAIL": f"{prefix}SpMV=10"}
    done = runtime.run(BEGIN + EVERYTHING, device=device, sparse=True, **devices, **failing)
    assert done.code == 1
    assert done.err.startswith(
        f"gpubuild: {prefix}SpMV failed with STATUS_NOT_SUPPORTED (10): a failure to order"
    )
    assert f"  device: {device}:0 (Fake" in done.err
    assert f"  call: {prefix}SpMV (in mgpuSpMV)" in done.err
    done = runtime.run(BEGIN + "CreateDnVec(4, data('00'), 0, s)", device=device, **devices)
    assert done.code == 1
    assert (
        f"gpubuild: operations on sparse matrices need lib{prefix}, which cannot be opened: lib{prefix}.so"
        in done.err
    )
    assert "  what to do: install it, or add its folder to LD_LIBRARY_PATH\n" in done.err
    done = runtime.run(
        BEGIN + "CreateCooAoS(1, 1, 0, None, None, 2, 0, s)", device=device, sparse=True, **devices
    )
    message = f"lib{prefix} has no function {prefix}CreateCooAoS: its version does not support this operation"
    assert (done.code, message in done.err) == (1, True), done.err


def test_devices_have_handles_of_their_own(runtime: Runtime) -> None:
    script = "[(rt.mgpuSetDefaultDevice(n), CreateDnVec(4, None, 0, None)) for n in (0, 1, 0, 1)]"
    done = runtime.run(BEGIN + script, device="hip", hip="gfx90a,gfx90a", sparse=True).ok()
    assert len(done.called("hipsparseCreate")) - len(done.called("hipsparseCreateDnVec")) == 2
    assert len({call.split()[1] for call in done.called("hipsparseSetStream")}) == 2


# ---- 2:4 matrices through cuSPARSELt and hipSPARSELt ----

STRUCTURED = """
v, i, j = data('00' * 64), data('00' * 64), data('00' * 64)
a, b, c = data('00' * 44104), data('00' * 11032), data('00' * 11032)
CusparseLtCreate2To4SpMat(a, 32, 16, v, 2, s)
CreateCuSparseLtDnMat(b, 16, 64, i, 2, s); CreateCuSparseLtDnMat(c, 32, 64, j, 2, s)
sizes = (c_int64 * 3)(-1, -1, -1)
for prune in (0, 2):
    CuSparseLtSpMMBufferSize(sizes, 0, 1, a, b, c, 77, prune, s)
print(list(sizes))
CuSparseLtSpMM(a, b, c, 1, 2, 3, s)
DestroyCuSparseLtSpMat(a, s); DestroyCuSparseLtDnMat(b, s); DestroyCuSparseLtDnMat(c, s)
print(*(f'{n}={a:#x}' for n, a in dict(v=v, i=i, j=j, s=s).items()))
"""
STRUCTURED_CALLS = """
Init
StructuredDescriptorInit S1 32 16 16 16 2 2 0
DenseDescriptorInit D1 16 64 64 16 2 2
DenseDescriptorInit D2 32 64 64 16 2 2
MatmulDescriptorInit P1 0,1 S1 D1 D2 D2 2
MatmulAlgSelectionInit A1 P1 0
MatmulPlanInit L1 P1 A1
MatmulGetWorkspace L1
SpMMACompressedSize L1
MatmulPlanDestroy L1
MatmulDescriptorInit P2 0,1 S1 D1 D2 D2 2
MatmulAlgSelectionInit A2 P2 0
MatmulPlanInit L2 P2 A2
MatmulGetWorkspace L2
SpMMACompressedSize L2
SpMMAPrune P2 v v 1 s
SpMMAPruneCheck P2 v s
SpMMACompress L2 v 0x2 0x3 s
Matmul L2 1 0x2 i 1 j j 0x1 s 1
MatmulPlanDestroy L2
MatDescriptorDestroy S1
MatDescriptorDestroy D1
MatDescriptorDestroy D2
"""


@pytest.mark.parametrize(("kind", "in_i32"), [(2, None), (3, {"cuda": 0, "hip": 1})])
@pytest.mark.parametrize(("prefix", "devices"), LIBRARIES)
def test_calls_for_2to4_matrices(
    runtime: Runtime, prefix: str, devices: dict[str, str], kind: int, in_i32: dict[str, int] | None
) -> None:
    script = STRUCTURED.replace(", 2, s)", f", {kind}, s)")
    device = next(iter(devices))
    done = runtime.run(BEGIN + script, device=device, sparse=True, **devices).ok()
    sizes, names = done.out.decode().splitlines()
    known = {address: name for name, _, address in (word.partition("=") for word in names.split())}
    calls = [call.removeprefix(f"{prefix}Lt").strip() for call in done.called(f"{prefix}Lt")]
    found = [" ".join(known.get(word, word) for word in call.split()) for call in calls]
    expected = STRUCTURED_CALLS.replace(" 16 2 2", f" 16 {kind} 2")
    if in_i32:
        expected = expected.replace("D2 D2 2", f"D2 D2 {in_i32[device]}")
    assert (sizes, found) == ("[16, 32, 48]", expected.strip().splitlines())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"FAKE_FAIL": "cusparseLtMatmulPlanInit=10"}, "cusparseLtMatmulPlanInit failed with CUSPARSE_STATUS_NOT_SUPPORTED (10)"),
        ({"FAKE_SPARSELT": "502"}, "libcusparseLt.so.0 is of version 0.5: install 0.6 or newer"),
        ({"FAKE_NOT_2TO4": "1"}, "a matrix is not 2:4 after it was pruned"),
        ({"sparse": False}, "2:4 matrices need libcusparseLt.so.0, which cannot be opened"),
    ],
)  # fmt: skip
def test_failures_of_cusparselt(runtime: Runtime, settings: dict[str, object], message: str) -> None:
    options: dict[str, object] = {"device": "cuda", "sparse": True, "cuda": "9.0", **settings}
    done = runtime.run(BEGIN + STRUCTURED, **options)
    assert (done.code, message in done.err) == (1, True), done.err
