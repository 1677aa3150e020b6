// RUN: hespas-opt %s --form-kernels --split-input-file | filecheck %s

/// Programs whose kernels are those that XLA of jaxlib 0.12.0.1 compiles for an A100. What is no loop there is a call
/// here.

/// The gradient of a layer norm: one kernel of rows writes what the columns are the sums of, the other one reads the
/// input only, and computes the rest again.

// CHECK-LABEL: module @norm_gradient
module @norm_gradient {
  // CHECK: %[[A:.*]] = stablehlo.convert %arg1
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%arg0, %[[A]]) {{.*}} kCustom
  // CHECK: {hespas.kernel = {kind = "reduction"}} {{.*}} -> tensor<16384x4096xf32>
  // CHECK: %[[C:.*]] = stablehlo.reshape %[[B]]
  // CHECK: %[[D:.*]] = stablehlo.reduce(%[[C]]
  // CHECK: %[[E:.*]] = "mhlo.fusion"(%[[D]]) {{.*}} kInput
  // CHECK: {hespas.kernel = {kind = "reduction"}} {{.*}} -> tensor<4096xbf16>
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%arg0, %[[A]]) {{.*}} kCustom
  // CHECK: {hespas.kernel = {kind = "reduction"}} {{.*}} -> tensor<16384x4096xbf16>
  // CHECK: return %[[F]], %[[E]]
  func.func @main(%arg0: tensor<16384x4096xbf16>, %arg1: tensor<4096xbf16>) -> (tensor<16384x4096xbf16>, tensor<4096xbf16>) {
    %0 = stablehlo.convert %arg0 : (tensor<16384x4096xbf16>) -> tensor<16384x4096xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<16384x4096xf32>, tensor<f32>) -> tensor<16384xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<16384xf32>) -> tensor<16384x1xf32>
    %cst_0 = stablehlo.constant dense<4.096000e+03> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<16384x1xf32>
    %4 = stablehlo.divide %2, %3 : tensor<16384x1xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<16384x1xf32>) -> tensor<16384x4096xf32>
    %6 = stablehlo.subtract %0, %5 : tensor<16384x4096xf32>
    %7 = stablehlo.multiply %6, %6 : tensor<16384x4096xf32>
    %8 = stablehlo.reduce(%7 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<16384x4096xf32>, tensor<f32>) -> tensor<16384xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0] : (tensor<16384xf32>) -> tensor<16384x1xf32>
    %10 = stablehlo.divide %9, %3 : tensor<16384x1xf32>
    %cst_1 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<16384x1xf32>
    %12 = stablehlo.add %10, %11 : tensor<16384x1xf32>
    %13 = stablehlo.rsqrt %12 : tensor<16384x1xf32>
    %14 = stablehlo.divide %13, %12 : tensor<16384x1xf32>
    %cst_2 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<16384x1xf32>
    %16 = stablehlo.multiply %15, %14 : tensor<16384x1xf32>
    %17 = stablehlo.broadcast_in_dim %13, dims = [0, 1] : (tensor<16384x1xf32>) -> tensor<16384x4096xf32>
    %18 = stablehlo.multiply %6, %17 : tensor<16384x4096xf32>
    %19 = stablehlo.convert %arg1 : (tensor<4096xbf16>) -> tensor<4096xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [1] : (tensor<4096xf32>) -> tensor<16384x4096xf32>
    %21 = stablehlo.multiply %18, %20 : tensor<16384x4096xf32>
    %22 = stablehlo.cosine %21 : tensor<16384x4096xf32>
    %23 = stablehlo.multiply %18, %22 : tensor<16384x4096xf32>
    %24 = stablehlo.reshape %23 : (tensor<16384x4096xf32>) -> tensor<128x128x4096xf32>
    %25 = stablehlo.reduce(%24 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<128x128x4096xf32>, tensor<f32>) -> tensor<128x4096xf32>
    %26 = stablehlo.reduce(%25 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<128x4096xf32>, tensor<f32>) -> tensor<4096xf32>
    %27 = stablehlo.multiply %22, %20 : tensor<16384x4096xf32>
    %28 = stablehlo.convert %26 : (tensor<4096xf32>) -> tensor<4096xbf16>
    %29 = stablehlo.multiply %6, %27 : tensor<16384x4096xf32>
    %30 = stablehlo.reduce(%29 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<16384x4096xf32>, tensor<f32>) -> tensor<16384xf32>
    %31 = stablehlo.reshape %30 : (tensor<16384xf32>) -> tensor<16384x1xf32>
    %32 = stablehlo.multiply %27, %17 : tensor<16384x4096xf32>
    %33 = stablehlo.multiply %31, %16 : tensor<16384x1xf32>
    %34 = stablehlo.divide %33, %3 : tensor<16384x1xf32>
    %35 = stablehlo.reshape %34 : (tensor<16384x1xf32>) -> tensor<16384xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0] : (tensor<16384xf32>) -> tensor<16384x4096xf32>
    %37 = stablehlo.multiply %6, %36 : tensor<16384x4096xf32>
    %38 = stablehlo.add %32, %37 : tensor<16384x4096xf32>
    %39 = stablehlo.add %38, %37 : tensor<16384x4096xf32>
    %40 = stablehlo.negate %39 : tensor<16384x4096xf32>
    %41 = stablehlo.reduce(%40 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<16384x4096xf32>, tensor<f32>) -> tensor<16384xf32>
    %42 = stablehlo.reshape %41 : (tensor<16384xf32>) -> tensor<16384x1xf32>
    %43 = stablehlo.divide %42, %3 : tensor<16384x1xf32>
    %44 = stablehlo.reshape %43 : (tensor<16384x1xf32>) -> tensor<16384xf32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [0] : (tensor<16384xf32>) -> tensor<16384x4096xf32>
    %46 = stablehlo.add %39, %45 : tensor<16384x4096xf32>
    %47 = stablehlo.convert %46 : (tensor<16384x4096xf32>) -> tensor<16384x4096xbf16>
    return %47, %28 : tensor<16384x4096xbf16>, tensor<4096xbf16>
  }
}

// -----

/// A norm of rows of a table and their positions: the kernel of rows has no gather.

// CHECK-LABEL: module @rows_of_a_table
module @rows_of_a_table {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg1, %arg0) {{.*}} kLoop
  // CHECK: {hespas.kernel = {kind = "gather"}} {{.*}} -> tensor<4096x1024xf32>
  // CHECK: %[[B:.*]] = "mhlo.fusion"(%[[A]], %arg2) {{.*}} kCustom
  // CHECK: {hespas.kernel = {kind = "reduction"}} {{.*}} -> tensor<4096x1024xf32>
  // CHECK: return %[[B]]
  func.func @main(%arg0: tensor<50000x1024xf32>, %arg1: tensor<4096x1024xf32>, %arg2: tensor<1024xf32>) -> tensor<4096x1024xf32> {
    %0 = stablehlo.slice %arg1 [0:4096, 0:1] : (tensor<4096x1024xf32>) -> tensor<4096x1xf32>
    %1 = stablehlo.reshape %0 : (tensor<4096x1xf32>) -> tensor<4096xf32>
    %2 = stablehlo.abs %1 : tensor<4096xf32>
    %cst = stablehlo.constant dense<7.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4096xf32>
    %4 = stablehlo.multiply %2, %3 : tensor<4096xf32>
    %5 = stablehlo.convert %4 : (tensor<4096xf32>) -> tensor<4096xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4096xi32>
    %7 = stablehlo.compare LT, %5, %6, SIGNED : (tensor<4096xi32>, tensor<4096xi32>) -> tensor<4096xi1>
    %c_0 = stablehlo.constant dense<50000> : tensor<i32>
    %8 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4096xi32>
    %9 = stablehlo.add %5, %8 : tensor<4096xi32>
    %10 = stablehlo.select %7, %9, %5 : tensor<4096xi1>, tensor<4096xi32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0] : (tensor<4096xi32>) -> tensor<4096x1xi32>
    %12 = "stablehlo.gather"(%arg0, %11) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1024>}> : (tensor<50000x1024xf32>, tensor<4096x1xi32>) -> tensor<4096x1024xf32>
    %13 = stablehlo.add %12, %arg1 : tensor<4096x1024xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %14 = stablehlo.reduce(%13 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<4096x1024xf32>, tensor<f32>) -> tensor<4096xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0] : (tensor<4096xf32>) -> tensor<4096x1xf32>
    %cst_2 = stablehlo.constant dense<1.024000e+03> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4096x1xf32>
    %17 = stablehlo.divide %15, %16 : tensor<4096x1xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<4096x1xf32>) -> tensor<4096x1024xf32>
    %19 = stablehlo.subtract %13, %18 : tensor<4096x1024xf32>
    %20 = stablehlo.multiply %19, %19 : tensor<4096x1024xf32>
    %21 = stablehlo.reduce(%20 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<4096x1024xf32>, tensor<f32>) -> tensor<4096xf32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0] : (tensor<4096xf32>) -> tensor<4096x1xf32>
    %23 = stablehlo.divide %22, %16 : tensor<4096x1xf32>
    %cst_3 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<4096x1xf32>
    %25 = stablehlo.add %23, %24 : tensor<4096x1xf32>
    %26 = stablehlo.rsqrt %25 : tensor<4096x1xf32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1] : (tensor<4096x1xf32>) -> tensor<4096x1024xf32>
    %28 = stablehlo.multiply %19, %27 : tensor<4096x1024xf32>
    %29 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<1024xf32>) -> tensor<4096x1024xf32>
    %30 = stablehlo.multiply %28, %29 : tensor<4096x1024xf32>
    return %30 : tensor<4096x1024xf32>
  }
}

// -----

/// Three results of one value.

// CHECK-LABEL: module @results_of_one_value
module @results_of_one_value {
  // CHECK: %[[A:.*]]:2 = "mhlo.fusion"(%arg0) {{.*}} kInput
  // CHECK: {hespas.kernel = {kind = "transpose"}} {{.*}} -> (tensor<4096x4096xf32>, tensor<4096x4096xf32>)
  // CHECK: %[[B:.*]]:2 = "mhlo.fusion"(%[[A]]#1, %arg1) {{.*}} kInput
  // CHECK: {hespas.kernel = {kind = "reduction"}} {{.*}} -> (tensor<4096xf32>, tensor<4096x4096xf32>)
  // CHECK: return %[[B]]#0, %[[A]]#0, %[[B]]#1
  func.func @main(%arg0: tensor<4096x4096xf32>, %arg1: tensor<4096x4096xf32>) -> (tensor<4096xf32>, tensor<4096x4096xf32>, tensor<4096x4096xf32>) {
    %0 = stablehlo.tanh %arg0 : tensor<4096x4096xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<4096x4096xf32>, tensor<f32>) -> tensor<4096xf32>
    %2 = stablehlo.transpose %0, dims = [1, 0] : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
    %3 = stablehlo.multiply %0, %arg1 : tensor<4096x4096xf32>
    return %1, %2, %3 : tensor<4096xf32>, tensor<4096x4096xf32>, tensor<4096x4096xf32>
  }
}

// -----

/// A token of attention, whose caches are updated in place, and read.

// CHECK-LABEL: module @decoding_step
module @decoding_step {
  // CHECK: %[[A:.*]] = stablehlo.transpose %arg1
  // CHECK: %[[B:.*]] = stablehlo.reshape %arg3
  // CHECK: %[[C:.*]] = stablehlo.dynamic_update_slice %[[A]], %[[B]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}
  // CHECK: %[[D:.*]] = stablehlo.transpose %[[C]]
  // CHECK: %[[E:.*]] = stablehlo.transpose %arg2
  // CHECK: %[[F:.*]] = stablehlo.reshape %arg4
  // CHECK: %[[G:.*]] = stablehlo.dynamic_update_slice %[[E]], %[[F]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}
  // CHECK: %[[H:.*]] = stablehlo.transpose %[[G]]
  // CHECK: %[[I:.*]] = stablehlo.custom_call @kernel(%arg0, %[[C]])
  // CHECK: %[[J:.*]] = "mhlo.fusion"(%[[I]]) {{.*}} kCustom
  // CHECK: {hespas.kernel = {kind = "reduction"}} {{.*}} -> tensor<16x8x4x2048xbf16>
  // CHECK: %[[K:.*]] = stablehlo.custom_call @kernel(%[[J]], %[[G]])
  // CHECK: return %[[K]], %[[D]], %[[H]]
  func.func @main(%arg0: tensor<16x8x4x128xbf16>, %arg1: tensor<16x2048x8x128xbf16>, %arg2: tensor<16x2048x8x128xbf16>, %arg3: tensor<16x1x8x128xbf16>, %arg4: tensor<16x1x8x128xbf16>) -> (tensor<16x8x4x128xbf16>, tensor<16x2048x8x128xbf16>, tensor<16x2048x8x128xbf16>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<9> : tensor<i32>
    %0 = stablehlo.transpose %arg1, dims = [0, 2, 3, 1] : (tensor<16x2048x8x128xbf16>) -> tensor<16x8x128x2048xbf16>
    %1 = stablehlo.reshape %arg3 : (tensor<16x1x8x128xbf16>) -> tensor<16x8x128x1xbf16>
    %2 = stablehlo.dynamic_update_slice %0, %1, %c, %c, %c, %c_0 : (tensor<16x8x128x2048xbf16>, tensor<16x8x128x1xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<16x8x128x2048xbf16>
    %3 = stablehlo.transpose %2, dims = [0, 3, 1, 2] : (tensor<16x8x128x2048xbf16>) -> tensor<16x2048x8x128xbf16>
    %4 = stablehlo.transpose %arg2, dims = [0, 2, 1, 3] : (tensor<16x2048x8x128xbf16>) -> tensor<16x8x2048x128xbf16>
    %5 = stablehlo.reshape %arg4 : (tensor<16x1x8x128xbf16>) -> tensor<16x8x1x128xbf16>
    %6 = stablehlo.dynamic_update_slice %4, %5, %c, %c, %c_0, %c : (tensor<16x8x2048x128xbf16>, tensor<16x8x1x128xbf16>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<16x8x2048x128xbf16>
    %7 = stablehlo.transpose %6, dims = [0, 2, 1, 3] : (tensor<16x8x2048x128xbf16>) -> tensor<16x2048x8x128xbf16>
    %8 = stablehlo.custom_call @kernel(%arg0, %2) : (tensor<16x8x4x128xbf16>, tensor<16x8x128x2048xbf16>) -> tensor<16x8x4x2048xbf16>
    %9 = stablehlo.convert %8 : (tensor<16x8x4x2048xbf16>) -> tensor<16x8x4x2048xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %10 = stablehlo.reduce(%9 init: %cst) applies stablehlo.maximum across dimensions = [3] : (tensor<16x8x4x2048xf32>, tensor<f32>) -> tensor<16x8x4xf32>
    %11 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<16x8x4xf32>
    %12 = stablehlo.maximum %11, %10 : tensor<16x8x4xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0, 1, 2] : (tensor<16x8x4xf32>) -> tensor<16x8x4x2048xf32>
    %14 = stablehlo.subtract %9, %13 : tensor<16x8x4x2048xf32>
    %15 = stablehlo.exponential %14 : tensor<16x8x4x2048xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %16 = stablehlo.reduce(%15 init: %cst_1) applies stablehlo.add across dimensions = [3] : (tensor<16x8x4x2048xf32>, tensor<f32>) -> tensor<16x8x4xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1, 2] : (tensor<16x8x4xf32>) -> tensor<16x8x4x2048xf32>
    %18 = stablehlo.divide %15, %17 : tensor<16x8x4x2048xf32>
    %19 = stablehlo.convert %18 : (tensor<16x8x4x2048xf32>) -> tensor<16x8x4x2048xbf16>
    %20 = stablehlo.custom_call @kernel(%19, %6) : (tensor<16x8x4x2048xbf16>, tensor<16x8x2048x128xbf16>) -> tensor<16x8x4x128xbf16>
    return %20, %3, %7 : tensor<16x8x4x128xbf16>, tensor<16x2048x8x128xbf16>, tensor<16x2048x8x128xbf16>
  }
}

// -----

/// A running sum in parts.

// CHECK-LABEL: module @running_sum
module @running_sum {
  // CHECK: %[[A:.*]] = "mhlo.fusion"(%arg0) {{.*}} kLoop
  // CHECK: {hespas.kernel = {kind = "reduction"}} {{.*}} -> tensor<4096x128x1xf32>
  // CHECK: %[[B:.*]] = stablehlo.reshape %[[A]]
  // CHECK: %[[C:.*]] = "stablehlo.reduce_window"(%[[B]], %{{.*}})
  // CHECK: %[[D:.*]] = "mhlo.fusion"(%[[C]]) {{.*}} kLoop
  // CHECK: {hespas.kernel = {kind = "reduction"}} {{.*}} -> tensor<4096x8xf32>
  // CHECK: %[[E:.*]] = "mhlo.fusion"(%arg0, %[[D]], %[[C]]) {{.*}} kLoop
  // CHECK: {hespas.kernel = {kind = "reduction"}} {{.*}} -> tensor<4096x128x16xf32>
  // CHECK: %[[F:.*]] = stablehlo.reshape %[[E]]
  // CHECK: return %[[F]]
  func.func @main(%arg0: tensor<4096x2048xf32>) -> tensor<4096x2048xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reshape %arg0 : (tensor<4096x2048xf32>) -> tensor<4096x128x16xf32>
    %1 = "stablehlo.reduce_window"(%0, %cst) <{padding = dense<[[0, 0], [0, 0], [15, 0]]> : tensor<3x2xi64>, window_dimensions = array<i64: 1, 1, 16>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %17 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %17 : tensor<f32>
    }) : (tensor<4096x128x16xf32>, tensor<f32>) -> tensor<4096x128x16xf32>
    %2 = stablehlo.slice %1 [0:4096, 0:128, 15:16] : (tensor<4096x128x16xf32>) -> tensor<4096x128x1xf32>
    %3 = stablehlo.reshape %2 : (tensor<4096x128x1xf32>) -> tensor<4096x8x16xf32>
    %4 = "stablehlo.reduce_window"(%3, %cst) <{padding = dense<[[0, 0], [0, 0], [15, 0]]> : tensor<3x2xi64>, window_dimensions = array<i64: 1, 1, 16>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %17 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %17 : tensor<f32>
    }) : (tensor<4096x8x16xf32>, tensor<f32>) -> tensor<4096x8x16xf32>
    %5 = stablehlo.slice %4 [0:4096, 0:8, 15:16] : (tensor<4096x8x16xf32>) -> tensor<4096x8x1xf32>
    %6 = stablehlo.reshape %5 : (tensor<4096x8x1xf32>) -> tensor<4096x8xf32>
    %7 = "stablehlo.reduce_window"(%6, %cst) <{padding = dense<[[0, 0], [8, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 8>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %17 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %17 : tensor<f32>
    }) : (tensor<4096x8xf32>, tensor<f32>) -> tensor<4096x9xf32>
    %8 = stablehlo.slice %7 [0:4096, 0:8] : (tensor<4096x9xf32>) -> tensor<4096x8xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<4096x8xf32>) -> tensor<4096x8x16xf32>
    %10 = stablehlo.add %9, %4 : tensor<4096x8x16xf32>
    %11 = stablehlo.reshape %10 : (tensor<4096x8x16xf32>) -> tensor<4096x128xf32>
    %12 = stablehlo.pad %11, %cst, low = [0, 1], high = [0, 0], interior = [0, 0] : (tensor<4096x128xf32>, tensor<f32>) -> tensor<4096x129xf32>
    %13 = stablehlo.slice %12 [0:4096, 0:128] : (tensor<4096x129xf32>) -> tensor<4096x128xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1] : (tensor<4096x128xf32>) -> tensor<4096x128x16xf32>
    %15 = stablehlo.add %14, %1 : tensor<4096x128x16xf32>
    %16 = stablehlo.reshape %15 : (tensor<4096x128x16xf32>) -> tensor<4096x2048xf32>
    return %16 : tensor<4096x2048xf32>
  }
}
