// RUN: hespas-opt %s --split-linear --roofline-annotate=node=H100_80GB --cse --refresh-costs 2>&1 | filecheck %s
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=H100_80GB | hespas-opt --cse | hespas-opt --refresh-costs 2>&1 | filecheck %s
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=H100_80GB --emit-bytecode | hespas-opt --cse --emit-bytecode | hespas-opt --refresh-costs 2>&1 | filecheck %s
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=H100_80GB --canonicalize --refresh-costs 2>&1 | filecheck %s --check-prefix=DEAD
// RUN: hespas-opt %s --split-linear --roofline-annotate=node=H100_80GB | hespas-opt --inline | hespas-opt --refresh-costs 2>&1 | filecheck %s --check-prefix=INLINED

/// cse merges two equal ops and removes a dead one: the region costs what the two others cost.
// CHECK: @region_0 ({{.*}}:{{[0-9]+}}:{{[0-9]+}}) changed after the annotation: the sums of costs are added up again
// CHECK: call @region_0(%arg0) {hespas.cost = {estimator = "roofline", flops = 262144 : i64, latency_ns = 1565
// CHECK-SAME: hespas.region = {digest = "{{[0-9a-f]+}}", id = 0 : i64, ops = 2 : i64}

/// canonicalize removes an op that nothing reads, and so does inline, which leaves no region: the ops keep their costs.
// INLINED-NOT: changed after
// INLINED: func.func @main
// INLINED-COUNT-2: stablehlo.tanh {{.*}}estimator = "roofline"
// INLINED: stablehlo.add {{.*}}estimator = "roofline"
// INLINED-NEXT: return
// DEAD: @region_0 ({{.*}}) changed after the annotation: the sums of costs are added up again
// DEAD: latency_ns = 2191
// DEAD-SAME: ops = 3 : i64
func.func @main(%x: tensor<512x512xf32>) -> tensor<512x512xf32> {
  %0 = stablehlo.tanh %x : tensor<512x512xf32>
  %1 = stablehlo.tanh %x : tensor<512x512xf32>
  %2 = stablehlo.add %0, %1 : tensor<512x512xf32>
  %dead = stablehlo.tanh %2 : tensor<512x512xf32>
  return %2 : tensor<512x512xf32>
}
