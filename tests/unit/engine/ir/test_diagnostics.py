"""Messages of MLIR in the words of users."""

from gpubuild.engine.ir import diagnostics


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
