"""Messages of MLIR in the words of users."""

import pytest
from unit.engine.steps import refused

from gpubuild.engine.ir import contexts, diagnostics


def test_a_function_that_no_conversion_knows_is_shown_with_its_whole_type() -> None:
    note = (
        'see current operation: "gpu.func"() <{function_type = (memref<8xf32>, !llvm.ptr) -> (), '
        'sym_name = "k"}> ({\n}) : () -> ()'
    )
    said = diagnostics._explained(
        "failed to legalize operation 'gpu.func' that was explicitly marked", [note]
    )
    assert said.startswith("'gpu.func' of type (memref<8xf32>, !llvm.ptr) -> () cannot be lowered")
    last = note.replace(', sym_name = "k"', "")
    assert "type (memref<8xf32>, !llvm.ptr) -> () cannot" in diagnostics._explained(
        "failed to legalize operation 'gpu.func'", [last]
    )


# ---- hints ----


RIGHT = """\
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @scale(%factor: f32) kernel {
      %twice = arith.addf %factor, %factor : f32
      gpu.return
    }
  }
  func.func private @other()
  func.func @main(%x: f32) {
    %c1 = arith.constant 1 : index
    gpu.launch_func @kernels::@scale blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : f32)
    func.call @other() : () -> ()
    return
  }
}
"""
MISTAKES = {
    "dialect": ("arith.addf", "airth.addf", "did you mean arith?"),
    "operation": ("arith.addf", "arith.addff", "did you mean arith.addf or "),
    "kernel": ("@kernels::@scale", "@kernels::@scal", "did you mean @kernels::@scale?"),
    "unlike kernel": ("@kernels::@scale", "@kernels::@zoom", "kernels: scale"),
    "gpu.module": ("@kernels::@scale", "@kernel::@scale", "did you mean @kernels?"),
    "no kernel": (") kernel", ")", "write `kernel` after the arguments of the gpu.func"),
    "container": (" attributes {gpu.container_module}", "", "begin the module with `module attributes"),
    "function": ("call @other", "call @othr", "did you mean @other?"),
    "unlike function": ("call @other", "call @zoom", "define or declare it beside the caller"),
    "value": ("addf %factor,", "addf %facto,", "did you mean %factor?"),
    "unlike value": ("addf %factor,", "addf %y,", ""),
    "brace": ("  }\n}\n", "  }\n", "the text ends too early: a `}` seems to be missing"),
    "brace too many": ("  }\n}\n", "  }\n}\n}\n", "there are more `}` than `{`"),
    "another return": ("gpu.return", "return", "a gpu.func ends with `gpu.return`"),
    "no dialect": ("arith.addf", "plus", "write its dialect, too: `<dialect>.plus`"),
    "no return": ("      gpu.return\n", "", "a `gpu.return` seems to be missing at the end of the gpu.func"),
    "no return on the host": (
        "    return\n",
        "",
        "a `return` seems to be missing at the end of the func.func",
    ),
    "argument of another type": (
        "args(%x : f32)",
        "args(%c1 : index)",
        "the kernel is gpu.func @scale(%factor: f32)",
    ),
    "no argument": (" args(%x : f32)", "", "the kernel is gpu.func @scale(%factor: f32)"),
    "unregistered": (
        "arith.addf %factor, %factor : f32",
        '"foo.addf"(%factor) : (f32) -> f32',
        "lower it to dialects of MLIR first",
    ),
    "kernel on the host": ("gpu.func @scale", "func.func @scale", "`kernel` is for a gpu.func"),
    "no type": ("%factor, %factor : f32", "%factor, %factor", "an operation ends with its types"),
    "something else than a type": ("%factor, %factor : f32", "%factor, %factor = f32", ""),
    "integers": ("addf", "addi", "for f32, write arith.addf"),
    "floats": (
        "func.call @other() : () -> ()",
        "%i = arith.mulf %c1, %c1 : index",
        "for index, write arith.muli",
    ),
    "index": ("func.call @other() : () -> ()", "%i = arith.addi %c1, %c1 : i32", "arith.index_cast converts"),
    "number": ("func.call @other() : () -> ()", "%i = arith.addf %c1, %x : f32", "arith.sitofp, uitofp"),
    "no module": ("@kernels::@scale", "@scale", "write its gpu.module, too: @kernels::@scale"),
    "another project": ("arith.addf", "stablehlo.add", "lower 'stablehlo' to linalg"),
    "dialect of another project": ("arith.addf", "gemmini.addf", "lower it to dialects of MLIR first"),
    "nothing known": ("gpu.func @scale", "gpu.func scale", ""),
}


@pytest.mark.parametrize(("old", "new", "hint"), MISTAKES.values(), ids=MISTAKES)
def test_hint(old: str, new: str, hint: str) -> None:
    with contexts.context():
        contexts.parse(RIGHT)
        error = refused(contexts.parse, RIGHT.replace(old, new, 1), source_name="k.mlir")
    assert error.hint.startswith(hint) if hint else not error.hint
    assert "Available dialects" not in error.render()


@pytest.mark.parametrize(
    ("new", "name"),
    [
        ('"foo.addf"(%factor) : (f32) -> f32', "foo.addf"),
        ("builtin.unrealized_conversion_cast %factor : f32 to !foo.t<3>", "!foo.t<3>"),
    ],
)
def test_what_is_of_an_unknown_dialect_is_named(new: str, name: str) -> None:
    with contexts.context():
        text = RIGHT.replace("arith.addf %factor, %factor : f32", new, 1)
        error = refused(contexts.parse, text, source_name="k.mlir")
    assert error.diagnostics[0].message == f"'{name}' is of a dialect that MLIR does not have"
