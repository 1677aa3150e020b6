// RUN: hespas-opt %s --write-trip-counts --split-input-file 2>&1 | filecheck %s
// RUN: hespas-opt %s --write-trip-counts --write-trip-counts --split-input-file 2>&1 | filecheck %s

// CHECK-NOT: {{warning|date}}

/// A condition that is not a simple comparison is evaluated, step by step.

// CHECK-LABEL: module @halved
// CHECK: hespas.trips = 6 : i64, hespas.trips_found = 6 : i64}
module @halved {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<33> : tensor<i32>
    %w = stablehlo.while(%i = %s) : tensor<i32>
    cond {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %c = stablehlo.compare GT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %two = stablehlo.constant dense<2> : tensor<i32>
      %j = stablehlo.divide %i, %two : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// So is one of two counters.

// CHECK-LABEL: module @two
// CHECK: hespas.trips = 5 : i64, hespas.trips_found = 5 : i64}
module @two {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0> : tensor<i32>
    %e = stablehlo.constant dense<9> : tensor<i32>
    %w:2 = stablehlo.while(%i = %s, %k = %e) : tensor<i32>, tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %l = stablehlo.subtract %k, %one : tensor<i32>
      stablehlo.return %j, %l : tensor<i32>, tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// And of two conditions.

// CHECK-LABEL: module @both
// CHECK: hespas.trips = 7 : i64, hespas.trips_found = 7 : i64}
module @both {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0> : tensor<i32>
    %w = stablehlo.while(%i = %s) : tensor<i32>
    cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %a = stablehlo.compare LT, %i, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %seven = stablehlo.constant dense<7> : tensor<i32>
      %b = stablehlo.compare NE, %i, %seven : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %c = stablehlo.and %a, %b : tensor<i1>
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

/// The bound may be a value that the loop carries unchanged, also behind a barrier with data and a copy.

// CHECK-LABEL: module @carried
// CHECK: hespas.trips = 100000000 : i64, hespas.trips_found = 100000000 : i64}
module @carried {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0> : tensor<i32>
    %e = stablehlo.constant dense<100000000> : tensor<i32>
    %w:3 = stablehlo.while(%i = %s, %n = %e, %d = %x) : tensor<i32>, tensor<i32>, tensor<8xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %b:2 = stablehlo.optimization_barrier %n, %d : tensor<i32>, tensor<8xf32>
      %m = mhlo.copy %b#0 : tensor<i32>
      stablehlo.return %j, %m, %b#1 : tensor<i32>, tensor<i32>, tensor<8xf32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// Values of the outer loop that it carries unchanged are known in the inner one.

// CHECK-LABEL: module @nested
// CHECK-COUNT-2: hespas.trips = 4 : i64, hespas.trips_found = 4 : i64}
module @nested {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %four = stablehlo.constant dense<4> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %w:2 = stablehlo.while(%i = %zero, %n = %four) : tensor<i32>, tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %v = stablehlo.while(%k = %zero) : tensor<i32>
      cond {
        %c = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %l = stablehlo.add %k, %one : tensor<i32>
        stablehlo.return %l : tensor<i32>
      }
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %n : tensor<i32>, tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// A function has its argument from its calls, if they agree.

// CHECK-LABEL: module @agree
// CHECK: hespas.trips = 5 : i64, hespas.trips_found = 5 : i64}
module @agree {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %n = stablehlo.constant dense<5> : tensor<i32>
    %0 = call @f(%x, %n) : (tensor<8xf32>, tensor<i32>) -> tensor<8xf32>
    %1 = call @f(%0, %n) : (tensor<8xf32>, tensor<i32>) -> tensor<8xf32>
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

/// A called function and a fusion are looked into, for what they compute of the counter alone.

// CHECK-LABEL: module @inside
// CHECK: hespas.trips = 7 : i64, hespas.trips_found = 7 : i64}
module @inside {
  func.func @main(%x: tensor<8xf32>, %data: tensor<i32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %w:2 = stablehlo.while(%i = %zero, %d = %data) : tensor<i32>, tensor<i32>
    cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %k = "mhlo.fusion"(%i) ({
      ^bb0(%a: tensor<i32>):
        %one = mhlo.constant dense<3> : tensor<i32>
        %b = mhlo.add %a, %one : tensor<i32>
        mhlo.return %b : tensor<i32>
      }) : (tensor<i32>) -> tensor<i32>
      %c = stablehlo.compare LT, %k, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j:2 = func.call @next(%i, %d) : (tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)
      stablehlo.return %j#0, %j#1 : tensor<i32>, tensor<i32>
    }
    return %x : tensor<8xf32>
  }
  func.func private @next(%i: tensor<i32>, %d: tensor<i32>) -> (tensor<i32>, tensor<i32>) {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %e = stablehlo.add %i, %d : tensor<i32>
    return %j, %e : tensor<i32>, tensor<i32>
  }
}

// -----

/// What a loop carries unchanged is its result.

// CHECK-LABEL: module @result
// CHECK: stablehlo.while
// CHECK: stablehlo.while
// CHECK-SAME: hespas.trips = 6 : i64, hespas.trips_found = 6 : i64}
module @result {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %six = stablehlo.constant dense<6> : tensor<i32>
    %v:2 = stablehlo.while(%i = %zero, %n = %six) : tensor<i32>, tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %n : tensor<i32>, tensor<i32>
    }
    %w = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %v#1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// A bound that is swapped with another value changes.

// CHECK-LABEL: module @swapped
// CHECK: hespas.trips = 6 : i64, hespas.trips_found = 6 : i64}
module @swapped {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %five = stablehlo.constant dense<5> : tensor<i32>
    %far = stablehlo.constant dense<100> : tensor<i32>
    %w:3 = stablehlo.while(%i = %zero, %n = %five, %m = %far) : tensor<i32>, tensor<i32>, tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %m, %n : tensor<i32>, tensor<i32>, tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// The bound may move with the counter,

// CHECK-LABEL: module @moving_bound
// CHECK: hespas.trips = 5 : i64, hespas.trips_found = 5 : i64}
module @moving_bound {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0> : tensor<i32>
    %w = stablehlo.while(%i = %s) : tensor<i32>
    cond {
      %b = stablehlo.constant dense<10> : tensor<i32>
      %d = stablehlo.subtract %b, %i : tensor<i32>
      %c = stablehlo.compare LT, %i, %d : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %k : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// and what is compared may be computed from the counter;

// CHECK-LABEL: module @doubled_counter
// CHECK: hespas.trips = 5 : i64, hespas.trips_found = 5 : i64}
module @doubled_counter {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0> : tensor<i32>
    %w = stablehlo.while(%i = %s) : tensor<i32>
    cond {
      %b = stablehlo.constant dense<10> : tensor<i32>
      %d = stablehlo.add %i, %i : tensor<i32>
      %c = stablehlo.compare LT, %d, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %k : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// the counter may be what is subtracted,

// CHECK-LABEL: module @counter_subtracted
// CHECK: hespas.trips = 1 : i64, hespas.trips_found = 1 : i64}
module @counter_subtracted {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<10> : tensor<i32>
    %w = stablehlo.while(%i = %s) : tensor<i32>
    cond {
      %b = stablehlo.constant dense<0> : tensor<i32>
      %c = stablehlo.compare GT, %i, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k = stablehlo.constant dense<3> : tensor<i32>
      %j = stablehlo.subtract %k, %i : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// or be both.

// CHECK-LABEL: module @counter_twice
// CHECK: hespas.trips = 1 : i64, hespas.trips_found = 1 : i64}
module @counter_twice {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<5> : tensor<i32>
    %w = stablehlo.while(%i = %s) : tensor<i32>
    cond {
      %b = stablehlo.constant dense<0> : tensor<i32>
      %c = stablehlo.compare GT, %i, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %j = stablehlo.subtract %i, %i : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// The condition may be carried itself,

// CHECK-LABEL: module @carried_condition
// CHECK: hespas.trips = 1 : i64, hespas.trips_found = 1 : i64}
module @carried_condition {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<true> : tensor<i1>
    %w = stablehlo.while(%i = %s) : tensor<i1>
    cond {
      stablehlo.return %i : tensor<i1>
    } do {
      %j = stablehlo.not %i : tensor<i1>
      stablehlo.return %j : tensor<i1>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// or what it compares another carried value of the iteration before.

// CHECK-LABEL: module @handed_on
// CHECK: hespas.trips = 2 : i64, hespas.trips_found = 2 : i64}
module @handed_on {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<1> : tensor<i32>
    %t = stablehlo.constant dense<2> : tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %w:3 = stablehlo.while(%i = %s, %j = %t, %k = %zero) : tensor<i32>, tensor<i32>, tensor<i32>
    cond {
      %c = stablehlo.compare GT, %i, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      stablehlo.return %j, %k, %k : tensor<i32>, tensor<i32>, tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// A counter that passes a barrier together with data depends on no data.

// CHECK-LABEL: module @barrier
// CHECK: hespas.trips = 4 : i64, hespas.trips_found = 4 : i64}
module @barrier {
  func.func @main(%x: tensor<8xf32>, %n: tensor<i32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0> : tensor<i32>
    %w:2 = stablehlo.while(%i = %s, %m = %n) : tensor<i32>, tensor<i32>
    cond {
      %four = stablehlo.constant dense<4> : tensor<i32>
      %b:2 = stablehlo.optimization_barrier %m, %i : tensor<i32>, tensor<i32>
      %c = stablehlo.compare LT, %b#1, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      %l = stablehlo.multiply %m, %m : tensor<i32>
      stablehlo.return %j, %l : tensor<i32>, tensor<i32>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// A counter that passes over the value at which the loop ends, or leaves it behind, overflows first.

// CHECK-LABEL: module @passes_over
// CHECK: hespas.trips = 174 : i64, hespas.trips_found = 174 : i64}
module @passes_over {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0> : tensor<i8>
    %w = stablehlo.while(%i = %s) : tensor<i8>
    cond {
      %b = stablehlo.constant dense<10> : tensor<i8>
      %c = stablehlo.compare NE, %i, %b : (tensor<i8>, tensor<i8>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k = stablehlo.constant dense<3> : tensor<i8>
      %j = stablehlo.add %i, %k : tensor<i8>
      stablehlo.return %j : tensor<i8>
    }
    return %x : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @leaves_behind
// CHECK: hespas.trips = 251 : i64, hespas.trips_found = 251 : i64}
module @leaves_behind {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0> : tensor<i8>
    %w = stablehlo.while(%i = %s) : tensor<i8>
    cond {
      %b = stablehlo.constant dense<-5> : tensor<i8>
      %c = stablehlo.compare NE, %i, %b : (tensor<i8>, tensor<i8>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k = stablehlo.constant dense<1> : tensor<i8>
      %j = stablehlo.add %i, %k : tensor<i8>
      stablehlo.return %j : tensor<i8>
    }
    return %x : tensor<8xf32>
  }
}

// -----

// CHECK-LABEL: module @moves_away
// CHECK: hespas.trips = 129 : i64, hespas.trips_found = 129 : i64}
module @moves_away {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %s = stablehlo.constant dense<0> : tensor<i8>
    %w = stablehlo.while(%i = %s) : tensor<i8>
    cond {
      %b = stablehlo.constant dense<10> : tensor<i8>
      %c = stablehlo.compare LT, %i, %b : (tensor<i8>, tensor<i8>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k = stablehlo.constant dense<1> : tensor<i8>
      %j = stablehlo.subtract %i, %k : tensor<i8>
      stablehlo.return %j : tensor<i8>
    }
    return %x : tensor<8xf32>
  }
}

// -----

/// The size of a static dimension is known.

// CHECK-LABEL: module @size
module @size {
  // CHECK: stablehlo.while{{.*}} attributes {hespas.trips = 7 : i64
  func.func @main(%x: tensor<4x7xf32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.get_dimension_size %x, dim = 1 : (tensor<4x7xf32>) -> tensor<i32>
    %0 = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %1 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %1 : tensor<i32>
    }
    return %0 : tensor<i32>
  }
}

// -----

/// The counter may become a value that the loop carries unchanged.

// CHECK-LABEL: module @replaced
// CHECK: hespas.trips = 1 : i64, hespas.trips_found = 1 : i64
module @replaced {
  func.func @main() -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %ten = stablehlo.constant dense<10> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %j = %ten) : tensor<i32>, tensor<i32>
    cond {
      %five = stablehlo.constant dense<5> : tensor<i32>
      %p = stablehlo.compare LT, %i, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      stablehlo.return %j, %j : tensor<i32>, tensor<i32>
    }
    return %0#0 : tensor<i32>
  }
}
