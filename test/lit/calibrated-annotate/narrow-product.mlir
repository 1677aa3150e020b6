// RUN: hespas-opt %s --calibrated-annotate=node=A100_SXM_40GB 2>&1 | filecheck %s

/// A product of 8-bit integers, which were not measured on the device, takes at most the time of the next wider type with
/// the bytes of its wider operands.

// CHECK: hespas.cost = {bound = "memory", {{.*}}latency_ns = 62689.4{{.*}}read_bytes = 67117056
func.func @main(%row: tensor<1x8192xi8>, %matrix: tensor<8192x8192xi8>) -> tensor<1x8192xi32> {
  %0 = stablehlo.dot_general %row, %matrix, contracting_dims = [1] x [0] : (tensor<1x8192xi8>, tensor<8192x8192xi8>) -> tensor<1x8192xi32>
  return %0 : tensor<1x8192xi32>
}
