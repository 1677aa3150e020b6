// RUN: hespas-opt %s --write-trip-counts --split-input-file 2>&1 | filecheck %s
// RUN: hespas-opt %s --write-trip-counts --write-trip-counts --split-input-file 2>/dev/null | filecheck %s

/// The quotient of integers is rounded towards zero, whichever is negative: 10 - 3 - 3 + 3.

// CHECK-LABEL: module @quotient
// CHECK: hespas.trips = 7 : i64, hespas.trips_found = 7 : i64
module @quotient {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0> : tensor<i32>
    %ten = stablehlo.constant dense<10> : tensor<i32>
    %a = stablehlo.constant dense<-7> : tensor<i32>
    %b = stablehlo.constant dense<2> : tensor<i32>
    %e = stablehlo.constant dense<7> : tensor<i32>
    %d = stablehlo.constant dense<-2> : tensor<i32>
    %p = stablehlo.divide %a, %b : tensor<i32>
    %q = stablehlo.divide %e, %d : tensor<i32>
    %r = stablehlo.divide %a, %d : tensor<i32>
    %u = stablehlo.add %ten, %p : tensor<i32>
    %v = stablehlo.add %u, %q : tensor<i32>
    %n = stablehlo.add %v, %r : tensor<i32>
    %w = stablehlo.while(%i = %s) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// A remainder has the sign of what is divided: 10 - 1 + 1 - 1.

// CHECK-LABEL: module @remainder
// CHECK: hespas.trips = 9 : i64, hespas.trips_found = 9 : i64
module @remainder {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0> : tensor<i32>
    %ten = stablehlo.constant dense<10> : tensor<i32>
    %a = stablehlo.constant dense<-7> : tensor<i32>
    %b = stablehlo.constant dense<2> : tensor<i32>
    %e = stablehlo.constant dense<7> : tensor<i32>
    %d = stablehlo.constant dense<-2> : tensor<i32>
    %p = stablehlo.remainder %a, %b : tensor<i32>
    %q = stablehlo.remainder %e, %d : tensor<i32>
    %r = stablehlo.remainder %a, %d : tensor<i32>
    %u = stablehlo.add %ten, %p : tensor<i32>
    %v = stablehlo.add %u, %q : tensor<i32>
    %n = stablehlo.add %v, %r : tensor<i32>
    %w = stablehlo.while(%i = %s) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// Numbers that are no integers are not rounded: to 3.5 in steps of 1.

// CHECK-LABEL: module @floats
// CHECK: hespas.trips = 4 : i64, hespas.trips_found = 4 : i64
module @floats {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0.0> : tensor<f32>
    %a = stablehlo.constant dense<7.0> : tensor<f32>
    %b = stablehlo.constant dense<2.0> : tensor<f32>
    %n = stablehlo.divide %a, %b : tensor<f32>
    %w = stablehlo.while(%i = %s) : tensor<f32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1.0> : tensor<f32>
      %j = stablehlo.add %i, %one : tensor<f32>
      stablehlo.return %j : tensor<f32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// A quotient by zero is not known, and neither is its remainder.

// CHECK-LABEL: module @zero
// CHECK: hespas.trips = 1 : i64, hespas.trips_note
module @zero {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0> : tensor<i32>
    %a = stablehlo.constant dense<7> : tensor<i32>
    %b = stablehlo.constant dense<0> : tensor<i32>
    %p = stablehlo.divide %a, %b : tensor<i32>
    %q = stablehlo.remainder %a, %b : tensor<i32>
    %n = stablehlo.add %q, %p : tensor<i32>
    %w = stablehlo.while(%i = %s) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// The remainder of numbers that are no integers is not computed.

// CHECK-LABEL: module @float_remainder
// CHECK: hespas.trips = 1 : i64, hespas.trips_note
module @float_remainder {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0.0> : tensor<f32>
    %a = stablehlo.constant dense<7.5> : tensor<f32>
    %b = stablehlo.constant dense<4.0> : tensor<f32>
    %n = stablehlo.remainder %a, %b : tensor<f32>
    %w = stablehlo.while(%i = %s) : tensor<f32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1.0> : tensor<f32>
      %j = stablehlo.add %i, %one : tensor<f32>
      stablehlo.return %j : tensor<f32>
    }
    return %x : tensor<8xf32>
  }
}
