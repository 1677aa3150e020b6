// RUN: hespas-opt %s --roofline-annotate=node=A100_SXM_40GB | filecheck %s

/// A loop contains what the functions cost that it calls: in three iterations two calls of 8 negations and 8 absolute values, a
/// step and a comparison of the counter.

// CHECK: hespas.cost = {{.*}}flops = 102 : i64, {{.*}}hespas.trips = 3
// CHECK: call @f({{.*}}flops = 16 : i64
// CHECK: call @f({{.*}}flops = 16 : i64
// CHECK: func.func private @f({{.*}}
// CHECK: stablehlo.negate {{.*}}flops = 8 : i64
// CHECK: stablehlo.abs {{.*}}flops = 8 : i64
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
  %0 = stablehlo.negate %x : tensor<8xf32>
  %1 = stablehlo.abs %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}
