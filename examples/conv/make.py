"""Write conv.mlir, which contains the weights, and expected.h, what NumPy computes with them."""

from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
IMAGES = 5

TEMPLATE = """\
// A convolution of 3 x 3 with bias, max(x, 0), and the largest of each 2 x 2, for any number of images.
// Written by make.py.
//
// `pipeline: linalg` in targets.yaml makes kernels of it. The weights are copied to the device once.
#plain = affine_map<(n, i, j, c) -> (n, i, j, c)>
#channel = affine_map<(n, i, j, c) -> (c)>

func.func @conv(%images: tensor<?x14x14x3xf32>) -> tensor<?x6x6x8xf32> attributes {llvm.emit_c_interface} {
  %filter = arith.constant dense_resource<filter> : tensor<3x3x3x8xf32>
  %bias = arith.constant dense_resource<bias> : tensor<8xf32>
  %zero = arith.constant 0.0 : f32
  %least = arith.constant 0xFF800000 : f32
  %c0 = arith.constant 0 : index
  %count = tensor.dim %images, %c0 : tensor<?x14x14x3xf32>

  %empty = tensor.empty(%count) : tensor<?x12x12x8xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x12x12x8xf32>) -> tensor<?x12x12x8xf32>
  %sums = linalg.conv_2d_nhwc_hwcf
      ins(%images, %filter : tensor<?x14x14x3xf32>, tensor<3x3x3x8xf32>)
      outs(%zeros : tensor<?x12x12x8xf32>) -> tensor<?x12x12x8xf32>
  %layer = linalg.generic {indexing_maps = [#plain, #channel, #plain],
                           iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%sums, %bias : tensor<?x12x12x8xf32>, tensor<8xf32>) outs(%empty : tensor<?x12x12x8xf32>) {
  ^bb0(%value: f32, %shift: f32, %unused: f32):
    %sum = arith.addf %value, %shift : f32
    %positive = arith.maximumf %sum, %zero : f32
    linalg.yield %positive : f32
  } -> tensor<?x12x12x8xf32>

  %window = tensor.empty() : tensor<2x2xf32>
  %small = tensor.empty(%count) : tensor<?x6x6x8xf32>
  %lowest = linalg.fill ins(%least : f32) outs(%small : tensor<?x6x6x8xf32>) -> tensor<?x6x6x8xf32>
  %result = linalg.pooling_nhwc_max {strides = dense<2> : tensor<2xi64>}
      ins(%layer, %window : tensor<?x12x12x8xf32>, tensor<2x2xf32>)
      outs(%lowest : tensor<?x6x6x8xf32>) -> tensor<?x6x6x8xf32>
  return %result : tensor<?x6x6x8xf32>
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
    weights = {"filter": random.standard_normal((3, 3, 3, 8)) / 5, "bias": random.standard_normal(8) / 4}
    weights = {name: values.astype("<f4") for name, values in weights.items()}
    alignment = np.array([4], "<u4").tobytes()
    resources = [f'      {n}: "0x{(alignment + w.tobytes()).hex().upper()}"' for n, w in weights.items()]
    text = TEMPLATE.replace("RESOURCES", ",\n".join(resources))
    (HERE / "conv.mlir").write_text(text)

    # The same numbers as in main.c, exact in float.
    numbers = np.arange(IMAGES * 14 * 14 * 3)
    images = (((numbers * 37) % 101) / 64 - 0.75).reshape(IMAGES, 14, 14, 3)
    windows = np.lib.stride_tricks.sliding_window_view(images, (3, 3), axis=(1, 2))
    sums = np.einsum("nijchw,hwco->nijo", windows, weights["filter"].astype(float))
    layer = np.maximum(sums + weights["bias"], 0)
    y = layer.reshape(IMAGES, 6, 2, 6, 2, 8).max(axis=(2, 4)).reshape(-1, 8)
    rows = "\n".join("  " + ", ".join(f"{value:.8e}f" for value in row) + "," for row in y)
    defines = "\n".join(f"#define {name} {size}" for name, size in (("IMAGES", IMAGES),))
    (HERE / "expected.h").write_text(
        f"// The result that NumPy computes. Written by make.py.\n{defines}\n"
        f"static const float expected[] = {{\n{rows}\n}};\n"
    )


if __name__ == "__main__":
    main()
