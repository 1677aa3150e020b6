// RUN: hespas-opt %s --write-trip-counts --split-input-file | filecheck %s
// RUN: hespas-opt %s --write-trip-counts --write-trip-counts --split-input-file | filecheck %s
// RUN: hespas-opt %s --write-trip-counts --split-input-file --disable-output 2>&1 | filecheck %s --check-prefix=WARNING

// WARNING-COUNT-3: the trip count of the loop depends on data: 1 is assumed; set it with hespas-opt --prepare=trip-count=N
// WARNING: the trip count of the loop is infinite unless an integer wraps around, because the condition holds in each iteration: 1 is assumed
// WARNING: the trip count of the loop depends on more than 16 carried values: its maximum of 16 is assumed
// WARNING-COUNT-2: the trip count of the loop depends on data: 1 is assumed; set it with hespas-opt --prepare=trip-count=N
// WARNING-COUNT-3: the trip count of the loop is infinite unless an integer wraps around, because the condition holds in each iteration: 1 is assumed
// WARNING-NOT: warning

/// A bound that is an argument of the program.

// CHECK-LABEL: module @argument
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"}
module @argument {
  func.func @main(%x: tensor<8xf32>, %n: tensor<i32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0> : tensor<i32>
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

/// A start that is one.

// CHECK-LABEL: module @start
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"}
module @start {
  func.func @main(%x: tensor<8xf32>, %n: tensor<i32>) -> tensor<8xf32> {
    %w = stablehlo.while(%i = %n) : tensor<i32>
    cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
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

/// A step that is one.

// CHECK-LABEL: module @step
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"}
module @step {
  func.func @main(%x: tensor<8xf32>, %n: tensor<i32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0> : tensor<i32>
    %w = stablehlo.while(%i = %s) : tensor<i32>
    cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %n : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// A loop without an end.

// CHECK-LABEL: module @endless
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it is infinite unless an integer wraps around, because the condition holds in each iteration"}
module @endless {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0> : tensor<i32>
    %w = stablehlo.while(%i = %s) : tensor<i32>
    cond {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %c = stablehlo.compare EQ, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<0> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// A condition that depends on more than 16 values.

// CHECK-LABEL: module @many
// CHECK: hespas.trips = 16 : i64, hespas.trips_note = "maximum trip count 16 assumed: it depends on more than 16 carried values"}
module @many {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0> : tensor<i32>
    %e = stablehlo.constant dense<10> : tensor<i32>
    %w:17 = stablehlo.while(%a0 = %s, %a1 = %s, %a2 = %s, %a3 = %s, %a4 = %s, %a5 = %s, %a6 = %s, %a7 = %s, %a8 = %s, %a9 = %s, %a10 = %s, %a11 = %s, %a12 = %s, %a13 = %s, %a14 = %s, %a15 = %s, %a16 = %e) : tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>
    cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %a0, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      stablehlo.return %a1, %a2, %a3, %a4, %a5, %a6, %a7, %a8, %a9, %a10, %a11, %a12, %a13, %a14, %a15, %a16, %a0 : tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// A function whose calls do not agree, or that something else than a call names.

// CHECK-LABEL: module @disagree
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"}
module @disagree {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = stablehlo.constant dense<5> : tensor<i32>
    %m = stablehlo.constant dense<6> : tensor<i32>
    %0 = call @f(%x, %n) : (tensor<8xf32>, tensor<i32>) -> tensor<8xf32>
    %1 = call @f(%0, %m) : (tensor<8xf32>, tensor<i32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
  func.func private @f(%x: tensor<8xf32>, %n: tensor<i32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %w = stablehlo.while(%i = %zero) : tensor<i32>
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

// CHECK-LABEL: module @named
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"}
module @named {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = stablehlo.constant dense<5> : tensor<i32>
    %0 = call @f(%x, %n) : (tensor<8xf32>, tensor<i32>) -> tensor<8xf32>
    %1 = stablehlo.custom_call @kernel(%0) {called_computations = [@f]} : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
  func.func private @f(%x: tensor<8xf32>, %n: tensor<i32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %w = stablehlo.while(%i = %zero) : tensor<i32>
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

/// A counter that is set to the same number again and again.

// CHECK-LABEL: module @set
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it is infinite unless an integer wraps around, because the condition holds in each iteration"}
module @set {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0> : tensor<i32>
    %five = stablehlo.constant dense<5> : tensor<i32>
    %w = stablehlo.while(%i = %s) : tensor<i32>
    cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %five, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// A loop whose counter does not move.

// CHECK-LABEL: module @does_not_move
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = 
module @does_not_move {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0> : tensor<i8>
    %w = stablehlo.while(%i = %s) : tensor<i8>
    cond {
      %b = stablehlo.constant dense<5> : tensor<i8>
      %c = stablehlo.compare NE, %i, %b : (tensor<i8>, tensor<i8>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k = stablehlo.constant dense<0> : tensor<i8>
      %j = stablehlo.add %i, %k : tensor<i8>
      stablehlo.return %j : tensor<i8>
    }
    return %x : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @stays_below
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = 
module @stays_below {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0> : tensor<i8>
    %w = stablehlo.while(%i = %s) : tensor<i8>
    cond {
      %b = stablehlo.constant dense<10> : tensor<i8>
      %c = stablehlo.compare LT, %i, %b : (tensor<i8>, tensor<i8>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k = stablehlo.constant dense<0> : tensor<i8>
      %j = stablehlo.add %i, %k : tensor<i8>
      stablehlo.return %j : tensor<i8>
    }
    return %x : tensor<8xf32>
  }
}
