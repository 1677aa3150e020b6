// RUN: hespas-opt %s --split-input-file --memory-annotate | filecheck %s

/// The result takes the argument's memory: nothing is added.
// CHECK: module @alias
// CHECK-SAME: argument_bytes = 4096 : i64
// CHECK-SAME: peak_bytes = 4096 : i64
// CHECK-SAME: temporary_bytes = 0 : i64
module @alias {
  func.func @main(%cache: tensor<32x32xf32> {tf.aliasing_output = 0 : i32}) -> tensor<32x32xf32> {
    %0 = stablehlo.tanh %cache : tensor<32x32xf32>
    return %0 : tensor<32x32xf32>
  }
}

// -----

/// Without donation the argument stays the caller's.
// CHECK: module @kept
// CHECK-SAME: argument_bytes = 4096 : i64
// CHECK-SAME: peak_bytes = 8192 : i64
// CHECK-SAME: result_bytes = 4096 : i64
module @kept {
  func.func @main(%cache: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = stablehlo.tanh %cache : tensor<32x32xf32>
    return %0 : tensor<32x32xf32>
  }
}

// -----

/// An argument that names no result of the program stays the caller's.
// CHECK: module @no_result
// CHECK-SAME: peak_bytes = 8192 : i64
module @no_result {
  func.func @main(%cache: tensor<32x32xf32> {tf.aliasing_output = -1 : i32}) -> tensor<32x32xf32> {
    %0 = stablehlo.tanh %cache : tensor<32x32xf32>
    return %0 : tensor<32x32xf32>
  }
}

// -----

/// An update in place: the cache takes no more than itself, beside the row.
// CHECK: module @donor
// CHECK-SAME: peak_bytes = 4224 : i64
module @donor {
  func.func @main(%cache: tensor<32x32xf32> {jax.buffer_donor = true}, %row: tensor<1x32xf32>) -> tensor<32x32xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_update_slice %cache, %row, %zero, %zero : (tensor<32x32xf32>, tensor<1x32xf32>, tensor<i32>, tensor<i32>) -> tensor<32x32xf32>
    return %0 : tensor<32x32xf32>
  }
}

// -----

/// The module says so, as XLA's importer writes it. The argument is read once more after its
/// successor is made, which therefore needs 4 KB beside it until then.
// CHECK: module @late
// CHECK-SAME: argument_bytes = 8192 : i64
// CHECK-SAME: live_bytes = 12292 : i64
// CHECK-SAME: peak_bytes = 12292 : i64
// CHECK-SAME: result_bytes = 4 : i64
module @late attributes {mhlo.input_output_alias = [{alias = {kind = "may_alias", parameter_index = array<i64>, parameter_number = 0 : i64}, output_index = array<i64: 0>}]} {
  func.func @main(%x: tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<f32>) {
    %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %2 = stablehlo.dot_general %1, %x, contracting_dims = [0, 1] x [0, 1] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<f32>
    return %0, %2 : tensor<32x32xf32>, tensor<f32>
  }
}

// -----

/// The only result has no index. A number that is none of an argument or a result is ignored.
// CHECK: module @only
// CHECK-SAME: peak_bytes = 4096 : i64
module @only attributes {mhlo.input_output_alias = [{alias = {kind = "may_alias", parameter_index = array<i64>, parameter_number = 0 : i64}, output_index = array<i64>}, {alias = {kind = "may_alias", parameter_index = array<i64>, parameter_number = 3 : i64}, output_index = array<i64: 0>}]} {
  func.func @main(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = stablehlo.tanh %x : tensor<32x32xf32>
    return %0 : tensor<32x32xf32>
  }
}

// -----

/// A donor takes a result that no other argument has. An argument that is said to be none is kept.
// CHECK: module @donors
// CHECK-SAME: argument_bytes = 12288 : i64
// CHECK-SAME: peak_bytes = 12288 : i64
module @donors {
  func.func @main(%x: tensor<32x32xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<32x32xf32> {jax.buffer_donor = true}, %z: tensor<32x32xf32> {jax.buffer_donor = false}) -> (tensor<32x32xf32>, tensor<32x32xf32>) {
    %0 = stablehlo.add %x, %z : tensor<32x32xf32>
    %1 = stablehlo.add %y, %z : tensor<32x32xf32>
    return %0, %1 : tensor<32x32xf32>, tensor<32x32xf32>
  }
}

// -----

/// Here the result takes the buffer of the product while the argument is still read: the product is no argument.
// CHECK: module @other_buffer
// CHECK-SAME: argument_bytes = 8192 : i64
// CHECK-SAME: live_bytes = 12288 : i64
// CHECK-SAME: temporary_bytes = 4096 : i64
module @other_buffer {
  func.func @main(%x: tensor<32x32xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = stablehlo.dot %x, %y : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = stablehlo.add %0, %x : tensor<32x32xf32>
    return %1 : tensor<32x32xf32>
  }
}

// -----

// CHECK: module @no_donor
// CHECK-SAME: peak_bytes = 8192 : i64
module @no_donor {
  func.func @main(%x: tensor<32x32xf32> {jax.buffer_donor = false}) -> tensor<32x32xf32> {
    %0 = stablehlo.tanh %x : tensor<32x32xf32>
    return %0 : tensor<32x32xf32>
  }
}

// -----

/// A loop of training steps carries the donated parameters and the state of the optimizer, and writes over them: what
/// they are in the loop is what they are outside. Beside them there are the counter and the condition's byte.
// CHECK: argument_bytes = 8192 : i64
// CHECK-SAME: optimizer_bytes = 4096 : i64
// CHECK-SAME: parameter_bytes = 4096 : i64
// CHECK-SAME: temporary_bytes = 5 : i64
#w = loc("params['w']")
#m = loc("opt_state.mu['w']")
func.func @main(%w: tensor<32x32xf32> {tf.aliasing_output = 0 : i32} loc(#w), %m: tensor<32x32xf32> {tf.aliasing_output = 1 : i32} loc(#m)) -> (tensor<32x32xf32>, tensor<32x32xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:3 = stablehlo.while(%i = %zero, %a = %w, %b = %m) : tensor<i32>, tensor<32x32xf32>, tensor<32x32xf32>
  cond {
    %n = stablehlo.constant dense<10> : tensor<i32>
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %1 = stablehlo.add %b, %a : tensor<32x32xf32>
    %2 = stablehlo.tanh %1 : tensor<32x32xf32>
    %3 = stablehlo.add %a, %2 : tensor<32x32xf32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %3, %2 : tensor<i32>, tensor<32x32xf32>, tensor<32x32xf32>
  }
  return %0#1, %0#2 : tensor<32x32xf32>, tensor<32x32xf32>
}
