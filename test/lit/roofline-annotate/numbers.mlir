// RUN: not hespas-opt %s --roofline-annotate=node=A100_SXM_40GB,memory-bandwidth=inf 2>&1 | filecheck %s --check-prefix=INF
// RUN: not hespas-opt %s --roofline-annotate=node=A100_SXM_40GB,peak-flops=nan 2>&1 | filecheck %s --check-prefix=NAN
// RUN: not hespas-opt %s --annotate=node=A100_SXM_40GB,settings=memory_bandwidth=inf 2>&1 | filecheck %s --check-prefix=SETTING
// RUN: not hespas-opt %s --roofline-annotate=node=A100_SXM_40GB,memory-bandwidth=-1 2>&1 | filecheck %s --check-prefix=RANGE
// RUN: not hespas-opt %s --xla-annotate=memory-limit=nan 2>&1 | filecheck %s --check-prefix=LIMIT
// RUN: not hespas-opt %s --roofline-annotate=node=A100_SXM_40GB,memory-bandwidth=1e-320 2>&1 | filecheck %s --check-prefix=ESTIMATE

/// A number that is infinite or no number is refused as what it is, before any op is estimated.
// INF: {{^}}error: roofline-annotate: option 'memory-bandwidth' takes a finite number, not 'inf'
// NAN: {{^}}error: roofline-annotate: option 'peak-flops' takes a finite number, not 'nan'
// SETTING: {{^}}error: roofline: setting 'memory-bandwidth' takes a finite number, not 'inf'
// RANGE: {{^}}error: memory-bandwidth must be more than 0 and finite, not -1.0
// LIMIT: {{^}}error: xla-annotate: option 'memory-limit' takes a finite number, not 'nan'

/// A rate that is so small that the time is not finite is refused with the op.
// ESTIMATE: numbers.mlir:18:8: error: 'stablehlo.tanh': the roofline estimate of the op is inf ns; correct the rates of the node
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
