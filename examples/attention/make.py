"""Write attention.mlir, which contains the weights, and expected.h, what NumPy computes with them."""

from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
LENGTH, INPUTS, HEAD = 45, 32, 16

TEMPLATE = """\
// One head of attention: softmax(q * k^T / 4) * v, for sequences of any length. Written by make.py.
//
// `pipeline: linalg` in targets.yaml makes kernels of it. The weights are copied to the device once.
#left = affine_map<(i, j, k) -> (i, k)>
#right_transposed = affine_map<(i, j, k) -> (j, k)>
#product = affine_map<(i, j, k) -> (i, j)>
#plain = affine_map<(i, j) -> (i, j)>

func.func @attention(%x: tensor<?xINPUTSxf32>) -> tensor<?xHEADxf32> attributes {llvm.emit_c_interface} {
  %wq = arith.constant dense_resource<wq> : tensor<INPUTSxHEADxf32>
  %wk = arith.constant dense_resource<wk> : tensor<INPUTSxHEADxf32>
  %wv = arith.constant dense_resource<wv> : tensor<INPUTSxHEADxf32>
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.25 : f32
  %c0 = arith.constant 0 : index
  %length = tensor.dim %x, %c0 : tensor<?xINPUTSxf32>

  %empty = tensor.empty(%length) : tensor<?xHEADxf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<?xHEADxf32>) -> tensor<?xHEADxf32>
  %q = linalg.matmul ins(%x, %wq : tensor<?xINPUTSxf32>, tensor<INPUTSxHEADxf32>)
      outs(%zeros : tensor<?xHEADxf32>) -> tensor<?xHEADxf32>
  %k = linalg.matmul ins(%x, %wk : tensor<?xINPUTSxf32>, tensor<INPUTSxHEADxf32>)
      outs(%zeros : tensor<?xHEADxf32>) -> tensor<?xHEADxf32>
  %v = linalg.matmul ins(%x, %wv : tensor<?xINPUTSxf32>, tensor<INPUTSxHEADxf32>)
      outs(%zeros : tensor<?xHEADxf32>) -> tensor<?xHEADxf32>

  %square = tensor.empty(%length, %length) : tensor<?x?xf32>
  %zero_scores = linalg.fill ins(%zero : f32) outs(%square : tensor<?x?xf32>) -> tensor<?x?xf32>
  %scores = linalg.matmul indexing_maps = [#left, #right_transposed, #product]
      ins(%q, %k : tensor<?xHEADxf32>, tensor<?xHEADxf32>) outs(%zero_scores : tensor<?x?xf32>)
      -> tensor<?x?xf32>
  %scaled = linalg.generic {indexing_maps = [#plain, #plain], iterator_types = ["parallel", "parallel"]}
      ins(%scores : tensor<?x?xf32>) outs(%square : tensor<?x?xf32>) {
  ^bb0(%score: f32, %unused: f32):
    %small = arith.mulf %score, %scale : f32
    linalg.yield %small : f32
  } -> tensor<?x?xf32>
  %weights = linalg.softmax dimension(1) ins(%scaled : tensor<?x?xf32>) outs(%square : tensor<?x?xf32>)
      -> tensor<?x?xf32>
  %result = linalg.matmul ins(%weights, %v : tensor<?x?xf32>, tensor<?xHEADxf32>)
      outs(%zeros : tensor<?xHEADxf32>) -> tensor<?xHEADxf32>
  return %result : tensor<?xHEADxf32>
}

{-#
  dialect_resources: {
    builtin: {
RESOURCES
    }
  }
#-}
"""


def main() -> None:
    """Write both files."""
    random = np.random.default_rng(1)
    weights = {name: random.standard_normal((INPUTS, HEAD)) / 6 for name in ("wq", "wk", "wv")}
    weights = {name: values.astype("<f4") for name, values in weights.items()}
    alignment = np.array([4], "<u4").tobytes()
    resources = [f'      {n}: "0x{(alignment + w.tobytes()).hex().upper()}"' for n, w in weights.items()]
    text = TEMPLATE.replace("RESOURCES", ",\n".join(resources))
    text = text.replace("INPUTS", str(INPUTS)).replace("HEAD", str(HEAD))
    (HERE / "attention.mlir").write_text(text)

    # The same numbers as in main.c, exact in float.
    numbers = np.arange(LENGTH * INPUTS)
    x = (((numbers * 37) % 101) / 64 - 0.75).reshape(LENGTH, INPUTS)
    q, k, v = (x @ weights[name].astype(float) for name in ("wq", "wk", "wv"))
    scores = np.exp(q @ k.T / 4)
    y = scores / scores.sum(axis=1, keepdims=True) @ v
    rows = "\n".join("  " + ", ".join(f"{value:.8e}f" for value in row) + "," for row in y)
    defines = "\n".join(
        f"#define {name} {size}" for name, size in (("LENGTH", LENGTH), ("INPUTS", INPUTS), ("HEAD", HEAD))
    )
    (HERE / "expected.h").write_text(
        f"// The result that NumPy computes. Written by make.py.\n{defines}\n"
        f"static const float expected[] = {{\n{rows}\n}};\n"
    )


if __name__ == "__main__":
    main()
