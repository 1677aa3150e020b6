// RUN: hespas-opt %s --roofline-annotate -o %t.mlir
// RUN: sed 's/, hespas.target = {[^}]*}//' %t.mlir | hespas-opt --refresh-costs | filecheck %s
// RUN: sed 's/, hespas.target = {[^}]*}//; s/stablehlo.tanh/stablehlo.sine/' %t.mlir | not hespas-opt --refresh-costs 2>&1 | filecheck %s --check-prefix=STALE

/// A tool may have dropped what the costs were made with: they are current as long as the ops are.

// CHECK: stablehlo.tanh {{.*}}hespas.cost = {bound = "memory", digest = "{{[0-9a-f]+}}_{{[0-9a-f]+}}", estimator = "roofline"
// STALE: error: 'stablehlo.sine': hespas.cost is stale: the op changed after the annotation; run an annotate pass first, e.g. roofline-annotate
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
