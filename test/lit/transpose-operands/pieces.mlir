// RUN: hespas-opt %s --transpose-operands | filecheck %s
// RUN: hespas-opt %s --transpose-operands=pieces=false | filecheck %s --check-prefix=WHOLE

/// XLA's own kernels read the rows of the left operand from both sides of what is contracted; a library reads one matrix.

// CHECK-NOT: stablehlo.transpose
// WHOLE: %[[T:.*]] = stablehlo.transpose %arg0, dims = [0, 2, 1] : (tensor<4x8x16xf32>) -> tensor<4x16x8xf32>
// WHOLE: stablehlo.dot_general %[[T]], %arg1, contracting_dims = [2] x [0]
func.func @main(%x: tensor<4x8x16xf32>, %w: tensor<8x32xf32>) -> tensor<4x16x32xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8x16xf32>, tensor<8x32xf32>) -> tensor<4x16x32xf32>
  return %0 : tensor<4x16x32xf32>
}
