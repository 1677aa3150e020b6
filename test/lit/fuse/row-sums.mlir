// RUN: hespas-opt %s --fuse=target=H100_80GB --split-input-file | filecheck %s

/// The gradient of a softmax in bf16. XLA keeps the sums of rows in a kernel of their own: what its simplifier
/// leaves unread, a broadcast of the sums in bf16, counts as a reader in its model.

// CHECK-LABEL: module @bf16
module @bf16 {
  // CHECK: %[[S:.*]] = "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: (tensor<4096x4096xbf16>) -> tensor<4096xf32>
  // CHECK: "mhlo.fusion"(%arg0, %[[S]]) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK-NOT: mhlo.fusion"
  // CHECK: return
  func.func public @main(%arg0: tensor<4096x4096xbf16>) -> (tensor<4096x4096xbf16>) {
    %cst = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [1] : (tensor<4096x4096xbf16>, tensor<bf16>) -> tensor<4096xbf16>
    %cst_0 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<4096xbf16>
    %2 = stablehlo.maximum %1, %0 : tensor<4096xbf16>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<4096xbf16>) -> tensor<4096x1xbf16>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<4096x1xbf16>) -> tensor<4096x4096xbf16>
    %5 = stablehlo.subtract %arg0, %4 : tensor<4096x4096xbf16>
    %6 = stablehlo.exponential %5 : tensor<4096x4096xbf16>
    %7 = stablehlo.convert %6 : (tensor<4096x4096xbf16>) -> tensor<4096x4096xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %8 = stablehlo.reduce(%7 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<4096x4096xf32>, tensor<f32>) -> tensor<4096xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0] : (tensor<4096xf32>) -> tensor<4096x1xf32>
    %10 = stablehlo.convert %9 : (tensor<4096x1xf32>) -> tensor<4096x1xbf16>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<4096x1xbf16>) -> tensor<4096x4096xbf16>
    %12 = stablehlo.divide %6, %11 : tensor<4096x4096xbf16>
    %13 = stablehlo.multiply %10, %10 : tensor<4096x1xbf16>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %14 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<bf16>) -> tensor<4096x1xbf16>
    %15 = stablehlo.divide %14, %13 : tensor<4096x1xbf16>
    %16 = stablehlo.convert %12 : (tensor<4096x4096xbf16>) -> tensor<4096x4096xf32>
    %17 = stablehlo.tanh %16 : tensor<4096x4096xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<4096x4096xf32>
    %19 = stablehlo.multiply %18, %17 : tensor<4096x4096xf32>
    %20 = stablehlo.convert %19 : (tensor<4096x4096xf32>) -> tensor<4096x4096xbf16>
    %21 = stablehlo.broadcast_in_dim %15, dims = [0, 1] : (tensor<4096x1xbf16>) -> tensor<4096x4096xbf16>
    %22 = stablehlo.multiply %20, %21 : tensor<4096x4096xbf16>
    %23 = stablehlo.multiply %22, %6 : tensor<4096x4096xbf16>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %24 = stablehlo.reduce(%23 init: %cst_4) applies stablehlo.add across dimensions = [1] : (tensor<4096x4096xbf16>, tensor<bf16>) -> tensor<4096xbf16>
    %25 = stablehlo.reshape %24 : (tensor<4096xbf16>) -> tensor<4096x1xbf16>
    %26 = stablehlo.negate %25 : tensor<4096x1xbf16>
    %27 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<4096x1xbf16>) -> tensor<4096x4096xbf16>
    %28 = stablehlo.divide %20, %27 : tensor<4096x4096xbf16>
    %29 = stablehlo.convert %26 : (tensor<4096x1xbf16>) -> tensor<4096x1xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %30 = stablehlo.reduce(%29 init: %cst_5) applies stablehlo.add across dimensions = [1] : (tensor<4096x1xf32>, tensor<f32>) -> tensor<4096xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0] : (tensor<4096xf32>) -> tensor<4096x4096xf32>
    %32 = stablehlo.convert %31 : (tensor<4096x4096xf32>) -> tensor<4096x4096xbf16>
    %33 = stablehlo.add %28, %32 : tensor<4096x4096xbf16>
    %34 = stablehlo.multiply %33, %6 : tensor<4096x4096xbf16>
    return %34 : tensor<4096x4096xbf16>
  }
}

// -----

/// A softmax in f32 and its gradient: two kernels would compute the exponentials of each row twice, which takes
/// longer than a kernel for the sums. Equal ops of a kernel count as often as they have been fused.

// CHECK-LABEL: module @f32
module @f32 {
  // CHECK: %[[S:.*]] = "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: (tensor<32x2048x2048xf32>) -> tensor<32x2048xf32>
  // CHECK: "mhlo.fusion"(%arg0, %[[S]]) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: "mhlo.fusion"(%arg0, %[[S]], %arg1) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK-NOT: mhlo.fusion"
  // CHECK: return
  func.func public @main(%arg0: tensor<32x2048x2048xf32>, %arg1: tensor<32x2048x2048xf32>) -> (tensor<32x2048x2048xf32>, tensor<32x2048x2048xf32>) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<32x2048x2048xf32>, tensor<f32>) -> tensor<32x2048xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<32x2048xf32>
    %2 = stablehlo.maximum %1, %0 : tensor<32x2048xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<32x2048xf32>) -> tensor<32x2048x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<32x2048x1xf32>) -> tensor<32x2048x2048xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<32x2048x2048xf32>
    %6 = stablehlo.exponential %5 : tensor<32x2048x2048xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<32x2048x2048xf32>, tensor<f32>) -> tensor<32x2048xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<32x2048xf32>) -> tensor<32x2048x1xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<32x2048x1xf32>) -> tensor<32x2048x2048xf32>
    %10 = stablehlo.divide %6, %9 : tensor<32x2048x2048xf32>
    %11 = stablehlo.multiply %8, %8 : tensor<32x2048x1xf32>
    %cst_2 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<32x2048x1xf32>
    %13 = stablehlo.divide %12, %11 : tensor<32x2048x1xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<32x2048x1xf32>) -> tensor<32x2048x2048xf32>
    %15 = stablehlo.multiply %arg1, %14 : tensor<32x2048x2048xf32>
    %16 = stablehlo.multiply %15, %6 : tensor<32x2048x2048xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %17 = stablehlo.reduce(%16 init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<32x2048x2048xf32>, tensor<f32>) -> tensor<32x2048xf32>
    %18 = stablehlo.reshape %17 : (tensor<32x2048xf32>) -> tensor<32x2048x1xf32>
    %19 = stablehlo.negate %18 : tensor<32x2048x1xf32>
    %20 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<32x2048x1xf32>) -> tensor<32x2048x2048xf32>
    %21 = stablehlo.divide %arg1, %20 : tensor<32x2048x2048xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %22 = stablehlo.reduce(%19 init: %cst_4) applies stablehlo.add across dimensions = [2] : (tensor<32x2048x1xf32>, tensor<f32>) -> tensor<32x2048xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1] : (tensor<32x2048xf32>) -> tensor<32x2048x2048xf32>
    %24 = stablehlo.add %21, %23 : tensor<32x2048x2048xf32>
    %25 = stablehlo.multiply %24, %6 : tensor<32x2048x2048xf32>
    return %10, %25 : tensor<32x2048x2048xf32>, tensor<32x2048x2048xf32>
  }
}
