"""Contexts: locations of messages in the source, canonical text, translation."""

import re
from pathlib import Path

import pytest
from mlir import ir
from unit.engine.device_steps import in_child
from unit.engine.steps import refused

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText, file_position, locate
from gpubuild.engine.ir.query import operations
from gpubuild.errors import Location

SOURCE = """func.func @f(%x: i32) -> i32 {
  %a = arith.addi %x, %x : i32
  return %a : i32
}
"""


def test_parse_error_has_file_line_column_text_and_caret() -> None:
    with contexts.context():
        error = refused(contexts.parse, "func.func @f() {\n\treturn %b : i32\n}", source_name="dir/k.mlir")
    (diagnostic,) = error.diagnostics
    assert diagnostic.location == Location(file="dir/k.mlir", line=2, column=9)
    assert diagnostic.source_line == "\treturn %b : i32"
    assert diagnostic.render().splitlines()[-1] == "  \t       ^"


def test_notes_point_to_both_places_and_do_not_dump_the_op() -> None:
    twice = "func.func private @f()\nfunc.func private @f()\n"
    with contexts.context():
        (diagnostic,) = refused(contexts.parse, twice, source_name="k.mlir").diagnostics
    assert diagnostic.location == Location(file="k.mlir", line=2, column=1)
    assert [n.location for n in diagnostic.notes] == [Location(file="k.mlir", line=1, column=1)]
    assert "see current operation" not in diagnostic.render()


def test_every_op_is_located_in_the_named_file_even_with_several_at_top_level() -> None:
    with contexts.context():
        module = contexts.parse(SOURCE + "func.func private @g()", source_name='odd "name\\.mlir')
        text = contexts.located_text(module)
        assert '"-"' not in text
        ops = module.operation.regions[0].blocks[0].operations
        assert file_position(ops[1].operation.location) == ('odd "name\\.mlir', 5, 1)


def test_implicit_terminators_are_located_in_the_source() -> None:
    text = "\n\n\n  func.func @f(%c: i1) {\n    scf.if %c {\n    }\n    return\n  }\nfunc.func private @g()\n"
    with contexts.context():
        module = contexts.parse(text, source_name="k.mlir")
        (end,) = operations(module.operation, ("scf.yield",))
        assert file_position(end.location) == ("k.mlir", 5, 5)


def test_a_string_that_looks_like_a_location_is_left_alone() -> None:
    text = 'func.func private @f() attributes {test.note = "\\22-\\22:1:2"}'
    with contexts.context():
        module = contexts.parse(text, source_name="k.mlir")
        assert "\\22-\\22:1:2" in contexts.canonical_text(module)


VARIANTS = {
    "explicit location": SOURCE.replace(": i32\n  return", ': i32 loc("other.c":7:7)\n  return'),
    "alias": "!t = i32\n" + SOURCE.replace("i32", "!t"),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_canonical_text_ignores(name: str) -> None:
    """Names, comments and white space are in tests of outlining."""
    with contexts.context():
        expected = contexts.canonical_text(contexts.parse(SOURCE))
        assert contexts.canonical_text(contexts.parse(VARIANTS[name], source_name=name)) == expected
        assert contexts.canonical_text(contexts.parse(expected)) == expected


def test_pipeline_that_does_not_parse() -> None:
    with contexts.context():
        error = refused(contexts.run_passes, contexts.parse(SOURCE), "builtin.module(nosuch)")
    assert error.message == (
        "cannot parse the pass pipeline: 'nosuch' does not refer to a registered pass or pass pipeline"
    )
    assert "builtin.module(nosuch)" in error.hint


def test_a_pass_for_another_operation() -> None:
    with contexts.context():
        pipeline = "builtin.module(gpu.module(gpu.func(gpu-eliminate-barriers)))"
        error = refused(contexts.run_passes, contexts.parse(SOURCE), pipeline)
    assert error.message.endswith(": gpu-eliminate-barriers is a pass for func.func, not for gpu.func")


def test_failing_pass_points_into_the_file() -> None:
    use = '%0 = gpu.cluster_id x\n"test.use"(%0) : (index) -> ()\ngpu.return'
    text = f"gpu.module @k {{\n  gpu.func @f() kernel {{\n{use}\n}}\n}}"
    passes = "builtin.module(gpu.module(convert-gpu-to-rocdl{chipset=gfx90a}))"
    with contexts.context() as context:
        context.allow_unregistered_dialects = True
        error = refused(contexts.run_passes, contexts.parse(text, source_name="k.mlir"), passes)
    assert Location(file="k.mlir", line=3, column=6) in [d.location for d in error.diagnostics]


def test_translation_of_leftover_ops_is_refused_by_name_and_place() -> None:
    with contexts.context():
        error = refused(contexts.translate, contexts.parse(SOURCE, source_name="k.mlir"), target="sm_60")
    assert error.message == "target sm_60 cannot lower arith.addi, func.func, func.return"
    assert Location(file="k.mlir", line=2, column=8) in [d.location for d in error.diagnostics]


def test_leftover_cast_alone_names_both_types() -> None:
    cast = "%0 = builtin.unrealized_conversion_cast %a : i64 to index"
    text = f"llvm.func @f(%a: i64) {{\n  {cast}\n  llvm.return\n}}"
    with contexts.context():
        (diagnostic,) = refused(contexts.translate, contexts.parse(text)).diagnostics
    assert "no conversion from (i64) to (index)" in diagnostic.message


def test_op_without_location_still_reads_well() -> None:
    with contexts.context():
        module = ir.Module.create(ir.Location.unknown())
        with ir.InsertionPoint(module.body):
            ir.Operation.create("func.return")
        error = refused(contexts.check_translatable, module)
    assert error.render().splitlines()[1] == "error: 'func.return' op was not lowered"


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ('loc("a.c":1:2)', ("a.c", 1, 2)),
        ('loc("n"("a.c":1:2))', ("a.c", 1, 2)),
        ('loc(callsite("a.c":1:2 at "b.c":3:4))', ("a.c", 1, 2)),
        ('loc(callsite(unknown at "b.c":3:4))', ("b.c", 3, 4)),
        ('loc(fused[unknown, "b.c":3:4])', ("b.c", 3, 4)),
        ("loc(unknown)", None),
    ],
)
def test_file_position(location: str, expected: tuple[str, int, int] | None) -> None:
    with contexts.context():
        module = ir.Module.parse(f"module {{}} {location}")
        parsed = module.operation.location
        assert file_position(parsed) == expected
        assert (locate(parsed, SourceText())[0] is None) == (expected is None)


def test_context_is_left_when_the_body_raises() -> None:
    """A context that is still entered aborts the process at exit."""

    def fails() -> None:
        with pytest.raises(ZeroDivisionError), contexts.context():
            raise ZeroDivisionError
        assert ir.Context.current is None

    in_child(fails)


def registered(name: str) -> bool:
    try:
        ir.Context(load_on_create_dialects=[name])
    except IndexError:
        return False
    return True


def test_every_dialect_that_the_engine_makes_operations_of_is_loaded() -> None:
    """Others are loaded when a text names them, which operations created by name do not."""
    engine = Path(contexts.__file__).parents[1]
    texts = [path.read_text() for path in engine.rglob("*.py")]
    named = {name for text in texts for name in re.findall(r'"([a-z_]+)\.[a-z_][\w.]*"', text)}
    # These are only looked for in sources.
    dialects = set(filter(registered, named)) - {"bufferization", "ml_program", "tosa"}
    assert {"arith", "gpu", "scf", "vector"} <= dialects
    assert dialects <= set(contexts.DIALECTS)


def test_a_dialect_that_is_not_loaded_is_met_in_a_source_and_in_passes() -> None:
    assert "tosa" not in contexts.DIALECTS
    text = """func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = tosa.abs %x : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
    with contexts.context():
        module = contexts.parse(text)
        contexts.run_passes(module, "builtin.module(func.func(tosa-to-linalg))")
        assert "linalg.generic" in contexts.canonical_text(module)
    with contexts.context():
        module = contexts.parse(SOURCE)
        contexts.run_passes(module, "builtin.module(convert-arith-to-spirv)")
        assert "spirv.IAdd" in contexts.canonical_text(module)
