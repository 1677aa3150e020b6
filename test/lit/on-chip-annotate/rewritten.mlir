// RUN: hespas-opt %s --on-chip-annotate --roofline-annotate=node=A100_SXM_40GB --canonicalize --refresh-costs 2>&1 | filecheck %s
// RUN: hespas-opt %s --on-chip-annotate --split-individual=merge --roofline-annotate=node=A100_SXM_40GB --canonicalize --inline --refresh-costs 2>&1 | filecheck %s --check-prefix=MERGED
// RUN: hespas-opt %s --canonicalize --on-chip-annotate --roofline-annotate=node=A100_SXM_40GB --canonicalize --refresh-costs 2>&1 | filecheck %s --check-prefix=SAME

/// Another pass has removed an op since, so that less is kept. A split that merges regions has moved ops, and nothing can
/// be computed after it.

// CHECK: the program changed after on-chip-annotate: hespas.on_chip is computed again
// CHECK: stablehlo.negate {{.*}}sram_bytes = array<i64: 4096>
// CHECK-NOT: stablehlo.sine
// MERGED: the program changed after on-chip-annotate: hespas.on_chip is removed; run on-chip-annotate again before the split
// MERGED-NOT: hespas.on_chip
// SAME-NOT: changed after on-chip-annotate
// SAME: stablehlo.negate {{.*}}sram_bytes = array<i64: 4096>
func.func @main(%x: tensor<1024xf32>) -> tensor<1024xf32> {
  %0 = stablehlo.tanh %x : tensor<1024xf32>
  %1 = stablehlo.sine %x : tensor<1024xf32>
  %2 = stablehlo.negate %0 : tensor<1024xf32>
  return %2 : tensor<1024xf32>
}
