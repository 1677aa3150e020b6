// RUN: hespas-opt %s --fuse --split-input-file | filecheck %s

/// Rows that no block holds: the reduction in two steps, of which the second takes the rest of one
/// value along, and one loop.

// CHECK-LABEL: module @long_rows
module @long_rows {
  // CHECK: %[[S:.*]] = "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kInput>}>
  // CHECK: stablehlo.reduce
  // CHECK: %[[T:.*]] = "mhlo.fusion"(%[[S]]) <{fusion_kind = #mhlo<fusion_kind kInput>}>
  // CHECK: stablehlo.rsqrt
  // CHECK: "mhlo.fusion"({{.*}}%[[T]]{{.*}} <{fusion_kind = #mhlo<fusion_kind kLoop>}>
  // CHECK: stablehlo.multiply
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<64x32768xf32>) -> tensor<64x32768xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.multiply %x, %x : tensor<64x32768xf32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x32768xf32>, tensor<f32>) -> tensor<64xf32>
    %2 = stablehlo.rsqrt %1 : tensor<64xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<64xf32>) -> tensor<64x32768xf32>
    %4 = stablehlo.multiply %x, %3 : tensor<64x32768xf32>
    return %4 : tensor<64x32768xf32>
  }
}

// -----

/// What a block cannot reduce alone takes two steps; 802816 rows of 64 become 512 times 1568.

// CHECK-LABEL: module @tree
module @tree {
  // CHECK: stablehlo.reshape %arg0 {{.*}} -> tensor<512x1568x64xf32>
  // CHECK: stablehlo.reduce({{.*}} across dimensions = [1] {{.*}} -> tensor<512x64xf32>
  // CHECK: stablehlo.reduce({{.*}} across dimensions = [0] {{.*}} -> tensor<64xf32>
  func.func @main(%x: tensor<256x56x56x64xf32>) -> tensor<64xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<256x56x56x64xf32>, tensor<f32>) -> tensor<64xf32>
    return %0 : tensor<64xf32>
  }
}
