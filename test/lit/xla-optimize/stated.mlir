// RUN: hespas-opt %s --xla-optimize=target=cpu | filecheck %s

/// What somebody states of a loop, a branch and a call is stated of what XLA makes of them.

// CHECK: stablehlo.while
// CHECK-SAME: attributes {hespas.trips = 100 : i64}
// CHECK: stablehlo.custom_call @acme_kernel
// CHECK-SAME: hespas.kernel_cost = {bytes = 64 : i64, flops = 9 : i64}
// CHECK: "stablehlo.case"
// CHECK: {hespas.branch = 1 : i64}
func.func @main(%p: tensor<i1>, %n: tensor<i32>, %x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0:2 = stablehlo.while(%y = %x, %q = %p) : tensor<8x8xf32>, tensor<i1> attributes {hespas.trips = 100 : i64}
  cond { stablehlo.return %q : tensor<i1> } do {
    %1 = stablehlo.tanh %y : tensor<8x8xf32>
    stablehlo.return %1, %q : tensor<8x8xf32>, tensor<i1>
  }
  %2 = stablehlo.custom_call @acme_kernel(%0#0) {hespas.kernel_cost = {flops = 9 : i64, bytes = 64 : i64}} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = "stablehlo.case"(%n) ({
    %4 = stablehlo.sine %2 : tensor<8x8xf32>
    stablehlo.return %4 : tensor<8x8xf32>
  }, {
    %4 = stablehlo.cosine %2 : tensor<8x8xf32>
    stablehlo.return %4 : tensor<8x8xf32>
  }) {hespas.branch = 1 : i64} : (tensor<i32>) -> tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}
