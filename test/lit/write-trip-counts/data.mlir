// RUN: hespas-opt %s --write-trip-counts 2>&1 | filecheck %s
// RUN: hespas-opt %s --write-trip-counts=trip-count=9 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: hespas-opt %s --write-trip-counts=trip-count=9 --write-trip-counts 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: hespas-opt %s --write-trip-counts=trip-count=0 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not hespas-opt %s --write-trip-counts=trip-count=error 2>&1 | filecheck %s --check-prefix=ERROR
// RUN: not hespas-opt %s --write-trip-counts=trip-count=few 2>&1 | filecheck %s --check-prefix=WRONG
// RUN: not hespas-opt %s --write-trip-counts=trip-count=-1 2>&1 | filecheck %s --check-prefix=SIGN

/// A loop that depends on data has the count of the option, or 1 with a warning.

// CHECK: warning: {{.*}}data.mlir:22:10: the trip count of the loop depends on data: 1 is assumed; set it with hespas-opt --prepare=trip-count=N
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"}
// OPTION-NOT: warning
// OPTION: hespas.trips = 9 : i64, hespas.trips_note = "trip count 9 set by option: it depends on data"}
// NONE: hespas.trips = 0 : i64, hespas.trips_note = "trip count 0 set by option: it depends on data"}
// ERROR: data.mlir:22:10: error: 'stablehlo.while': the trip count of the loop depends on data; set trip-count=N
// WRONG: error: write-trip-counts: option 'trip-count' takes a whole number or 'error', not 'few'
// SIGN: error: write-trip-counts: option 'trip-count' takes a whole number or 'error', not '-1'
module @data {
  func.func @main(%n: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %0 : tensor<i32>
  }
}
