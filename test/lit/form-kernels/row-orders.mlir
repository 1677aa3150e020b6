// RUN: hespas-opt %s --form-kernels --split-input-file | filecheck %s

/// The kernel of rows writes their columns next to each other if only products read the transpose,

// CHECK-LABEL: module @columns_for_product
module @columns_for_product {
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.subtract
  // CHECK-NEXT: stablehlo.transpose
  // CHECK-NEXT: mhlo.return
  // CHECK: stablehlo.dot_general %[[F]]
  func.func @main(%x: tensor<8x64x1024xf32>, %w: tensor<64x16xf32>) -> tensor<8x1024x16xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<8x64x1024xf32>, tensor<f32>) -> tensor<8x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<8x64x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<8x64x1024xf32>
    %3 = stablehlo.transpose %2, dims = [0, 2, 1] : (tensor<8x64x1024xf32>) -> tensor<8x1024x64xf32>
    %4 = stablehlo.dot_general %3, %w, contracting_dims = [2] x [0] : (tensor<8x1024x64xf32>, tensor<64x16xf32>) -> tensor<8x1024x16xf32>
    return %4 : tensor<8x1024x16xf32>
  }
}

// -----

/// not if it is returned, too,

// CHECK-LABEL: module @columns_for_product_and_result
module @columns_for_product_and_result {
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.subtract
  // CHECK-NEXT: mhlo.return
  // CHECK: stablehlo.transpose %[[F]]
  func.func @main(%x: tensor<8x64x1024xf32>, %w: tensor<64x16xf32>) -> (tensor<8x1024x16xf32>, tensor<8x1024x64xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<8x64x1024xf32>, tensor<f32>) -> tensor<8x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<8x64x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<8x64x1024xf32>
    %3 = stablehlo.transpose %2, dims = [0, 2, 1] : (tensor<8x64x1024xf32>) -> tensor<8x1024x64xf32>
    %4 = stablehlo.dot_general %3, %w, contracting_dims = [2] x [0] : (tensor<8x1024x64xf32>, tensor<64x16xf32>) -> tensor<8x1024x16xf32>
    return %4, %3 : tensor<8x1024x16xf32>, tensor<8x1024x64xf32>
  }
}

// -----

/// or if another op computes what the product reads.

// CHECK-LABEL: module @columns_of_another_op
module @columns_of_another_op {
  // CHECK: %[[R:.*]] = stablehlo.reduce
  // CHECK: "mhlo.fusion"(%[[R]], %arg0) <{fusion_kind = #mhlo<fusion_kind kInput>}>
  // CHECK: stablehlo.transpose
  // CHECK-NEXT: stablehlo.negate
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<8x64x1024xf32>, %w: tensor<64x16xf32>) -> tensor<8x1024x16xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<8x64x1024xf32>, tensor<f32>) -> tensor<8x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<8x64x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<8x64x1024xf32>
    %3 = stablehlo.transpose %2, dims = [0, 2, 1] : (tensor<8x64x1024xf32>) -> tensor<8x1024x64xf32>
    %4 = stablehlo.negate %3 : tensor<8x1024x64xf32>
    %5 = stablehlo.dot_general %4, %w, contracting_dims = [2] x [0] : (tensor<8x1024x64xf32>, tensor<64x16xf32>) -> tensor<8x1024x16xf32>
    return %5 : tensor<8x1024x16xf32>
  }
}

// -----

/// A dimension of one element, which comes after that of the rows, is in no order.

// CHECK-LABEL: module @unit_dimension
module @unit_dimension {
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.transpose
  // CHECK-NEXT: mhlo.return
  // CHECK: return
  func.func @main(%x: tensor<8x64x1024x1xf32>) -> tensor<64x8192xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<8x64x1024x1xf32>, tensor<f32>) -> tensor<8x64x1xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 3] : (tensor<8x64x1xf32>) -> tensor<8x64x1024x1xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<8x64x1024x1xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0, 3, 2] : (tensor<8x64x1024x1xf32>) -> tensor<64x8x1x1024xf32>
    %4 = stablehlo.reshape %3 : (tensor<64x8x1x1024xf32>) -> tensor<64x8192xf32>
    return %4 : tensor<64x8192xf32>
  }
}

// -----

/// The kernel of rows writes parts of them,

// CHECK-LABEL: module @sliced
module @sliced {
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.subtract
  // CHECK-NEXT: stablehlo.slice
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<8x64x1024xf32>) -> tensor<8x64x512xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<8x64x1024xf32>, tensor<f32>) -> tensor<8x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<8x64x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<8x64x1024xf32>
    %3 = stablehlo.slice %2 [0:8, 0:64, 0:512] : (tensor<8x64x1024xf32>) -> tensor<8x64x512xf32>
    return %3 : tensor<8x64x512xf32>
  }
}

// -----

/// but rows that are moved in parts are another kernel.

// CHECK-LABEL: module @parts_of_rows
module @parts_of_rows {
  // CHECK: %[[R:.*]] = stablehlo.reduce
  // CHECK: "mhlo.fusion"(%[[R]], %arg0) <{fusion_kind = #mhlo<fusion_kind kLoop>}>
  // CHECK: stablehlo.transpose
  // CHECK-NEXT: stablehlo.negate
  func.func @main(%x: tensor<8x64x32x32xf32>) -> tensor<64x8x32x32xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2, 3] : (tensor<8x64x32x32xf32>, tensor<f32>) -> tensor<8x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<8x64x32x32xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<8x64x32x32xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0, 2, 3] : (tensor<8x64x32x32xf32>) -> tensor<64x8x32x32xf32>
    %4 = stablehlo.negate %3 : tensor<64x8x32x32xf32>
    return %4 : tensor<64x8x32x32xf32>
  }
}

// -----

/// Parts of rows are another kernel also where a product reads them.

// CHECK-LABEL: module @sliced_for_product
module @sliced_for_product {
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.subtract
  // CHECK-NEXT: stablehlo.slice
  // CHECK-NEXT: mhlo.return
  func.func @main(%x: tensor<8x64x1024xf32>, %w: tensor<512x16xf32>) -> tensor<8x64x16xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<8x64x1024xf32>, tensor<f32>) -> tensor<8x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<8x64x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<8x64x1024xf32>
    %3 = stablehlo.slice %2 [0:8, 0:64, 0:512] : (tensor<8x64x1024xf32>) -> tensor<8x64x512xf32>
    %4 = stablehlo.dot_general %3, %w, contracting_dims = [2] x [0] : (tensor<8x64x512xf32>, tensor<512x16xf32>) -> tensor<8x64x16xf32>
    return %4 : tensor<8x64x16xf32>
  }
}

// -----

/// A diamond whose transposed result is returned keeps no rows, also with a step between,

// CHECK-LABEL: module @stepped
module @stepped {
  // CHECK-NOT: kCustom
  func.func @main(%x: tensor<16384x128xf32>) -> tensor<128x16384xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<16384x128xf32>, tensor<f32>) -> tensor<16384xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<16384xf32>) -> tensor<16384x128xf32>
    %2 = stablehlo.multiply %x, %1 : tensor<16384x128xf32>
    %3 = stablehlo.tanh %2 : tensor<16384x128xf32>
    %6 = stablehlo.transpose %3, dims = [1, 0] : (tensor<16384x128xf32>) -> tensor<128x16384xf32>
    return %6 : tensor<128x16384xf32>
  }
}

// -----

/// and one of which only the order of the rows changes,

// CHECK-LABEL: module @reordered_rows
module @reordered_rows {
  // CHECK-NOT: kCustom
  func.func @main(%x: tensor<16x1024x1024xf32>) -> tensor<1024x16x1024xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<16x1024x1024xf32>, tensor<f32>) -> tensor<16x1024xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<16x1024xf32>) -> tensor<16x1024x1024xf32>
    %2 = stablehlo.multiply %x, %1 : tensor<16x1024x1024xf32>
    %6 = stablehlo.transpose %2, dims = [1, 0, 2] : (tensor<16x1024x1024xf32>) -> tensor<1024x16x1024xf32>
    return %6 : tensor<1024x16x1024xf32>
  }
}

// -----

/// unless it is a chain of diamonds,

// CHECK-LABEL: module @reordered_chain
module @reordered_chain {
  // CHECK: "mhlo.fusion"(%arg0) {{.*}} kCustom
  // CHECK-COUNT-2: stablehlo.reduce
  // CHECK: stablehlo.transpose
  func.func @main(%x: tensor<16x1024x1024xf32>) -> tensor<1024x16x1024xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<16x1024x1024xf32>, tensor<f32>) -> tensor<16x1024xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<16x1024xf32>) -> tensor<16x1024x1024xf32>
    %2 = stablehlo.multiply %x, %1 : tensor<16x1024x1024xf32>
    %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<16x1024x1024xf32>, tensor<f32>) -> tensor<16x1024xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<16x1024xf32>) -> tensor<16x1024x1024xf32>
    %5 = stablehlo.subtract %2, %4 : tensor<16x1024x1024xf32>
    %6 = stablehlo.transpose %5, dims = [1, 0, 2] : (tensor<16x1024x1024xf32>) -> tensor<1024x16x1024xf32>
    return %6 : tensor<1024x16x1024xf32>
  }
}

// -----

/// whose rows must stay rows. (Kernels of rows are where XLA of jaxlib 0.12.0.1 has them.)

// CHECK-LABEL: module @transposed_chain
module @transposed_chain {
  // CHECK-NOT: kCustom
  func.func @main(%x: tensor<4096x4096xf32>) -> tensor<4096x4096xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4096x4096xf32>, tensor<f32>) -> tensor<4096xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<4096xf32>) -> tensor<4096x4096xf32>
    %2 = stablehlo.multiply %x, %1 : tensor<4096x4096xf32>
    %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4096x4096xf32>, tensor<f32>) -> tensor<4096xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<4096xf32>) -> tensor<4096x4096xf32>
    %5 = stablehlo.subtract %2, %4 : tensor<4096x4096xf32>
    %6 = stablehlo.transpose %5, dims = [1, 0] : (tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
    return %6 : tensor<4096x4096xf32>
  }
}

// -----

/// Where parts of the rows are computed with, joined and transposed, also after a conversion, XLA transposes the value
/// before: the sums are a kernel of their own (two kernels in jaxlib 0.12 for an H100, too).

// CHECK-LABEL: module @rotated
module @rotated {
  // CHECK: %[[R:.*]] = "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kInput>}>
  // CHECK: mhlo.return %{{.*}} : tensor<4x1024x16xf32>
  // CHECK: "mhlo.fusion"(%arg0, %[[R]], %arg1)
  // CHECK: stablehlo.transpose
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<4x1024x16x128xbf16>, %c: tensor<4x1024x16x64xbf16>) -> tensor<4x16x1024x128xbf16> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %w = stablehlo.convert %x : (tensor<4x1024x16x128xbf16>) -> tensor<4x1024x16x128xf32>
    %s = stablehlo.multiply %w, %w : tensor<4x1024x16x128xf32>
    %0 = stablehlo.reduce(%s init: %zero) applies stablehlo.add across dimensions = [3] : (tensor<4x1024x16x128xf32>, tensor<f32>) -> tensor<4x1024x16xf32>
    %r = stablehlo.rsqrt %0 : tensor<4x1024x16xf32>
    %1 = stablehlo.broadcast_in_dim %r, dims = [0, 1, 2] : (tensor<4x1024x16xf32>) -> tensor<4x1024x16x128xf32>
    %2 = stablehlo.multiply %w, %1 : tensor<4x1024x16x128xf32>
    %n = stablehlo.convert %2 : (tensor<4x1024x16x128xf32>) -> tensor<4x1024x16x128xbf16>
    %3 = stablehlo.slice %n [0:4, 0:1024, 0:16, 0:64] : (tensor<4x1024x16x128xbf16>) -> tensor<4x1024x16x64xbf16>
    %4 = stablehlo.slice %n [0:4, 0:1024, 0:16, 64:128] : (tensor<4x1024x16x128xbf16>) -> tensor<4x1024x16x64xbf16>
    %5 = stablehlo.multiply %3, %c : tensor<4x1024x16x64xbf16>
    %6 = stablehlo.subtract %4, %c : tensor<4x1024x16x64xbf16>
    %7 = stablehlo.concatenate %5, %6, dim = 3 : (tensor<4x1024x16x64xbf16>, tensor<4x1024x16x64xbf16>) -> tensor<4x1024x16x128xbf16>
    %8 = stablehlo.transpose %7, dims = [0, 2, 1, 3] : (tensor<4x1024x16x128xbf16>) -> tensor<4x16x1024x128xbf16>
    return %8 : tensor<4x16x1024x128xbf16>
  }
}
