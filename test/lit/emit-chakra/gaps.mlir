// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB,keep-going --emit-chakra=output=%t --disable-output 2>&1 | filecheck %s
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB,keep-going | hespas-opt - --emit-chakra=output=%t --disable-output 2>&1 | filecheck %s
// RUN: filecheck %s --check-prefix=STATS --input-file %t/module_stats.json

/// What could not be estimated has no time in the trace, and is counted.

// CHECK: warning: {{.*}}the traces lack the time of 1 op that could not be estimated
// STATS: "gaps": 1}
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = stablehlo.custom_call @mystery(%x) : (tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
