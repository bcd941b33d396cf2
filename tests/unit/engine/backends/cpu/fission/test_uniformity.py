"""Which values are the same for a workgroup, and which are worth computing again."""

from gpubuild.engine.backends.cpu.fission.item_code import Recompute
from gpubuild.engine.backends.cpu.fission.uniformity import COLLECTIVE_OPS, Uniformity, is_pure, nested
from gpubuild.engine.ir import contexts

KERNEL = """gpu.module @k { gpu.func @f(%a: memref<?xi32>, %n: index) kernel {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %t = gpu.thread_id x {id = "t"}
  %b = gpu.block_id x {id = "b"}
  %u = arith.addi %b, %n {id = "u"} : index
  %v = arith.addi %t, %n {id = "v"} : index
  %d = arith.divui %v, %n {id = "d"} : index
  %q = arith.remui %d, %n {id = "q"} : index
  %l = memref.load %a[%c0] {id = "l"} : memref<?xi32>
  %m = arith.addi %l, %l {id = "m"} : i32
  %r = gpu.all_reduce add %l uniform {} {id = "r"} : (i32) -> (i32)
  %f = arith.sitofp %r {id = "f"} : i32 to f32
  %g:3 = scf.for %i = %c0 to %n step %c1 iter_args(%x = %u, %y = %u, %z = %u) -> (index, index, index) {
    gpu.barrier
    %x2 = arith.addi %x, %i : index
    scf.yield %x2, %z, %t : index, index, index
  } {id = "g"}
  gpu.return
} }"""


def _analysis():
    """For each op with an id: whether its results are uniform, and whether it may be repeated."""
    module = contexts.parse(KERNEL)
    function = contexts.gpu_modules(module)[0].regions[0].blocks[0].operations[0].operation
    ops = nested(function)
    collective = {op for op in ops if op.name in COLLECTIVE_OPS or op.name == "scf.for"}
    uniformity = Uniformity(function.regions[0].blocks[0], collective)
    recompute = Recompute(uniformity)
    return {
        op.attributes["id"].value: ([uniformity.uniform(r) for r in op.results], recompute.possible(op))
        for op in ops
        if "id" in op.attributes
    }


def test_uniform_values():
    with contexts.context():
        uniform = {name: same for name, (same, _) in _analysis().items()}
    assert all(uniform[name] == [True] for name in "burf")
    assert all(uniform[name] == [False] for name in "tvdlmq")


def test_a_carried_value_varies_when_it_varies_in_any_iteration():
    """The second gets the third's value, one iteration later."""
    with contexts.context():
        assert _analysis()["g"][0] == [True, False, False]


def test_what_is_worth_computing_again():
    with contexts.context():
        again = {name: possible for name, (_, possible) in _analysis().items()}
    assert again["t"] and again["v"] and again["d"]
    assert not again["q"], "two divisions cost more than a load"
    assert not (again["l"] or again["m"])


def test_pure_ops():
    with contexts.context():
        ops = {op.name: is_pure(op) for op in nested(contexts.parse(KERNEL).operation)}
    assert ops["arith.addi"] and ops["gpu.block_id"]
    assert not (ops["memref.load"] or ops["scf.for"] or ops["gpu.all_reduce"] or ops["gpu.barrier"])
