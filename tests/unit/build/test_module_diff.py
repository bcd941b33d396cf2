"""What is said about two texts of a module."""

from __future__ import annotations

import pytest

from gpubuild.build.module_diff import describe_difference, summarize

OLD = """\
module {
  gpu.module @m {
    memref.global @table : memref<4xf32>
    gpu.func @scale(%arg0: memref<?xf32>) kernel {
      %0 = gpu.global_id  x
      %1 = memref.load %arg0[%0] : memref<?xf32>
      %2 = arith.addf %1, %1 : f32
      %3 = arith.subf %1, %2 : f32
      memref.store %3, %arg0[%0] : memref<?xf32>
      gpu.return
    }
    func.func private @helper(f32) -> f32
    gpu.func @"odd name"() kernel {
      gpu.return
    }
  }
}
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("arith.addf", "arith.mulf", "@scale, 1 op differs"),
        ("arith.subf %1, %2", "arith.subf %2, %1", "@scale, operands differ"),
        ("gpu.global_id  x\n", "gpu.global_id  y\n      gpu.barrier\n", "@scale, 2 ops differ"),
        ("@scale", "@shrink", "@scale is gone; @shrink is new"),
        ('@"odd name"() kernel', '@"odd name"(%arg0: f32) kernel', '@"odd name", 1 op differs'),
        ("(f32) -> f32", "(f64) -> f64", "@helper, 1 op differs"),
        ("memref<4xf32>", "memref<8xf32>", "declarations differ"),
        (
            "      %2 = arith.addf %1, %1 : f32\n      %3 = arith.subf %1, %2 : f32\n",
            "      %2 = arith.subf %1, %2 : f32\n      %3 = arith.addf %1, %1 : f32\n",
            "@scale, the order of ops differs",
        ),
    ],
)  # fmt: skip
def test_differences_are_named(old: str, new: str, words: str) -> None:
    assert old in OLD
    assert describe_difference(summarize(OLD), summarize(OLD.replace(old, new, 1))) == words


def test_several_functions_in_order() -> None:
    new = OLD.replace("arith.addf", "arith.mulf").replace(
        "gpu.return\n    }\n  }", "gpu.barrier\n      gpu.return\n    }\n  }"
    )
    assert (
        describe_difference(summarize(OLD), summarize(new))
        == '@"odd name", 1 op differs; @scale, 1 op differs'
    )


def test_long_functions_are_not_counted() -> None:
    text = "  func.func @f() {\n" + "    a.b\n" * 5000 + "  }\n"
    summary = summarize(text)
    assert len(summary["@f"]) == 1
    assert describe_difference(summary, summarize(text.replace("a.b", "a.c", 1))) == "@f, changed"
