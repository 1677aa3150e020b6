// RUN: hespas-opt %s --write-trip-counts --split-input-file | filecheck %s

/// A bound above 10,000 is there to end the loop at all.

// CHECK-LABEL: module @guard
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"
module @guard {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %big = stablehlo.constant dense<1.0> : tensor<f32>
    %bound = stablehlo.constant dense<2147483647> : tensor<i32>
    %small = stablehlo.constant dense<1.0e-6> : tensor<f32>
    %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0:3 = stablehlo.while(%i = %zero, %y = %x, %error = %big) : tensor<i32>, tensor<8xf32>, tensor<f32>
    cond {
      %p = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %q = stablehlo.compare GT, %error, %small : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %c = stablehlo.and %q, %p : tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %new = stablehlo.tanh %y : tensor<8xf32>
      %max = stablehlo.reduce(%new init: %lowest) applies stablehlo.maximum across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
      stablehlo.return %next, %new, %max : tensor<i32>, tensor<8xf32>, tensor<f32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// One of 10,000 is the largest.

// CHECK-LABEL: module @largest
// CHECK: hespas.trips = 10000 : i64, hespas.trips_note = "maximum trip count 10000 assumed: it depends on data"
module @largest {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %big = stablehlo.constant dense<1.0> : tensor<f32>
    %bound = stablehlo.constant dense<10000> : tensor<i32>
    %small = stablehlo.constant dense<1.0e-6> : tensor<f32>
    %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0:3 = stablehlo.while(%i = %zero, %y = %x, %error = %big) : tensor<i32>, tensor<8xf32>, tensor<f32>
    cond {
      %p = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %q = stablehlo.compare GT, %error, %small : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %c = stablehlo.and %q, %p : tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %new = stablehlo.tanh %y : tensor<8xf32>
      %max = stablehlo.reduce(%new init: %lowest) applies stablehlo.maximum across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
      stablehlo.return %next, %new, %max : tensor<i32>, tensor<8xf32>, tensor<f32>
    }
    return %0#1 : tensor<8xf32>
  }
}
