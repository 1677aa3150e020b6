// RUN: hespas-opt %s --write-trip-counts 2>&1 | filecheck %s

/// A loop that ends, after more iterations than are run. This takes seconds: it has one command.

// CHECK: the trip count of the loop is not found within 100,000 iterations: 1 is assumed
// CHECK-NOT: warning
// CHECK-LABEL: module @long
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it is not found within 100,000 iterations"}
module @long {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0> : tensor<i32>
    %w = stablehlo.while(%i = %s) : tensor<i32>
    cond {
      %n = stablehlo.constant dense<200000> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %most = stablehlo.maximum %i, %one : tensor<i32>
      %j = stablehlo.add %most, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}
