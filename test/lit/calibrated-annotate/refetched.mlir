// RUN: hespas-opt %s --calibrated-annotate=node=TPUv5p | filecheck %s
// RUN: hespas-opt %s --calibrated-annotate=node=TPUv6e | filecheck %s --check-prefix=WINDOWS
// RUN: hespas-opt %s --calibrated-annotate=node=H100_80GB | filecheck %s --check-prefix=GPU

/// A compiler that tells which bytes a product reads again has chosen its windows: such products have their own efficiency
/// where it was measured, and move these bytes too. Kernels of GPUs have neither.

// CHECK: stablehlo.dot {{.*}}latency_ns = [[T:[0-9.e+]+]]
// CHECK: stablehlo.dot {{.*}}latency_ns = [[T]]
// CHECK: stablehlo.dot
// CHECK-NOT: latency_ns = [[T]]
// CHECK-SAME: bound = "memory"
// WINDOWS: stablehlo.dot {{.*}}latency_ns = [[T:[0-9.e+]+]]
// WINDOWS: stablehlo.dot
// WINDOWS-NOT: latency_ns = [[T]]
// WINDOWS-SAME: bound = "compute"
// WINDOWS: stablehlo.dot
// WINDOWS-SAME: bound = "memory"
// GPU: stablehlo.dot {{.*}}latency_ns = [[T:[0-9.e+]+]]
// GPU: stablehlo.dot {{.*}}latency_ns = [[T]]
// GPU: stablehlo.dot {{.*}}latency_ns = [[T]]
func.func @main(%a: tensor<4096x4096xbf16>) -> (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) {
  %0 = stablehlo.dot %a, %a : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %1 = stablehlo.dot %a, %a {hespas.compiler_estimate = {cycles = 4000 : i64, refetched_bytes = 0 : i64}} : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %2 = stablehlo.dot %a, %a {hespas.compiler_estimate = {cycles = 4000 : i64, refetched_bytes = 8000000000 : i64}} : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  return %0, %1, %2 : tensor<4096x4096xbf16>, tensor<4096x4096xbf16>, tensor<4096x4096xbf16>
}
