// RUN: not hespas-opt %s --annotate=node=A100_SXM_40GB 2>&1 | filecheck %s

/// The work of an op that has a rule is that of the rule: one that is declared for it is refused.

// CHECK: kernel-cost-with-rule.mlir:[[# @LINE + 2]]:8: error: 'stablehlo.tanh': hespas.kernel_cost is an attribute of: custom call, or an op that hespas has no cost rule for; remove it from stablehlo.tanh
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x {hespas.kernel_cost = {bytes = 4000 : i64, flops = 3000000000 : i64}} : tensor<8xf32>
  return %0 : tensor<8xf32>
}
