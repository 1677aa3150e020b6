// RUN: hespas-opt %s --memory-annotate --split-input-file | filecheck %s

/// Names of arguments tell parameters and optimizer state from the batch, names of ops what is made
/// in the forward pass and read in the backward pass.
// CHECK: activation_bytes = 512 : i64
// CHECK-SAME: argument_bytes = 8704 : i64
// CHECK-SAME: location = "jit(step)/transpose(jvp(layer))/dot_general"
// CHECK-SAME: optimizer_bytes = 4096 : i64
// CHECK-SAME: parameter_bytes = 4096 : i64
#w = loc("state.params['layer']['kernel']")
#m = loc("state.opt_state[0].mu['layer']['kernel']")
#x = loc("batch['inputs']")
#forward = loc("jit(step)/jvp(layer)/dot_general")
#backward = loc("jit(step)/transpose(jvp(layer))/dot_general")
func.func @main(%w: tensor<32x32xf32> loc(#w), %m: tensor<32x32xf32> loc(#m), %x: tensor<4x32xf32> loc(#x)) -> (tensor<32x32xf32>) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x32xf32>, tensor<32x32xf32>) -> tensor<4x32xf32> loc(#forward)
  %1 = stablehlo.dot_general %0, %0, contracting_dims = [0] x [0] : (tensor<4x32xf32>, tensor<4x32xf32>) -> tensor<32x32xf32> loc(#backward)
  return %1 : tensor<32x32xf32>
}

// -----

/// The first word tells: a layer may be called mu.
// CHECK: optimizer_bytes = 128 : i64
// CHECK-SAME: parameter_bytes = 4096 : i64
#w = loc("params['mu']['kernel']")
#m = loc("opt_state[0].nu['params']")
func.func @main(%w: tensor<32x32xf32> loc(#w), %m: tensor<32xf32> loc(#m)) -> tensor<32x32xf32> {
  %0 = stablehlo.broadcast_in_dim %m, dims = [1] : (tensor<32xf32>) -> tensor<32x32xf32>
  %1 = stablehlo.add %w, %0 : tensor<32x32xf32>
  return %1 : tensor<32x32xf32>
}

// -----

/// What is made in the backward pass is no activation, nor is what the forward pass reads alone: of four products at the
/// peak, the first and the last are activations.
// CHECK: activation_bytes = 8192 : i64
// CHECK-SAME: live_bytes = 20480 : i64
// CHECK-SAME: temporary_bytes = 16384 : i64
#w = loc("params['w']")
#forward = loc("jit(step)/jvp(layer)/dot_general")
#backward = loc("jit(step)/transpose(jvp(layer))/dot_general")
func.func @main(%w: tensor<32x32xf32> loc(#w)) -> tensor<32x32xf32> {
  %0 = stablehlo.dot %w, %w : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc(#forward)
  %1 = stablehlo.dot %w, %0 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc(#forward)
  %2 = stablehlo.dot %w, %0 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc(#backward)
  %3 = stablehlo.dot %1, %w : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc(#forward)
  %4 = stablehlo.dot %3, %0 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc(#backward)
  %5 = stablehlo.dot %2, %4 : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32> loc(#backward)
  return %5 : tensor<32x32xf32>
}
