// RUN: hespas-opt %s --isolate-fusions | filecheck %s
// RUN: hespas-opt %s --isolate-fusions --isolate-fusions | filecheck %s

/// A constant that `canonicalize` has moved out of a body goes back before its first user, also into a fusion in the
/// fusion, and from the function if nobody else reads it; what `cse` has merged is an operand. A fusion in a loop reads
/// what is around the loop.

// CHECK-LABEL: func.func @main
// CHECK-NOT: stablehlo.constant
// CHECK: %[[IOTA:.*]] = stablehlo.iota
// CHECK-NOT: stablehlo.constant
// CHECK: "mhlo.fusion"(%{{[a-z0-9]*}}, %[[IOTA]])
// CHECK-SAME: kInput
// CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<128xf32>, %[[I:.*]]: tensor<128xf32>):
// CHECK-NEXT: %[[SUM:.*]] = stablehlo.add %[[X]], %[[I]]
// CHECK-NEXT: %[[TWO:.*]] = stablehlo.constant dense<2.000000e+00> : tensor<f32>
// CHECK-NEXT: stablehlo.broadcast_in_dim %[[TWO]]
// CHECK: %[[BIG:.*]] = stablehlo.constant dense<"0x
// CHECK-NEXT: stablehlo.multiply %{{.*}}, %[[BIG]]
// CHECK: mhlo.fusion
// CHECK-NEXT: ^bb0(%[[Y:.*]]: tensor<128xf32>):
// CHECK-NEXT: %[[THREE:.*]] = stablehlo.constant dense<3.000000e+00>
// CHECK: }) {acme.note, hespas.kernel = {kind = "loop"}} :
// CHECK: stablehlo.while
// CHECK: "mhlo.fusion"(%{{[a-zA-Z0-9_]*}}, %[[IOTA]])
// CHECK: %[[C:.*]] = stablehlo.constant dense<5.000000e+00>
// CHECK: stablehlo.tanh %[[C]]
func.func @main(%x: tensor<128xf32>, %p: tensor<i1>) -> (tensor<128xf32>, tensor<128xf32>, tensor<f32>) {
  %two = stablehlo.constant dense<2.0> : tensor<f32>
  %three = stablehlo.constant dense<3.0> : tensor<f32>
  %iota = stablehlo.iota dim = 0 : tensor<128xf32>
  %big = stablehlo.constant dense<"0x0000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F0000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F0000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F0000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F0000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F0000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F0000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F0000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F00000040000040400000803F"> : tensor<128xf32>
  %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kInput>}> ({
  ^bb0(%a: tensor<128xf32>):
    %1 = stablehlo.add %a, %iota : tensor<128xf32>
    %2 = stablehlo.broadcast_in_dim %two, dims = [] : (tensor<f32>) -> tensor<128xf32>
    %3 = stablehlo.multiply %1, %2 : tensor<128xf32>
    %4 = stablehlo.multiply %3, %big : tensor<128xf32>
    %5 = "mhlo.fusion"(%4) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%b: tensor<128xf32>):
      %6 = stablehlo.broadcast_in_dim %three, dims = [] : (tensor<f32>) -> tensor<128xf32>
      %7 = stablehlo.multiply %b, %6 : tensor<128xf32>
      mhlo.return %7 : tensor<128xf32>
    }) : (tensor<128xf32>) -> tensor<128xf32>
    mhlo.return %5 : tensor<128xf32>
  }) {acme.note, hespas.kernel = {kind = "loop"}} : (tensor<128xf32>) -> tensor<128xf32>
  %8:2 = stablehlo.while(%q = %p, %y = %0) : tensor<i1>, tensor<128xf32>
  cond {
    stablehlo.return %q : tensor<i1>
  } do {
    %9 = "mhlo.fusion"(%y) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%c: tensor<128xf32>):
      %10 = stablehlo.add %c, %iota : tensor<128xf32>
      mhlo.return %10 : tensor<128xf32>
    }) : (tensor<128xf32>) -> tensor<128xf32>
    stablehlo.return %q, %9 : tensor<i1>, tensor<128xf32>
  }
  %five = stablehlo.constant dense<5.0> : tensor<f32>
  %11 = stablehlo.tanh %five : tensor<f32>
  return %0, %8#1, %11 : tensor<128xf32>, tensor<128xf32>, tensor<f32>
}
