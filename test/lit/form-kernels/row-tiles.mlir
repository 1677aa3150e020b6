// RUN: hespas-opt %s --form-kernels --split-input-file | filecheck %s

/// The kernel of rows does not compute what has no tiles, such as the rows of a table (jaxlib 0.12, H100),

// CHECK-LABEL: module @gathered
module @gathered {
  // CHECK: %[[ROWS:.*]] = "stablehlo.gather"
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%[[ROWS]]) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: return %[[F]]
  func.func @main(%table: tensor<512x1024xf32>, %i: tensor<4096x1xi32>) -> tensor<4096x1024xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %x = "stablehlo.gather"(%table, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1024>}> : (tensor<512x1024xf32>, tensor<4096x1xi32>) -> tensor<4096x1024xf32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4096x1024xf32>, tensor<f32>) -> tensor<4096xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<4096xf32>) -> tensor<4096x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<4096x1024xf32>
    return %2 : tensor<4096x1024xf32>
  }
}

// -----

/// but it writes its rows at other places.

// CHECK-LABEL: module @moved_rows
module @moved_rows {
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.subtract
  // CHECK-NEXT: stablehlo.transpose
  // CHECK: %[[V:.*]] = stablehlo.reshape %[[F]]
  // CHECK: return %[[V]]
  func.func @main(%x: tensor<64x128x1024xf32>) -> tensor<128x65536xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<64x128x1024xf32>, tensor<f32>) -> tensor<64x128xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<64x128xf32>) -> tensor<64x128x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<64x128x1024xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0, 2] : (tensor<64x128x1024xf32>) -> tensor<128x64x1024xf32>
    %4 = stablehlo.reshape %3 : (tensor<128x64x1024xf32>) -> tensor<128x65536xf32>
    return %4 : tensor<128x65536xf32>
  }
}

// -----

/// Columns are another kernel.

// CHECK-LABEL: module @columns
module @columns {
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.transpose %[[F]]
  func.func @main(%x: tensor<64x128x1024xf32>) -> tensor<64x131072xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<64x128x1024xf32>, tensor<f32>) -> tensor<64x128xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<64x128xf32>) -> tensor<64x128x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<64x128x1024xf32>
    %3 = stablehlo.transpose %2, dims = [0, 2, 1] : (tensor<64x128x1024xf32>) -> tensor<64x1024x128xf32>
    %4 = stablehlo.reshape %3 : (tensor<64x1024x128xf32>) -> tensor<64x131072xf32>
    return %4 : tensor<64x131072xf32>
  }
}
