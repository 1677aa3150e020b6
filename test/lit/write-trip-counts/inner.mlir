// RUN: hespas-opt %s --write-trip-counts --split-input-file --verify-diagnostics | filecheck %s
// RUN: hespas-opt %s --split-linear --prepare --split-input-file | filecheck %s --check-prefix=SPLIT

/// The bound of the inner loop is the counter of the outer one. It runs 0 to 8 times, 36 in all.

// CHECK-LABEL: module @whole
// CHECK: hespas.trips = 9 : i64
// CHECK: hespas.trips = 4 : i64, hespas.trips_found = 4 : i64
// SPLIT-LABEL: module @whole
// SPLIT-DAG: hespas.trips = 9 : i64
// SPLIT-DAG: hespas.trips = 4 : i64, hespas.trips_found = 4 : i64
module @whole {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense<9> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<8xf32> cond {
      %2 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %2:2 = stablehlo.while(%j = %zero, %z = %y) : tensor<i32>, tensor<8xf32> cond {
        %4 = stablehlo.compare LT, %j, %i, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %4 : tensor<i1>
      } do {
        %4 = stablehlo.cosine %z : tensor<8xf32>
        %5 = stablehlo.add %j, %one : tensor<i32>
        stablehlo.return %5, %4 : tensor<i32>, tensor<8xf32>
      }
      %3 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %3, %2#1 : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// The loop is in a function that two loops call, which runs 2 to 5 times: 3.5 on average.

// CHECK-LABEL: module @called
// CHECK: func.func private @inner
// CHECK: hespas.trips = 4 : i64, hespas.trips_note = "trip count 4 assumed: it changes in the loop around it, and is 3.5 on average"
// SPLIT-LABEL: module @called
// SPLIT: hespas.trips = 4 : i64, hespas.trips_note = "trip count 4 assumed
module @called {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<2> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense<6> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<8xf32> cond {
      %3 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    } do {
      %3 = func.call @inner(%i, %y) : (tensor<i32>, tensor<8xf32>) -> tensor<8xf32>
      %4 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %4, %3 : tensor<i32>, tensor<8xf32>
    }
    %1:2 = stablehlo.while(%i = %zero, %y = %0#1) : tensor<i32>, tensor<8xf32> cond {
      %3 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    } do {
      %3 = func.call @inner(%i, %y) : (tensor<i32>, tensor<8xf32>) -> tensor<8xf32>
      %4 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %4, %3 : tensor<i32>, tensor<8xf32>
    }
    return %1#1 : tensor<8xf32>
  }
  func.func private @inner(%n: tensor<i32>, %x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    // expected-warning @+1 {{the trip count of the loop changes in the loop around it, and is 3.5 on average: 4 is assumed; set it with hespas-opt --prepare=trip-count=N}}
    %0:2 = stablehlo.while(%j = %zero, %z = %x) : tensor<i32>, tensor<8xf32> cond {
      %4 = stablehlo.compare LT, %j, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    } do {
      %4 = stablehlo.cosine %z : tensor<8xf32>
      %5 = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %5, %4 : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// A branch decides in which iterations the inner loop runs: nothing is known of its average.

// CHECK-LABEL: module @branch
// CHECK: hespas.trips = 1 : i64, hespas.trips_note
module @branch {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense<9> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<8xf32> cond {
      %2 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %is_one = stablehlo.compare EQ, %i, %one, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %2 = "stablehlo.if"(%is_one) ({
        // expected-warning @+1 {{the trip count of the loop depends on data: 1 is assumed; set it with hespas-opt --prepare=trip-count=N}}
        %4:2 = stablehlo.while(%j = %zero, %z = %y) : tensor<i32>, tensor<8xf32> cond {
          %5 = stablehlo.compare LT, %j, %i, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %5 : tensor<i1>
        } do {
          %5 = stablehlo.cosine %z : tensor<8xf32>
          %6 = stablehlo.add %j, %one : tensor<i32>
          stablehlo.return %6, %5 : tensor<i32>, tensor<8xf32>
        }
        stablehlo.return %4#1 : tensor<8xf32>
      }, {
        stablehlo.return %y : tensor<8xf32>
      }) : (tensor<i1>) -> tensor<8xf32>
      %3 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %3, %2 : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// A scan over 1, 3, 5, 7: the bound is an element of an array. It runs 16 times in all.

// CHECK-LABEL: module @scan
// CHECK: hespas.trips = 4 : i64, hespas.trips_found = 4 : i64
// CHECK: hespas.trips = 4 : i64, hespas.trips_found = 4 : i64
// SPLIT-LABEL: module @scan
// SPLIT-DAG: hespas.trips = 4 : i64, hespas.trips_found = 4 : i64
// SPLIT-DAG: hespas.trips = 4 : i64, hespas.trips_found = 4 : i64
module @scan {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %ones = stablehlo.constant dense<1> : tensor<4xi32>
    %n = stablehlo.constant dense<4> : tensor<i32>
    %iota = stablehlo.iota dim = 0 : tensor<4xi32>
    %twice = stablehlo.add %iota, %iota : tensor<4xi32>
    %bounds = stablehlo.add %twice, %ones : tensor<4xi32>
    %0:3 = stablehlo.while(%i = %zero, %a = %bounds, %y = %x) : tensor<i32>, tensor<4xi32>, tensor<8xf32> cond {
      %2 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %slice = stablehlo.dynamic_slice %a, %i, sizes = [1] : (tensor<4xi32>, tensor<i32>) -> tensor<1xi32>
      %bound = stablehlo.reshape %slice : (tensor<1xi32>) -> tensor<i32>
      %2:2 = stablehlo.while(%j = %zero, %z = %y) : tensor<i32>, tensor<8xf32> cond {
        %4 = stablehlo.compare LT, %j, %bound, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %4 : tensor<i1>
      } do {
        %4 = stablehlo.cosine %z : tensor<8xf32>
        %5 = stablehlo.add %j, %one : tensor<i32>
        stablehlo.return %5, %4 : tensor<i32>, tensor<8xf32>
      }
      %3 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %3, %a, %2#1 : tensor<i32>, tensor<4xi32>, tensor<8xf32>
    }
    return %0#2 : tensor<8xf32>
  }
}

// -----

/// The bound may be the counter of a loop further out: 1, 2 and 3, each in two iterations of the loop between.

// CHECK-LABEL: module @further_out
// CHECK: hespas.trips = 3 : i64, hespas.trips_found = 3 : i64
// CHECK: hespas.trips = 2 : i64, hespas.trips_found = 2 : i64
// CHECK: hespas.trips = 2 : i64, hespas.trips_found = 2 : i64
module @further_out {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %two = stablehlo.constant dense<2> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %0:2 = stablehlo.while(%i = %one, %v = %x) : tensor<i32>, tensor<8xf32>
    cond {
      %c = stablehlo.compare LE, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %1:3 = stablehlo.while(%j = %zero, %n = %i, %w = %v) : tensor<i32>, tensor<i32>, tensor<8xf32>
      cond {
        %c = stablehlo.compare LT, %j, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %2:3 = stablehlo.while(%k = %zero, %m = %n, %u = %w) : tensor<i32>, tensor<i32>, tensor<8xf32>
        cond {
          %c = stablehlo.compare LT, %k, %m : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        } do {
          %l = stablehlo.add %k, %one : tensor<i32>
          %t = stablehlo.tanh %u : tensor<8xf32>
          stablehlo.return %l, %m, %t : tensor<i32>, tensor<i32>, tensor<8xf32>
        }
        %l = stablehlo.add %j, %one : tensor<i32>
        stablehlo.return %l, %n, %2#2 : tensor<i32>, tensor<i32>, tensor<8xf32>
      }
      %l = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %l, %1#2 : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// Two loops that call it with different averages leave nothing that is true of both.

// CHECK-LABEL: module @differ
// CHECK: func.func private @inner
// CHECK: hespas.trips = 1 : i64, hespas.trips_note = "trip count 1 assumed: it is another for each call of its function"
module @differ {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<2> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense<6> : tensor<i32>
    %m = stablehlo.constant dense<9> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<8xf32> cond {
      %3 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    } do {
      %3 = func.call @inner(%i, %y) : (tensor<i32>, tensor<8xf32>) -> tensor<8xf32>
      %4 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %4, %3 : tensor<i32>, tensor<8xf32>
    }
    %1:2 = stablehlo.while(%i = %zero, %y = %0#1) : tensor<i32>, tensor<8xf32> cond {
      %3 = stablehlo.compare LT, %i, %m, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %3 : tensor<i1>
    } do {
      %3 = func.call @inner(%i, %y) : (tensor<i32>, tensor<8xf32>) -> tensor<8xf32>
      %4 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %4, %3 : tensor<i32>, tensor<8xf32>
    }
    return %1#1 : tensor<8xf32>
  }
  func.func private @inner(%n: tensor<i32>, %x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    // expected-warning @+1 {{the trip count of the loop is another for each call of its function: 1 is assumed; set it with hespas-opt --prepare=trip-count=N}}
    %0:2 = stablehlo.while(%j = %zero, %z = %x) : tensor<i32>, tensor<8xf32> cond {
      %4 = stablehlo.compare LT, %j, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    } do {
      %4 = stablehlo.cosine %z : tensor<8xf32>
      %5 = stablehlo.add %j, %one : tensor<i32>
      stablehlo.return %5, %4 : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// Nothing is known of the inner loop if data end the outer one,

// CHECK-LABEL: module @outer_of_data
// CHECK-COUNT-2: hespas.trips = 1 : i64, hespas.trips_note
module @outer_of_data {
  func.func @main(%x: tensor<8xf32>, %n: tensor<i32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    // expected-warning @+1 {{the trip count of the loop depends on data: 1 is assumed}}
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<8xf32> cond {
      %2 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      // expected-warning @+1 {{the trip count of the loop depends on data: 1 is assumed}}
      %2:2 = stablehlo.while(%j = %zero, %z = %y) : tensor<i32>, tensor<8xf32> cond {
        %4 = stablehlo.compare LT, %j, %i, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %4 : tensor<i1>
      } do {
        %4 = stablehlo.cosine %z : tensor<8xf32>
        %5 = stablehlo.add %j, %one : tensor<i32>
        stablehlo.return %5, %4 : tensor<i32>, tensor<8xf32>
      }
      %3 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %3, %2#1 : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}

// -----

/// or if it never ends.

// CHECK-LABEL: module @endless
// CHECK-COUNT-2: hespas.trips = 1 : i64, hespas.trips_note
module @endless {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %n = stablehlo.constant dense<9> : tensor<i32>
    // expected-warning @+1 {{the trip count of the loop is infinite unless an integer wraps around, because the condition holds in each iteration: 1 is assumed}}
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<8xf32> cond {
      %2 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      // expected-warning @+1 {{the trip count of the loop depends on data: 1 is assumed}}
      %2:2 = stablehlo.while(%j = %zero, %z = %y) : tensor<i32>, tensor<8xf32> cond {
        %4 = stablehlo.compare LT, %j, %i, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %4 : tensor<i1>
      } do {
        %4 = stablehlo.cosine %z : tensor<8xf32>
        %5 = stablehlo.add %j, %one : tensor<i32>
        stablehlo.return %5, %4 : tensor<i32>, tensor<8xf32>
      }
      %3 = stablehlo.maximum %i, %one : tensor<i32>
      stablehlo.return %3, %2#1 : tensor<i32>, tensor<8xf32>
    }
    return %0#1 : tensor<8xf32>
  }
}
