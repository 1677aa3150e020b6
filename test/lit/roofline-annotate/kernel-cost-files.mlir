// RUN: hespas-opt %s --allow-unregistered-dialect --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12 kernel-cost=%S/Inputs/rules.py" | filecheck %s
// RUN: not hespas-opt %s --allow-unregistered-dialect --roofline-annotate="kernel-cost=%S/Inputs/no_rules.py" 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not hespas-opt %s --allow-unregistered-dialect --roofline-annotate="kernel-cost=%S/Inputs/licensed.py" 2>&1 | filecheck %s --check-prefix=IMPORT
// RUN: not hespas-opt %s --allow-unregistered-dialect --roofline-annotate="kernel-cost=%S/Inputs/known_op.py" 2>&1 | filecheck %s --check-prefix=KNOWN
// RUN: not hespas-opt %s --allow-unregistered-dialect --roofline-annotate="kernel-cost=%S/Inputs/no_targets.py" 2>&1 | filecheck %s --check-prefix=TARGETS

/// A file of rules alone gives the ops that it has rules for their work. A file without rules, one that cannot be imported
/// and rules for an op that has one and for no op are errors.

// CHECK: "foo.bar"{{.*}}flops = 7000 : i64, latency_ns = 7.000000e+00 : f64
// CHECK-NOT: hespas.kernel_cost
// NONE: no_rules.py: error: the file defines no RULES, a CostRule or a list of them; write RULES = [CostRule(compute_work, ops=(...,))]
// IMPORT: licensed.py: error: the cost rules cannot be imported: OSError: the licence has run out
// TARGETS: no_targets.py: error: a CostRule has neither ops nor call_targets; correct the rule
// KNOWN: known_op.py: error: the op stablehlo.tanh has a cost rule
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "foo.bar"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
