// RUN: hespas-opt %s --copy-kept-values --split-input-file | filecheck %s
// RUN: hespas-opt %s --copy-kept-values --copy-kept-values --split-input-file | filecheck %s

/// What a fusion only reads, or returns as it is, is not copied.

// CHECK-LABEL: module @read
module @read {
  // CHECK: %[[C:.*]] = mhlo.copy %arg0 : tensor<8xf32>
  // CHECK-NOT: mhlo.copy
  // CHECK: "mhlo.fusion"(%[[C]], %arg1)
  func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %0:2 = "mhlo.fusion"(%x, %y) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %c = stablehlo.slice %b [2:3] : (tensor<8xf32>) -> tensor<1xf32>
      %d = stablehlo.dynamic_update_slice %a, %c, %zero : (tensor<8xf32>, tensor<1xf32>, tensor<i32>) -> tensor<8xf32>
      mhlo.return %d, %b : tensor<8xf32>, tensor<8xf32>
    }) : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    return %0#0, %0#1 : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

/// What a scatter does not depend on runs before it, also if a fusion ends with the scatter; what a slice update does not
/// depend on may run after.

// CHECK-LABEL: module @rows
module @rows {
  // CHECK: %[[A:.*]] = stablehlo.add
  // CHECK-NOT: mhlo.copy
  // CHECK: "mhlo.fusion"(%[[A]], %arg1)
  // CHECK: %[[B:.*]] = stablehlo.multiply
  // CHECK: %[[C:.*]] = mhlo.copy %[[B]]
  // CHECK-NEXT: "mhlo.fusion"(%[[C]])
  func.func @main(%x: tensor<8xf32>, %i: tensor<2x1xi32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
    %0 = stablehlo.add %x, %x : tensor<8xf32>
    %1 = "mhlo.fusion"(%0, %i) <{fusion_kind = #mhlo<fusion_kind kInput>}> ({
    ^bb0(%a: tensor<8xf32>, %p: tensor<2x1xi32>):
      %one = stablehlo.constant dense<1.0> : tensor<2xf32>
      %d = "stablehlo.scatter"(%a, %p, %one) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%l: tensor<f32>, %r: tensor<f32>):
        stablehlo.return %r : tensor<f32>
      }) : (tensor<8xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<8xf32>
      mhlo.return %d : tensor<8xf32>
    }) : (tensor<8xf32>, tensor<2x1xi32>) -> tensor<8xf32>
    %2 = stablehlo.tanh %0 : tensor<8xf32>
    %3 = stablehlo.multiply %x, %x : tensor<8xf32>
    %4 = "mhlo.fusion"(%3) <{fusion_kind = #mhlo<fusion_kind kLoop>}> ({
    ^bb0(%a: tensor<8xf32>):
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1.0> : tensor<1xf32>
      %d = stablehlo.dynamic_update_slice %a, %one, %zero : (tensor<8xf32>, tensor<1xf32>, tensor<i32>) -> tensor<8xf32>
      mhlo.return %d : tensor<8xf32>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %5 = stablehlo.tanh %3 : tensor<8xf32>
    return %1, %2, %4, %5 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
}

// -----

/// What reads a donated argument runs before the update.

// CHECK-LABEL: module @donated
module @donated {
  // CHECK-NOT: mhlo.copy
  // CHECK: stablehlo.dynamic_update_slice %arg0
  func.func @main(%x: tensor<8xf32> {tf.aliasing_output = 0 : i32}, %u: tensor<1xf32>, %i: tensor<i32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %0 = stablehlo.dynamic_update_slice %x, %u, %i : (tensor<8xf32>, tensor<1xf32>, tensor<i32>) -> tensor<8xf32>
    %1 = stablehlo.tanh %x : tensor<8xf32>
    return %0, %1 : tensor<8xf32>, tensor<8xf32>
  }
}
