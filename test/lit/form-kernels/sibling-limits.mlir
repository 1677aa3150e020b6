// RUN: hespas-opt %s --form-kernels=max-buffers=3 | filecheck %s
// RUN: hespas-opt %s --form-kernels=max-buffers=2 | filecheck %s --check-prefix=APART
// RUN: hespas-opt %s --form-kernels=max-ops=2 | filecheck %s
// RUN: hespas-opt %s --form-kernels=max-ops=1 | filecheck %s --check-prefix=APART
// RUN: hespas-opt %s --form-kernels=model=elementwise | filecheck %s --check-prefix=APART

/// Kernels that read one value are joined within the limits, and not with the model of elementwise ops.

// CHECK: mhlo.fusion
// APART-NOT: mhlo.fusion
func.func @main(%x: tensor<1048576xf32>) -> (tensor<1048576xf32>, tensor<1048576xf32>) {
  %0 = stablehlo.tanh %x : tensor<1048576xf32>
  %1 = stablehlo.cosine %x : tensor<1048576xf32>
  return %0, %1 : tensor<1048576xf32>, tensor<1048576xf32>
}
