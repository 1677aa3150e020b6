// RUN: hespas-opt %s --roofline-annotate -o %t.mlir
// RUN: sed 's/, hespas.target = {[^}]*}//' %t.mlir | hespas-opt --refresh-costs | filecheck %s
// RUN: sed 's/, hespas.target = {[^}]*}//; s/stablehlo.tanh/stablehlo.sine/' %t.mlir | not hespas-opt --refresh-costs 2>&1 | filecheck %s --check-prefix=STALE
// RUN: sed 's/_[0-9a-f]*\(_[0-9a-f]*", estimator\)/_00000000\1/' %t.mlir | hespas-opt --refresh-costs 2>&1 | filecheck %s --check-prefix=SOURCE

/// A tool may have dropped what the costs were made with: they are current as long as the ops are. Costs
/// that were made with something else are estimated again.

// CHECK: stablehlo.tanh {{.*}}hespas.cost = {bound = "memory", digest = "{{[0-9a-f]+}}_{{[0-9a-f]+}}_{{[0-9a-f]+}}", estimator = "roofline"
// SOURCE: stablehlo.tanh {{.*}} had costs of another annotation: estimated again by roofline-annotate
// STALE: error: 'stablehlo.sine': hespas.cost is stale: the op changed after the annotation; run an annotate pass first, e.g. roofline-annotate
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
