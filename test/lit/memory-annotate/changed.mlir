// RUN: hespas-opt %s --memory-annotate --roofline-annotate=node=A100_SXM_40GB --cse --refresh-costs 2>&1 | filecheck %s
// RUN: hespas-opt %s --memory-annotate --split-individual=merge --roofline-annotate=node=A100_SXM_40GB --cse --refresh-costs 2>&1 | filecheck %s --check-prefix=MERGED
// RUN: hespas-opt %s --cse --memory-annotate --split-individual=merge --roofline-annotate=node=A100_SXM_40GB --cse --refresh-costs 2>&1 | filecheck %s --check-prefix=SAME

/// Another pass has merged two ops since: the memory is that of one of them. A split that merges regions has moved ops, so
/// that the memory before it cannot be computed, and the attribute goes. It stays if the program is the same.

// CHECK: the program changed after memory-annotate: hespas.memory is computed again
// CHECK: live_bytes = 12288 : i64
// MERGED: the program changed after memory-annotate: hespas.memory is removed; run memory-annotate again before the split
// MERGED-NOT: hespas.memory =
// SAME-NOT: changed after memory-annotate
// SAME: live_bytes = 12288 : i64
func.func @main(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %0 = stablehlo.dot %x, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %1 = stablehlo.dot %x, %x : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  %2 = stablehlo.dot %0, %1 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
  return %2 : tensor<32x32xf32>
}
