// RUN: hespas-opt %s --roofline-annotate=node=TPUv6e | filecheck %s

/// A window of 3 combines two pairs for each result; a running window one for each element; and one that covers all
/// elements of some dimensions for each result is a reduction of these, as XLA for TPUs writes the maximum of a softmax.

func.func @main(%x: tensor<8x64xf32>) -> (tensor<8x62xf32>, tensor<8x64xf32>, tensor<8x64xf32>, tensor<8x1xf32>, tensor<8x64xf32>, tensor<8x64xf32>) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  // CHECK: stablehlo.reduce_window
  // CHECK: }) {{.*}} flops = 992 : i64
  %0 = "stablehlo.reduce_window"(%x, %low) <{window_dimensions = array<i64: 1, 3>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x62xf32>
  // CHECK: }) {{.*}} flops = 512 : i64
  %1 = "stablehlo.reduce_window"(%x, %low) <{window_dimensions = array<i64: 1, 64>, padding = dense<[[0, 0], [63, 0]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xf32>
  // CHECK: }) {{.*}} flops = 504 : i64
  %2 = "stablehlo.reduce_window"(%x, %low) <{window_dimensions = array<i64: 1, 127>, padding = dense<[[0, 0], [63, 63]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xf32>
  // CHECK: }) {{.*}} flops = 504 : i64
  %3 = "stablehlo.reduce_window"(%x, %low) <{window_dimensions = array<i64: 1, 64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x1xf32>
  // CHECK: }) {{.*}} flops = 511 : i64
  %4 = "stablehlo.reduce_window"(%x, %low) <{window_dimensions = array<i64: 15, 127>, padding = dense<[[7, 7], [63, 63]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xf32>
  /// A window that lacks one element at an end combines as many as it is long.
  // CHECK: }) {{.*}} flops = 64000 : i64
  %5 = "stablehlo.reduce_window"(%x, %low) <{window_dimensions = array<i64: 1, 126>, padding = dense<[[0, 0], [62, 63]]> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %m = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %m : tensor<f32>
  }) : (tensor<8x64xf32>, tensor<f32>) -> tensor<8x64xf32>
  return %0, %1, %2, %3, %4, %5 : tensor<8x62xf32>, tensor<8x64xf32>, tensor<8x64xf32>, tensor<8x1xf32>, tensor<8x64xf32>, tensor<8x64xf32>
}
