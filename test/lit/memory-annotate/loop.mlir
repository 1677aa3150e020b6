// RUN: hespas-opt %s --split-input-file --memory-annotate=model-fusion=false | filecheck %s

/// A loop: its values are carried in one buffer each, however often it runs. %x cannot be written
/// over, so the first carry is a copy of it; %w stays where it is. Inside, one product of 4 KB is
/// made while the value before is still read.
// CHECK: module @product
// CHECK-SAME: argument_bytes = 8192 : i64
// CHECK-SAME: live_bytes = 16388 : i64
// CHECK-SAME: peak_bytes = 16388 : i64
module @product {
  func.func @main(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:3 = stablehlo.while(%i = %zero, %a = %x, %b = %w) : tensor<i32>, tensor<32x32xf32>, tensor<32x32xf32>
    cond {
      %n = stablehlo.constant dense<1000> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %p = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %p, %b : tensor<i32>, tensor<32x32xf32>, tensor<32x32xf32>
    }
    return %0#1 : tensor<32x32xf32>
  }
}

// -----

/// Rows are written into the carried buffer in place: beside arguments and carries there is only the
/// condition's byte.
// CHECK: module @stack
// CHECK-SAME: peak_bytes = 8325 : i64
module @stack {
  func.func @main(%row: tensor<1x32xf32>, %w: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %init = stablehlo.constant dense<0.0> : tensor<32x32xf32>
    %0:2 = stablehlo.while(%i = %zero, %a = %init) : tensor<i32>, tensor<32x32xf32>
    cond {
      %n = stablehlo.constant dense<32> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %none = stablehlo.constant dense<0> : tensor<i32>
      %u = stablehlo.dynamic_update_slice %a, %row, %i, %none : (tensor<32x32xf32>, tensor<1x32xf32>, tensor<i32>, tensor<i32>) -> tensor<32x32xf32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %u : tensor<i32>, tensor<32x32xf32>
    }
    return %0#1 : tensor<32x32xf32>
  }
}

// -----

/// Of two branches the one that needs more counts: here that with a product of 4 KB inside.
// CHECK: module @branch
// CHECK-SAME: live_bytes = 12289 : i64
// CHECK-SAME: op = "stablehlo.dot_general"
module @branch {
  func.func @main(%p: tensor<i1>, %x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = "stablehlo.if"(%p) ({
      %a = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %b = stablehlo.dot_general %a, %x, contracting_dims = [1] x [0] : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      stablehlo.return %b : tensor<32x32xf32>
    }, {
      %a = stablehlo.tanh %x : tensor<32x32xf32>
      stablehlo.return %a : tensor<32x32xf32>
    }) : (tensor<i1>) -> tensor<32x32xf32>
    return %0 : tensor<32x32xf32>
  }
}
