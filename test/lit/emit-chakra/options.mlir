// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t,time=exact --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s --check-prefix=EXACT
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t,time=carry --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s --check-prefix=CARRY
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t --disable-output
// RUN: hespas trace print %t/dev.0.et | filecheck %s --check-prefix=BOTH
// RUN: filecheck %s --check-prefix=STATS --input-file %t/module_stats.json
// RUN: not hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%t,time=exakt 2>&1 | filecheck %s --check-prefix=NAME
// RUN: not hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB --emit-chakra=output=%s 2>&1 | filecheck %s --check-prefix=FILE

/// The time as ASTRA-sim multiplies it from num_ops, in ns, or in whole us, or both (the default).

// EXACT: COMP {{.*}} 0us num_ops=5395500
// CARRY: COMP {{.*}} 5us flops
// BOTH: COMP {{.*}} 5us num_ops=5395500
// STATS: "schema": "hespas.module_stats/1"
// STATS: "totals": {"count": 1,
// NAME: error: emit-chakra: no duration is named 'exakt'; did you mean 'exact'?
// FILE: options.mlir: error: the output must be a folder, and this is a file
func.func @main(%x: tensor<1048576xf32>) -> tensor<1048576xf32> {
  %0 = stablehlo.tanh %x : tensor<1048576xf32>
  return %0 : tensor<1048576xf32>
}
