// RUN: hespas-opt %s --prepare 2>&1 | filecheck %s
// RUN: hespas-opt %s --prepare --prepare 2>&1 | filecheck %s

/// A call whose bound is data says nothing of the others.

// CHECK: data-first.mlir:{{[0-9]+}}:12: the trip count of the loop depends on data: 1 is assumed
// CHECK: hespas.trips = 1 : i64, hespas.trips_note
// CHECK: hespas.trips = 5 : i64
// CHECK-NOT: func.func
module {
  func.func @main(%x: tensor<64x64xf32>, %data: tensor<i32>) -> tensor<64x64xf32> {
    %five = stablehlo.constant dense<5> : tensor<i32>
    %0 = call @repeat(%x, %data) : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
    %1 = call @repeat(%0, %five) : (tensor<64x64xf32>, tensor<i32>) -> tensor<64x64xf32>
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
