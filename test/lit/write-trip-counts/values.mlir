// RUN: hespas-opt %s --write-trip-counts --split-input-file | filecheck %s
// RUN: hespas-opt %s --write-trip-counts --write-trip-counts --split-input-file | filecheck %s

/// Integers are shifted to the left and to the right: 3 * 8 / 2, and by nothing.

// CHECK-LABEL: module @shifted
// CHECK: hespas.trips = 12 : i64, hespas.trips_found = 12 : i64
module @shifted {
  func.func @main(%x: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %a = stablehlo.constant dense<3> : tensor<i32>
    %b = stablehlo.constant dense<3> : tensor<i32>
    %d = stablehlo.constant dense<1> : tensor<i32>
    %l = stablehlo.shift_left %a, %b : tensor<i32>
    %r = stablehlo.shift_right_arithmetic %l, %d : tensor<i32>
    %n = stablehlo.shift_left %r, %zero : tensor<i32>
    %w = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %w : tensor<i32>
  }
}

// -----

/// By more bits than an integer has they are not defined.

// CHECK-LABEL: module @shifted_far
// CHECK: hespas.trips = 1 : i64, hespas.trips_note
module @shifted_far {
  func.func @main(%x: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %a = stablehlo.constant dense<3> : tensor<i32>
    %b = stablehlo.constant dense<64> : tensor<i32>
    %n = stablehlo.shift_left %a, %b : tensor<i32>
    %w = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %w : tensor<i32>
  }
}

// -----

/// A constant selects one of two values,

// CHECK-LABEL: module @selected
// CHECK: hespas.trips = 6 : i64, hespas.trips_found = 6 : i64
module @selected {
  func.func @main(%x: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %p = stablehlo.constant dense<false> : tensor<i1>
    %a = stablehlo.constant dense<6> : tensor<i32>
    %n = stablehlo.select %p, %x, %a : tensor<i1>, tensor<i32>
    %w = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %w : tensor<i32>
  }
}

// -----

/// data none.

// CHECK-LABEL: module @selected_by_data
// CHECK: hespas.trips = 1 : i64, hespas.trips_note
module @selected_by_data {
  func.func @main(%x: tensor<i32>, %p: tensor<i1>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %a = stablehlo.constant dense<6> : tensor<i32>
    %b = stablehlo.constant dense<6> : tensor<i32>
    %n = stablehlo.select %p, %a, %b : tensor<i1>, tensor<i32>
    %w = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %w : tensor<i32>
  }
}

// -----

/// An element of a constant is known if its place is,

// CHECK-LABEL: module @element
// CHECK: hespas.trips = 7 : i64, hespas.trips_found = 7 : i64
module @element {
  func.func @main(%x: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %table = stablehlo.constant dense<[3, 5, 7, 9]> : tensor<4xi32>
    %k = stablehlo.constant dense<2> : tensor<i32>
    %part = stablehlo.dynamic_slice %table, %k, sizes = [1] : (tensor<4xi32>, tensor<i32>) -> tensor<1xi32>
    %n = stablehlo.reshape %part : (tensor<1xi32>) -> tensor<i32>
    %w = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %w : tensor<i32>
  }
}

// -----

/// not if that is data,

// CHECK-LABEL: module @element_of_data
// CHECK: hespas.trips = 1 : i64, hespas.trips_note
module @element_of_data {
  func.func @main(%x: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %table = stablehlo.constant dense<[3, 5, 7, 9]> : tensor<4xi32>
    %part = stablehlo.dynamic_slice %table, %x, sizes = [1] : (tensor<4xi32>, tensor<i32>) -> tensor<1xi32>
    %n = stablehlo.reshape %part : (tensor<1xi32>) -> tensor<i32>
    %w = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %w : tensor<i32>
  }
}

// -----

/// nor after arithmetic with data.

// CHECK-LABEL: module @element_with_data
// CHECK: hespas.trips = 1 : i64, hespas.trips_note
module @element_with_data {
  func.func @main(%x: tensor<i32>, %d: tensor<4xi32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %table = stablehlo.constant dense<[3, 5, 7, 9]> : tensor<4xi32>
    %k = stablehlo.constant dense<2> : tensor<i32>
    %more = stablehlo.add %table, %d : tensor<4xi32>
    %part = stablehlo.dynamic_slice %more, %k, sizes = [1] : (tensor<4xi32>, tensor<i32>) -> tensor<1xi32>
    %n = stablehlo.reshape %part : (tensor<1xi32>) -> tensor<i32>
    %w = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %w : tensor<i32>
  }
}

// -----

/// A called function may make the array,

// CHECK-LABEL: module @called
// CHECK: hespas.trips = 18 : i64, hespas.trips_found = 18 : i64
module @called {
  func.func private @make() -> tensor<4xi32> {
    %table = stablehlo.constant dense<[3, 5, 7, 9]> : tensor<4xi32>
    %0 = stablehlo.add %table, %table : tensor<4xi32>
    return %0 : tensor<4xi32>
  }
  func.func @main(%x: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %k = stablehlo.constant dense<3> : tensor<i32>
    %table = func.call @make() : () -> tensor<4xi32>
    %part = stablehlo.dynamic_slice %table, %k, sizes = [1] : (tensor<4xi32>, tensor<i32>) -> tensor<1xi32>
    %n = stablehlo.reshape %part : (tensor<1xi32>) -> tensor<i32>
    %w = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %w : tensor<i32>
  }
}

// -----

/// and all of its elements be equal.

// CHECK-LABEL: module @equal_elements
// CHECK: hespas.trips = 4 : i64, hespas.trips_found = 4 : i64
module @equal_elements {
  func.func @main(%x: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %k = stablehlo.constant dense<3> : tensor<i32>
    %a = stablehlo.constant dense<4> : tensor<i32>
    %table = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<i32>) -> tensor<4xi32>
    %part = stablehlo.dynamic_slice %table, %k, sizes = [1] : (tensor<4xi32>, tensor<i32>) -> tensor<1xi32>
    %n = stablehlo.reshape %part : (tensor<1xi32>) -> tensor<i32>
    %w = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %w : tensor<i32>
  }
}

// -----

/// A declaration makes nothing that is known.

// CHECK-LABEL: module @declared
// CHECK: hespas.trips = 1 : i64, hespas.trips_note
module @declared {
  func.func private @outside() -> tensor<i32>
  func.func @main(%x: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %n = func.call @outside() : () -> tensor<i32>
    %w = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %w : tensor<i32>
  }
}

// -----

/// The largest of equal elements is each of them,

// CHECK-LABEL: module @largest
// CHECK: hespas.trips = 9 : i64, hespas.trips_found = 9 : i64
module @largest {
  func.func @main(%x: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %table = stablehlo.constant dense<9> : tensor<4xi32>
    %n = stablehlo.reduce(%table init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<4xi32>, tensor<i32>) -> tensor<i32>
    %w = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %w : tensor<i32>
  }
}

// -----

/// that of others is not computed,

// CHECK-LABEL: module @largest_of_others
// CHECK: hespas.trips = 1 : i64, hespas.trips_note
module @largest_of_others {
  func.func @main(%x: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %table = stablehlo.constant dense<[3, 5, 7, 9]> : tensor<4xi32>
    %n = stablehlo.reduce(%table init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<4xi32>, tensor<i32>) -> tensor<i32>
    %w = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %w : tensor<i32>
  }
}

// -----

/// nor that of a part,

// CHECK-LABEL: module @largest_of_part
// CHECK: hespas.trips = 1 : i64, hespas.trips_note
module @largest_of_part {
  func.func @main(%x: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %table = stablehlo.constant dense<[3, 5, 7, 9]> : tensor<4xi32>
    %two = stablehlo.dynamic_slice %table, %zero, sizes = [2] : (tensor<4xi32>, tensor<i32>) -> tensor<2xi32>
    %n = stablehlo.reduce(%two init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<2xi32>, tensor<i32>) -> tensor<i32>
    %w = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %w : tensor<i32>
  }
}

// -----

/// nor is their sum.

// CHECK-LABEL: module @sum
// CHECK: hespas.trips = 1 : i64, hespas.trips_note
module @sum {
  func.func @main(%x: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %table = stablehlo.constant dense<9> : tensor<4xi32>
    %n = stablehlo.reduce(%table init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xi32>, tensor<i32>) -> tensor<i32>
    %w = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %w : tensor<i32>
  }
}

// -----

/// Two reductions at once are not either.

// CHECK-LABEL: module @two_reductions
// CHECK: hespas.trips = 1 : i64, hespas.trips_note
module @two_reductions {
  func.func @main(%x: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %a = stablehlo.constant dense<9> : tensor<4xi32>
    %n, %m = stablehlo.reduce(%a init: %zero), (%a init: %zero) across dimensions = [0] : (tensor<4xi32>, tensor<4xi32>, tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)
     reducer(%p: tensor<i32>, %q: tensor<i32>) (%r: tensor<i32>, %s: tensor<i32>) {
      %t = stablehlo.maximum %p, %q : tensor<i32>
      %u = stablehlo.minimum %r, %s : tensor<i32>
      stablehlo.return %t, %u : tensor<i32>, tensor<i32>
    }
    %w = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %w : tensor<i32>
  }
}

// -----

/// An element of a tuple is what the tuple is made of,

// CHECK-LABEL: module @tuple
// CHECK: hespas.trips = 5 : i64, hespas.trips_found = 5 : i64
module @tuple {
  func.func @main(%x: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %a = stablehlo.constant dense<5> : tensor<i32>
    %t = stablehlo.tuple %x, %a : tuple<tensor<i32>, tensor<i32>>
    %n = stablehlo.get_tuple_element %t[1] : (tuple<tensor<i32>, tensor<i32>>) -> tensor<i32>
    %w = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %w : tensor<i32>
  }
}

// -----

/// of a tuple that is an argument nothing that is known.

// CHECK-LABEL: module @tuple_of_data
// CHECK: hespas.trips = 1 : i64, hespas.trips_note
module @tuple_of_data {
  func.func @main(%t: tuple<tensor<i32>, tensor<i32>>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.get_tuple_element %t[1] : (tuple<tensor<i32>, tensor<i32>>) -> tensor<i32>
    %w = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %w : tensor<i32>
  }
}

// -----

/// Infinity is no integer,

// CHECK-LABEL: module @infinity
// CHECK: hespas.trips = 1 : i64, hespas.trips_note
module @infinity {
  func.func @main(%x: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %a = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %n = stablehlo.convert %a : (tensor<f32>) -> tensor<i32>
    %w = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %w : tensor<i32>
  }
}

// -----

/// and a complex number is not read.

// CHECK-LABEL: module @complex
// CHECK: hespas.trips = 1 : i64, hespas.trips_note
module @complex {
  func.func @main(%x: tensor<i32>) -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %z = stablehlo.constant dense<(1.0, 2.0)> : tensor<complex<f32>>
    %a = stablehlo.constant dense<5> : tensor<i32>
    %b = stablehlo.constant dense<6> : tensor<i32>
    %p = stablehlo.compare EQ, %z, %z : (tensor<complex<f32>>, tensor<complex<f32>>) -> tensor<i1>
    %n = stablehlo.select %p, %a, %b : tensor<i1>, tensor<i32>
    %w = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %w : tensor<i32>
  }
}

// -----

/// The bindings read no single elements of 4 bits.

// CHECK-LABEL: module @narrow
// CHECK: trips_note = "trip count 1 assumed: it depends on data"
module @narrow {
  func.func @main(%x: tensor<i32>) -> tensor<i32> {
    %table = stablehlo.constant dense<[3, 5, 7, 2]> : tensor<4xi4>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %k = stablehlo.constant dense<1> : tensor<i32>
    %part = stablehlo.dynamic_slice %table, %k, sizes = [1] : (tensor<4xi4>, tensor<i32>) -> tensor<1xi4>
    %m = stablehlo.reshape %part : (tensor<1xi4>) -> tensor<i4>
    %n = stablehlo.convert %m : (tensor<i4>) -> tensor<i32>
    %w = stablehlo.while(%i = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j : tensor<i32>
    }
    return %w : tensor<i32>
  }
}
