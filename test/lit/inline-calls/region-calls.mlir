// RUN: hespas-opt %s --prepare 2>&1 | filecheck %s
// RUN: hespas-opt %s --prepare --prepare 2>&1 | filecheck %s

/// A region function whose calls differ is copied; the function with a loop that it calls is then inlined in each copy.

// CHECK: call @region_0(%arg0, %{{.*}})
// CHECK: call @region_0_0(%{{.*}}, %{{.*}})
// CHECK: func.func private @region_0(
// CHECK: hespas.trips = 3 : i64
// CHECK: func.func private @region_0_0(
// CHECK: hespas.trips = 7 : i64
// CHECK-NOT: func.func
module attributes {hespas.split = {strategy = "linear"}} {
  func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %three = stablehlo.constant dense<3> : tensor<i32>
    %seven = stablehlo.constant dense<7> : tensor<i32>
    %0 = call @region_0(%x, %three) {hespas.region = {digest = "d", id = 0 : i64, ops = 2 : i64}} : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    %1 = call @region_0(%0, %seven) {hespas.region = {digest = "d", id = 0 : i64, ops = 2 : i64}} : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    return %1 : tensor<64x64xf32>
  }
  func.func private @region_0(%x: tensor<64x64xf32>, %n: tensor<i32>) -> tensor<64x64xf32> attributes {hespas.region = {digest = "d", id = 0 : i64, ops = 2 : i64}} {
    %0 = call @repeat(%x, %n) : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    %1 = call @repeat(%0, %n) : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    return %1 : tensor<64x64xf32>
  }
  func.func private @repeat(%x: tensor<64x64xf32>, %n: tensor<i32>) -> tensor<64x64xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<64x64xf32> cond {
      %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %1 = stablehlo.cosine %y : tensor<64x64xf32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %1 : tensor<i32>, tensor<64x64xf32>
    }
    return %0#1 : tensor<64x64xf32>
  }
}
