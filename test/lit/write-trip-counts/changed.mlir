// RUN: hespas-opt %s --write-trip-counts --split-input-file | filecheck %s
// RUN: hespas-opt %s --write-trip-counts --write-trip-counts --split-input-file | filecheck %s
// RUN: hespas-opt %s --write-trip-counts --split-input-file --disable-output 2>&1 | filecheck %s --check-prefix=NOTE

/// What has changed in a module that was prepared before is reported.

// NOTE: hespas.trips is brought up to date: {{.*}}changed.mlir:{{.*}}: 3 to 4
// NOTE-NEXT: hespas.trips is brought up to date: {{.*}}changed.mlir:{{.*}}: 4
// NOTE-NEXT: warning: {{.*}}the loop runs 4 times, and hespas.trips states 7, which is used
// NOTE-NOT: {{warning|date}}

/// A count without a mark, as older versions wrote it, was found.

// CHECK-LABEL: module @unmarked
// CHECK: {hespas.trips = 4 : i64, hespas.trips_found = 4 : i64}
module @unmarked attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func @main(%n: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %0 = stablehlo.while(%i = %zero) : tensor<i32> attributes {hespas.trips = 3 : i64}
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

/// A new loop.

// CHECK-LABEL: module @new
// CHECK: {hespas.trips = 4 : i64, hespas.trips_found = 4 : i64}
module @new attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func @main(%n: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %0 = stablehlo.while(%i = %zero) : tensor<i32>
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

/// A count of a loop that depends on data was stated.

// CHECK-LABEL: module @data
// CHECK: hespas.trips = 3 : i64, hespas.trips_note = "trip count from the module"}
module @data attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func @main(%n: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.while(%i = %zero) : tensor<i32> attributes {hespas.trips = 3 : i64}
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

/// An equal count is no change.

// CHECK-LABEL: module @equal
// CHECK: {hespas.trips = 4 : i64, hespas.trips_found = 4 : i64}
module @equal attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func @main(%n: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %0 = stablehlo.while(%i = %zero) : tensor<i32> attributes {hespas.trips = 4 : i64, hespas.trips_found = 4 : i64}
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

/// One that somebody has stated beside the count that was found holds.

// CHECK-LABEL: module @beside
// CHECK: hespas.trips = 7 : i64, hespas.trips_note = "trip count from the module"}
module @beside attributes {hespas.communicators = {}, hespas.target = {devices = 1 : i64, partitions = 1 : i64, replicas = 1 : i64}} {
  func.func @main(%n: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %0 = stablehlo.while(%i = %zero) : tensor<i32> attributes {hespas.trips = 7 : i64, hespas.trips_found = 4 : i64}
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
