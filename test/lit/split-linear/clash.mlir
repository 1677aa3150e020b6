// RUN: hespas-opt %s --split-linear | filecheck %s

/// A name that the module uses gets a number, as MLIR's symbol tables give one.
// CHECK: call @region_0_1(
// CHECK: func.func private @region_0(
// CHECK: func.func private @region_0_0(
// CHECK: func.func private @region_0_1({{.*}}id = 0

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @acme(%x) {called_computations = [@region_0, @region_0_0]} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.negate %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @region_0(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func private @region_0_0(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
