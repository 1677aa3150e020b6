// RUN: hespas-opt %s --prepare 2>&1 | filecheck %s
// RUN: hespas-opt %s --prepare --prepare 2>&1 | filecheck %s

/// Two ways differ: each call of a function passes its bound to two calls of a function with a loop. A call whose
/// bound is data keeps the assumption alone.

// CHECK: paths.mlir:{{[0-9]+}}:12: the trip count of the loop depends on data: 1 is assumed
// CHECK: module @paths
// CHECK: hespas.trips = 3 : i64
// CHECK: hespas.trips = 4 : i64
// CHECK: hespas.trips = 7 : i64
// CHECK: hespas.trips = 8 : i64
// CHECK: hespas.trips = 7 : i64
// CHECK: hespas.trips = 1 : i64, hespas.trips_note
// CHECK-NOT: func.func private
module @paths {
  func.func @main(%x: tensor<64x64xf32>, %data: tensor<i32>) -> tensor<64x64xf32> {
    %three = stablehlo.constant dense<3> : tensor<i32>
    %seven = stablehlo.constant dense<7> : tensor<i32>
    %0 = call @outer(%x, %three) : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    %1 = call @outer(%0, %seven) : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    %2 = call @repeat(%1, %seven) : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    %3 = call @repeat(%2, %data) : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    return %3 : tensor<64x64xf32>
  }
  func.func private @outer(%x: tensor<64x64xf32>, %n: tensor<i32>) -> tensor<64x64xf32> {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %more = stablehlo.add %n, %one : tensor<i32>
    %0 = call @repeat(%x, %n) : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    %1 = call @repeat(%0, %more) : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
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
