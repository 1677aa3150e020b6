// RUN: hespas-opt %s --prepare=platform=cuda | filecheck %s

/// The passes behind it in `prepare` see the ops of this platform alone, such as its loop.

// CHECK-NOT: stablehlo.sine
// CHECK: stablehlo.while
// CHECK-SAME: hespas.trips = 3 : i64
// CHECK-NOT: stablehlo.sine
module attributes {hespas.facts = {exported_for = "cpu, cuda"}} {
  func.func @main(%p: tensor<i32> {jax.global_constant = "_platform_index"}, %x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %0 = "stablehlo.case"(%p) ({
      %1:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<8xf32> cond {
        %2 = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %2 : tensor<i1>
      } do {
        %next = stablehlo.add %i, %one : tensor<i32>
        %2 = stablehlo.sine %y : tensor<8xf32>
        stablehlo.return %next, %2 : tensor<i32>, tensor<8xf32>
      }
      stablehlo.return %1#1 : tensor<8xf32>
    }, {
      %1:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<8xf32> cond {
        %2 = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %2 : tensor<i1>
      } do {
        %next = stablehlo.add %i, %one : tensor<i32>
        %2 = stablehlo.cosine %y : tensor<8xf32>
        stablehlo.return %next, %2 : tensor<i32>, tensor<8xf32>
      }
      stablehlo.return %1#1 : tensor<8xf32>
    }) : (tensor<i32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
