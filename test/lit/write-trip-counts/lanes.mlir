// RUN: hespas-opt %s --write-trip-counts --split-input-file | filecheck %s

/// ``jax.vmap`` makes a loop that runs while any of its lanes does, and in which the others keep their
/// values: the longest lane runs at most as often as its own condition allows.

// CHECK-LABEL: module @any
// CHECK: hespas.trips = 20 : i64, hespas.trips_note = "maximum trip count 20 assumed: it depends on data"
module @any {
  func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %zeros = stablehlo.constant dense<0> : tensor<8xi32>
    %0:2 = stablehlo.while(%i = %zeros, %y = %x) : tensor<8xi32>, tensor<8x4xf32>
    cond {
      %bound = stablehlo.constant dense<20> : tensor<8xi32>
      %small = stablehlo.constant dense<1.0e-6> : tensor<8xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %start = stablehlo.constant dense<false> : tensor<i1>
      %sum = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
      %p = stablehlo.compare LT, %i, %bound : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %sum, %small : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %any = stablehlo.reduce(%both init: %start) applies stablehlo.or across dimensions = [0] : (tensor<8xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<8xi32>
      %bound = stablehlo.constant dense<20> : tensor<i32>
      %bounds = stablehlo.broadcast_in_dim %bound, dims = [] : (tensor<i32>) -> tensor<8xi32>
      %small = stablehlo.constant dense<1.0e-6> : tensor<8xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %sum = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
      %p = stablehlo.compare LT, %i, %bounds : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %sum, %small : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %next = stablehlo.add %i, %one : tensor<8xi32>
      %new = stablehlo.tanh %y : tensor<8x4xf32>
      %wide = stablehlo.broadcast_in_dim %both, dims = [0] : (tensor<8xi1>) -> tensor<8x4xi1>
      %count = stablehlo.select %both, %next, %i : tensor<8xi1>, tensor<8xi32>
      %value = stablehlo.select %wide, %new, %y : tensor<8x4xi1>, tensor<8x4xf32>
      stablehlo.return %count, %value : tensor<8xi32>, tensor<8x4xf32>
    }
    return %0#1 : tensor<8x4xf32>
  }
}

// -----

/// Lanes that keep their values by another condition than that of the loop may run longer.

// CHECK-LABEL: module @other_condition
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"
module @other_condition {
  func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %zeros = stablehlo.constant dense<0> : tensor<8xi32>
    %0:2 = stablehlo.while(%i = %zeros, %y = %x) : tensor<8xi32>, tensor<8x4xf32>
    cond {
      %bound = stablehlo.constant dense<20> : tensor<8xi32>
      %small = stablehlo.constant dense<1.0e-6> : tensor<8xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %start = stablehlo.constant dense<false> : tensor<i1>
      %sum = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
      %p = stablehlo.compare LT, %i, %bound : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %sum, %small : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %any = stablehlo.reduce(%both init: %start) applies stablehlo.or across dimensions = [0] : (tensor<8xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<8xi32>
      %bound = stablehlo.constant dense<20> : tensor<i32>
      %bounds = stablehlo.broadcast_in_dim %bound, dims = [] : (tensor<i32>) -> tensor<8xi32>
      %small = stablehlo.constant dense<1.0e-6> : tensor<8xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %sum = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
      %p = stablehlo.compare LT, %i, %bounds : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %sum, %small : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %next = stablehlo.add %i, %one : tensor<8xi32>
      %new = stablehlo.tanh %y : tensor<8x4xf32>
      %wide = stablehlo.broadcast_in_dim %both, dims = [0] : (tensor<8xi1>) -> tensor<8x4xi1>
      %count = stablehlo.select %q, %next, %i : tensor<8xi1>, tensor<8xi32>
      %value = stablehlo.select %wide, %new, %y : tensor<8x4xi1>, tensor<8x4xf32>
      stablehlo.return %count, %value : tensor<8xi32>, tensor<8x4xf32>
    }
    return %0#1 : tensor<8x4xf32>
  }
}

// -----

/// So may lanes that get another value than the one that they had.

// CHECK-LABEL: module @other_value
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"
module @other_value {
  func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %zeros = stablehlo.constant dense<0> : tensor<8xi32>
    %0:2 = stablehlo.while(%i = %zeros, %y = %x) : tensor<8xi32>, tensor<8x4xf32>
    cond {
      %bound = stablehlo.constant dense<20> : tensor<8xi32>
      %small = stablehlo.constant dense<1.0e-6> : tensor<8xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %start = stablehlo.constant dense<false> : tensor<i1>
      %sum = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
      %p = stablehlo.compare LT, %i, %bound : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %sum, %small : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %any = stablehlo.reduce(%both init: %start) applies stablehlo.or across dimensions = [0] : (tensor<8xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<8xi32>
      %bound = stablehlo.constant dense<20> : tensor<i32>
      %bounds = stablehlo.broadcast_in_dim %bound, dims = [] : (tensor<i32>) -> tensor<8xi32>
      %small = stablehlo.constant dense<1.0e-6> : tensor<8xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %sum = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
      %p = stablehlo.compare LT, %i, %bounds : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %sum, %small : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %next = stablehlo.add %i, %one : tensor<8xi32>
      %new = stablehlo.tanh %y : tensor<8x4xf32>
      %wide = stablehlo.broadcast_in_dim %both, dims = [0] : (tensor<8xi1>) -> tensor<8x4xi1>
      %count = stablehlo.select %both, %next, %one : tensor<8xi1>, tensor<8xi32>
      %value = stablehlo.select %wide, %new, %y : tensor<8x4xi1>, tensor<8x4xf32>
      stablehlo.return %count, %value : tensor<8xi32>, tensor<8x4xf32>
    }
    return %0#1 : tensor<8x4xf32>
  }
}

// -----

/// A loop that ends with its first lane is none of these.

// CHECK-LABEL: module @all
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"
module @all {
  func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %zeros = stablehlo.constant dense<0> : tensor<8xi32>
    %0:2 = stablehlo.while(%i = %zeros, %y = %x) : tensor<8xi32>, tensor<8x4xf32>
    cond {
      %bound = stablehlo.constant dense<20> : tensor<8xi32>
      %small = stablehlo.constant dense<1.0e-6> : tensor<8xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %start = stablehlo.constant dense<true> : tensor<i1>
      %sum = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
      %p = stablehlo.compare LT, %i, %bound : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %sum, %small : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %any = stablehlo.reduce(%both init: %start) applies stablehlo.and across dimensions = [0] : (tensor<8xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<8xi32>
      %bound = stablehlo.constant dense<20> : tensor<i32>
      %bounds = stablehlo.broadcast_in_dim %bound, dims = [] : (tensor<i32>) -> tensor<8xi32>
      %small = stablehlo.constant dense<1.0e-6> : tensor<8xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %sum = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
      %p = stablehlo.compare LT, %i, %bounds : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %sum, %small : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %next = stablehlo.add %i, %one : tensor<8xi32>
      %new = stablehlo.tanh %y : tensor<8x4xf32>
      %wide = stablehlo.broadcast_in_dim %both, dims = [0] : (tensor<8xi1>) -> tensor<8x4xi1>
      %count = stablehlo.select %both, %next, %i : tensor<8xi1>, tensor<8xi32>
      %value = stablehlo.select %wide, %new, %y : tensor<8x4xi1>, tensor<8x4xf32>
      stablehlo.return %count, %value : tensor<8xi32>, tensor<8x4xf32>
    }
    return %0#1 : tensor<8x4xf32>
  }
}
