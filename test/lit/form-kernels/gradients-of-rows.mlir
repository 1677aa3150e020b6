// RUN: hespas-opt %s --form-kernels=target=H100_80GB --split-input-file | filecheck %s
// RUN: hespas-opt %s --form-kernels=target=H100_80GB --form-kernels=target=H100_80GB --split-input-file | filecheck %s

/// A softmax and its gradient. Of kernels whose fusion gains equally much, the newest fusion goes
/// first; the reshapes that add a dimension of size 1 do not hide that an op reads a value twice.

// CHECK-LABEL: module @softmax_and_gradient
module @softmax_and_gradient {
  // CHECK: %[[K0:[0-9]+]] = "mhlo.fusion"(%arg0)
  // CHECK: : (tensor<16x512x512xf32>) -> tensor<16x512x512xf32>
  // CHECK: %[[K1:[0-9]+]] = "mhlo.fusion"(%arg0, %arg1)
  // CHECK: : (tensor<16x512x512xf32>, tensor<16x512x512xf32>) -> tensor<16x512x512xf32>
  // CHECK-NOT: "mhlo.fusion"
  // CHECK: return
  func.func public @main(%arg0: tensor<16x512x512xf32>, %arg1: tensor<16x512x512xf32>) -> (tensor<16x512x512xf32>, tensor<16x512x512xf32>) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<16x512x512xf32>, tensor<f32>) -> tensor<16x512xf32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x512xf32>
    %2 = stablehlo.maximum %1, %0 : tensor<16x512xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<16x512xf32>) -> tensor<16x512x512xf32>
    %4 = stablehlo.subtract %arg0, %3 : tensor<16x512x512xf32>
    %5 = stablehlo.exponential %4 : tensor<16x512x512xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.reduce(%5 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<16x512x512xf32>, tensor<f32>) -> tensor<16x512xf32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<16x512xf32>) -> tensor<16x512x1xf32>
    %8 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<16x512xf32>) -> tensor<16x512x512xf32>
    %9 = stablehlo.divide %5, %8 : tensor<16x512x512xf32>
    %10 = stablehlo.multiply %7, %7 : tensor<16x512x1xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<16x512x1xf32>
    %12 = stablehlo.divide %11, %10 : tensor<16x512x1xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<16x512x1xf32>) -> tensor<16x512x512xf32>
    %14 = stablehlo.multiply %arg1, %13 : tensor<16x512x512xf32>
    %15 = stablehlo.multiply %14, %5 : tensor<16x512x512xf32>
    %16 = stablehlo.reduce(%15 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<16x512x512xf32>, tensor<f32>) -> tensor<16x512xf32>
    %17 = stablehlo.divide %arg1, %8 : tensor<16x512x512xf32>
    %18 = stablehlo.negate %16 : tensor<16x512xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1] : (tensor<16x512xf32>) -> tensor<16x512x512xf32>
    %20 = stablehlo.add %17, %19 : tensor<16x512x512xf32>
    %21 = stablehlo.multiply %20, %5 : tensor<16x512x512xf32>
    return %9, %21 : tensor<16x512x512xf32>, tensor<16x512x512xf32>
  }
}

// -----

/// In bf16, kernels of rows compute a number of each row once for all ops that read it.

// CHECK-LABEL: module @softmax_and_gradient_in_bf16
module @softmax_and_gradient_in_bf16 {
  // CHECK: %[[K0:[0-9]+]] = "mhlo.fusion"(%arg0)
  // CHECK: : (tensor<16x512x512xbf16>) -> tensor<16x512x512xbf16>
  // CHECK: %[[K1:[0-9]+]] = "mhlo.fusion"(%arg0, %arg1)
  // CHECK: : (tensor<16x512x512xbf16>, tensor<16x512x512xbf16>) -> tensor<16x512x512xbf16>
  // CHECK-NOT: "mhlo.fusion"
  // CHECK: return
  func.func public @main(%arg0: tensor<16x512x512xbf16>, %arg1: tensor<16x512x512xbf16>) -> (tensor<16x512x512xbf16>, tensor<16x512x512xbf16>) {
    %cst = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<16x512x512xbf16>, tensor<bf16>) -> tensor<16x512xbf16>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<16x512xbf16>
    %2 = stablehlo.maximum %1, %0 : tensor<16x512xbf16>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<16x512xbf16>) -> tensor<16x512x512xbf16>
    %4 = stablehlo.subtract %arg0, %3 : tensor<16x512x512xbf16>
    %5 = stablehlo.exponential %4 : tensor<16x512x512xbf16>
    %6 = stablehlo.convert %5 : (tensor<16x512x512xbf16>) -> tensor<16x512x512xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<16x512x512xf32>, tensor<f32>) -> tensor<16x512xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<16x512xf32>) -> tensor<16x512x1xf32>
    %9 = stablehlo.convert %8 : (tensor<16x512x1xf32>) -> tensor<16x512x1xbf16>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<16x512x1xbf16>) -> tensor<16x512x512xbf16>
    %11 = stablehlo.convert %10 : (tensor<16x512x512xbf16>) -> tensor<16x512x512xf32>
    %12 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<16x512x1xf32>) -> tensor<16x512x512xf32>
    %13 = stablehlo.divide %6, %12 : tensor<16x512x512xf32>
    %14 = stablehlo.convert %13 : (tensor<16x512x512xf32>) -> tensor<16x512x512xbf16>
    %15 = stablehlo.multiply %9, %9 : tensor<16x512x1xbf16>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %16 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<16x512x1xbf16>
    %17 = stablehlo.convert %16 : (tensor<16x512x1xbf16>) -> tensor<16x512x1xf32>
    %18 = stablehlo.convert %cst_1 : (tensor<bf16>) -> tensor<f32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [] : (tensor<f32>) -> tensor<16x512x1xf32>
    %20 = stablehlo.convert %15 : (tensor<16x512x1xbf16>) -> tensor<16x512x1xf32>
    %21 = stablehlo.divide %19, %20 : tensor<16x512x1xf32>
    %22 = stablehlo.convert %21 : (tensor<16x512x1xf32>) -> tensor<16x512x1xbf16>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2] : (tensor<16x512x1xbf16>) -> tensor<16x512x512xbf16>
    %24 = stablehlo.multiply %arg1, %23 : tensor<16x512x512xbf16>
    %25 = stablehlo.multiply %24, %5 : tensor<16x512x512xbf16>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %26 = stablehlo.reduce(%25 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<16x512x512xbf16>, tensor<bf16>) -> tensor<16x512xbf16>
    %27 = stablehlo.reshape %26 : (tensor<16x512xbf16>) -> tensor<16x512x1xbf16>
    %28 = stablehlo.negate %27 : tensor<16x512x1xbf16>
    %29 = stablehlo.convert %arg1 : (tensor<16x512x512xbf16>) -> tensor<16x512x512xf32>
    %30 = stablehlo.divide %29, %12 : tensor<16x512x512xf32>
    %31 = stablehlo.convert %30 : (tensor<16x512x512xf32>) -> tensor<16x512x512xbf16>
    %32 = stablehlo.convert %28 : (tensor<16x512x1xbf16>) -> tensor<16x512x1xf32>
    %33 = stablehlo.reshape %32 : (tensor<16x512x1xf32>) -> tensor<16x512xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 1] : (tensor<16x512xf32>) -> tensor<16x512x512xf32>
    %35 = stablehlo.convert %34 : (tensor<16x512x512xf32>) -> tensor<16x512x512xbf16>
    %36 = stablehlo.add %31, %35 : tensor<16x512x512xbf16>
    %37 = stablehlo.multiply %36, %5 : tensor<16x512x512xbf16>
    return %14, %37 : tensor<16x512x512xbf16>, tensor<16x512x512xbf16>
  }
}

// -----

/// Writing a number of each row, of which a segment of memory holds several, takes a whole segment:
/// the sums of rows are a kernel of their own, as the gradient of the softmax reads them twice.

// CHECK-LABEL: module @more_rows
module @more_rows {
  // CHECK: %[[K0:[0-9]+]] = "mhlo.fusion"(%arg0)
  // CHECK: : (tensor<40x1024x1024xbf16>) -> tensor<40x1024xf32>
  // CHECK: %[[K1:[0-9]+]] = "mhlo.fusion"(%arg0, %[[K0]])
  // CHECK: : (tensor<40x1024x1024xbf16>, tensor<40x1024xf32>) -> tensor<40x1024x1024xbf16>
  // CHECK: %[[K2:[0-9]+]] = "mhlo.fusion"(%arg0, %[[K0]], %{{.*}}, %arg1)
  // CHECK: : (tensor<40x1024x1024xbf16>, tensor<40x1024xf32>, tensor<40x1024x1xbf16>, tensor<40x1024x1024xbf16>) -> tensor<40x1024x1024xbf16>
  // CHECK-NOT: "mhlo.fusion"
  // CHECK: return
  func.func public @main(%arg0: tensor<40x1024x1024xbf16>, %arg1: tensor<40x1024x1024xbf16>) -> (tensor<40x1024x1024xbf16>, tensor<40x1024x1024xbf16>) {
    %cst = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<40x1024x1024xbf16>, tensor<bf16>) -> tensor<40x1024xbf16>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<40x1024xbf16>
    %2 = stablehlo.maximum %1, %0 : tensor<40x1024xbf16>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<40x1024xbf16>) -> tensor<40x1024x1024xbf16>
    %4 = stablehlo.subtract %arg0, %3 : tensor<40x1024x1024xbf16>
    %5 = stablehlo.exponential %4 : tensor<40x1024x1024xbf16>
    %6 = stablehlo.convert %5 : (tensor<40x1024x1024xbf16>) -> tensor<40x1024x1024xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_0) applies stablehlo.add across dimensions = [2] : (tensor<40x1024x1024xf32>, tensor<f32>) -> tensor<40x1024xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<40x1024xf32>) -> tensor<40x1024x1xf32>
    %9 = stablehlo.convert %8 : (tensor<40x1024x1xf32>) -> tensor<40x1024x1xbf16>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<40x1024x1xbf16>) -> tensor<40x1024x1024xbf16>
    %11 = stablehlo.convert %10 : (tensor<40x1024x1024xbf16>) -> tensor<40x1024x1024xf32>
    %12 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<40x1024x1xf32>) -> tensor<40x1024x1024xf32>
    %13 = stablehlo.divide %6, %12 : tensor<40x1024x1024xf32>
    %14 = stablehlo.convert %13 : (tensor<40x1024x1024xf32>) -> tensor<40x1024x1024xbf16>
    %15 = stablehlo.multiply %9, %9 : tensor<40x1024x1xbf16>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %16 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<40x1024x1xbf16>
    %17 = stablehlo.convert %16 : (tensor<40x1024x1xbf16>) -> tensor<40x1024x1xf32>
    %18 = stablehlo.convert %cst_1 : (tensor<bf16>) -> tensor<f32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [] : (tensor<f32>) -> tensor<40x1024x1xf32>
    %20 = stablehlo.convert %15 : (tensor<40x1024x1xbf16>) -> tensor<40x1024x1xf32>
    %21 = stablehlo.divide %19, %20 : tensor<40x1024x1xf32>
    %22 = stablehlo.convert %21 : (tensor<40x1024x1xf32>) -> tensor<40x1024x1xbf16>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2] : (tensor<40x1024x1xbf16>) -> tensor<40x1024x1024xbf16>
    %24 = stablehlo.multiply %arg1, %23 : tensor<40x1024x1024xbf16>
    %25 = stablehlo.multiply %24, %5 : tensor<40x1024x1024xbf16>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %26 = stablehlo.reduce(%25 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<40x1024x1024xbf16>, tensor<bf16>) -> tensor<40x1024xbf16>
    %27 = stablehlo.reshape %26 : (tensor<40x1024xbf16>) -> tensor<40x1024x1xbf16>
    %28 = stablehlo.negate %27 : tensor<40x1024x1xbf16>
    %29 = stablehlo.convert %arg1 : (tensor<40x1024x1024xbf16>) -> tensor<40x1024x1024xf32>
    %30 = stablehlo.divide %29, %12 : tensor<40x1024x1024xf32>
    %31 = stablehlo.convert %30 : (tensor<40x1024x1024xf32>) -> tensor<40x1024x1024xbf16>
    %32 = stablehlo.convert %28 : (tensor<40x1024x1xbf16>) -> tensor<40x1024x1xf32>
    %33 = stablehlo.reshape %32 : (tensor<40x1024x1xf32>) -> tensor<40x1024xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 1] : (tensor<40x1024xf32>) -> tensor<40x1024x1024xf32>
    %35 = stablehlo.convert %34 : (tensor<40x1024x1024xf32>) -> tensor<40x1024x1024xbf16>
    %36 = stablehlo.add %31, %35 : tensor<40x1024x1024xbf16>
    %37 = stablehlo.multiply %36, %5 : tensor<40x1024x1024xbf16>
    return %14, %37 : tensor<40x1024x1024xbf16>, tensor<40x1024x1024xbf16>
  }
}

// -----

/// A conversion that nothing reads does not hide that the sums of rows are divided at once.

// CHECK-LABEL: module @short_rows
module @short_rows {
  // CHECK: %[[K0:[0-9]+]] = "mhlo.fusion"(%arg0)
  // CHECK: : (tensor<100000x18xbf16>) -> tensor<100000x18xbf16>
  // CHECK-NOT: "mhlo.fusion"
  // CHECK: return
  func.func public @main(%arg0: tensor<100000x18xbf16>) -> (tensor<100000x18xbf16>) {
    %cst = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [1] : (tensor<100000x18xbf16>, tensor<bf16>) -> tensor<100000xbf16>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<100000xbf16>
    %2 = stablehlo.maximum %1, %0 : tensor<100000xbf16>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<100000xbf16>) -> tensor<100000x18xbf16>
    %4 = stablehlo.subtract %arg0, %3 : tensor<100000x18xbf16>
    %5 = stablehlo.exponential %4 : tensor<100000x18xbf16>
    %6 = stablehlo.convert %5 : (tensor<100000x18xbf16>) -> tensor<100000x18xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<100000x18xf32>, tensor<f32>) -> tensor<100000xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<100000xf32>) -> tensor<100000x1xf32>
    %9 = stablehlo.convert %8 : (tensor<100000x1xf32>) -> tensor<100000x1xbf16>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<100000x1xbf16>) -> tensor<100000x18xbf16>
    %11 = stablehlo.convert %10 : (tensor<100000x18xbf16>) -> tensor<100000x18xf32>
    %12 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<100000x1xf32>) -> tensor<100000x18xf32>
    %13 = stablehlo.divide %6, %12 : tensor<100000x18xf32>
    %14 = stablehlo.convert %13 : (tensor<100000x18xf32>) -> tensor<100000x18xbf16>
    return %14 : tensor<100000x18xbf16>
  }
}

// -----

/// The gradient of RMS norm: kernels that read the same values become one, behind what the later
/// of them reads.

// CHECK-LABEL: module @normalised_rows
module @normalised_rows {
  // CHECK: %[[K0:[0-9]+]] = "mhlo.fusion"(%arg0)
  // CHECK: : (tensor<8192x2048xf32>) -> tensor<8192xf32>
  // CHECK: %[[K1:[0-9]+]] = "mhlo.fusion"(%[[K0]])
  // CHECK: : (tensor<8192xf32>) -> tensor<8192x1xf32>
  // CHECK: %[[K2:[0-9]+]]:2 = "mhlo.fusion"(%[[K1]], %arg0, %arg1)
  // CHECK: : (tensor<8192x1xf32>, tensor<8192x2048xf32>, tensor<2048xf32>) -> (tensor<8192xf32>, tensor<8192x2048xf32>)
  // CHECK: %[[K3:[0-9]+]] = "mhlo.fusion"(%[[K0]], %[[K1]], %[[K2]]#0)
  // CHECK: : (tensor<8192xf32>, tensor<8192x1xf32>, tensor<8192xf32>) -> tensor<8192x1xf32>
  // CHECK: %[[K4:[0-9]+]]:2 = "mhlo.fusion"(%[[K1]], %arg0, %arg1, %[[K2]]#1, %[[K3]])
  // CHECK: : (tensor<8192x1xf32>, tensor<8192x2048xf32>, tensor<2048xf32>, tensor<8192x2048xf32>, tensor<8192x1xf32>) -> (tensor<64x2048xf32>, tensor<8192x2048xf32>)
  // CHECK-NOT: "mhlo.fusion"
  // CHECK: return
  func.func public @main(%arg0: tensor<8192x2048xf32>, %arg1: tensor<2048xf32>) -> (tensor<8192x2048xf32>, tensor<2048xf32>) {
    %0 = stablehlo.multiply %arg0, %arg0 : tensor<8192x2048xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<8192x2048xf32>, tensor<f32>) -> tensor<8192xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<8192xf32>) -> tensor<8192x1xf32>
    %cst_0 = stablehlo.constant dense<2.048000e+03> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8192x1xf32>
    %4 = stablehlo.divide %2, %3 : tensor<8192x1xf32>
    %cst_1 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<8192x1xf32>
    %6 = stablehlo.add %4, %5 : tensor<8192x1xf32>
    %7 = stablehlo.rsqrt %6 : tensor<8192x1xf32>
    %8 = stablehlo.divide %7, %6 : tensor<8192x1xf32>
    %cst_2 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %9 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<8192x1xf32>
    %10 = stablehlo.multiply %9, %8 : tensor<8192x1xf32>
    %11 = stablehlo.broadcast_in_dim %7, dims = [0, 1] : (tensor<8192x1xf32>) -> tensor<8192x2048xf32>
    %12 = stablehlo.multiply %arg0, %11 : tensor<8192x2048xf32>
    %13 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<2048xf32>) -> tensor<8192x2048xf32>
    %14 = stablehlo.multiply %12, %13 : tensor<8192x2048xf32>
    %15 = stablehlo.cosine %14 : tensor<8192x2048xf32>
    %16 = stablehlo.multiply %12, %15 : tensor<8192x2048xf32>
    %17 = stablehlo.reshape %16 : (tensor<8192x2048xf32>) -> tensor<64x128x2048xf32>
    %18 = stablehlo.reduce(%17 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<64x128x2048xf32>, tensor<f32>) -> tensor<64x2048xf32>
    %19 = stablehlo.reduce(%18 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<64x2048xf32>, tensor<f32>) -> tensor<2048xf32>
    %20 = stablehlo.multiply %15, %13 : tensor<8192x2048xf32>
    %21 = stablehlo.multiply %arg0, %20 : tensor<8192x2048xf32>
    %22 = stablehlo.reduce(%21 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<8192x2048xf32>, tensor<f32>) -> tensor<8192xf32>
    %23 = stablehlo.reshape %22 : (tensor<8192xf32>) -> tensor<8192x1xf32>
    %24 = stablehlo.multiply %20, %11 : tensor<8192x2048xf32>
    %25 = stablehlo.multiply %23, %10 : tensor<8192x1xf32>
    %26 = stablehlo.divide %25, %3 : tensor<8192x1xf32>
    %27 = stablehlo.reshape %26 : (tensor<8192x1xf32>) -> tensor<8192xf32>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0] : (tensor<8192xf32>) -> tensor<8192x2048xf32>
    %29 = stablehlo.multiply %arg0, %28 : tensor<8192x2048xf32>
    %30 = stablehlo.add %24, %29 : tensor<8192x2048xf32>
    %31 = stablehlo.add %30, %29 : tensor<8192x2048xf32>
    return %31, %19 : tensor<8192x2048xf32>, tensor<2048xf32>
  }
}
