// RUN: hespas-opt %s --form-kernels=max-ops=4 | filecheck %s
// RUN: hespas-opt %s --form-kernels=max-ops=3 | filecheck %s --check-prefix=FEWER

/// Kernels that read the same value are one kernel if it has no more ops than that.

// CHECK: "mhlo.fusion"
// CHECK: stablehlo.tanh
// CHECK: stablehlo.sine
// CHECK-NOT: mhlo.fusion
// FEWER: "mhlo.fusion"
// FEWER: stablehlo.tanh
// FEWER: "mhlo.fusion"
// FEWER: stablehlo.sine
func.func @main(%x: tensor<1048576xf32>, %y: tensor<1048576xf32>) -> (tensor<1048576xf32>, tensor<1048576xf32>) {
  %0 = stablehlo.add %x, %y : tensor<1048576xf32>
  %1 = stablehlo.tanh %0 : tensor<1048576xf32>
  %2 = stablehlo.multiply %x, %y : tensor<1048576xf32>
  %3 = stablehlo.sine %2 : tensor<1048576xf32>
  return %1, %3 : tensor<1048576xf32>, tensor<1048576xf32>
}
