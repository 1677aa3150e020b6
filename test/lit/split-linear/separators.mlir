// RUN: hespas-opt %s --split-linear=separator=dot-general --split-input-file | filecheck %s
// RUN: hespas-opt %s --split-linear="separator=dot-general separator-policy=end-block" --split-input-file | filecheck %s --check-prefix=END
// RUN: hespas-opt %s --split-linear="separator=dot-general separator-policy=start-block" --split-input-file | filecheck %s --check-prefix=START
// RUN: hespas-opt %s --split-linear=separator=reduce --split-input-file | filecheck %s --check-prefix=REDUCE
// RUN: hespas-opt %s --split-linear=separator=convolution --split-input-file | filecheck %s --check-prefix=CONV
// RUN: hespas-opt %s --split-linear=separator=return --split-input-file | filecheck %s --check-prefix=RETURN

/// A separator is a region of its own, the last op of its region or the first, and only its kind cuts.

// CHECK-LABEL: module @product
// CHECK-SAME: separator = "dot-general", strategy = "linear"
// CHECK: call @region_0({{.*}}id = 0 : i64, ops = 2
// CHECK-NEXT: stablehlo.dot_general {{.*}}id = 1 : i64}
// CHECK-NEXT: stablehlo.tanh {{.*}}id = 2 : i64}
// END-LABEL: module @product
// END-SAME: separator = "dot-general", separator_policy = "end-block"
// END: id = 0 : i64, ops = 3
// END-NEXT: stablehlo.tanh {{.*}}id = 1 : i64}
// START-LABEL: module @product
// START: id = 0 : i64, ops = 2
// START-NEXT: id = 1 : i64, ops = 2
// REDUCE-LABEL: module @product
// REDUCE: id = 0 : i64, ops = 4
// CONV-LABEL: module @product
// CONV: id = 0 : i64, ops = 4
/// The terminator is in no region, so that it ends the last one in any case.
// RETURN-LABEL: module @product
// RETURN-SAME: separator = "return"
// RETURN: id = 0 : i64, ops = 4
module @product {
  func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = stablehlo.add %x, %x : tensor<4x4xf32>
    %1 = stablehlo.negate %0 : tensor<4x4xf32>
    %2 = stablehlo.dot_general %1, %1, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %3 = stablehlo.tanh %2 : tensor<4x4xf32>
    return %3 : tensor<4x4xf32>
  }
}

// -----

// REDUCE-LABEL: module @sum
// REDUCE: stablehlo.negate {{.*}}id = 0
// REDUCE: stablehlo.reduce({{.*}}id = 1
// CHECK-LABEL: module @sum
// CHECK: id = 0 : i64, ops = 2
module @sum {
  func.func @main(%x: tensor<4x4xf32>) -> tensor<4xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.negate %x : tensor<4x4xf32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}

// -----

// CONV-LABEL: module @filter
// CONV: stablehlo.negate {{.*}}id = 0
// CONV: stablehlo.convolution{{.*}}id = 1
// CHECK-LABEL: module @filter
// CHECK: id = 0 : i64, ops = 2
module @filter {
  func.func @main(%x: tensor<1x4x4x1xf32>, %w: tensor<3x3x1x1xf32>) -> tensor<1x2x2x1xf32> {
    %0 = stablehlo.negate %x : tensor<1x4x4x1xf32>
    %1 = stablehlo.convolution(%0, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x4x1xf32>, tensor<3x3x1x1xf32>) -> tensor<1x2x2x1xf32>
    return %1 : tensor<1x2x2x1xf32>
  }
}
