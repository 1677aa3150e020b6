// RUN: hespas-opt %s --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12" 2>&1 | filecheck %s
// RUN: hespas-opt %s --roofline-annotate="memory-bandwidth=1e12 peak-flops=1e12" --split-linear --roofline-annotate 2>&1 | filecheck %s --check-prefix=SPLIT

/// The time of a loop whose trip count is assumed has a gap, and so has that of what calls it; a loop whose count is known
/// has none.

// CHECK: stablehlo.while{{.*}}hespas.cost = {{{.*}}flops = 1024 : i64, gap = "trip count 1 assumed: it depends on data", latency_ns = 8.192
// CHECK: stablehlo.while{{.*}}hespas.cost = {{{.*}}latency_ns = 24.639
// CHECK-NOT: gap
// SPLIT: call @region_0({{.*}}gap = "trip count 1 assumed: it depends on data"
// SPLIT: func.func private @region_0({{.*}}gap = "trip count 1 assumed: it depends on data"
func.func @main(%p: tensor<i1>, %x: tensor<1024xf32>) -> tensor<1024xf32> {
  %0:2 = stablehlo.while(%q = %p, %v = %x) : tensor<i1>, tensor<1024xf32>
   cond {
    stablehlo.return %q : tensor<i1>
  } do {
    %n = stablehlo.negate %v : tensor<1024xf32>
    stablehlo.return %q, %n : tensor<i1>, tensor<1024xf32>
  }
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %1:2 = stablehlo.while(%i = %zero, %v = %0#1) : tensor<i32>, tensor<1024xf32>
   cond {
    %n = stablehlo.constant dense<3> : tensor<i32>
    %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %lt : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %n = stablehlo.negate %v : tensor<1024xf32>
    stablehlo.return %j, %n : tensor<i32>, tensor<1024xf32>
  }
  return %1#1 : tensor<1024xf32>
}
