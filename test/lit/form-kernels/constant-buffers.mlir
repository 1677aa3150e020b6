// RUN: hespas-opt %s --form-kernels=max-buffers=4 | filecheck %s
// RUN: hespas-opt %s --form-kernels=max-buffers=3 | filecheck %s --check-prefix=FEWER

/// A constant that is updated in place is a buffer of the kernel, like the values, the index and the result.

// CHECK: "mhlo.fusion"(%arg0, %{{.*}}, %arg1)
// FEWER-NOT: mhlo.fusion
func.func @main(%r: tensor<1x64xf32>, %i: tensor<i32>) -> (tensor<10x64xf32>) {
  %zeros = stablehlo.constant dense<0.0> : tensor<10x64xf32>
  %0 = stablehlo.tanh %r : tensor<1x64xf32>
  %1 = stablehlo.dynamic_update_slice %zeros, %0, %i, %i : (tensor<10x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<10x64xf32>
  return %1 : tensor<10x64xf32>
}
