// RUN: hespas-opt %s --form-kernels=max-ops=3 | filecheck %s
// RUN: hespas-opt %s --form-kernels | filecheck %s --check-prefix=FREE
// RUN: not hespas-opt %s --form-kernels=max-ops=0 2>&1 | filecheck %s --check-prefix=OPS

/// Kernels have at most so many ops.

// CHECK: "mhlo.fusion"
// CHECK: "mhlo.fusion"
// FREE: "mhlo.fusion"
// FREE-NOT: "mhlo.fusion"
// OPS: error: form-kernels: option 'max-ops' is 0, less than 1
func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = stablehlo.tanh %x : tensor<1024xf32>
  %1 = stablehlo.negate %0 : tensor<1024xf32>
  %2 = stablehlo.tanh %1 : tensor<1024xf32>
  %3 = stablehlo.negate %2 : tensor<1024xf32>
  %4 = stablehlo.tanh %3 : tensor<1024xf32>
  return %4 : tensor<1024xf32>
}
