// RUN: hespas-opt %s --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12" | filecheck %s
// RUN: hespas-opt %s --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12" --roofline-annotate | filecheck %s
// RUN: hespas-opt %s --roofline-annotate=node=TPUv5e --roofline-annotate=peak-flops=1e12 | filecheck %s --check-prefix=KNOWN
// RUN: hespas-opt %s --roofline-annotate="node=TPUv5e memory-bandwidth=1e9" --roofline-annotate=peak-flops=1e12 | filecheck %s --check-prefix=BOTH
// RUN: hespas-opt %s --roofline-annotate="node=TPUv5e memory-bandwidth=1e9" --roofline-annotate=node=H100_80GB | filecheck %s --check-prefix=NAMED

/// The rates that are given for a node stay those of the module until another node is named. One rate is enough for a
/// node that the module names.

// CHECK: node = "custom", node_overrides = "peak-flops=1000000000000.0 memory-bandwidth=1000000000000.0"
// CHECK: latency_ns = 8.192000e+00
// KNOWN: node = "TPUv5e", node_overrides = "peak-flops=1000000000000.0"
// BOTH: node = "TPUv5e", node_overrides = "peak-flops=1000000000000.0 memory-bandwidth=1000000000.0"
// BOTH: latency_ns = 8.192000e+03
// NAMED: node = "H100_80GB"
// NAMED-NOT: overrides
// NAMED: latency_ns
func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = stablehlo.negate %x : tensor<1024xf32>
  return %0 : tensor<1024xf32>
}
