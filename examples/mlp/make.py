"""Write mlp.mlir, which contains the weights, and expected.h, what NumPy computes with them."""

from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
ROWS, INPUTS, HIDDEN, OUTPUTS = 50, 32, 64, 10

TEMPLATE = """\
// Two dense layers: max(x * w1 + b1, 0) * w2 + b2, for any number of rows. Written by make.py.
//
// `pipeline: linalg` in targets.yaml makes kernels of it. The weights are copied to the device once.
#plain = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (j)>

func.func @mlp(%x: tensor<?xINPUTSxf32>) -> tensor<?xOUTPUTSxf32> attributes {llvm.emit_c_interface} {
  %w1 = arith.constant dense_resource<w1> : tensor<INPUTSxHIDDENxf32>
  %b1 = arith.constant dense_resource<b1> : tensor<HIDDENxf32>
  %w2 = arith.constant dense_resource<w2> : tensor<HIDDENxOUTPUTSxf32>
  %b2 = arith.constant dense_resource<b2> : tensor<OUTPUTSxf32>
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?xINPUTSxf32>

  %hidden = tensor.empty(%rows) : tensor<?xHIDDENxf32>
  %zeros1 = linalg.fill ins(%zero : f32) outs(%hidden : tensor<?xHIDDENxf32>) -> tensor<?xHIDDENxf32>
  %product1 = linalg.matmul ins(%x, %w1 : tensor<?xINPUTSxf32>, tensor<INPUTSxHIDDENxf32>)
      outs(%zeros1 : tensor<?xHIDDENxf32>) -> tensor<?xHIDDENxf32>
  %layer1 = linalg.generic {indexing_maps = [#plain, #row, #plain], iterator_types = ["parallel", "parallel"]}
      ins(%product1, %b1 : tensor<?xHIDDENxf32>, tensor<HIDDENxf32>) outs(%hidden : tensor<?xHIDDENxf32>) {
  ^bb0(%value: f32, %bias: f32, %unused: f32):
    %sum = arith.addf %value, %bias : f32
    %positive = arith.maximumf %sum, %zero : f32
    linalg.yield %positive : f32
  } -> tensor<?xHIDDENxf32>

  %output = tensor.empty(%rows) : tensor<?xOUTPUTSxf32>
  %zeros2 = linalg.fill ins(%zero : f32) outs(%output : tensor<?xOUTPUTSxf32>) -> tensor<?xOUTPUTSxf32>
  %product2 = linalg.matmul ins(%layer1, %w2 : tensor<?xHIDDENxf32>, tensor<HIDDENxOUTPUTSxf32>)
      outs(%zeros2 : tensor<?xOUTPUTSxf32>) -> tensor<?xOUTPUTSxf32>
  %layer2 = linalg.generic {indexing_maps = [#plain, #row, #plain], iterator_types = ["parallel", "parallel"]}
      ins(%product2, %b2 : tensor<?xOUTPUTSxf32>, tensor<OUTPUTSxf32>) outs(%output : tensor<?xOUTPUTSxf32>) {
  ^bb0(%value: f32, %bias: f32, %unused: f32):
    %sum = arith.addf %value, %bias : f32
    linalg.yield %sum : f32
  } -> tensor<?xOUTPUTSxf32>
  return %layer2 : tensor<?xOUTPUTSxf32>
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
    weights = {
        "w1": random.standard_normal((INPUTS, HIDDEN)) / 6,
        "b1": random.standard_normal(HIDDEN) / 4,
        "w2": random.standard_normal((HIDDEN, OUTPUTS)) / 8,
        "b2": random.standard_normal(OUTPUTS) / 4,
    }
    weights = {name: values.astype("<f4") for name, values in weights.items()}
    alignment = np.array([4], "<u4").tobytes()
    resources = [f'      {n}: "0x{(alignment + w.tobytes()).hex().upper()}"' for n, w in weights.items()]
    text = TEMPLATE.replace("RESOURCES", ",\n".join(resources))
    sizes = {"INPUTS": INPUTS, "HIDDEN": HIDDEN, "OUTPUTS": OUTPUTS}
    for name, size in sizes.items():
        text = text.replace(name, str(size))
    (HERE / "mlp.mlir").write_text(text)

    # The same numbers as in main.c, exact in float.
    numbers = np.arange(ROWS * INPUTS)
    x = (((numbers * 37) % 101) / 64 - 0.75).reshape(ROWS, INPUTS)
    hidden = np.maximum(x @ weights["w1"].astype(float) + weights["b1"], 0)
    y = hidden @ weights["w2"].astype(float) + weights["b2"]
    rows = "\n".join("  " + ", ".join(f"{value:.8e}f" for value in row) + "," for row in y)
    sizes = "\n".join(f"#define {name} {size}" for name, size in {"ROWS": ROWS, **sizes}.items())
    (HERE / "expected.h").write_text(
        f"// The result that NumPy computes. Written by make.py.\n{sizes}\n"
        f"static const float expected[ROWS * OUTPUTS] = {{\n{rows}\n}};\n"
    )


if __name__ == "__main__":
    main()
