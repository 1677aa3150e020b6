// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB,keep-going 2>&1 | filecheck %s

/// An op whose cost is not known is a gap of all that contains it: of the calls of its function, and of the loop around them.
/// It is counted once.

// CHECK: warning: 1 op without a full cost, first {{.*}}gaps.mlir:{{[0-9]+}}:8: stablehlo.custom_call: custom call @mystery has no cost rule
// CHECK: stablehlo.while{{.*}}flops = 54 : i64, gap = "stablehlo.custom_call: custom call @mystery
// CHECK-COUNT-2: call @f({{.*}}flops = 8 : i64, gap = "stablehlo.custom_call: custom call @mystery
// CHECK: stablehlo.custom_call @mystery({{.*}}flops = 0 : i64, gap = "stablehlo.custom_call
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<8xf32>
  cond {
    %three = stablehlo.constant dense<3> : tensor<i32>
    %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %a = func.call @f(%y) : (tensor<8xf32>) -> tensor<8xf32>
    %b = func.call @f(%a) : (tensor<8xf32>) -> tensor<8xf32>
    stablehlo.return %j, %b : tensor<i32>, tensor<8xf32>
  }
  return %0#1 : tensor<8xf32>
}
func.func private @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @mystery(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = stablehlo.abs %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}
