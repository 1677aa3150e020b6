// RUN: hespas-opt %s --write-trip-counts --split-input-file | filecheck %s

/// A loop of lanes runs as often as the longest of them. ``jax.vmap`` of ``fori_loop(0, n, ...)`` with
/// the counts 3, 7, 3 and 2, of which two are equal:

// CHECK-LABEL: module @bounds
// CHECK: hespas.trips = 7 : i64, hespas.trips_found = 7 : i64
module @bounds {
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %bounds = stablehlo.constant dense<[3, 7, 3, 2]> : tensor<4xi32>
    %zeros = stablehlo.constant dense<0> : tensor<4xi32>
    %0:3 = stablehlo.while(%i = %zeros, %n = %bounds, %y = %x) : tensor<4xi32>, tensor<4xi32>, tensor<4x8xf32>
    cond {
      %start = stablehlo.constant dense<false> : tensor<i1>
      %p = stablehlo.compare LT, %i, %n : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
      %any = stablehlo.reduce(%p init: %start) applies stablehlo.or across dimensions = [0] : (tensor<4xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<4xi32>
      %p = stablehlo.compare LT, %i, %n : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
      %next = stablehlo.add %i, %one : tensor<4xi32>
      %new = stablehlo.tanh %y : tensor<4x8xf32>
      %wide = stablehlo.broadcast_in_dim %p, dims = [0] : (tensor<4xi1>) -> tensor<4x8xi1>
      %count = stablehlo.select %p, %next, %i : tensor<4xi1>, tensor<4xi32>
      %value = stablehlo.select %wide, %new, %y : tensor<4x8xi1>, tensor<4x8xf32>
      stablehlo.return %count, %n, %value : tensor<4xi32>, tensor<4xi32>, tensor<4x8xf32>
    }
    return %0#2 : tensor<4x8xf32>
  }
}

// -----

/// Starts that are computed: 10, 8, 6 and 4, and each lane counts down to 1.

// CHECK-LABEL: module @starts
// CHECK: hespas.trips = 9 : i64, hespas.trips_found = 9 : i64
module @starts {
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %places = stablehlo.iota dim = 0 : tensor<4xi32>
    %two = stablehlo.constant dense<2> : tensor<4xi32>
    %number = stablehlo.constant dense<10> : tensor<i32>
    %ten = stablehlo.broadcast_in_dim %number, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %steps = stablehlo.multiply %places, %two : tensor<4xi32>
    %starts = stablehlo.subtract %ten, %steps : tensor<4xi32>
    %0:2 = stablehlo.while(%i = %starts, %y = %x) : tensor<4xi32>, tensor<4x8xf32>
    cond {
      %start = stablehlo.constant dense<false> : tensor<i1>
      %ones = stablehlo.constant dense<1> : tensor<4xi32>
      %p = stablehlo.compare GT, %i, %ones : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
      %any = stablehlo.reduce(%p init: %start) applies stablehlo.or across dimensions = [0] : (tensor<4xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %ones = stablehlo.constant dense<1> : tensor<4xi32>
      %p = stablehlo.compare GT, %i, %ones : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
      %next = stablehlo.subtract %i, %ones : tensor<4xi32>
      %new = stablehlo.tanh %y : tensor<4x8xf32>
      %wide = stablehlo.broadcast_in_dim %p, dims = [0] : (tensor<4xi1>) -> tensor<4x8xi1>
      %count = stablehlo.select %p, %next, %i : tensor<4xi1>, tensor<4xi32>
      %value = stablehlo.select %wide, %new, %y : tensor<4x8xi1>, tensor<4x8xf32>
      stablehlo.return %count, %value : tensor<4xi32>, tensor<4x8xf32>
    }
    return %0#1 : tensor<4x8xf32>
  }
}

// -----

/// Counts that are arguments are not known.

// CHECK-LABEL: module @data
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"
module @data {
  func.func @main(%bounds: tensor<4xi32>) -> tensor<4xi32> {
    %zeros = stablehlo.constant dense<0> : tensor<4xi32>
    %0:2 = stablehlo.while(%i = %zeros, %n = %bounds) : tensor<4xi32>, tensor<4xi32>
    cond {
      %start = stablehlo.constant dense<false> : tensor<i1>
      %p = stablehlo.compare LT, %i, %n : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
      %any = stablehlo.reduce(%p init: %start) applies stablehlo.or across dimensions = [0] : (tensor<4xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<4xi32>
      %p = stablehlo.compare LT, %i, %n : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
      %next = stablehlo.add %i, %one : tensor<4xi32>
      %count = stablehlo.select %p, %next, %i : tensor<4xi1>, tensor<4xi32>
      stablehlo.return %count, %n : tensor<4xi32>, tensor<4xi32>
    }
    return %0#0 : tensor<4xi32>
  }
}

// -----

/// A lane that reads the counter of another one is not run alone.

// CHECK-LABEL: module @mixed
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"
module @mixed {
  func.func @main() -> tensor<4xi32> {
    %bounds = stablehlo.constant dense<[3, 7, 5, 2]> : tensor<4xi32>
    %zeros = stablehlo.constant dense<0> : tensor<4xi32>
    %0:2 = stablehlo.while(%i = %zeros, %n = %bounds) : tensor<4xi32>, tensor<4xi32>
    cond {
      %start = stablehlo.constant dense<false> : tensor<i1>
      %other = stablehlo.reverse %i, dims = [0] : tensor<4xi32>
      %p = stablehlo.compare LT, %other, %n : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
      %any = stablehlo.reduce(%p init: %start) applies stablehlo.or across dimensions = [0] : (tensor<4xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<4xi32>
      %other = stablehlo.reverse %i, dims = [0] : tensor<4xi32>
      %p = stablehlo.compare LT, %other, %n : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
      %next = stablehlo.add %i, %one : tensor<4xi32>
      %count = stablehlo.select %p, %next, %i : tensor<4xi1>, tensor<4xi32>
      stablehlo.return %count, %n : tensor<4xi32>, tensor<4xi32>
    }
    return %0#0 : tensor<4xi32>
  }
}

// -----

/// Steps that are arguments are not known either.

// CHECK-LABEL: module @steps
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"
module @steps {
  func.func @main(%steps: tensor<4xi32>) -> tensor<4xi32> {
    %bounds = stablehlo.constant dense<[3, 7, 5, 2]> : tensor<4xi32>
    %zeros = stablehlo.constant dense<0> : tensor<4xi32>
    %0:2 = stablehlo.while(%i = %zeros, %n = %bounds) : tensor<4xi32>, tensor<4xi32>
    cond {
      %start = stablehlo.constant dense<false> : tensor<i1>
      %p = stablehlo.compare LT, %i, %n : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
      %any = stablehlo.reduce(%p init: %start) applies stablehlo.or across dimensions = [0] : (tensor<4xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %p = stablehlo.compare LT, %i, %n : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
      %next = stablehlo.add %i, %steps : tensor<4xi32>
      %count = stablehlo.select %p, %next, %i : tensor<4xi1>, tensor<4xi32>
      stablehlo.return %count, %n : tensor<4xi32>, tensor<4xi32>
    }
    return %0#0 : tensor<4xi32>
  }
}

// -----

/// Lanes that never end are not counted.

// CHECK-LABEL: module @endless
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it is infinite unless an integer wraps around, because the condition holds in each iteration"
module @endless {
  func.func @main() -> tensor<4xi32> {
    %bounds = stablehlo.constant dense<[3, 7, 5, 2]> : tensor<4xi32>
    %zeros = stablehlo.constant dense<0> : tensor<4xi32>
    %0:2 = stablehlo.while(%i = %zeros, %n = %bounds) : tensor<4xi32>, tensor<4xi32>
    cond {
      %start = stablehlo.constant dense<false> : tensor<i1>
      %p = stablehlo.compare LT, %i, %n : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
      %any = stablehlo.reduce(%p init: %start) applies stablehlo.or across dimensions = [0] : (tensor<4xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %p = stablehlo.compare LT, %i, %n : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
      %two = stablehlo.constant dense<2> : tensor<4xi32>
      %next = stablehlo.multiply %i, %two : tensor<4xi32>
      %count = stablehlo.select %p, %next, %i : tensor<4xi1>, tensor<4xi32>
      stablehlo.return %count, %n : tensor<4xi32>, tensor<4xi32>
    }
    return %0#0 : tensor<4xi32>
  }
}

// -----

/// Nor is one whose bound is that of the lane at the transposed place: the longest lane counts from 0 to 9.

// CHECK-LABEL: module @transposed
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"
module @transposed {
  func.func @main() -> tensor<2x2xi32> {
    %bounds = stablehlo.constant dense<[[1, 9], [2, 3]]> : tensor<2x2xi32>
    %starts = stablehlo.constant dense<[[0, 5], [0, 0]]> : tensor<2x2xi32>
    %0:2 = stablehlo.while(%i = %starts, %n = %bounds) : tensor<2x2xi32>, tensor<2x2xi32>
    cond {
      %start = stablehlo.constant dense<false> : tensor<i1>
      %m = stablehlo.transpose %n, dims = [1, 0] : (tensor<2x2xi32>) -> tensor<2x2xi32>
      %p = stablehlo.compare LT, %i, %m : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi1>
      %any = stablehlo.reduce(%p init: %start) applies stablehlo.or across dimensions = [0, 1] : (tensor<2x2xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<2x2xi32>
      %m = stablehlo.transpose %n, dims = [1, 0] : (tensor<2x2xi32>) -> tensor<2x2xi32>
      %p = stablehlo.compare LT, %i, %m : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi1>
      %next = stablehlo.add %i, %one : tensor<2x2xi32>
      %count = stablehlo.select %p, %next, %i : tensor<2x2xi1>, tensor<2x2xi32>
      stablehlo.return %count, %n : tensor<2x2xi32>, tensor<2x2xi32>
    }
    return %0#0 : tensor<2x2xi32>
  }
}

// -----

/// Starts of another type, behind a barrier: 0, 1, 2 and 3, and each lane counts to 5.

// CHECK-LABEL: module @converted
// CHECK: hespas.trips = 5 : i64, hespas.trips_found = 5 : i64
module @converted {
  func.func @main() -> tensor<4xi32> {
    %places = stablehlo.iota dim = 0 : tensor<4xi64>
    %awaited:2 = stablehlo.optimization_barrier %places, %places : tensor<4xi64>, tensor<4xi64>
    %starts = stablehlo.convert %awaited#1 : (tensor<4xi64>) -> tensor<4xi32>
    %0 = stablehlo.while(%i = %starts) : tensor<4xi32>
    cond {
      %start = stablehlo.constant dense<false> : tensor<i1>
      %five = stablehlo.constant dense<5> : tensor<4xi32>
      %p = stablehlo.compare LT, %i, %five : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
      %any = stablehlo.reduce(%p init: %start) applies stablehlo.or across dimensions = [0] : (tensor<4xi1>, tensor<i1>) -> tensor<i1>
      stablehlo.return %any : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<4xi32>
      %five = stablehlo.constant dense<5> : tensor<4xi32>
      %p = stablehlo.compare LT, %i, %five : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
      %next = stablehlo.add %i, %one : tensor<4xi32>
      %count = stablehlo.select %p, %next, %i : tensor<4xi1>, tensor<4xi32>
      stablehlo.return %count : tensor<4xi32>
    }
    return %0 : tensor<4xi32>
  }
}
