// RUN: hespas-opt %s --write-trip-counts --split-input-file | filecheck %s
// RUN: hespas-opt %s --write-trip-counts --write-trip-counts --split-input-file | filecheck %s
// RUN: hespas-opt %s --write-trip-counts=trip-count=9 --split-input-file | filecheck %s --check-prefix=OPTION
// RUN: hespas-opt %s --write-trip-counts --split-input-file --disable-output 2>&1 | filecheck %s --check-prefix=WARNING

// WARNING: stated.mlir:{{.*}}: the loop runs 4 times, and hespas.trips states 7, which is used
// WARNING-NOT: {{warning|date}}

/// A stated count that the ops determine too.

// CHECK-LABEL: module @equal
// CHECK: {hespas.trips = 4 : i64, hespas.trips_found = 4 : i64}
// OPTION-LABEL: module @equal
// OPTION: hespas.trips = 4 : i64, hespas.trips_found = 4 : i64}
module @equal {
  func.func @main(%n: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %0 = stablehlo.while(%i = %zero) : tensor<i32> attributes {hespas.trips = 4 : i64}
    cond {
      %c = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %0 : tensor<i32>
  }
}

// -----

/// One that they contradict holds, with a warning.

// CHECK-LABEL: module @other
// CHECK: hespas.trips = 7 : i64, hespas.trips_note = "trip count from the module"}
// OPTION-LABEL: module @other
// OPTION: hespas.trips = 7 : i64, hespas.trips_note = "trip count from the module"}
module @other {
  func.func @main(%n: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %0 = stablehlo.while(%i = %zero) : tensor<i32> attributes {hespas.trips = 7 : i64}
    cond {
      %c = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %0 : tensor<i32>
  }
}

// -----

/// One of a loop that depends on data holds, but the option is for such loops.

// CHECK-LABEL: module @data
// CHECK: hespas.trips = 7 : i64, hespas.trips_note = "trip count from the module"}
// OPTION-LABEL: module @data
// OPTION: hespas.trips = 9 : i64, hespas.trips_note = "trip count 9 set by option: it depends on data"}
module @data {
  func.func @main(%n: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.while(%i = %zero) : tensor<i32> attributes {hespas.trips = 7 : i64}
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

// -----

/// One that was found before is no statement.

// CHECK-LABEL: module @found
// CHECK: {hespas.trips = 4 : i64, hespas.trips_found = 4 : i64}
// OPTION-LABEL: module @found
// OPTION: hespas.trips = 4 : i64, hespas.trips_found = 4 : i64}
module @found {
  func.func @main(%n: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %0 = stablehlo.while(%i = %zero) : tensor<i32> attributes {hespas.trips = 3 : i64, hespas.trips_found = 3 : i64}
    cond {
      %c = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %0 : tensor<i32>
  }
}

// -----

/// One beside it is.

// CHECK-LABEL: module @beside
// CHECK: hespas.trips = 3 : i64, hespas.trips_note = "trip count from the module"}
// OPTION-LABEL: module @beside
// OPTION: hespas.trips = 9 : i64, hespas.trips_note = "trip count 9 set by option: it depends on data"}
module @beside {
  func.func @main(%n: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.while(%i = %zero) : tensor<i32> attributes {hespas.trips = 3 : i64, hespas.trips_found = 4 : i64}
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

// -----

/// A note stays while it is true.

// CHECK-LABEL: module @noted
// CHECK: hespas.trips = 9 : i64, hespas.trips_note = "trip count 9 set by option: it depends on data"}
// OPTION-LABEL: module @noted
// OPTION: hespas.trips = 9 : i64, hespas.trips_note = "trip count 9 set by option: it depends on data"}
module @noted {
  func.func @main(%n: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.while(%i = %zero) : tensor<i32> attributes {hespas.trips = 9 : i64, hespas.trips_note = "trip count 9 set by option: it depends on data"}
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

// -----

/// A count that has changed since the note is a statement.

// CHECK-LABEL: module @changed
// CHECK: hespas.trips = 3 : i64, hespas.trips_note = "trip count from the module"}
// OPTION-LABEL: module @changed
// OPTION: hespas.trips = 9 : i64, hespas.trips_note = "trip count 9 set by option: it depends on data"}
module @changed {
  func.func @main(%n: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.while(%i = %zero) : tensor<i32> attributes {hespas.trips = 3 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"}
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

// -----

/// An assumed count is none: it stays assumed, without another warning, or gives way to what the ops determine.

// CHECK-LABEL: module @assumed
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"}
// OPTION-LABEL: module @assumed
// OPTION: hespas.trips = 9 : i64, hespas.trips_note = "trip count 9 set by option: it depends on data"}
module @assumed {
  func.func @main(%n: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.while(%i = %zero) : tensor<i32> attributes {hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"}
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

// -----

// CHECK-LABEL: module @inferred
// CHECK: {hespas.trips = 4 : i64, hespas.trips_found = 4 : i64}
// OPTION-LABEL: module @inferred
// OPTION: hespas.trips = 4 : i64, hespas.trips_found = 4 : i64}
module @inferred {
  func.func @main(%n: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %0 = stablehlo.while(%i = %zero) : tensor<i32> attributes {hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it depends on data"}
    cond {
      %c = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %0 : tensor<i32>
  }
}
