// RUN: hespas-opt %s --write-trip-counts --split-input-file | filecheck %s
// RUN: hespas-opt %s --write-trip-counts --write-trip-counts --split-input-file | filecheck %s
// RUN: hespas-opt %s --write-trip-counts --split-input-file --disable-output 2>&1 | filecheck %s --check-prefix=WARNING
// RUN: hespas-opt %s --write-trip-counts=trip-count=3 --split-input-file | filecheck %s --check-prefix=OPTION

// WARNING: maximum.mlir:21:12: the trip count of the loop depends on data: its maximum of 50 is assumed; set it with hespas-opt --prepare=trip-count=N
// OPTION-COUNT-6: hespas.trips = 3 : i64, hespas.trips_note = "trip count 3 set by option: it depends on data"

/// A loop that ends when data say so runs at most as often as the other part of its condition allows.

// CHECK-LABEL: module @both
// CHECK: hespas.trips = 50 : i64, hespas.trips_note = "maximum trip count 50 assumed: it depends on data"
module @both {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %big = stablehlo.constant dense<1.0> : tensor<f32>
    %bound = stablehlo.constant dense<50> : tensor<i32>
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

/// If both parts have to end, there is no maximum.

// CHECK-LABEL: module @either
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"
module @either {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %big = stablehlo.constant dense<1.0> : tensor<f32>
    %bound = stablehlo.constant dense<50> : tensor<i32>
    %small = stablehlo.constant dense<1.0e-6> : tensor<f32>
    %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0:3 = stablehlo.while(%i = %zero, %y = %x, %error = %big) : tensor<i32>, tensor<8xf32>, tensor<f32>
    cond {
      %p = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %q = stablehlo.compare GT, %error, %small : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %c = stablehlo.or %q, %p : tensor<i1>
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

/// A fusion, such as a compiler's, may make the condition, and say it by an end.

// CHECK-LABEL: module @fused
// CHECK: hespas.trips = 7 : i64, hespas.trips_note = "maximum trip count 7 assumed: it depends on data"
module @fused {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %big = stablehlo.constant dense<1.0> : tensor<f32>
    %bound = stablehlo.constant dense<7> : tensor<i32>
    %small = stablehlo.constant dense<1.0e-6> : tensor<f32>
    %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0:3 = stablehlo.while(%i = %zero, %y = %x, %error = %big) : tensor<i32>, tensor<8xf32>, tensor<f32>
    cond {
      %c = "mhlo.fusion"(%i, %bound, %error, %small) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
      ^bb0(%a: tensor<i32>, %b: tensor<i32>, %e: tensor<f32>, %s: tensor<f32>):
        %p = stablehlo.compare GE, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
        %q = stablehlo.compare LE, %e, %s : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %end = stablehlo.or %q, %p : tensor<i1>
        %not = stablehlo.not %end : tensor<i1>
        mhlo.return %not : tensor<i1>
      }) : (tensor<i32>, tensor<i32>, tensor<f32>, tensor<f32>) -> tensor<i1>
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

/// A bound that is data is none.

// CHECK-LABEL: module @unknown_bound
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"
module @unknown_bound {
  func.func @main(%x: tensor<8xf32>, %n: tensor<i32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %big = stablehlo.constant dense<1.0> : tensor<f32>
    %bound = stablehlo.constant dense<50> : tensor<i32>
    %small = stablehlo.constant dense<1.0e-6> : tensor<f32>
    %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0:3 = stablehlo.while(%i = %n, %y = %x, %error = %big) : tensor<i32>, tensor<8xf32>, tensor<f32>
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

/// The end of each row may be carried along: a search ends if all rows are done, or at its last step.

// CHECK-LABEL: module @rows
// CHECK: hespas.trips = 12 : i64, hespas.trips_note = "maximum trip count 12 assumed: it depends on data"
module @rows {
  func.func @main(%x: tensor<8xi32>) -> tensor<8xi32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %last = stablehlo.constant dense<11> : tensor<i32>
    %end = stablehlo.constant dense<2> : tensor<8xi32>
    %true = stablehlo.constant dense<true> : tensor<i1>
    %none = stablehlo.constant dense<false> : tensor<8xi1>
    %0:3 = stablehlo.while(%i = %zero, %t = %x, %done = %none) : tensor<i32>, tensor<8xi32>, tensor<8xi1>
    cond {
      %all = stablehlo.reduce(%done init: %true) applies stablehlo.and across dimensions = [0] : (tensor<8xi1>, tensor<i1>) -> tensor<i1>
      %c = stablehlo.not %all : tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %token = stablehlo.add %t, %t : tensor<8xi32>
      %ends = stablehlo.compare EQ, %token, %end : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
      %late = stablehlo.compare GE, %i, %last : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %rows = stablehlo.broadcast_in_dim %late, dims = [] : (tensor<i1>) -> tensor<8xi1>
      %p = stablehlo.or %done, %ends : tensor<8xi1>
      %q = stablehlo.or %p, %rows : tensor<8xi1>
      stablehlo.return %next, %token, %q : tensor<i32>, tensor<8xi32>, tensor<8xi1>
    }
    return %0#1 : tensor<8xi32>
  }
}

// -----

/// A value that is not known in one of the iterations, here a quotient by zero, changes nothing.

// CHECK-LABEL: module @gap
// CHECK: hespas.trips = 50 : i64, hespas.trips_note = "maximum trip count 50 assumed: it depends on data"
module @gap {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %big = stablehlo.constant dense<1.0> : tensor<f32>
    %bound = stablehlo.constant dense<50> : tensor<i32>
    %small = stablehlo.constant dense<1.0e-6> : tensor<f32>
    %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %six = stablehlo.constant dense<6> : tensor<i32>
    %0:4 = stablehlo.while(%i = %zero, %y = %x, %error = %big, %v = %one) : tensor<i32>, tensor<8xf32>, tensor<f32>, tensor<i32>
    cond {
      %p = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %q = stablehlo.compare GT, %error, %small : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %c = stablehlo.and %q, %p : tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %new = stablehlo.tanh %y : tensor<8xf32>
      %max = stablehlo.reduce(%new init: %lowest) applies stablehlo.maximum across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
      %d = stablehlo.subtract %i, %six : tensor<i32>
      %w = stablehlo.divide %bound, %d : tensor<i32>
      stablehlo.return %next, %new, %max, %w : tensor<i32>, tensor<8xf32>, tensor<f32>, tensor<i32>
    }
    return %0#1 : tensor<8xf32>
  }
}
