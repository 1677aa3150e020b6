// RUN: hespas-opt %s --prepare --split-input-file 2>&1 | filecheck %s
// RUN: hespas-opt %s --prepare=trip-count=9 --split-input-file | filecheck %s --check-prefix=OPTION
// RUN: not hespas-opt %s --prepare=trip-count=few 2>&1 | filecheck %s --check-prefix=WRONG

/// A loop that counts to a constant has its trip count; one that the module states keeps it.

// WRONG: error: prepare: option 'trip-count' takes a whole number or 'error', not 'few'
// CHECK: warning: {{.*}}the trip count of the loop depends on data: 1 is assumed; set it with --prepare=trip-count=N
// CHECK-LABEL: module @counted
// CHECK: hespas.trips = 4 : i64
// OPTION-LABEL: module @counted
// OPTION: hespas.trips = 4 : i64
module @counted {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %two = stablehlo.constant dense<2> : tensor<i32>
    %0:2 = stablehlo.while(%i = %two, %v = %x) : tensor<i32>, tensor<8xf32>
     cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %step = stablehlo.constant dense<2> : tensor<i32>
      %j = stablehlo.add %i, %step : tensor<i32>
      %t = stablehlo.tanh %v : tensor<8xf32>
      stablehlo.return %j, %t : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// One that depends on data has that of the option, or 1.

// CHECK-LABEL: module @data
// CHECK: hespas.trips = 1 : i64, {{.*}}assumed
// OPTION-LABEL: module @data
// OPTION: hespas.trips = 9 : i64, {{.*}}set by option
module @data {
  func.func @main(%n: tensor<i32>, %x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<8xf32>
     cond {
      %lt = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %t = stablehlo.tanh %v : tensor<8xf32>
      stablehlo.return %j, %t : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// A condition that is not a simple comparison is evaluated.

// CHECK-LABEL: module @halved
// CHECK: hespas.trips = 6 : i64
module @halved {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %start = stablehlo.constant dense<33> : tensor<i32>
    %0:2 = stablehlo.while(%i = %start, %v = %x) : tensor<i32>, tensor<8xf32>
     cond {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %gt = stablehlo.compare GT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %gt : tensor<i1>
    } do {
      %two = stablehlo.constant dense<2> : tensor<i32>
      %j = stablehlo.divide %i, %two : tensor<i32>
      %t = stablehlo.tanh %v : tensor<8xf32>
      stablehlo.return %j, %t : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}
