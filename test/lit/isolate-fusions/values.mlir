// RUN: hespas-opt %s --isolate-fusions --split-input-file | filecheck %s
// RUN: hespas-opt %s --isolate-fusions --isolate-fusions --split-input-file | filecheck %s

/// A body that reads only values that are not made of constants alone is as somebody has written it, and stays.

// CHECK-LABEL: func.func public @others
// CHECK: %[[T:.*]] = stablehlo.tanh
// CHECK: %[[M:.*]] = stablehlo.multiply
// CHECK: "mhlo.fusion"(%arg0)
// CHECK: stablehlo.add %{{.*}}, %[[T]]
// CHECK: "mhlo.fusion"(%arg0)
// CHECK: stablehlo.add %{{.*}}, %[[M]]
func.func public @others(%x: tensor<128xf32>) -> (tensor<128xf32>, tensor<128xf32>) {
  %t = stablehlo.tanh %x : tensor<128xf32>
  %i = stablehlo.iota dim = 0 : tensor<128xf32>
  %m = stablehlo.multiply %i, %t : tensor<128xf32>
  %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
  ^bb0(%a: tensor<128xf32>):
    %1 = stablehlo.add %a, %t : tensor<128xf32>
    mhlo.return %1 : tensor<128xf32>
  }) : (tensor<128xf32>) -> tensor<128xf32>
  %2 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
  ^bb0(%a: tensor<128xf32>):
    %1 = stablehlo.add %a, %m : tensor<128xf32>
    mhlo.return %1 : tensor<128xf32>
  }) : (tensor<128xf32>) -> tensor<128xf32>
  return %0, %2 : tensor<128xf32>, tensor<128xf32>
}

// -----

/// A value that constants make by way of another one is an operand, once, however often the body reads it.

// CHECK-LABEL: func.func public @chain
// CHECK: %[[J:.*]] = stablehlo.add
// CHECK: "mhlo.fusion"(%arg0, %[[J]])
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<128xf32>, %[[B:.*]]: tensor<128xf32>):
// CHECK-NEXT: %[[S:.*]] = stablehlo.add %[[A]], %[[B]]
// CHECK-NEXT: stablehlo.multiply %[[S]], %[[B]]
func.func public @chain(%x: tensor<128xf32>) -> tensor<128xf32> {
  %i = stablehlo.iota dim = 0 : tensor<128xf32>
  %j = stablehlo.add %i, %i : tensor<128xf32>
  %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
  ^bb0(%a: tensor<128xf32>):
    %1 = stablehlo.add %a, %j : tensor<128xf32>
    %2 = stablehlo.multiply %1, %j : tensor<128xf32>
    mhlo.return %2 : tensor<128xf32>
  }) : (tensor<128xf32>) -> tensor<128xf32>
  return %0 : tensor<128xf32>
}

// -----

/// A constant that others read stays around the fusion, too. Its copy is before the branch in the body whose alternative
/// reads it first, so that an op after the branch may read it.

// CHECK-LABEL: func.func public @branch
// CHECK: %[[ONE:.*]] = stablehlo.constant dense<1.000000e+00>
// CHECK: stablehlo.tanh %[[ONE]]
// CHECK: mhlo.fusion
// CHECK: %[[C:.*]] = stablehlo.constant dense<1.000000e+00>
// CHECK-NEXT: stablehlo.if
// CHECK: stablehlo.return %[[C]]
// CHECK: stablehlo.add %{{.*}}, %[[C]]
func.func public @branch(%x: tensor<128xf32>, %p: tensor<i1>) -> (tensor<128xf32>, tensor<128xf32>) {
  %one = stablehlo.constant dense<1.0> : tensor<128xf32>
  %t = stablehlo.tanh %one : tensor<128xf32>
  %0 = "mhlo.fusion"(%x, %p) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
  ^bb0(%a: tensor<128xf32>, %q: tensor<i1>):
    %1 = "stablehlo.if"(%q) ({
      stablehlo.return %one : tensor<128xf32>
    }, {
      stablehlo.return %a : tensor<128xf32>
    }) : (tensor<i1>) -> tensor<128xf32>
    %2 = stablehlo.add %1, %one : tensor<128xf32>
    mhlo.return %2 : tensor<128xf32>
  }) : (tensor<128xf32>, tensor<i1>) -> tensor<128xf32>
  return %0, %t : tensor<128xf32>, tensor<128xf32>
}

// -----

/// An argument of the function that a body reads beside a constant is an operand, too.

// CHECK-LABEL: func.func public @argument
// CHECK: "mhlo.fusion"(%arg0, %arg1)
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<128xf32>, %[[B:.*]]: tensor<128xf32>):
// CHECK: %[[C:.*]] = stablehlo.constant dense<2.000000e+00>
// CHECK: %[[S:.*]] = stablehlo.add %[[A]], %[[C]]
// CHECK-NEXT: stablehlo.multiply %[[S]], %[[B]]
func.func public @argument(%x: tensor<128xf32>, %y: tensor<128xf32>) -> tensor<128xf32> {
  %c = stablehlo.constant dense<2.0> : tensor<128xf32>
  %0 = "mhlo.fusion"(%x) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
  ^bb0(%a: tensor<128xf32>):
    %1 = stablehlo.add %a, %c : tensor<128xf32>
    %2 = stablehlo.multiply %1, %y : tensor<128xf32>
    mhlo.return %2 : tensor<128xf32>
  }) : (tensor<128xf32>) -> tensor<128xf32>
  return %0 : tensor<128xf32>
}
