// RUN: hespas-opt %s --calibrated-annotate=node=H100_80GB --split-input-file --verify-diagnostics
// RUN: hespas-opt %s --calibrated-annotate=node=H100_80GB --split-input-file --keep-going 2>&1 | filecheck %s
// RUN: hespas-opt %s --calibrated-annotate=node=H100_80GB,keep-going --split-input-file 2>&1 | filecheck %s

/// An op that no rule can cost stops the pass; with --keep-going, of the tool or of the pass, it is tagged and counted.

// CHECK: warning: 1 op without a full cost, first {{.*}}mystery
module {
  func.func public @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    // CHECK: stablehlo.custom_call @mystery({{.*}}gap = "stablehlo.custom_call: {{.*}}latency_ns = 0.000000e+00
    // expected-error @+1 {{mystery}}
    %0 = stablehlo.custom_call @mystery(%x) : (tensor<8xf32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
