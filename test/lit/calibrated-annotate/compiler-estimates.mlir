// RUN: hespas-opt %s --calibrated-annotate="node=TPUv5e compiler-estimates" | filecheck %s
// RUN: hespas-opt %s --calibrated-annotate=node=TPUv5e | filecheck %s --check-prefix=OWN

/// The compiler's time of a kernel replaces that of the constants on request, with a band; its cycles alone do not.

// CHECK: stablehlo.dot {{.*}}high_ns = {{.*}}latency_ns = 3.000050e+04 : f64, low_ns = {{.*}}tag = "assumed"
// CHECK: stablehlo.dot {{.*}}latency_ns = [[T:[0-9.]+]]
// CHECK: stablehlo.dot {{.*}}latency_ns = [[T]]
// OWN: stablehlo.dot
// OWN-NOT: hespas.cost = {{{.*}}latency_ns = 3.000050e+04
func.func @main(%a: tensor<512x512xbf16>) -> (tensor<512x512xbf16>, tensor<512x512xbf16>, tensor<512x512xbf16>) {
  %0 = stablehlo.dot %a, %a {hespas.compiler_estimate = {cycles = 4000 : i64, latency_ns = 3.000050e+04 : f64}} : (tensor<512x512xbf16>, tensor<512x512xbf16>) -> tensor<512x512xbf16>
  %1 = stablehlo.dot %a, %a : (tensor<512x512xbf16>, tensor<512x512xbf16>) -> tensor<512x512xbf16>
  %2 = stablehlo.dot %a, %a {hespas.compiler_estimate = {cycles = 4000 : i64}} : (tensor<512x512xbf16>, tensor<512x512xbf16>) -> tensor<512x512xbf16>
  return %0, %1, %2 : tensor<512x512xbf16>, tensor<512x512xbf16>, tensor<512x512xbf16>
}
