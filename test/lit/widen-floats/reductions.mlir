// RUN: hespas-opt %s --widen-floats=target=A100_SXM_40GB --split-input-file | filecheck %s
// RUN: hespas-opt %s --widen-floats=target=A100_SXM_40GB --widen-floats=target=A100_SXM_40GB --split-input-file | filecheck %s

/// Nothing of a reduction is left behind. Where its body does more than one op that a GPU cannot compute in bf16, it
/// narrows what it reads and widens what it returns.

// CHECK-LABEL: module @body
// CHECK: stablehlo.reduce
// CHECK-NEXT: reducer(%[[A:.*]]: tensor<f32>, %[[B:.*]]: tensor<f32>)
// CHECK-DAG: %[[P:.*]] = stablehlo.convert %[[A]] : (tensor<f32>) -> tensor<bf16>
// CHECK-DAG: %[[Q:.*]] = stablehlo.convert %[[B]] : (tensor<f32>) -> tensor<bf16>
// CHECK: %[[S:.*]] = stablehlo.add %[[P]], %[[Q]] : tensor<bf16>
// CHECK-NEXT: %[[T:.*]] = stablehlo.abs %[[S]] : tensor<bf16>
// CHECK-NEXT: %[[W:.*]] = stablehlo.convert %[[T]] : (tensor<bf16>) -> tensor<f32>
// CHECK-NEXT: stablehlo.return %[[W]]
// CHECK-NOT: stablehlo.reduce
module @body {
  func.func @main(%x: tensor<8x16xbf16>) -> tensor<8xbf16> {
    %zero = stablehlo.constant dense<0.0> : tensor<bf16>
    %0 = stablehlo.reduce(%x init: %zero) across dimensions = [1] : (tensor<8x16xbf16>, tensor<bf16>) -> tensor<8xbf16>
      reducer(%a: tensor<bf16>, %b: tensor<bf16>) {
        %s = stablehlo.add %a, %b : tensor<bf16>
        %t = stablehlo.abs %s : tensor<bf16>
        stablehlo.return %t : tensor<bf16>
      }
    return %0 : tensor<8xbf16>
  }
}

// -----

/// A conversion of the value to another type than f32 is no help.

// CHECK-LABEL: module @other_type
// CHECK: stablehlo.convert %arg0 : (tensor<8xbf16>) -> tensor<8xi32>
// CHECK: %[[W:.*]] = stablehlo.convert %arg0 : (tensor<8xbf16>) -> tensor<8xf32>
// CHECK: stablehlo.tanh %[[W]] : tensor<8xf32>
module @other_type {
  func.func @main(%x: tensor<8xbf16>) -> (tensor<8xi32>, tensor<8xbf16>) {
    %0 = stablehlo.convert %x : (tensor<8xbf16>) -> tensor<8xi32>
    %1 = stablehlo.tanh %x : tensor<8xbf16>
    return %0, %1 : tensor<8xi32>, tensor<8xbf16>
  }
}
