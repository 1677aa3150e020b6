// RUN: hespas-opt %s --form-kernels | filecheck %s

/// A producer with one reader is not joined with it to have a result that nothing reads: as XLA has it,
/// the two reductions are two kernels (multi_output_fusion.cc).

// CHECK: %[[R:.*]] = stablehlo.reduce(%arg0
// CHECK: stablehlo.reduce(%[[R]]
// CHECK-NOT: mhlo.fusion
func.func @main(%x: tensor<32x16x32x16xf32>) -> tensor<32xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1, 3] : (tensor<32x16x32x16xf32>, tensor<f32>) -> tensor<32x32xf32>
  %1 = stablehlo.reduce(%0 init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<32x32xf32>, tensor<f32>) -> tensor<32xf32>
  return %1 : tensor<32xf32>
}
