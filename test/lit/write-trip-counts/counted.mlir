// RUN: hespas-opt %s --write-trip-counts --split-input-file 2>&1 | filecheck %s
// RUN: hespas-opt %s --write-trip-counts --write-trip-counts --split-input-file 2>&1 | filecheck %s

// CHECK-NOT: {{warning|date}}

/// A loop that counts to a constant, without a warning. The bounds of most of these loops are too far to run them.

// CHECK-LABEL: module @lt
// CHECK: attributes {hespas.trips = 4 : i64, hespas.trips_found = 4 : i64}
module @lt {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %start = stablehlo.constant dense<2> : tensor<i32>
    %0:2 = stablehlo.while(%i = %start, %v = %x) : tensor<i32>, tensor<8xf32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %step = stablehlo.constant dense<2> : tensor<i32>
      %j = stablehlo.add %i, %step : tensor<i32>
      stablehlo.return %j, %v : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// The last step may pass the bound.

// CHECK-LABEL: module @passes
// CHECK: attributes {hespas.trips = 10000001 : i64, hespas.trips_found = 10000001 : i64}
module @passes {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %start = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %start, %v = %x) : tensor<i32>, tensor<8xf32>
    cond {
      %bound = stablehlo.constant dense<100000001> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %step = stablehlo.constant dense<10> : tensor<i32>
      %j = stablehlo.add %i, %step : tensor<i32>
      stablehlo.return %j, %v : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @le
// CHECK: attributes {hespas.trips = 10000001 : i64, hespas.trips_found = 10000001 : i64}
module @le {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %start = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %start, %v = %x) : tensor<i32>, tensor<8xf32>
    cond {
      %bound = stablehlo.constant dense<100000000> : tensor<i32>
      %c = stablehlo.compare LE, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %step = stablehlo.constant dense<10> : tensor<i32>
      %j = stablehlo.add %i, %step : tensor<i32>
      stablehlo.return %j, %v : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// Downwards.

// CHECK-LABEL: module @gt
// CHECK: attributes {hespas.trips = 10000000 : i64, hespas.trips_found = 10000000 : i64}
module @gt {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %start = stablehlo.constant dense<100000000> : tensor<i32>
    %0:2 = stablehlo.while(%i = %start, %v = %x) : tensor<i32>, tensor<8xf32>
    cond {
      %bound = stablehlo.constant dense<0> : tensor<i32>
      %c = stablehlo.compare GT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %step = stablehlo.constant dense<10> : tensor<i32>
      %j = stablehlo.subtract %i, %step : tensor<i32>
      stablehlo.return %j, %v : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @ge
// CHECK: attributes {hespas.trips = 10000001 : i64, hespas.trips_found = 10000001 : i64}
module @ge {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %start = stablehlo.constant dense<100000000> : tensor<i32>
    %0:2 = stablehlo.while(%i = %start, %v = %x) : tensor<i32>, tensor<8xf32>
    cond {
      %bound = stablehlo.constant dense<0> : tensor<i32>
      %c = stablehlo.compare GE, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %step = stablehlo.constant dense<-10> : tensor<i32>
      %j = stablehlo.add %i, %step : tensor<i32>
      stablehlo.return %j, %v : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// To one value.

// CHECK-LABEL: module @ne
// CHECK: attributes {hespas.trips = 10000000 : i64, hespas.trips_found = 10000000 : i64}
module @ne {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %start = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %start, %v = %x) : tensor<i32>, tensor<8xf32>
    cond {
      %bound = stablehlo.constant dense<100000000> : tensor<i32>
      %c = stablehlo.compare NE, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %step = stablehlo.constant dense<10> : tensor<i32>
      %j = stablehlo.add %i, %step : tensor<i32>
      stablehlo.return %j, %v : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @ne_down
// CHECK: attributes {hespas.trips = 10000000 : i64, hespas.trips_found = 10000000 : i64}
module @ne_down {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %start = stablehlo.constant dense<100000000> : tensor<i32>
    %0:2 = stablehlo.while(%i = %start, %v = %x) : tensor<i32>, tensor<8xf32>
    cond {
      %bound = stablehlo.constant dense<0> : tensor<i32>
      %c = stablehlo.compare NE, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %step = stablehlo.constant dense<-10> : tensor<i32>
      %j = stablehlo.add %i, %step : tensor<i32>
      stablehlo.return %j, %v : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// While it has one value.

// CHECK-LABEL: module @eq
// CHECK: attributes {hespas.trips = 1 : i64, hespas.trips_found = 1 : i64}
module @eq {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %start = stablehlo.constant dense<5> : tensor<i32>
    %0:2 = stablehlo.while(%i = %start, %v = %x) : tensor<i32>, tensor<8xf32>
    cond {
      %bound = stablehlo.constant dense<5> : tensor<i32>
      %c = stablehlo.compare EQ, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %step = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %step : tensor<i32>
      stablehlo.return %j, %v : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @eq_not
// CHECK: attributes {hespas.trips = 0 : i64, hespas.trips_found = 0 : i64}
module @eq_not {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %start = stablehlo.constant dense<5> : tensor<i32>
    %0:2 = stablehlo.while(%i = %start, %v = %x) : tensor<i32>, tensor<8xf32>
    cond {
      %bound = stablehlo.constant dense<6> : tensor<i32>
      %c = stablehlo.compare EQ, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %step = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %step : tensor<i32>
      stablehlo.return %j, %v : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// A condition that does not hold at the start.

// CHECK-LABEL: module @never
// CHECK: attributes {hespas.trips = 0 : i64, hespas.trips_found = 0 : i64}
module @never {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %start = stablehlo.constant dense<20> : tensor<i32>
    %0:2 = stablehlo.while(%i = %start, %v = %x) : tensor<i32>, tensor<8xf32>
    cond {
      %bound = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %step = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %step : tensor<i32>
      stablehlo.return %j, %v : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// The bound on the left, and the step.

// CHECK-LABEL: module @mirrored
// CHECK: attributes {hespas.trips = 10000000 : i64, hespas.trips_found = 10000000 : i64}
module @mirrored {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %start = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %start, %v = %x) : tensor<i32>, tensor<8xf32>
    cond {
      %bound = stablehlo.constant dense<100000000> : tensor<i32>
      %c = stablehlo.compare GT, %bound, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %step = stablehlo.constant dense<10> : tensor<i32>
      %j = stablehlo.add %step, %i : tensor<i32>
      stablehlo.return %j, %v : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @mirrored_le
// CHECK: attributes {hespas.trips = 10000001 : i64, hespas.trips_found = 10000001 : i64}
module @mirrored_le {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %start = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %start, %v = %x) : tensor<i32>, tensor<8xf32>
    cond {
      %bound = stablehlo.constant dense<100000000> : tensor<i32>
      %c = stablehlo.compare GE, %bound, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %step = stablehlo.constant dense<10> : tensor<i32>
      %j = stablehlo.add %step, %i : tensor<i32>
      stablehlo.return %j, %v : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// The constant may be on the left.

// CHECK-LABEL: module @mirrored_lt
// CHECK: hespas.trips = 3000000 : i64, hespas.trips_found = 3000000 : i64}
module @mirrored_lt {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<3000000> : tensor<i32>
    %w = stablehlo.while(%i = %s) : tensor<i32>
    cond {
      %b = stablehlo.constant dense<0> : tensor<i32>
      %c = stablehlo.compare LT, %b, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.subtract %i, %k : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @mirrored_le
// CHECK: hespas.trips = 3000001 : i64, hespas.trips_found = 3000001 : i64}
module @mirrored_le {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<3000000> : tensor<i32>
    %w = stablehlo.while(%i = %s) : tensor<i32>
    cond {
      %b = stablehlo.constant dense<0> : tensor<i32>
      %c = stablehlo.compare LE, %b, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.subtract %i, %k : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @mirrored_ne
// CHECK: hespas.trips = 3000000 : i64, hespas.trips_found = 3000000 : i64}
module @mirrored_ne {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<3000000> : tensor<i32>
    %w = stablehlo.while(%i = %s) : tensor<i32>
    cond {
      %b = stablehlo.constant dense<0> : tensor<i32>
      %c = stablehlo.compare NE, %b, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.subtract %i, %k : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @mirrored_eq
// CHECK: hespas.trips = 1 : i64, hespas.trips_found = 1 : i64}
module @mirrored_eq {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<5> : tensor<i32>
    %w = stablehlo.while(%i = %s) : tensor<i32>
    cond {
      %b = stablehlo.constant dense<5> : tensor<i32>
      %c = stablehlo.compare EQ, %b, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.subtract %i, %k : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// Explicit shardings of JAX constrain the counter, too.

// CHECK-LABEL: module @constrained
// CHECK: hespas.trips = 4 : i64
module @constrained {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<8xf32>
    cond {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %j = sdy.sharding_constraint %i <@mesh, []> : tensor<i32>
      %stated = sdy.sharding_constraint %four <@mesh, []> : tensor<i32>
      %bound = sdy.propagation_barrier %stated allowed_direction=NONE : tensor<i32>
      %c = stablehlo.compare LT, %j, %bound : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = sdy.sharding_constraint %i <@mesh, []> : tensor<i32>
      %next = stablehlo.add %j, %one : tensor<i32>
      %k = sdy.sharding_constraint %next <@mesh, []> : tensor<i32>
      %new = stablehlo.tanh %y : tensor<8xf32>
      stablehlo.return %k, %new : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}
