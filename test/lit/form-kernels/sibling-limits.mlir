// RUN: hespas-opt %s --form-kernels=max-buffers=3 | filecheck %s
// RUN: hespas-opt %s --form-kernels=max-buffers=2 | filecheck %s --check-prefix=APART
// RUN: hespas-opt %s --form-kernels=max-ops=3 | filecheck %s
// RUN: hespas-opt %s --form-kernels=max-ops=1 | filecheck %s --check-prefix=APART
// RUN: hespas-opt %s --form-kernels=model=elementwise | filecheck %s --check-prefix=APART

/// Kernels that read one value are joined within the limits, and not with the model of elementwise ops.

// CHECK: :2 = "mhlo.fusion"
// APART-NOT: :2 = "mhlo.fusion"
// APART: return
func.func @main(%x: tensor<1048576xf32>) -> (tensor<1048576xf32>, tensor<1048576xf32>) {
  %n = stablehlo.negate %x : tensor<1048576xf32>
  %0 = stablehlo.tanh %n : tensor<1048576xf32>
  %1 = stablehlo.cosine %x : tensor<1048576xf32>
  return %0, %1 : tensor<1048576xf32>, tensor<1048576xf32>
}
