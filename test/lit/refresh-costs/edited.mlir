// RUN: hespas-opt %s --split-linear --roofline-annotate=node=A100_SXM_40GB -o %t.mlir
// RUN: sed 's/latency_ns = 0.0[0-9]*/latency_ns = 777.0/' %t.mlir | hespas-opt --refresh-costs 2>&1 | filecheck %s --check-prefix=EDITED
// RUN: sed 's/bound = "memory"/bound = "launch"/' %t.mlir | hespas-opt --refresh-costs 2>&1 | filecheck %s --check-prefix=EDITED
// RUN: sed 's/latency_ns = 0.0[0-9]*/latency_ns = 777.0/; s/roofline 1/roofline 0/' %t.mlir | not hespas-opt --refresh-costs 2>&1 | filecheck %s --check-prefix=ERROR
// RUN: sed 's/_[0-9a-f]*", dtype/", dtype/' %t.mlir | hespas-opt --refresh-costs 2>&1 | filecheck %s --check-prefix=OLDER
// RUN: sed '/stablehlo.add/ { s/digest = "[^"]*", //; s/"roofline"/"acme"/; s/latency_ns = [0-9.]*/latency_ns = 777.0/ }' %t.mlir | hespas-opt --refresh-costs 2>&1 | filecheck %s --check-prefix=STATED
// RUN: hespas-opt %t.mlir --emit-bytecode | hespas-opt --mlir-print-op-generic | hespas-opt --typed-attributes | hespas-opt --refresh-costs 2>&1 | filecheck %s --check-prefix=SAME

/// The digest of a cost covers its values: if one is edited, the cost is estimated again, whatever form the module had in
/// the meantime.
// EDITED: stablehlo.add ({{.*}}) had costs that were edited: estimated again by roofline-annotate{node=A100_SXM_40GB}; a cost that you state has no digest and names an estimator of your own
// EDITED: stablehlo.add {{.*}}bound = "memory", digest = "{{[0-9a-f]+}}_{{[0-9a-f]+}}_{{[0-9a-f]+}}", dtype = "f32", estimator = "roofline", flops = 8 : i64, latency_ns = 0.0
// ERROR: error: 'stablehlo.add': hespas.cost is stale: the op had costs that were edited; a cost that you state has no digest and names an estimator of your own; run roofline-annotate again: version 0 wrote the costs, and 1 is installed
// OLDER: had costs of another version of hespas: estimated again by roofline-annotate
// SAME-NOT: estimated again
// SAME: stablehlo.add

/// A cost that is stated holds.
// STATED-NOT: estimated again
// STATED: stablehlo.add {{.*}}estimator = "acme", flops = 8 : i64, latency_ns = 7.770000e+02
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %x, %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
