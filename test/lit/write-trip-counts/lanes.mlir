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

// -----

/// The bound may be carried, and what the lanes keep may be selected in a kernel.

// CHECK-LABEL: module @fused
// CHECK: hespas.trips = 20 : i64, hespas.trips_note = "maximum trip count 20 assumed: it depends on data"
module @fused {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zeros = stablehlo.constant dense<0> : tensor<8xi32>
    %bounds = stablehlo.constant dense<20> : tensor<8xi32>
    %0:3 = stablehlo.while(%i = %zeros, %y = %x, %b = %bounds) : tensor<8xi32>, tensor<8xf32>, tensor<8xi32>
    cond {
      %zero = stablehlo.constant dense<0.0> : tensor<8xf32>
      %start = stablehlo.constant dense<false> : tensor<i1>
      %limit = stablehlo.constant dense<20> : tensor<8xi32>
      %p = stablehlo.compare LT, %i, %b : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %y, %zero : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %any = stablehlo.reduce(%both init: %start) applies stablehlo.or across dimensions = [0] : (tensor<8xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %zero = stablehlo.constant dense<0.0> : tensor<8xf32>
      %one = stablehlo.constant dense<1> : tensor<8xi32>
      %other = stablehlo.constant dense<30> : tensor<8xi32>
      %p = stablehlo.compare LT, %i, %b : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %y, %zero : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %new = stablehlo.tanh %y : tensor<8xf32>
      %next:2 = "mhlo.fusion"(%both, %i, %one, %new, %y) ({
      ^bb0(%c: tensor<8xi1>, %j: tensor<8xi32>, %k: tensor<8xi32>, %a: tensor<8xf32>, %old: tensor<8xf32>):
        %sum = stablehlo.add %j, %k : tensor<8xi32>
        %count = stablehlo.select %c, %sum, %j : tensor<8xi1>, tensor<8xi32>
        %kept = stablehlo.select %c, %a, %old : tensor<8xi1>, tensor<8xf32>
        mhlo.return %count, %kept : tensor<8xi32>, tensor<8xf32>
      }) {fusion_kind = #mhlo<fusion_kind kLoop>} : (tensor<8xi1>, tensor<8xi32>, tensor<8xi32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xi32>, tensor<8xf32>)
      %more = stablehlo.add %b, %one : tensor<8xi32>
      stablehlo.return %next#0, %next#1, %b : tensor<8xi32>, tensor<8xf32>, tensor<8xi32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// A value that is neither kept nor carried unchanged may let the lanes run longer.

// CHECK-LABEL: module @moving_bound
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"
module @moving_bound {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zeros = stablehlo.constant dense<0> : tensor<8xi32>
    %bounds = stablehlo.constant dense<20> : tensor<8xi32>
    %0:3 = stablehlo.while(%i = %zeros, %y = %x, %b = %bounds) : tensor<8xi32>, tensor<8xf32>, tensor<8xi32>
    cond {
      %zero = stablehlo.constant dense<0.0> : tensor<8xf32>
      %start = stablehlo.constant dense<false> : tensor<i1>
      %limit = stablehlo.constant dense<20> : tensor<8xi32>
      %p = stablehlo.compare LT, %i, %b : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %y, %zero : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %any = stablehlo.reduce(%both init: %start) applies stablehlo.or across dimensions = [0] : (tensor<8xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %zero = stablehlo.constant dense<0.0> : tensor<8xf32>
      %one = stablehlo.constant dense<1> : tensor<8xi32>
      %other = stablehlo.constant dense<30> : tensor<8xi32>
      %p = stablehlo.compare LT, %i, %b : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %y, %zero : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %new = stablehlo.tanh %y : tensor<8xf32>
      %next:2 = "mhlo.fusion"(%both, %i, %one, %new, %y) ({
      ^bb0(%c: tensor<8xi1>, %j: tensor<8xi32>, %k: tensor<8xi32>, %a: tensor<8xf32>, %old: tensor<8xf32>):
        %sum = stablehlo.add %j, %k : tensor<8xi32>
        %count = stablehlo.select %c, %sum, %j : tensor<8xi1>, tensor<8xi32>
        %kept = stablehlo.select %c, %a, %old : tensor<8xi1>, tensor<8xf32>
        mhlo.return %count, %kept : tensor<8xi32>, tensor<8xf32>
      }) {fusion_kind = #mhlo<fusion_kind kLoop>} : (tensor<8xi1>, tensor<8xi32>, tensor<8xi32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xi32>, tensor<8xf32>)
      %more = stablehlo.add %b, %one : tensor<8xi32>
      stablehlo.return %next#0, %next#1, %more : tensor<8xi32>, tensor<8xf32>, tensor<8xi32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// So may another bound in the body.

// CHECK-LABEL: module @other_constant
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"
module @other_constant {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zeros = stablehlo.constant dense<0> : tensor<8xi32>
    %bounds = stablehlo.constant dense<20> : tensor<8xi32>
    %0:3 = stablehlo.while(%i = %zeros, %y = %x, %b = %bounds) : tensor<8xi32>, tensor<8xf32>, tensor<8xi32>
    cond {
      %zero = stablehlo.constant dense<0.0> : tensor<8xf32>
      %start = stablehlo.constant dense<false> : tensor<i1>
      %limit = stablehlo.constant dense<20> : tensor<8xi32>
      %p = stablehlo.compare LT, %i, %limit : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %y, %zero : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %any = stablehlo.reduce(%both init: %start) applies stablehlo.or across dimensions = [0] : (tensor<8xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %zero = stablehlo.constant dense<0.0> : tensor<8xf32>
      %one = stablehlo.constant dense<1> : tensor<8xi32>
      %other = stablehlo.constant dense<30> : tensor<8xi32>
      %p = stablehlo.compare LT, %i, %other : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %y, %zero : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %new = stablehlo.tanh %y : tensor<8xf32>
      %next:2 = "mhlo.fusion"(%both, %i, %one, %new, %y) ({
      ^bb0(%c: tensor<8xi1>, %j: tensor<8xi32>, %k: tensor<8xi32>, %a: tensor<8xf32>, %old: tensor<8xf32>):
        %sum = stablehlo.add %j, %k : tensor<8xi32>
        %count = stablehlo.select %c, %sum, %j : tensor<8xi1>, tensor<8xi32>
        %kept = stablehlo.select %c, %a, %old : tensor<8xi1>, tensor<8xf32>
        mhlo.return %count, %kept : tensor<8xi32>, tensor<8xf32>
      }) {fusion_kind = #mhlo<fusion_kind kLoop>} : (tensor<8xi1>, tensor<8xi32>, tensor<8xi32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xi32>, tensor<8xf32>)
      %more = stablehlo.add %b, %one : tensor<8xi32>
      stablehlo.return %next#0, %next#1, %b : tensor<8xi32>, tensor<8xf32>, tensor<8xi32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// So may another counter.

// CHECK-LABEL: module @other_argument
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"
module @other_argument {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zeros = stablehlo.constant dense<0> : tensor<8xi32>
    %bounds = stablehlo.constant dense<20> : tensor<8xi32>
    %0:3 = stablehlo.while(%i = %zeros, %y = %x, %b = %bounds) : tensor<8xi32>, tensor<8xf32>, tensor<8xi32>
    cond {
      %zero = stablehlo.constant dense<0.0> : tensor<8xf32>
      %start = stablehlo.constant dense<false> : tensor<i1>
      %limit = stablehlo.constant dense<20> : tensor<8xi32>
      %p = stablehlo.compare LT, %i, %b : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %y, %zero : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %any = stablehlo.reduce(%both init: %start) applies stablehlo.or across dimensions = [0] : (tensor<8xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %zero = stablehlo.constant dense<0.0> : tensor<8xf32>
      %one = stablehlo.constant dense<1> : tensor<8xi32>
      %other = stablehlo.constant dense<30> : tensor<8xi32>
      %p = stablehlo.compare LT, %b, %b : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %y, %zero : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %new = stablehlo.tanh %y : tensor<8xf32>
      %next:2 = "mhlo.fusion"(%both, %i, %one, %new, %y) ({
      ^bb0(%c: tensor<8xi1>, %j: tensor<8xi32>, %k: tensor<8xi32>, %a: tensor<8xf32>, %old: tensor<8xf32>):
        %sum = stablehlo.add %j, %k : tensor<8xi32>
        %count = stablehlo.select %c, %sum, %j : tensor<8xi1>, tensor<8xi32>
        %kept = stablehlo.select %c, %a, %old : tensor<8xi1>, tensor<8xf32>
        mhlo.return %count, %kept : tensor<8xi32>, tensor<8xf32>
      }) {fusion_kind = #mhlo<fusion_kind kLoop>} : (tensor<8xi1>, tensor<8xi32>, tensor<8xi32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xi32>, tensor<8xf32>)
      %more = stablehlo.add %b, %one : tensor<8xi32>
      stablehlo.return %next#0, %next#1, %b : tensor<8xi32>, tensor<8xf32>, tensor<8xi32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// The bound may also be a value from outside the loop.

// CHECK-LABEL: module @captured
// CHECK: hespas.trips = 20 : i64, hespas.trips_note = "maximum trip count 20 assumed: it depends on data"
module @captured {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zeros = stablehlo.constant dense<0> : tensor<8xi32>
    %bounds = stablehlo.constant dense<20> : tensor<8xi32>
    %0:3 = stablehlo.while(%i = %zeros, %y = %x, %b = %bounds) : tensor<8xi32>, tensor<8xf32>, tensor<8xi32>
    cond {
      %zero = stablehlo.constant dense<0.0> : tensor<8xf32>
      %start = stablehlo.constant dense<false> : tensor<i1>
      %limit = stablehlo.constant dense<20> : tensor<8xi32>
      %p = stablehlo.compare LT, %i, %bounds : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %y, %zero : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %any = stablehlo.reduce(%both init: %start) applies stablehlo.or across dimensions = [0] : (tensor<8xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %zero = stablehlo.constant dense<0.0> : tensor<8xf32>
      %one = stablehlo.constant dense<1> : tensor<8xi32>
      %other = stablehlo.constant dense<30> : tensor<8xi32>
      %p = stablehlo.compare LT, %i, %bounds : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %q = stablehlo.compare GT, %y, %zero : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
      %both = stablehlo.and %p, %q : tensor<8xi1>
      %new = stablehlo.tanh %y : tensor<8xf32>
      %next:2 = "mhlo.fusion"(%both, %i, %one, %new, %y) ({
      ^bb0(%c: tensor<8xi1>, %j: tensor<8xi32>, %k: tensor<8xi32>, %a: tensor<8xf32>, %old: tensor<8xf32>):
        %sum = stablehlo.add %j, %k : tensor<8xi32>
        %count = stablehlo.select %c, %sum, %j : tensor<8xi1>, tensor<8xi32>
        %kept = stablehlo.select %c, %a, %old : tensor<8xi1>, tensor<8xf32>
        mhlo.return %count, %kept : tensor<8xi32>, tensor<8xf32>
      }) {fusion_kind = #mhlo<fusion_kind kLoop>} : (tensor<8xi1>, tensor<8xi32>, tensor<8xi32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xi32>, tensor<8xf32>)
      %more = stablehlo.add %b, %one : tensor<8xi32>
      stablehlo.return %next#0, %next#1, %b : tensor<8xi32>, tensor<8xf32>, tensor<8xi32>
    }
    return %0#1 : tensor<8xf32>
  }
}
