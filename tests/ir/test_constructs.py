"""Each construct of a kernel compiles for NVIDIA and AMD chips."""

import pytest
from unit.engine.device_steps import compile_module, kernel

CHIPS = ("sm_60", "sm_90", "gfx90a")
STORE = "\nmemref.store %r, %a[%i] : memref<?xf32>"
LIMITS = "%c0 = arith.constant 0 : index\n%c1 = arith.constant 1 : index\n"
SHARED = "memref<?xi8, #gpu.address_space<workgroup>>"
VIEW = "memref<8xf32, #gpu.address_space<workgroup>>"
MATRIX = "memref<16x16xf32>"
SUBVIEW = "memref<4x4xf32, strided<[16, 1], offset: ?>>"

CONSTRUCTS = {
    "printf": 'gpu.printf "hi %d\\n", %n : i32',
    "vector": "%v = vector.load %a[%i] : memref<?xf32>, vector<4xf32>\n"
    "%w = arith.addf %v, %v : vector<4xf32>\n"
    "vector.store %w, %a[%i] : memref<?xf32>, vector<4xf32>",
    "vector transfer": "%v = vector.transfer_read %a[%i], %x : memref<?xf32>, vector<4xf32>\n"
    "vector.transfer_write %v, %a[%i] : vector<4xf32>, memref<?xf32>",
    "vector reduction": "%v = vector.load %a[%i] : memref<?xf32>, vector<4xf32>\n"
    "%r = vector.reduction <add>, %v : vector<4xf32> into f32" + STORE,
    "index": "%j = index.add %i, %i\nmemref.store %x, %a[%j] : memref<?xf32>",
    "subview": f"%s = memref.subview %m[%i, 0][4, 4][1, 1] : memref<16x16xf32> to {SUBVIEW}\n"
    f"memref.store %x, %s[%i, %i] : {SUBVIEW}",
    "copy": "memref.copy %m, %m : memref<16x16xf32> to memref<16x16xf32>",
    "affine": "affine.for %q = 0 to 16 { affine.store %x, %m[%q, %q] : memref<16x16xf32> }",
    "scf.for": LIMITS + "scf.for %q = %c0 to %i step %c1 { memref.store %x, %a[%q] : memref<?xf32> }",
    "scf.while": LIMITS
    + "%e = scf.while (%q = %i) : (index) -> index { %c = arith.cmpi ult, %q, %c0 : index\n"
    "scf.condition(%c) %q : index } do { ^bb0(%q: index):\n%z = arith.addi %q, %c1 : index\n"
    "scf.yield %z : index }\nmemref.store %x, %a[%e] : memref<?xf32>",
    "scf.parallel": LIMITS + "scf.parallel (%q) = (%c0) to (%i) step (%c1) {\n"
    "memref.store %x, %a[%q] : memref<?xf32>\nscf.reduce }",
    "scf.forall": "scf.forall (%q) in (16) { memref.store %x, %m[%q, %q] : memref<16x16xf32> }",
    "linalg.fill": "linalg.fill ins(%x : f32) outs(%m : memref<16x16xf32>)",
    "linalg.matmul": f"linalg.matmul ins(%m, %m : {MATRIX}, {MATRIX}) outs(%m : {MATRIX})",
    "atomic add": "%r = memref.atomic_rmw addf %x, %a[%i] : (f32, memref<?xf32>) -> f32" + STORE,
    "atomic maximum": "%r = memref.atomic_rmw maximumf %x, %a[%i] : (f32, memref<?xf32>) -> f32" + STORE,
    "atomic region": "%r = memref.generic_atomic_rmw %a[%i] : memref<?xf32> {\n^bb0(%c: f32):\n"
    "%y = arith.mulf %c, %x : f32\nmemref.atomic_yield %y : f32 }" + STORE,
    "shuffle": "%w = arith.constant 32 : i32\n%o = arith.constant 1 : i32\n"
    "%r, %p = gpu.shuffle xor %x, %o, %w : f32" + STORE,
    "all_reduce": "%r = gpu.all_reduce add %x uniform {} : (f32) -> (f32)" + STORE,
    "subgroup_reduce": "%r = gpu.subgroup_reduce add %x : (f32) -> f32" + STORE,
    "barrier": "gpu.barrier\nmemref.store %x, %a[%i] : memref<?xf32>",
    "dynamic workgroup memory": f"%s = gpu.dynamic_shared_memory : {SHARED}\n%c0 = arith.constant 0 : index\n"
    f"%v = memref.view %s[%c0][] : {SHARED} to {VIEW}\nmemref.store %x, %v[%i] : {VIEW}",
    "alloca": "%s = memref.alloca() : memref<8xf32>\nmemref.store %x, %s[%i] : memref<8xf32>\n"
    "%r = memref.load %s[%i] : memref<8xf32>" + STORE,
    "bools in memory": "%s = memref.alloca() : memref<4xi1>\n%c = arith.cmpf olt, %x, %x : f32\n"
    "memref.store %c, %s[%i] : memref<4xi1>\n%d = memref.load %s[%i] : memref<4xi1>\n"
    "%r = arith.select %d, %x, %x : f32" + STORE,
    "bf16": "%d = arith.truncf %x : f32 to bf16\n%e = arith.mulf %d, %d : bf16\n"
    "%r = arith.extf %e : bf16 to f32" + STORE,
    "math f16": "%d = arith.truncf %x : f32 to f16\n%e = math.exp %d : f16\n%r = arith.extf %e : f16 to f32"
    + STORE,
    "math vector": "%v = vector.broadcast %x : f32 to vector<4xf32>\n%e = math.exp %v : vector<4xf32>\n"
    "vector.store %e, %a[%i] : memref<?xf32>, vector<4xf32>",
    "bit counts": "%p = math.ctpop %i : index\n%q = math.ctlz %p : index\n"
    "memref.store %x, %a[%q] : memref<?xf32>",
    "complex": "%c = complex.create %x, %x : complex<f32>\n%d = complex.mul %c, %c : complex<f32>\n"
    "%r = complex.re %d : complex<f32>" + STORE,
    "identifiers": "%g = gpu.global_id x\n%q = gpu.grid_dim y\n%l = gpu.lane_id\n"
    "%s = gpu.subgroup_size : index\n"
    "%u = gpu.subgroup_id : index\n%n1 = gpu.num_subgroups : index\n%z = arith.addi %g, %q : index\n"
    "%y = arith.addi %z, %l : index\n%w = arith.addi %y, %s : index\n%t = arith.addi %w, %u : index\n"
    "%k = arith.addi %t, %n1 : index\nmemref.store %x, %a[%k] : memref<?xf32>",
    "call": "%r = func.call @h(%x) : (f32) -> f32" + STORE,
    "constant table": "%g = memref.get_global @tab : memref<4xf32>\n%r = memref.load %g[%i] : memref<4xf32>"
    + STORE,
    "ceiling division": "%q = arith.ceildivsi %n, %n : i32\n%r = arith.sitofp %q : i32 to f32" + STORE,
    "poison": "%r = ub.poison : f32" + STORE,
    "assert": '%c = arith.cmpi ult, %i, %i : index\ncf.assert %c, "bad"',
    "math f32": "%b = math.sin %x : f32\n%c = math.powf %b, %x : f32\n%r = math.erf %c : f32" + STORE,
    "math f64": "%d = arith.extf %x : f32 to f64\n%e = math.exp %d : f64\n%p = math.powf %e, %d : f64\n"
    "%t = math.tanh %p : f64\n%r = arith.truncf %t : f64 to f32" + STORE,
}
EXTRA = {
    "call": "func.func @h(%x: f32) -> f32 { %r = arith.mulf %x, %x : f32\n return %r : f32 }",
    "constant table": 'memref.global "private" constant @tab : memref<4xf32> = dense<[1.0, 2.0, 3.0, 4.0]>',
}


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", CONSTRUCTS)
def test_compiles(name: str, chip: str) -> None:
    built = compile_module(kernel(CONSTRUCTS[name], extra=EXTRA.get(name, "")), chip)
    assert built.object.startswith(b"\x7fELF")
    assert [k["name"] for k in built.kernels] == ["f"]


@pytest.mark.parametrize(
    "chip",
    [
        "sm_52",
        "sm_75",
        "sm_89",
        "sm_100a",
        "sm_121f",
        "gfx803",
        "gfx942",
        "gfx1030",
        "gfx1201",
        "gfx11-generic",
    ],
)
def test_a_reduction_compiles_for_old_and_new_chips(chip: str) -> None:
    assert compile_module(kernel(CONSTRUCTS["all_reduce"]), chip).object.startswith(b"\x7fELF")
