// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB --cse --refresh-costs 2>&1 | filecheck %s
// RUN: hespas-opt %s --cse --roofline-annotate=node=A100_SXM_40GB --cse --refresh-costs 2>&1 | filecheck %s --check-prefix=SAME

/// If another pass has merged ops, the sums of the loops and functions that contain them are added up again, and these are
/// named.

// CHECK: stablehlo.while ({{.*}}sums.mlir:{{[0-9]+}}:10), @f ({{.*}}sums.mlir:{{[0-9]+}}:1) changed after the annotation: the sums of costs are added up again
// CHECK: stablehlo.while
// CHECK-SAME: latency_ns = 0.3086{{[0-9]+}}
// CHECK: call @f({{.*}}latency_ns = 0.1028
// SAME-NOT: changed
// SAME: stablehlo.while
func.func @main(%x: tensor<4xf64>, %p: tensor<i1>) -> tensor<4xf64> {
  %0:2 = stablehlo.while(%a = %x, %q = %p) : tensor<4xf64>, tensor<i1> attributes {hespas.trips = 3 : i64}
   cond {
    stablehlo.return %q : tensor<i1>
  } do {
    %t = stablehlo.negate %a : tensor<4xf64>
    %u = stablehlo.negate %a : tensor<4xf64>
    %v = stablehlo.add %t, %u : tensor<4xf64>
    stablehlo.return %v, %q : tensor<4xf64>, tensor<i1>
  }
  %1 = call @f(%0#0) : (tensor<4xf64>) -> tensor<4xf64>
  %2 = call @f(%1) : (tensor<4xf64>) -> tensor<4xf64>
  return %2 : tensor<4xf64>
}
func.func private @f(%x: tensor<4xf64>) -> tensor<4xf64> {
  %0 = stablehlo.tanh %x : tensor<4xf64>
  %1 = stablehlo.tanh %x : tensor<4xf64>
  %2 = stablehlo.add %0, %1 : tensor<4xf64>
  return %2 : tensor<4xf64>
}
