// RUN: hespas-opt %s --roofline-annotate="node=A100_SXM_40GB kernel-cost=%S/Inputs/rules.py" --refresh-costs 2>/dev/null | filecheck %s
// RUN: hespas-opt %s --roofline-annotate="node=A100_SXM_40GB kernel-cost=%S/Inputs/rules.py" 2>/dev/null | hespas-opt --refresh-costs 2>&1 | filecheck %s
// RUN: hespas-opt %s --roofline-annotate="node=A100_SXM_40GB kernel-cost=%S/Inputs/rules.py" 2>/dev/null | sed 's/acme.tile = 9/acme.tile = 8/' | not env hespas-opt --refresh-costs 2>&1 | filecheck %s --check-prefix=CHANGED

/// A later process does not have the rules of a file. It finds the costs true if the ops are as they were, also the
/// attributes that the rules read, and takes the heavier branch by the costs.

// CHECK-NOT: {{warning|error|up to date}}
// CHECK: math.tanh{{.*}}flops = 9000 : i64
// CHECK: hespas.branch = 1 : i64
// CHECK-NOT: {{warning|error|up to date}}
// CHANGED: error: 'math.tanh': hespas.cost is stale: the op changed after the annotation; run roofline-annotate again with kernel-cost={{.*}}rules.py, whose rules hespas.target cannot load
func.func @main(%p: tensor<i1>, %a: tensor<64xf32>, %b: tensor<256xf32>) -> tensor<64xf32> {
  %0 = "stablehlo.if"(%p) ({
    %1 = stablehlo.cosine %a : tensor<64xf32>
    stablehlo.return %1 : tensor<64xf32>
  }, {
    %1 = math.tanh %b {acme.tile = 9} : tensor<256xf32>
    %2 = stablehlo.slice %1 [0:64] : (tensor<256xf32>) -> tensor<64xf32>
    stablehlo.return %2 : tensor<64xf32>
  }) : (tensor<i1>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
