// RUN: hespas-opt %s --set-dimension-sizes | filecheck %s

/// MLIR's bindings have no class for complex elements: such a constant of arith, as torch-mlir
/// writes rotations, is converted by its text.

// CHECK: %[[ROTATION:.*]] = stablehlo.constant dense<[(1.000000e+00,0.000000e+00), (2.500000e-08,-1.000000e+00)]>
// CHECK: stablehlo.constant dense<(0.000000e+00,0.000000e+00)> : tensor<2xcomplex<f64>>
// CHECK: stablehlo.multiply %arg0, %[[ROTATION]]
func.func @main(%x: tensor<2xcomplex<f32>>) -> (tensor<2xcomplex<f32>>, tensor<2xcomplex<f64>>) {
  %0 = arith.constant {acme.note = "dense<1>"} dense<[(1.0, 0.0), (2.5e-8, -1.0)]> : tensor<2xcomplex<f32>>
  %1 = arith.constant dense<(0.0, 0.0)> : tensor<2xcomplex<f64>>
  %2 = stablehlo.multiply %x, %0 : tensor<2xcomplex<f32>>
  return %2, %1 : tensor<2xcomplex<f32>>, tensor<2xcomplex<f64>>
}
