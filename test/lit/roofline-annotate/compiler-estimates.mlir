// RUN: hespas-opt %s --roofline-annotate="node=TPUv5e compiler-estimates" | filecheck %s
// RUN: hespas-opt %s --roofline-annotate=node=TPUv5e | filecheck %s --check-prefix=OWN

/// The time that the compiler expects of a kernel replaces the roofline's on request; a kernel without
/// one, or for which it knows only cycles, keeps it.

// CHECK: constants = "TPUv5e; XLA's estimated cycles of 1 distinct kernels"
// CHECK: stablehlo.tanh {{.*}}latency_ns = 3.000500e+03 : f64, read_bytes
// CHECK: stablehlo.negate {{.*}}latency_ns = [[T:[0-9.]+]]
// CHECK: stablehlo.cosine {{.*}}latency_ns = [[T]]
// OWN: constants = "TPUv5e"
// OWN: stablehlo.tanh {{.*}}latency_ns = [[T:[0-9.]+]]
// OWN: stablehlo.negate {{.*}}latency_ns = [[T]]
func.func @main(%a: tensor<512xf32>) -> (tensor<512xf32>, tensor<512xf32>, tensor<512xf32>) {
  %0 = stablehlo.tanh %a {hespas.compiler_estimate = {cycles = 4000 : i64, latency_ns = 3000.5 : f64}} : tensor<512xf32>
  %1 = stablehlo.negate %a : tensor<512xf32>
  %2 = stablehlo.cosine %a {hespas.compiler_estimate = {cycles = 4000 : i64}} : tensor<512xf32>
  return %0, %1, %2 : tensor<512xf32>, tensor<512xf32>, tensor<512xf32>
}
