// RUN: hespas-opt %s --expand-selections --split-input-file | filecheck %s
// RUN: hespas-opt %s --expand-selections --expand-selections --split-input-file | filecheck %s

/// An op stays that selects by more than one comparison, by one of other operands than its arguments in
/// order, or that does not add.

// CHECK-LABEL: module @two_steps
module @two_steps {
  // CHECK: stablehlo.select_and_scatter
  func.func @main(%x: tensor<2x9x9x4xf32>, %g: tensor<2x4x4x4xf32>, %zero: tensor<f32>) -> tensor<2x9x9x4xf32> {
    %0 = "stablehlo.select_and_scatter"(%x, %g, %zero) <{window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %d = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %c = stablehlo.not %d : tensor<i1>
      stablehlo.return %c : tensor<i1>
    }, {
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) : (tensor<2x9x9x4xf32>, tensor<2x4x4x4xf32>, tensor<f32>) -> tensor<2x9x9x4xf32>
    return %0 : tensor<2x9x9x4xf32>
  }
}

// -----

// CHECK-LABEL: module @swapped
module @swapped {
  // CHECK: stablehlo.select_and_scatter
  func.func @main(%x: tensor<2x9x9x4xf32>, %g: tensor<2x4x4x4xf32>, %zero: tensor<f32>) -> tensor<2x9x9x4xf32> {
    %0 = "stablehlo.select_and_scatter"(%x, %g, %zero) <{window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.compare GE, %b, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }, {
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) : (tensor<2x9x9x4xf32>, tensor<2x4x4x4xf32>, tensor<f32>) -> tensor<2x9x9x4xf32>
    return %0 : tensor<2x9x9x4xf32>
  }
}

// -----

// CHECK-LABEL: module @maximum
module @maximum {
  // CHECK: stablehlo.select_and_scatter
  func.func @main(%x: tensor<2x9x9x4xf32>, %g: tensor<2x4x4x4xf32>, %zero: tensor<f32>) -> tensor<2x9x9x4xf32> {
    %0 = "stablehlo.select_and_scatter"(%x, %g, %zero) <{window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }, {
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) : (tensor<2x9x9x4xf32>, tensor<2x4x4x4xf32>, tensor<f32>) -> tensor<2x9x9x4xf32>
    return %0 : tensor<2x9x9x4xf32>
  }
}
