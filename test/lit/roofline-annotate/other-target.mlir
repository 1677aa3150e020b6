// RUN: hespas-opt %s --roofline-annotate="node=TPUv5e compiler-estimates" --disable-output 2>&1 | filecheck %s
// RUN: hespas-opt %s --roofline-annotate="node=TPUv4 compiler-estimates" --disable-output 2>&1 | filecheck %s --check-prefix=SAME --allow-empty
// RUN: hespas-opt %s --roofline-annotate="node=TPUv5e" --disable-output 2>&1 | filecheck %s --check-prefix=SAME --allow-empty

/// The times of the compiler are those of the device that it compiled for.

// CHECK: warning: the compiler has timed the kernels for TPUv4, and the node is TPUv5e
// SAME-NOT: warning
module attributes {hespas.facts = {optimised_for = "TPUv4"}} {
  func.func @main(%a: tensor<512xf32>) -> tensor<512xf32> {
    %0 = stablehlo.tanh %a {hespas.compiler_estimate = {cycles = 4000 : i64, latency_ns = 3000.5 : f64}} : tensor<512xf32>
    return %0 : tensor<512xf32>
  }
}
