// RUN: hespas-opt %s --copy-kept-values --split-input-file | filecheck %s
// RUN: hespas-opt %s --copy-kept-values --copy-kept-values --split-input-file | filecheck %s

/// Of the ops that write to a value, only the last does so in place; equal elements are made again instead.

// CHECK-LABEL: module @writers
module @writers {
  // CHECK: %[[T:.*]] = stablehlo.tanh
  // CHECK: %[[C:.*]] = mhlo.copy %[[T]]
  // CHECK-NEXT: stablehlo.dynamic_update_slice %[[C]]
  // CHECK-NEXT: stablehlo.dynamic_update_slice %[[T]]
  // CHECK: %[[Z:.*]] = stablehlo.constant
  // CHECK-NEXT: %[[Y:.*]] = stablehlo.constant
  // CHECK-NEXT: stablehlo.dynamic_update_slice %[[Y]]
  // CHECK-NEXT: stablehlo.dynamic_update_slice %[[Z]]
  // CHECK-NOT: mhlo.copy
  func.func @main(%x: tensor<8x4xf32>, %u: tensor<1x4xf32>, %i: tensor<i32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) {
    %t = stablehlo.tanh %x : tensor<8x4xf32>
    %0 = stablehlo.dynamic_update_slice %t, %u, %i, %i : (tensor<8x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
    %1 = stablehlo.dynamic_update_slice %t, %u, %i, %i : (tensor<8x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
    %z = stablehlo.constant dense<0.0> : tensor<8x4xf32>
    %2 = stablehlo.dynamic_update_slice %z, %u, %i, %i : (tensor<8x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
    %3 = stablehlo.dynamic_update_slice %z, %u, %i, %i : (tensor<8x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
    return %0, %1, %2, %3 : tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
  }
}

// -----

/// What an update does not depend on may run after it, also what reads a view; what it depends on runs before.

// CHECK-LABEL: module @readers
module @readers {
  // CHECK: %[[A:.*]] = stablehlo.tanh
  // CHECK-NEXT: %[[B:.*]] = mhlo.copy %[[A]]
  // CHECK-NEXT: stablehlo.dynamic_update_slice %[[B]]
  // CHECK: %[[C:.*]] = stablehlo.cosine
  // CHECK: stablehlo.dynamic_update_slice %[[C]]
  // CHECK: %[[D:.*]] = stablehlo.sine
  // CHECK-NEXT: %[[E:.*]] = mhlo.copy %[[D]]
  // CHECK-NEXT: stablehlo.dynamic_update_slice %[[E]]
  // CHECK-NOT: mhlo.copy
  func.func @main(%x: tensor<8x4xf32>, %u: tensor<1x4xf32>, %i: tensor<i32>) -> (tensor<8x4xf32>, tensor<32xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) {
    %a = stablehlo.tanh %x : tensor<8x4xf32>
    %0 = stablehlo.dynamic_update_slice %a, %u, %i, %i : (tensor<8x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
    %v = stablehlo.reshape %a : (tensor<8x4xf32>) -> tensor<32xf32>
    %1 = stablehlo.negate %v : tensor<32xf32>
    %b = stablehlo.cosine %x : tensor<8x4xf32>
    %2 = stablehlo.slice %b [0:1, 0:4] : (tensor<8x4xf32>) -> tensor<1x4xf32>
    %3 = stablehlo.dynamic_update_slice %b, %2, %i, %i : (tensor<8x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
    %d = stablehlo.sine %x : tensor<8x4xf32>
    %4 = stablehlo.dynamic_update_slice %d, %u, %i, %i : (tensor<8x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
    return %0, %1, %3, %4, %d : tensor<8x4xf32>, tensor<32xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
  }
}

// -----

/// A scatter writes in place unless what reads the value needs its result.

// CHECK-LABEL: module @scatters
module @scatters {
  // CHECK: %[[A:.*]] = stablehlo.tanh
  // CHECK-NOT: mhlo.copy
  // CHECK: "stablehlo.scatter"(%[[A]]
  // CHECK: %[[B:.*]] = stablehlo.cosine
  // CHECK: %[[C:.*]] = mhlo.copy %[[B]]
  // CHECK: "stablehlo.scatter"(%[[C]]
  // CHECK-NOT: mhlo.copy
  func.func @main(%x: tensor<8xf32>, %u: tensor<2xf32>, %i: tensor<2x1xi32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
    %a = stablehlo.tanh %x : tensor<8xf32>
    %0 = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      stablehlo.return %q : tensor<f32>
    }) : (tensor<8xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<8xf32>
    %1 = stablehlo.negate %a : tensor<8xf32>
    %b = stablehlo.cosine %x : tensor<8xf32>
    %2 = "stablehlo.scatter"(%b, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      stablehlo.return %q : tensor<f32>
    }) : (tensor<8xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<8xf32>
    %3 = stablehlo.add %2, %b : tensor<8xf32>
    return %0, %1, %3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
}

// -----

/// A loop that changes a value is like an update, also of a donated argument.

// CHECK-LABEL: module @changed
module @changed {
  // CHECK: %[[C:.*]] = mhlo.copy %arg0
  // CHECK: stablehlo.while({{.*}} = %[[C]])
  func.func @main(%x: tensor<8xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<8xf32>, tensor<8xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %s = %x) : tensor<i32>, tensor<8xf32>
    cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %ten, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %1 = stablehlo.tanh %s : tensor<8xf32>
      stablehlo.return %next, %1 : tensor<i32>, tensor<8xf32>
    }
    %2 = stablehlo.negate %x : tensor<8xf32>
    return %0#1, %2 : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

/// The body of a loop does not write to a value of the program around it, which the next step needs.

// CHECK-LABEL: module @loop
module @loop {
  // CHECK: %[[T:.*]] = stablehlo.tanh
  // CHECK: do {
  // CHECK: %[[C:.*]] = mhlo.copy %[[T]]
  // CHECK-NEXT: stablehlo.dynamic_update_slice %[[C]]
  // CHECK-NOT: mhlo.copy
  func.func @main(%x: tensor<8xf32>, %u: tensor<1xf32>) -> tensor<f32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %sum = stablehlo.constant dense<0.0> : tensor<f32>
    %t = stablehlo.tanh %x : tensor<8xf32>
    %0:2 = stablehlo.while(%i = %zero, %s = %sum) : tensor<i32>, tensor<f32>
    cond {
      %ten = stablehlo.constant dense<10> : tensor<i32>
      %lt = stablehlo.compare LT, %i, %ten, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %lt : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %1 = stablehlo.dynamic_update_slice %t, %u, %i : (tensor<8xf32>, tensor<1xf32>, tensor<i32>) -> tensor<8xf32>
      %2 = stablehlo.reduce(%1 init: %s) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
      stablehlo.return %next, %2 : tensor<i32>, tensor<f32>
    }
    return %0#1 : tensor<f32>
  }
}

// -----

/// Not before an update that is made of what is read, also by way of other ops: the update comes after.

// CHECK-LABEL: module @made_of_it
module @made_of_it {
  // CHECK-NOT: mhlo.copy
  // CHECK: return
  func.func @main(%x: tensor<64xf32>, %i: tensor<i32>) -> tensor<64xf32> {
    %0 = stablehlo.tanh %x : tensor<64xf32>
    %1 = stablehlo.dynamic_slice %0, %i, sizes = [4] : (tensor<64xf32>, tensor<i32>) -> tensor<4xf32>
    %2 = stablehlo.negate %1 : tensor<4xf32>
    %3 = stablehlo.dynamic_update_slice %0, %2, %i : (tensor<64xf32>, tensor<4xf32>, tensor<i32>) -> tensor<64xf32>
    return %3 : tensor<64xf32>
  }
}
