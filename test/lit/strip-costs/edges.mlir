// RUN: hespas-opt %s --strip-costs | filecheck %s --check-prefix=PLAIN
// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB --strip-costs --strip-costs | filecheck %s
// RUN: not hespas-opt %s --roofline-annotate=node=A100_SXM_40GB --split-linear --strip-costs --emit-chakra=output=%t 2>&1 | filecheck %s --check-prefix=GONE

/// Costs go inside loops too; trip counts and communicators stay; a second time there is nothing to do.

// CHECK: hespas.target = {devices = 1 : i64, node = "A100_SXM_40GB", partitions = 1 : i64, replicas = 1 : i64}
// CHECK-NOT: hespas.cost
// CHECK: hespas.trips = 4
// CHECK-NOT: hespas.cost
// PLAIN-NOT: hespas.target
// PLAIN: stablehlo.while
// GONE: error: {{.*}}the op has no hespas.cost; run an annotate pass first
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<8xf32>
   cond {
    %four = stablehlo.constant dense<4> : tensor<i32>
    %lt = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %lt : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %t = stablehlo.tanh %v : tensor<8xf32>
    stablehlo.return %j, %t : tensor<i32>, tensor<8xf32>
  }
  return %0#1 : tensor<8xf32>
}
