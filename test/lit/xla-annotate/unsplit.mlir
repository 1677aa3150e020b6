// RUN: hespas-opt %s --xla-annotate="device=cpu cache=none repetitions=1" 2>&1 | filecheck %s

/// Without a split each op is measured, also those of loops, branches and functions that are called several times.

// CHECK: warning: the module is not split: each op is measured separately, launch time included
// CHECK: stablehlo.while
// CHECK: stablehlo.tanh {{.*}}bound = "measured"
// CHECK: stablehlo.case
// CHECK: stablehlo.sine {{.*}}bound = "measured"
// CHECK: stablehlo.cosine {{.*}}bound = "measured"
// CHECK: func.func private @f
// CHECK-NEXT: stablehlo.negate {{.*}}bound = "measured"
func.func public @main(%x: tensor<8xf32>, %p: tensor<i1>, %i: tensor<i32>) -> tensor<8xf32> {
  %0:2 = stablehlo.while(%a = %x, %q = %p) : tensor<8xf32>, tensor<i1> attributes {hespas.trips = 3 : i64}
   cond {
    stablehlo.return %q : tensor<i1>
  } do {
    %t = stablehlo.tanh %a : tensor<8xf32>
    stablehlo.return %t, %q : tensor<8xf32>, tensor<i1>
  }
  %1 = "stablehlo.case"(%i) ({
    %s = stablehlo.sine %0#0 : tensor<8xf32>
    stablehlo.return %s : tensor<8xf32>
  }, {
    %c = stablehlo.cosine %0#0 : tensor<8xf32>
    stablehlo.return %c : tensor<8xf32>
  }) : (tensor<i32>) -> tensor<8xf32>
  %2 = call @f(%1) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = call @f(%2) : (tensor<8xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.negate %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}
