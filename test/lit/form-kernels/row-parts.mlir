// RUN: hespas-opt %s --form-kernels=target=H100_80GB --split-input-file | filecheck %s

/// The kernel of rows joins its parts in another order, if all but the last are whole tiles of 64,

// CHECK-LABEL: module @joined
module @joined {
  // CHECK: "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.concatenate
  // CHECK: mhlo.return
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<8x64x128xf32>) -> tensor<8x64x128xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<8x64x128xf32>, tensor<f32>) -> tensor<8x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<8x64x128xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<8x64x128xf32>
    %3 = stablehlo.slice %2 [0:8, 0:64, 0:64] : (tensor<8x64x128xf32>) -> tensor<8x64x64xf32>
    %4 = stablehlo.slice %2 [0:8, 0:64, 64:128] : (tensor<8x64x128xf32>) -> tensor<8x64x64xf32>
    %5 = stablehlo.concatenate %4, %3, dim = 2 : (tensor<8x64x64xf32>, tensor<8x64x64xf32>) -> tensor<8x64x128xf32>
    return %5 : tensor<8x64x128xf32>
  }
}

// -----

// CHECK-LABEL: module @narrow_parts
module @narrow_parts {
  // CHECK: "mhlo.fusion"({{.*}} kCustom
  // CHECK-NOT: stablehlo.concatenate
  // CHECK: mhlo.return
  // CHECK: stablehlo.concatenate
  func.func @main(%x: tensor<8x64x128xf32>) -> tensor<8x64x128xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<8x64x128xf32>, tensor<f32>) -> tensor<8x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<8x64x128xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<8x64x128xf32>
    %3 = stablehlo.slice %2 [0:8, 0:64, 0:96] : (tensor<8x64x128xf32>) -> tensor<8x64x96xf32>
    %4 = stablehlo.slice %2 [0:8, 0:64, 96:128] : (tensor<8x64x128xf32>) -> tensor<8x64x32xf32>
    %5 = stablehlo.concatenate %4, %3, dim = 2 : (tensor<8x64x32xf32>, tensor<8x64x96xf32>) -> tensor<8x64x128xf32>
    return %5 : tensor<8x64x128xf32>
  }
}

// -----

/// joins rows with others, and repeats them; steps between parts have no tiles.

// CHECK-LABEL: module @rows
module @rows {
  // CHECK: "mhlo.fusion"(%arg0, %arg1) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.concatenate {{.*}} dim = 1
  // CHECK-NEXT: stablehlo.broadcast_in_dim
  // CHECK-NEXT: mhlo.return
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<8x64x128xf32>, %y: tensor<8x3x128xf32>) -> tensor<8x67x2x128xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<8x64x128xf32>, tensor<f32>) -> tensor<8x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<8x64x128xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<8x64x128xf32>
    %3 = stablehlo.concatenate %2, %y, dim = 1 : (tensor<8x64x128xf32>, tensor<8x3x128xf32>) -> tensor<8x67x128xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 3] : (tensor<8x67x128xf32>) -> tensor<8x67x2x128xf32>
    return %4 : tensor<8x67x2x128xf32>
  }
}

// -----

// CHECK-LABEL: module @strided
module @strided {
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.slice %[[F]]
  func.func @main(%x: tensor<8x64x128xf32>) -> tensor<8x64x64xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<8x64x128xf32>, tensor<f32>) -> tensor<8x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<8x64x128xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<8x64x128xf32>
    %3 = stablehlo.slice %2 [0:8, 0:64, 0:128:2] : (tensor<8x64x128xf32>) -> tensor<8x64x64xf32>
    return %3 : tensor<8x64x64xf32>
  }
}

// -----

/// It needs whole rows, and so reads no row that it joins of parts,

// CHECK-LABEL: module @joined_before
module @joined_before {
  // CHECK: %[[J:.*]] = stablehlo.concatenate %arg0, %arg1, dim = 2
  // CHECK: "mhlo.fusion"(%[[J]]) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  func.func @main(%a: tensor<8x64x64xf32>, %b: tensor<8x64x64xf32>) -> tensor<8x64x128xf32> {
    %x = stablehlo.concatenate %a, %b, dim = 2 : (tensor<8x64x64xf32>, tensor<8x64x64xf32>) -> tensor<8x64x128xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<8x64x128xf32>, tensor<f32>) -> tensor<8x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<8x64x128xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<8x64x128xf32>
    return %2 : tensor<8x64x128xf32>
  }
}

// -----

/// and computes them once for each kernel that reads a part: two parts are two kernels, three parts of one that is written.

// CHECK-LABEL: module @two_parts
module @two_parts {
  // CHECK-COUNT-2: "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  func.func @main(%x: tensor<8x64x128xf32>) -> (tensor<8x64x64xf32>, tensor<8x64x64xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<8x64x128xf32>, tensor<f32>) -> tensor<8x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<8x64x128xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<8x64x128xf32>
    %3 = stablehlo.slice %2 [0:8, 0:64, 0:64] : (tensor<8x64x128xf32>) -> tensor<8x64x64xf32>
    %4 = stablehlo.slice %2 [0:8, 0:64, 64:128] : (tensor<8x64x128xf32>) -> tensor<8x64x64xf32>
    return %3, %4 : tensor<8x64x64xf32>, tensor<8x64x64xf32>
  }
}

// -----

/// The halves of a rotary embedding that is transposed afterwards are computed in the order of the result, and keep no rows.

// CHECK-LABEL: module @transposed
module @transposed {
  // CHECK: stablehlo.reduce
  // CHECK-NOT: kCustom
  // CHECK: return
  func.func @main(%x: tensor<8x64x128xf32>) -> tensor<64x8x128xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<8x64x128xf32>, tensor<f32>) -> tensor<8x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<8x64x128xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<8x64x128xf32>
    %3 = stablehlo.slice %2 [0:8, 0:64, 0:64] : (tensor<8x64x128xf32>) -> tensor<8x64x64xf32>
    %4 = stablehlo.slice %2 [0:8, 0:64, 64:128] : (tensor<8x64x128xf32>) -> tensor<8x64x64xf32>
    %5 = stablehlo.negate %4 : tensor<8x64x64xf32>
    %6 = stablehlo.concatenate %5, %3, dim = 2 : (tensor<8x64x64xf32>, tensor<8x64x64xf32>) -> tensor<8x64x128xf32>
    %7 = stablehlo.transpose %6, dims = [1, 0, 2] : (tensor<8x64x128xf32>) -> tensor<64x8x128xf32>
    return %7 : tensor<64x8x128xf32>
  }
}

// -----

/// It repeats no single elements, and adds up no rows.

// CHECK-LABEL: module @elements
module @elements {
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.broadcast_in_dim %[[F]], dims = [0, 1, 2]
  func.func @main(%x: tensor<8x64x128xf32>) -> tensor<8x64x128x4xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<8x64x128xf32>, tensor<f32>) -> tensor<8x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<8x64x128xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<8x64x128xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2] : (tensor<8x64x128xf32>) -> tensor<8x64x128x4xf32>
    return %3 : tensor<8x64x128x4xf32>
  }
}

// -----

// CHECK-LABEL: module @sum
module @sum {
  // CHECK: %[[F:.*]] = "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.reduce(%[[F]] {{.*}} dimensions = [0]
  func.func @main(%x: tensor<2x64x128xf32>) -> tensor<64x128xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<2x64x128xf32>, tensor<f32>) -> tensor<2x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<2x64xf32>) -> tensor<2x64x128xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<2x64x128xf32>
    %3 = stablehlo.reduce(%2 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<2x64x128xf32>, tensor<f32>) -> tensor<64x128xf32>
    return %3 : tensor<64x128xf32>
  }
}

// -----

/// It computes the rows of another value that it joins.

// CHECK-LABEL: module @other_rows
module @other_rows {
  // CHECK: "mhlo.fusion"(%arg0, %arg1) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK: stablehlo.negate
  // CHECK-NEXT: stablehlo.concatenate
  // CHECK-NEXT: mhlo.return
  // CHECK-NOT: mhlo.fusion
  func.func @main(%x: tensor<8x64x128xf32>, %y: tensor<8x3000x128xf32>) -> tensor<8x3064x128xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<8x64x128xf32>, tensor<f32>) -> tensor<8x64xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<8x64xf32>) -> tensor<8x64x128xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<8x64x128xf32>
    %n = stablehlo.negate %y : tensor<8x3000x128xf32>
    %3 = stablehlo.concatenate %2, %n, dim = 1 : (tensor<8x64x128xf32>, tensor<8x3000x128xf32>) -> tensor<8x3064x128xf32>
    return %3 : tensor<8x3064x128xf32>
  }
}

// -----

/// A kernel of rows is computed once more for each part that has few of them,

// CHECK-LABEL: module @few_rows
module @few_rows {
  // CHECK-COUNT-5: "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  func.func @main(%x: tensor<16384x1024xf32>) -> (tensor<16384x1024xf32>, tensor<8x1024xf32>, tensor<8x1024xf32>, tensor<8x1024xf32>, tensor<8x1024xf32>) {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : (tensor<16384x1024xf32>, tensor<f32>) -> tensor<16384xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<16384xf32>) -> tensor<16384x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<16384x1024xf32>
    %3 = stablehlo.tanh %2 : tensor<16384x1024xf32>
    %s0 = stablehlo.slice %2 [0:8, 0:1024] : (tensor<16384x1024xf32>) -> tensor<8x1024xf32>
    %t0 = stablehlo.exponential %s0 : tensor<8x1024xf32>
    %s1 = stablehlo.slice %2 [8:16, 0:1024] : (tensor<16384x1024xf32>) -> tensor<8x1024xf32>
    %t1 = stablehlo.exponential %s1 : tensor<8x1024xf32>
    %s2 = stablehlo.slice %2 [16:24, 0:1024] : (tensor<16384x1024xf32>) -> tensor<8x1024xf32>
    %t2 = stablehlo.exponential %s2 : tensor<8x1024xf32>
    %s3 = stablehlo.slice %2 [24:32, 0:1024] : (tensor<16384x1024xf32>) -> tensor<8x1024xf32>
    %t3 = stablehlo.exponential %s3 : tensor<8x1024xf32>
    return %3, %t0, %t1, %t2, %t3 : tensor<16384x1024xf32>, tensor<8x1024xf32>, tensor<8x1024xf32>, tensor<8x1024xf32>, tensor<8x1024xf32>
  }
}

// -----

/// but for parts of its rows all of them are (both as XLA compiles them, jaxlib 0.12, H100).

// CHECK-LABEL: module @parts_of_all_rows
module @parts_of_all_rows {
  // CHECK: %[[ROWS:.*]] = "mhlo.fusion"(%arg0) <{fusion_kind = #mhlo<fusion_kind kCustom>}>
  // CHECK-COUNT-4: "mhlo.fusion"(%[[ROWS]]) <{fusion_kind = #mhlo<fusion_kind kLoop>}>
  func.func @main(%x: tensor<16384x1024xf32>) -> (tensor<16384x1024xf32>, tensor<16384x8xf32>, tensor<16384x8xf32>, tensor<16384x8xf32>, tensor<16384x8xf32>) {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : (tensor<16384x1024xf32>, tensor<f32>) -> tensor<16384xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<16384xf32>) -> tensor<16384x1024xf32>
    %2 = stablehlo.subtract %x, %1 : tensor<16384x1024xf32>
    %3 = stablehlo.tanh %2 : tensor<16384x1024xf32>
    %s0 = stablehlo.slice %2 [0:16384, 0:8] : (tensor<16384x1024xf32>) -> tensor<16384x8xf32>
    %t0 = stablehlo.exponential %s0 : tensor<16384x8xf32>
    %s1 = stablehlo.slice %2 [0:16384, 8:16] : (tensor<16384x1024xf32>) -> tensor<16384x8xf32>
    %t1 = stablehlo.exponential %s1 : tensor<16384x8xf32>
    %s2 = stablehlo.slice %2 [0:16384, 16:24] : (tensor<16384x1024xf32>) -> tensor<16384x8xf32>
    %t2 = stablehlo.exponential %s2 : tensor<16384x8xf32>
    %s3 = stablehlo.slice %2 [0:16384, 24:32] : (tensor<16384x1024xf32>) -> tensor<16384x8xf32>
    %t3 = stablehlo.exponential %s3 : tensor<16384x8xf32>
    return %3, %t0, %t1, %t2, %t3 : tensor<16384x1024xf32>, tensor<16384x8xf32>, tensor<16384x8xf32>, tensor<16384x8xf32>, tensor<16384x8xf32>
  }
}
