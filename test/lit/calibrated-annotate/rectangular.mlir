// RUN: hespas-opt %s --calibrated-annotate=node=H100_80GB | filecheck %s

/// The steps of Jacobi's method grow with both sides of a matrix, those of a factorisation by columns with the shorter.

// CHECK: @cusolver_gesvdj_ffi{{.*}}latency_ns = 7402231.7
// CHECK: @cusolver_gesvd_ffi{{.*}}latency_ns = 4402231.7
func.func @main(%m: tensor<4096x64xf32>) -> (tensor<4096x64xf32>, tensor<4096x64xf32>) {
  %0 = stablehlo.custom_call @cusolver_gesvdj_ffi(%m) : (tensor<4096x64xf32>) -> tensor<4096x64xf32>
  %1 = stablehlo.custom_call @cusolver_gesvd_ffi(%m) : (tensor<4096x64xf32>) -> tensor<4096x64xf32>
  return %0, %1 : tensor<4096x64xf32>, tensor<4096x64xf32>
}
